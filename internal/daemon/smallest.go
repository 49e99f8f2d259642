// This file implements the end of a run that failed: its failures are grouped, the first of each group is minimized.

package daemon

import (
	"context"
	"fmt"
	"time"

	"gpuemu/internal/campaign"
	"gpuemu/internal/diag"
	"gpuemu/internal/escape"
	"gpuemu/internal/report"
	"gpuemu/internal/verdict"
)

// Limits of what a run spends on small cases. Those on groups and executions make equal runs report equal cases; that
// on time only leaves cases as they were found, and the report says so.
const (
	minimizedGroups = 8
	minimizedRuns   = 60 // of the candidate, for each group
	minimizedTime   = 30 * time.Second
)

// group sets the groups of a summary and minimizes the first case of each.
func (s *Server) group(ctx context.Context, p campaign.Project, sum *verdict.Summary) (err error) {
	if sum.Failed == 0 {
		return nil
	}
	sum.Groups, err = report.Groups(func(yield func(*verdict.Result) error) error {
		return s.store.Results(context.WithoutCancel(ctx), sum.Campaign, yield)
	})
	if err != nil {
		return err
	}
	end := s.opt.Now().Add(minimizedTime)
	for i := range sum.Groups {
		g := &sum.Groups[i]
		left := end.Sub(s.opt.Now())
		switch {
		case ctx.Err() != nil || sum.Stopped != "" && sum.Stopped != campaign.StoppedFailFast:
			g.Unminimized = later(g, "the run was stopped before its end")
		case i >= minimizedGroups:
			g.Unminimized = later(g, fmt.Sprintf("a run does it for %d groups", minimizedGroups))
		case left <= 0:
			g.Unminimized = overTime(g)
		default:
			s.smallest(ctx, p, g, left)
		}
	}
	return nil
}

// later says why a run has not minimized a group, and the command that does: a limit of the run was all that was in the
// way.
func later(g *verdict.Group, why string) string {
	return why + "; gpuemu minimize " + escape.Shell(g.First) + " does"
}

func overTime(g *verdict.Group) string {
	return later(g, fmt.Sprintf("the time that a run takes for it (%s) was over", minimizedTime))
}

// smallest looks for the smallest case of a group. Only what its text says whole is of use in a report: single values
// stay as they are.
func (s *Server) smallest(ctx context.Context, p campaign.Project, g *verdict.Group, left time.Duration) {
	limited, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	m, err := s.engine.Minimise(limited, p, campaign.MinimiseRequest{
		Target: campaign.Target{Case: g.First, Op: g.Op}, MaxIters: minimizedRuns, TextOnly: true})
	switch {
	case err == nil:
		g.Minimal = m.Result.Saturated()
		// Equal runs have equal summaries.
		g.Minimal.Time, g.Minimal.Duration, g.Minimal.CandidateTime, g.Minimal.ReferenceTime = time.Time{}, 0, 0, 0
	case ctx.Err() == nil && limited.Err() != nil:
		g.Unminimized = overTime(g)
	case diag.CodeOf(err) == campaign.NotFailing:
		g.Unminimized = "executed again, the case passes: the kernel is nondeterministic, and there is nothing to minimize"
	default: // gpuemu minimize would end with the same error
		g.Unminimized = err.Error()
	}
}
