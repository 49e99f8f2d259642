// This file implements reports, baselines, comparisons and coverage: what is said of stored results.

package daemon

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gpuemu/internal/campaign"
	"gpuemu/internal/config"
	"gpuemu/internal/diag"
	"gpuemu/internal/gen"
	"gpuemu/internal/inspect"
	"gpuemu/internal/report"
	"gpuemu/internal/store"
	"gpuemu/internal/verdict"
	"gpuemu/internal/wire"
)

// kindStored is the kind of a report over the results of several campaigns.
const kindStored = "stored"

// source is a report to be written, with what has to be released after.
type source struct {
	report.Source
	spool *spool // nil: the results are read from the store
	// original is the summary as the campaign left it, where the source has fewer results.
	original *verdict.Summary
}

func (s *source) close() {
	if s.spool != nil {
		s.spool.close()
	}
}

// exitCode is that of the report; one that lost results since is never better than the campaign was.
func (s *source) exitCode() int {
	code := s.ExitCode()
	if s.original != nil && code != 1 {
		if before := s.original.ExitCode(); before != 0 {
			return before
		}
	}
	return code
}

// report handles POST /v1/report. The report is complete before the first byte is sent.
func (s *Server) report(w http.ResponseWriter, r *http.Request) error {
	var req wire.ReportRequest
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	p, err := s.project(req.Config, "", req.Env)
	if err != nil {
		return err
	}
	render, mediaType, err := renderer(&req, p)
	if err != nil {
		return err
	}
	src, err := s.reportSource(r.Context(), p, &req)
	if err != nil {
		return err
	}
	defer src.close()
	if req.Baseline != "" {
		want := comparison{baseline: req.Baseline, dir: req.Dir, threshold: req.Threshold, fail: req.FailOnRegression}
		if src.Summary.Lint != nil {
			if want.kernels, err = s.kernelsOf(r.Context(), p, src.Summary.Lint); err != nil {
				return err
			}
		}
		if err := s.compare(r.Context(), p, src, want); err != nil {
			return err
		}
	}
	if err := s.addKernels(r.Context(), p, src, &req); err != nil {
		return err
	}
	w.Header().Set(wire.ExitCodeHeader, strconv.Itoa(src.exitCode()))
	return s.spool(w, mediaType, func(out io.Writer) error { return render(out, src.Source) })
}

// renderer returns what writes the format of a request.
func renderer(req *wire.ReportRequest, p campaign.Project) (func(io.Writer, report.Source) error, string, error) {
	switch req.Format {
	case "text", "":
		return func(w io.Writer, src report.Source) error {
			return report.Text(w, src, report.TextOptions{Color: req.Color, Verbose: req.Verbose, Width: req.Width})
		}, textType, nil
	case "json":
		return report.JSON, jsonType, nil
	case "junit":
		return report.JUnit, "application/xml", nil
	case "sarif":
		opt := report.SARIFOptions{Dir: req.Dir, Config: filepath.Join(req.Dir, "gpuemu.toml")}
		if p.Config != nil {
			opt.Dir, opt.Config = p.Config.Dir, p.Config.Path
		}
		opt.Root = report.RepositoryRoot(opt.Dir)
		return func(w io.Writer, src report.Source) error { return report.RunSARIF(w, src, opt) }, jsonType, nil
	}
	return nil, "", diag.Errorf(BadRequest, "use text, json, junit or sarif", "there is no report format %q",
		cut(req.Format, 40))
}

// spool writes a document completely before it is sent, so that an error in the middle is still an error.
func (s *Server) spool(w http.ResponseWriter, mediaType string, fill func(io.Writer) error) error {
	kept := &spool{dir: s.runDir}
	defer kept.close()
	buffered := bufio.NewWriterSize(kept, 1<<16)
	if err := errors.Join(fill(buffered), buffered.Flush()); err != nil {
		return err
	}
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Content-Length", strconv.FormatInt(kept.size, 10))
	w.WriteHeader(http.StatusOK)
	_, _ = io.Copy(w, kept.reader()) // a peer that is gone needs no answer
	return nil
}

// reportSource finds the results that a report is about.
func (s *Server) reportSource(ctx context.Context, p campaign.Project, req *wire.ReportRequest) (*source, error) {
	if req.Campaign == "" && (req.All || req.SinceHours != 0) {
		return s.storedSource(ctx, p, req)
	}
	c, err := s.newest(ctx, p, req.Campaign, func(*store.Campaign) bool { return true }, "campaign")
	if err != nil {
		return nil, err
	}
	return s.campaignSource(ctx, c)
}

// newest returns the campaign of that name or, without one, the newest of the project that is wanted.
func (s *Server) newest(
	ctx context.Context, p campaign.Project, id string, wanted func(*store.Campaign) bool, what string,
) (*store.Campaign, error) {
	if id != "" {
		return s.store.Campaign(ctx, id)
	}
	list, err := s.store.Campaigns(ctx, store.CampaignFilter{ConfigPath: projectKey(p), Limit: MaxListed})
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(list, func(c store.Campaign) bool { return wanted(&c) }); i >= 0 {
		return &list[i], nil
	}
	return nil, noCampaign(p, what)
}

func noCampaign(p campaign.Project, what string) error {
	of := ""
	if p.Config != nil {
		of = " of " + p.Config.Path
	}
	return diag.Errorf(NoCampaign, "run gpuemu test or gpuemu ci first", "there is no %s%s in the store", what, of)
}

// complete reports whether a campaign may stand for its project: a whole, finished run of test or ci.
func complete(c *store.Campaign) bool {
	return c.State == store.Finished && (c.Kind == campaign.KindTest || c.Kind == campaign.KindCI) && c.Shard == ""
}

// campaignSource is a campaign as a report. One that is not finished, or that lost results to pruning, is counted anew:
// a report never contradicts its own results.
func (s *Server) campaignSource(ctx context.Context, c *store.Campaign) (*source, error) {
	each := func(yield func(*verdict.Result) error) error { return s.store.Results(ctx, c.ID, yield) }
	if c.State == store.Finished && c.Summary != nil && c.Pruned == 0 {
		return &source{Source: report.Source{Version: s.opt.Version, Summary: *c.Summary, Each: each}}, nil
	}
	sum := verdict.Summary{Campaign: c.ID, Kind: c.Kind, Project: c.Project, Seed: c.Seed, Planned: c.Planned,
		Shard: c.Shard, Started: c.Started, Stopped: c.State}
	if c.Summary != nil {
		sum = *c.Summary
	}
	out, err := s.snapshot(each, sum)
	if err != nil {
		return nil, err
	}
	out.original = c.Summary
	if c.Pruned > 0 {
		out.Summary.Planned = max(out.Summary.Planned-c.Pruned, out.Summary.Total)
		out.Notes = append(out.Notes, fmt.Sprintf("%d older results of this campaign were removed to save room", c.Pruned))
	}
	out.Summary.Complete = c.State == store.Finished
	if out.Notes, err = s.noteLosses(ctx, c.Started, out.Notes); err != nil {
		out.close()
		return nil, err
	}
	return out, nil
}

// snapshot copies results, so that a report may go through them several times while others come in.
func (s *Server) snapshot(each func(func(*verdict.Result) error) error, sum verdict.Summary) (*source, error) {
	kept := &spool{dir: s.runDir}
	var tally verdict.Tally
	out := bufio.NewWriterSize(kept, 1<<16)
	err := each(func(r *verdict.Result) error {
		text, err := encodeResult(r)
		if err != nil {
			return err
		}
		tally.Add(r)
		_, err = out.Write(append(text, '\n'))
		return err
	})
	if err = errors.Join(err, out.Flush()); err != nil {
		kept.close()
		return nil, err
	}
	sum.Counts, sum.Ops = tally.Counts(), tally.Ops()
	return &source{spool: kept, Source: report.Source{Version: s.opt.Version, Summary: sum,
		Each: func(yield func(*verdict.Result) error) error {
			dec := json.NewDecoder(bufio.NewReaderSize(kept.reader(), 1<<16))
			for dec.More() {
				var r verdict.Result
				if err := dec.Decode(&r); err != nil {
					return fmt.Errorf("spool: %w", err)
				}
				if err := yield(&r); err != nil {
					return err
				}
			}
			return nil
		}}}, nil
}

// comparison is what a request asks to compare with.
type comparison struct {
	baseline, dir string
	threshold     *float64
	fail          bool
	kernels       *inspect.Snapshot // of now; nil: kernels are not compared
}

// compare sets the comparison of a source with a baseline. Regressions count for the exit code where request or policy
// say so.
func (s *Server) compare(ctx context.Context, p campaign.Project, src *source, want comparison) error {
	cfg := p.Config
	if cfg == nil {
		cfg = config.Default()
	}
	doc, skipped, err := s.loadBaseline(ctx, p, want.baseline, want.dir)
	if err != nil {
		return err
	}
	if skipped != nil {
		src.Baseline = skipped
		return nil
	}
	threshold := cfg.Threshold()
	if want.threshold != nil {
		threshold = *want.threshold
	}
	limits := report.Thresholds{Regression: threshold, Warn: cfg.Policies.WarnThreshold}
	if src.Baseline, err = report.CompareWithin(doc, src.Source, limits); err != nil {
		return err
	}
	if want.kernels != nil && (doc.Artifacts != nil || len(want.kernels.Kernels) > 0) {
		then := doc.Artifacts
		if then == nil {
			then = inspect.NewSnapshot()
		}
		src.Baseline.Artifacts = inspect.Compare(then, want.kernels, threshold)
	}
	if want.fail || cfg.Policies.FailOnRegression {
		src.Summary.Regressions = src.Baseline.Worse()
	}
	return nil
}

// loadBaseline reads a baseline: a file where the name ends in .json or has a slash, else a tag. A file that does not
// exist is no error but a comparison that says so.
func (s *Server) loadBaseline(
	ctx context.Context, p campaign.Project, name, dir string,
) (*report.Document, *report.Comparison, error) {
	if !strings.HasSuffix(name, ".json") && !strings.ContainsRune(name, filepath.Separator) {
		b, err := s.store.Baseline(ctx, name, projectKey(p))
		if err != nil {
			return nil, nil, err
		}
		doc := &report.Document{Format: report.Format, Name: name}
		if b.Body != nil {
			if doc, err = report.Read(bytes.NewReader(b.Body), name); err != nil {
				return nil, nil, err
			}
		}
		if b.Artifacts != nil {
			doc.Artifacts, err = inspect.DecodeSnapshot(name, b.Artifacts)
		}
		return doc, nil, err
	}
	path := name
	if !filepath.IsAbs(path) {
		if !filepath.IsAbs(dir) {
			return nil, nil, diag.Errorf(BadRequest, "send an absolute path, or dir", "baseline %q is relative to nothing", name)
		}
		path = filepath.Join(dir, path)
	}
	doc, err := report.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, report.NoBaseline(name, "the file does not exist"), nil
	}
	if err != nil {
		return nil, nil, err
	}
	doc.Name = name
	return doc, nil, nil
}

// countRegressions compares a campaign that has just ended with the baseline that was asked for.
func (s *Server) countRegressions(
	ctx context.Context, p campaign.Project, sum *verdict.Summary, req *wire.RunRequest,
) error {
	src := &source{Source: report.Source{Summary: *sum,
		Each: func(yield func(*verdict.Result) error) error { return s.store.Results(ctx, sum.Campaign, yield) }}}
	want := comparison{baseline: req.Baseline, dir: req.Dir, fail: req.FailOnRegression}
	if sum.Lint != nil {
		var err error
		if want.kernels, err = s.kernelsOf(ctx, p, sum.Lint); err != nil {
			return err
		}
	}
	err := s.compare(ctx, p, src, want)
	sum.Regressions = src.Summary.Regressions
	return err
}

// saveBaseline handles POST /v1/baselines.
func (s *Server) saveBaseline(ctx context.Context, req *wire.BaselineRequest) (*wire.BaselineReply, error) {
	p, err := s.project(req.Config, "", req.Env)
	if err != nil {
		return nil, err
	}
	switch {
	case req.Tag == "":
		return nil, diag.Errorf(BadRequest, "give it a name", "the tag is empty")
	case strings.HasSuffix(req.Tag, ".json") || strings.ContainsRune(req.Tag, filepath.Separator):
		return nil, diag.Errorf(BadRequest, "gpuemu ci --format json -o FILE writes a baseline file",
			"the tag %q would be taken for a file", cut(req.Tag, 100))
	}
	kernels, err := s.lookForBaseline(ctx, p)
	if err != nil {
		return nil, err
	}
	var src *source
	if req.Stored && req.Campaign == "" {
		src, err = s.storedSource(ctx, p, &wire.ReportRequest{Format: "json"})
	} else {
		src, err = s.comparable(ctx, p, req.Campaign, kernels.Total > 0)
	}
	if diag.CodeOf(err) == NoCampaign && len(kernels.Unread) > 0 {
		return nil, kernels.Unread[0].Err // it keeps the kernels from being the baseline, which would need no campaign
	}
	if err != nil {
		return nil, err
	}
	defer src.close()
	if src.Summary.Total == 0 && kernels.Total == 0 {
		return nil, diag.Errorf(NoCampaign, "run gpuemu test or gpuemu ci first", "campaign %s has no results",
			src.Summary.Campaign)
	}
	var body bytes.Buffer
	if err := report.JSON(&limited{w: &body, left: report.MaxBytes}, src.Source); err != nil {
		return nil, err
	}
	var artifacts json.RawMessage
	if kernels.Total > 0 {
		if artifacts, err = marshal(kernels.Snapshot()); err != nil {
			return nil, err
		}
	}
	if err := s.store.SaveBaseline(ctx, req.Tag, projectKey(p), body.Bytes(), artifacts); err != nil {
		return nil, err
	}
	reply := &wire.BaselineReply{Tag: req.Tag, Campaign: src.Summary.Campaign, Results: src.Summary.Total,
		Artifacts: kernels.Total}
	for i := range kernels.Unread {
		reply.Unread = append(reply.Unread, kernels.Unread[i].Label()+": "+kernels.Unread[i].Message)
	}
	return reply, nil
}

// lookForBaseline looks at the kernels of the project as they are now; without any the document is empty.
func (s *Server) lookForBaseline(ctx context.Context, p campaign.Project) (*inspect.Document, error) {
	if p.Config == nil || len(p.Config.Kernels) == 0 {
		return &inspect.Document{}, nil
	}
	return lintProject(ctx, s.store, p, nil, false)
}

// comparable is the campaign that stands for a project. Where there is none and kernels are compared, it is empty.
func (s *Server) comparable(ctx context.Context, p campaign.Project, id string, kernels bool) (*source, error) {
	c, err := s.newest(ctx, p, id, complete, "finished test or ci campaign")
	if diag.CodeOf(err) == NoCampaign && kernels {
		return &source{Source: report.Source{Version: s.opt.Version, Each: report.Slice(nil),
			Summary: verdict.Summary{Kind: kindStored, Project: projectName(p), Complete: true,
				Started: s.opt.Now().UTC()}}}, nil
	}
	if err != nil {
		return nil, err
	}
	if p.Config != nil && c.ConfigPath != p.Config.Path {
		return nil, diag.Errorf(NoCampaign, "send the configuration that it was run with",
			"campaign %s is one of %s, not of %s", c.ID, cut(c.ConfigPath, 200), cut(p.Config.Path, 200))
	}
	return s.campaignSource(ctx, c)
}

// limited refuses to write more than a number of bytes.
type limited struct {
	w    io.Writer
	left int
}

func (l *limited) Write(b []byte) (int, error) {
	if l.left -= len(b); l.left < 0 {
		return 0, diag.Errorf(TooLarge, "use gpuemu ci --quick for baselines", "a baseline has at most %d bytes",
			report.MaxBytes)
	}
	return l.w.Write(b)
}

// baselines handles GET /v1/baselines.
func (s *Server) baselines(r *http.Request) (*wire.BaselinesReply, error) {
	key, err := configParam(r)
	if err != nil {
		return nil, err
	}
	list, err := s.store.Baselines(r.Context())
	if err != nil {
		return nil, err
	}
	out := &wire.BaselinesReply{Baselines: []wire.BaselineInfo{}}
	for _, b := range list {
		if b.Project == key {
			out.Baselines = append(out.Baselines, wire.BaselineInfo{Tag: b.Tag, Saved: b.Saved})
		}
	}
	return out, nil
}

// diff handles POST /v1/diff.
func (s *Server) diff(ctx context.Context, req *wire.DiffRequest) (*wire.DiffReply, error) {
	p, err := s.project(req.Config, "", req.Env)
	if err != nil {
		return nil, err
	}
	if req.Baseline == "" {
		return nil, diag.Errorf(BadRequest, "name a tag or a file", "the request names no baseline")
	}
	kernels, err := s.lookForBaseline(ctx, p)
	if err != nil {
		return nil, err
	}
	src, err := s.comparable(ctx, p, req.Against, kernels.Total+len(kernels.Unread) > 0)
	if err != nil {
		return nil, err
	}
	defer src.close()
	want := comparison{baseline: req.Baseline, dir: req.Dir, threshold: req.Threshold, fail: true,
		kernels: kernels.Snapshot()}
	if err := s.compare(ctx, p, src, want); err != nil {
		return nil, err
	}
	for i := range kernels.Unread {
		src.Baseline.Unread = append(src.Baseline.Unread, kernels.Unread[i].Label()+": "+kernels.Unread[i].Message)
	}
	text, err := marshal(src.Baseline)
	return &wire.DiffReply{Diff: text, Regressions: src.Baseline.Worse()}, err
}

// coverage handles POST /v1/coverage.
func (s *Server) coverage(w http.ResponseWriter, r *http.Request) error {
	var req wire.CoverageRequest
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	p, err := s.project(req.Config, "", nil)
	if err != nil {
		return err
	}
	if p.Config == nil {
		return diag.Errorf(BadRequest, "send config", "coverage needs a gpuemu.toml to know what could be exercised")
	}
	each := func(yield func(*verdict.Profile) error) error {
		return s.store.Profiles(r.Context(), store.Filter{ConfigPath: p.Config.Path}, func(found *store.Profiled) error {
			return yield(found.Profile)
		})
	}
	ops, err := coverageOps(p.Config)
	if err != nil {
		return err
	}
	c, err := report.Cover(each, ops)
	if err != nil {
		return err
	}
	switch req.Format {
	case "text", "":
		return s.spool(w, textType, c.Text)
	case "json":
		return s.spool(w, jsonType, c.JSON)
	case "codecov":
		return s.spool(w, jsonType, c.Codecov)
	}
	return diag.Errorf(BadRequest, "use text, json or codecov", "there is no coverage format %q", cut(req.Format, 40))
}

// coverageOps says what of a configuration could be exercised: what a campaign would choose from.
func coverageOps(cfg *config.Config) ([]report.CoverageOp, error) {
	var out []report.CoverageOp
	for _, op := range cfg.Subjects() {
		o, err := campaign.Resolve(cfg, op.Name)
		if err != nil {
			return nil, err
		}
		c := report.CoverageOp{Name: o.Name, Candidate: o.Candidate, Reference: op.Reference, Values: valuesOf(o.Values),
			Tiles: map[string]int{}}
		for _, d := range o.DTypes {
			c.DTypes = append(c.DTypes, d.String())
		}
		for _, l := range o.Layouts {
			c.Layouts = append(c.Layouts, l.String())
		}
		for i := range o.Schema.Dims {
			if d := &o.Schema.Dims[i]; d.Tile > 0 {
				c.Tiles[d.Name] = d.Tile
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// valuesOf are the distributions that a setting draws from: mixed draws from all of them.
func valuesOf(setting string) []string {
	const mixed = "mixed"
	if setting != mixed {
		return []string{setting}
	}
	var out []string
	for _, d := range gen.ValueDistributions() {
		if d.Name != mixed {
			out = append(out, d.Name)
		}
	}
	return out
}
