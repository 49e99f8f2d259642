package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gpuemu/internal/campaign"
	"gpuemu/internal/config"
	"gpuemu/internal/diag"
	"gpuemu/internal/report"
	"gpuemu/internal/store"
	"gpuemu/internal/verdict"
	"gpuemu/internal/wire"
)

// This file implements the requests of protocol v1 on many results: baselines and runs of ci.

// maxV1Scanned is how many stored results are looked at for those of one project. Results of clients belong to no
// campaign that could be asked for.
const maxV1Scanned = 100_000

// errV1Enough ends a search that has found enough.
var errV1Enough = errors.New("enough")

// current returns the results that stand for a project now: those of its newest finished campaign, or, if there is
// none, the newest one of each case that clients and single runs have stored.
func (h *v1Handler) current(ctx context.Context, p campaign.Project) (*report.Document, error) {
	list, err := h.engine.Store.Campaigns(ctx, store.CampaignFilter{State: store.Finished, ConfigPath: projectKey(p),
		Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(list) > 0 && p.Config != nil {
		return h.ofCampaign(ctx, list[0].ID)
	}
	doc := h.document(verdict.Summary{Kind: "stored"})
	seen := map[string]bool{}
	scanned := 0
	err = h.engine.Store.Find(ctx, store.Filter{}, func(f *store.Found) error {
		if scanned++; scanned > maxV1Scanned || len(doc.Results) >= maxV1Listed {
			return errV1Enough
		}
		if f.ConfigPath == projectKey(p) && !seen[f.Key()] {
			seen[f.Key()] = true
			doc.Results = append(doc.Results, f.Result)
		}
		return nil
	})
	if err != nil && !errors.Is(err, errV1Enough) {
		return nil, err
	}
	if len(doc.Results) == 0 {
		return nil, v1Error(wire.V1NotFound, "there are no results yet; run gpuemu test, RunCi or submit outputs first")
	}
	return v1Counted(doc), nil
}

// ofCampaign returns the results of a campaign.
func (h *v1Handler) ofCampaign(ctx context.Context, id string) (*report.Document, error) {
	c, err := h.engine.Store.Campaign(ctx, id)
	if err != nil {
		return nil, err
	}
	sum := verdict.Summary{Campaign: c.ID, Kind: c.Kind, Project: c.Project, Seed: c.Seed, Shard: c.Shard,
		Planned: c.Planned, Started: c.Started}
	if c.Summary != nil {
		sum = *c.Summary
	}
	doc := h.document(sum)
	err = h.engine.Store.Results(ctx, id, func(r *verdict.Result) error {
		doc.Results = append(doc.Results, *r)
		return nil
	})
	return v1Counted(doc), err
}

func (h *v1Handler) document(sum verdict.Summary) *report.Document {
	return &report.Document{Format: report.Format, Version: h.version, Summary: sum}
}

// v1Counted sets the counts of a document to those of its results.
func v1Counted(doc *report.Document) *report.Document {
	var tally verdict.Tally
	for i := range doc.Results {
		tally.Add(&doc.Results[i])
	}
	doc.Summary.Counts, doc.Summary.Ops = tally.Counts(), tally.Ops()
	return doc
}

func (h *v1Handler) storeBaseline(ctx context.Context, r wire.V1StoreBaseline) (wire.V1Reply, error) {
	p, err := h.configured(nil)
	if err != nil {
		return nil, err
	}
	if r.Tag == "" {
		return nil, v1Error(wire.V1InvalidRequest, "Invalid request: tag: it is empty")
	}
	doc, err := h.current(ctx, p)
	if err != nil {
		return nil, err
	}
	var body bytes.Buffer
	if err := report.JSON(&body, doc.Source()); err != nil {
		return nil, err
	}
	if err := h.engine.Store.SaveBaselineReport(ctx, r.Tag, projectKey(p), body.Bytes()); err != nil {
		return nil, err
	}
	return wire.V1Ok{}, nil
}

// baseline reads a stored baseline. An unknown tag is an error: it must not look like "no regressions".
func (h *v1Handler) baseline(ctx context.Context, p campaign.Project, tag string) (*report.Document, error) {
	b, err := h.engine.Store.Baseline(ctx, tag, projectKey(p))
	if diag.CodeOf(err) == store.NotFound {
		return nil, v1Error(wire.V1BaselineNotFound, "%s", v1Text(err))
	}
	if err != nil {
		return nil, err
	}
	if b.Body == nil {
		return nil, v1Error(wire.V1BaselineNotFound, "baseline %q has artifacts and no results", tag)
	}
	return report.Read(bytes.NewReader(b.Body), tag)
}

func (h *v1Handler) compareBaseline(ctx context.Context, r wire.V1CompareBaseline) (wire.V1Reply, error) {
	p, err := h.configured(nil)
	if err != nil {
		return nil, err
	}
	then, err := h.baseline(ctx, p, r.Tag)
	if err != nil {
		return nil, err
	}
	now, err := h.current(ctx, p)
	if err != nil {
		return nil, err
	}
	items, err := v1Compare(p, then, now)
	if err != nil {
		return nil, err
	}
	out := wire.V1BaselineComparisonReply{BaselineTag: r.Tag, Comparisons: items}
	for i := range items {
		out.HasRegressions = out.HasRegressions || items[i].IsRegression
	}
	out.Comparisons = out.Comparisons[:min(len(items), maxV1Listed)]
	return out, nil
}

// v1Compare compares case by case, those that are worse first. A case that passed and does not pass now is a regression
// whatever the reason, since v1 knows passed and failed only; so is a case of an op that is gone. Nothing in common is
// an error: nothing was compared then.
func v1Compare(p campaign.Project, then, now *report.Document) ([]wire.V1BaselineComparison, error) {
	before := map[string]*verdict.Result{}
	for i := range then.Results {
		before[then.Results[i].Key()] = &then.Results[i]
	}
	var out []wire.V1BaselineComparison
	common, ops := 0, map[string]bool{}
	for i := range now.Results {
		n := &now.Results[i]
		ops[n.Op] = true
		item := wire.V1BaselineComparison{OpName: n.Op, Seed: uint64(n.Seed), CurrentMaxDiff: wire.F64(n.MaxAbs()),
			CurrentPassed: n.Verdict == verdict.Pass}
		if b := before[n.Key()]; b != nil {
			common++
			worse, err := v1Worse(p, b, n)
			if err != nil {
				return nil, err
			}
			item.IsRegression = worse != ""
			v1Before(&item, b)
		}
		out = append(out, item)
	}
	if common == 0 {
		return nil, v1Error(wire.V1NotFound, "baseline %q has no case in common with the current results: the same seed, "+
			"ops, dtypes and gpuemu make the same cases", then.Name)
	}
	for i := range then.Results {
		if b := &then.Results[i]; !ops[b.Op] {
			item := wire.V1BaselineComparison{OpName: b.Op, Seed: uint64(b.Seed), CurrentMaxDiff: wire.F64(math.NaN()),
				IsRegression: b.Verdict == verdict.Pass}
			v1Before(&item, b)
			out = append(out, item)
		}
	}
	slices.SortStableFunc(out, func(a, b wire.V1BaselineComparison) int {
		switch {
		case a.IsRegression == b.IsRegression:
			return 0
		case a.IsRegression:
			return -1
		}
		return 1
	})
	return out, nil
}

// v1Before fills in what the baseline says of a case.
func v1Before(item *wire.V1BaselineComparison, b *verdict.Result) {
	most, passed := wire.F64(b.MaxAbs()), b.Verdict == verdict.Pass
	item.BaselineMaxDiff, item.BaselinePassed = &most, &passed
	if most > 0 {
		change := (item.CurrentMaxDiff - most) / most
		item.RelativeChange = &change
	}
}

// v1Worse says why a case is worse than in the baseline; "" if it is not. The rule on errors is that of package report.
func v1Worse(p campaign.Project, then, now *verdict.Result) (string, error) {
	threshold := config.Default().Threshold()
	if p.Config != nil {
		threshold = p.Config.Threshold()
	}
	if then.Verdict == verdict.Pass && now.Verdict != verdict.Pass {
		return fmt.Sprintf("passed in the baseline, now %s", now.Verdict), nil
	}
	c, err := report.Compare(&report.Document{Results: []verdict.Result{*then}},
		report.Source{Each: report.Slice([]verdict.Result{*now})}, threshold)
	if err != nil || len(c.Regressions) == 0 {
		return "", err
	}
	return c.Regressions[0].Message, nil
}

// runCi runs a campaign of kind ci. With a baseline, a case that is worse than there counts as failed: v1 has no other
// place for it.
func (h *v1Handler) runCi(ctx context.Context, r wire.V1RunCi) (wire.V1Reply, error) {
	p, err := h.configured(r.Config)
	if err != nil {
		return nil, err
	}
	var then *report.Document
	if r.Baseline != nil {
		if then, err = h.baseline(ctx, p, *r.Baseline); err != nil {
			return nil, err
		}
	}
	o := campaign.Options{Quick: r.Quick, Parallel: int(r.ParallelJobs)}
	if p.Config != nil {
		if o.Parallel == 0 {
			o.Parallel = p.Config.CI.Parallel
		}
		if !r.Quick {
			o.TimeLimit = p.Config.CI.ThoroughTimeout
		}
	}
	kernels, lint, err := h.ciKernels(ctx, p)
	if err != nil {
		return nil, err
	}
	run, err := h.engine.Prepare(ctx, campaign.Request{Kind: campaign.KindCI, Project: p, Options: o, Lint: lint})
	if err != nil {
		return nil, v1NoSuchOp(p, err)
	}
	sum, err := run.Execute(ctx, nil)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	now, err := h.ofCampaign(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	out, err := v1CiSummary(p, then, now)
	if err != nil {
		return nil, err
	}
	// What a time limit left over was asked for and did not pass.
	out.TotalTests += uint64(max(sum.Planned-sum.Total, 0))
	out.Failed += uint64(max(sum.Planned-sum.Total, 0))
	if kernels != nil {
		if err := h.ciLint(ctx, p, out, kernels, r.Baseline); err != nil {
			return nil, err
		}
	}
	out.DurationMS = uint64(max(sum.Duration.Milliseconds(), 0))
	out.Timestamp = uint64(max(h.now().Unix(), 0))
	h.lastCI.Store(out)
	return wire.V1CiRunComplete{V1CiRunSummary: *out}, nil
}

// v1CiSummary counts the results of a run and lists them, those that did not pass first.
func v1CiSummary(p campaign.Project, then, now *report.Document) (*wire.V1CiRunSummary, error) {
	before := map[string]*verdict.Result{}
	if then != nil {
		if _, err := v1Compare(p, then, now); err != nil { // nothing in common
			return nil, err
		}
		for i := range then.Results {
			before[then.Results[i].Key()] = &then.Results[i]
		}
	}
	out := &wire.V1CiRunSummary{TotalTests: uint64(len(now.Results)), LintResults: []wire.V1LintResult{}}
	var passed []wire.V1ValidationResult
	for i := range now.Results {
		n := &now.Results[i]
		res := v1Result(n)
		if b := before[n.Key()]; b != nil {
			worse, err := v1Worse(p, b, n)
			if err != nil {
				return nil, err
			}
			if worse != "" {
				res.Passed = false
				res.Failures = append(res.Failures, wire.V1ValidationFailure{Kind: wire.V1ToleranceExceeded,
					Message: fmt.Sprintf("regression against baseline %q: %s", then.Name, worse)})
			}
		}
		if res.Passed {
			out.Passed++
			passed = append(passed, res)
		} else {
			out.Failed++
			out.ValidationResults = append(out.ValidationResults, res)
		}
	}
	all := append(out.ValidationResults, passed...)
	out.ValidationResults = all[:min(len(all), maxV1Listed)]
	return out, nil
}

// getCiSummary returns the last run of ci of this daemon.
func (h *v1Handler) getCiSummary() (wire.V1Reply, error) {
	last := h.lastCI.Load()
	if last == nil {
		return nil, v1Error(wire.V1NotFound, "no CI run since the daemon started")
	}
	return wire.V1CiRunComplete{V1CiRunSummary: *last}, nil
}
