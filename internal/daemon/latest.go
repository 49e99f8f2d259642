// This file implements reports over all that is stored of a project: the latest verdict on each case.

package daemon

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"gpuemu/internal/campaign"
	"gpuemu/internal/report"
	"gpuemu/internal/store"
	"gpuemu/internal/verdict"
	"gpuemu/internal/wire"
)

// latest distinguishes the newest result of a case from older ones, separately for clients and for the engine. Results
// are given newest first. It keeps a digest a case: the texts of a million cases would take ten times the memory.
type latest map[judgedCase[[16]byte]]struct{}

// judgedCase is what a verdict is on: a case, by a digest of its key, and who executed it. A kernel that a client calls
// and the candidate of gpuemu.toml are two subjects, and what the one passes says nothing of the other. Which file the
// candidate is in makes no difference: a kernel that was renamed is still the project's.
type judgedCase[D uint64 | [16]byte] struct {
	digest   D
	byClient bool
}

// take reports whether r is the first result of its case.
func (l latest) take(r *verdict.Result) bool {
	sum := sha256.Sum256([]byte(r.Key()))
	key := judgedCase[[16]byte]{[16]byte(sum[:16]), r.ByClient()}
	if _, old := l[key]; old {
		return false
	}
	l[key] = struct{}{}
	return true
}

// census counts what a report over the store is made of.
type census struct {
	campaigns map[string]bool
	older     int // verdicts that a later one of the same case replaced
}

// note is the line of the report that says so.
func (c *census) note() string {
	text := fmt.Sprintf("the latest verdict on each case; campaigns: %d", len(c.campaigns))
	if c.older > 0 {
		text += fmt.Sprintf("; older verdicts that do not count: %d", c.older)
	}
	return text
}

// storedSource has the latest verdict on each case of a project, of all campaigns and clients or of the last hours,
// newest first. Minimized cases are left out: they stand for the case that they were made of.
func (s *Server) storedSource(ctx context.Context, p campaign.Project, req *wire.ReportRequest) (*source, error) {
	since, err := s.since(req.SinceHours)
	if err != nil {
		return nil, err
	}
	read := s.readSource
	if req.Baseline == "" && (req.Format == "" || req.Format == "text") {
		read = s.countedSource
	}
	made := census{campaigns: map[string]bool{}}
	out, err := read(ctx, store.Filter{Since: since, ConfigPath: projectKey(p)}, &made)
	if err != nil {
		return nil, err
	}
	sum := &out.Summary
	sum.Kind, sum.Project, sum.Complete, sum.Started = kindStored, projectName(p), true, s.opt.Now().UTC()
	sum.Planned = sum.Total
	if out.Notes, err = s.noteLosses(ctx, since, append(out.Notes, made.note())); err == nil {
		err = s.addNewest(ctx, p, out)
	}
	if err == nil && req.SinceHours == 0 && sum.Total == 0 && sum.Lint == nil {
		err = noCampaign(p, "campaign")
	}
	if err != nil {
		out.close()
		return nil, err
	}
	return out, nil
}

// readSource reads every result.
func (s *Server) readSource(ctx context.Context, filter store.Filter, made *census) (*source, error) {
	seen := latest{}
	return s.snapshot(func(yield func(*verdict.Result) error) error {
		return s.store.Find(ctx, filter, func(f *store.Found) error {
			switch {
			case f.ShrunkFrom != nil:
				return nil
			case !seen.take(&f.Result):
				made.older++
				return nil
			}
			made.campaigns[f.Campaign] = true
			return yield(&f.Result)
		})
	}, verdict.Summary{})
}

// countedSource is readSource for a text. Passing and undecided results, of which the text lists none, are counted by
// their profiles; the others are read. A million results take two seconds so, and a minute otherwise.
func (s *Server) countedSource(ctx context.Context, filter store.Filter, made *census) (*source, error) {
	newest := map[judgedCase[uint64]]time.Time{}
	err := s.store.Profiles(ctx, filter, func(found *store.Profiled) error {
		of := judgedCase[uint64]{found.Key, found.ByClient()}
		if at, seen := newest[of]; !found.Shrunk && (!seen || found.Time.After(at)) {
			newest[of] = found.Time
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var tally verdict.Tally
	var omitted verdict.Counts
	var places []store.Place
	err = s.store.Profiles(ctx, filter, func(found *store.Profiled) error {
		if found.Shrunk {
			return nil
		}
		of := judgedCase[uint64]{found.Key, found.ByClient()}
		if at, wanted := newest[of]; !wanted || !found.Time.Equal(at) {
			made.older++
			return nil
		}
		delete(newest, of) // of several at the same instant, the first
		found.Count(&tally)
		made.campaigns[found.Campaign] = true
		place, single := found.Place()
		if single && (found.Verdict.Failed() || found.Verdict == verdict.NotRun) {
			places = append(places, place)
		} else {
			omitted.Add(found.Verdict)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(places, store.Place.Newest)
	return &source{Source: report.Source{Version: s.opt.Version, Omitted: omitted,
		Summary: verdict.Summary{Counts: tally.Counts(), Ops: tally.Ops()},
		Each: func(yield func(*verdict.Result) error) error {
			return s.store.Placed(ctx, places, yield)
		}}}, nil
}

// addNewest adds what no result says: what the newest run found in compiled kernels, and the cases that the newest run
// has not come to, so that a run that was cut short is not green.
func (s *Server) addNewest(ctx context.Context, p campaign.Project, out *source) error {
	list, err := s.store.Campaigns(ctx, store.CampaignFilter{ConfigPath: projectKey(p), Limit: MaxListed})
	if err != nil {
		return err
	}
	linted := slices.IndexFunc(list, func(c store.Campaign) bool { return c.Summary != nil && c.Summary.Lint != nil })
	if linted >= 0 {
		out.Summary.Lint = list[linted].Summary.Lint
	}
	if len(list) == 0 || list[0].State == store.Finished {
		return nil
	}
	_, done, err := s.store.FinishedIndexes(ctx, list[0].ID)
	if err != nil {
		return err
	}
	if missing := list[0].Planned - list[0].Pruned - done; missing > 0 {
		out.Summary.Planned += missing
		out.Summary.Stopped = fmt.Sprintf("campaign %s: %s", list[0].ID, list[0].State)
	}
	return nil
}

// noteLosses adds what a damaged log lost since a time: the results of a report may be among it.
func (s *Server) noteLosses(ctx context.Context, since time.Time, notes []string) ([]string, error) {
	losses, err := s.store.Losses(ctx, since)
	for _, l := range losses {
		notes = append(notes, fmt.Sprintf("%d commits before %s are lost, each with up to 256 results: the write-ahead log "+
			"was damaged in a crash", l.Commits, l.Found.Format(time.DateTime)))
	}
	return notes, err
}
