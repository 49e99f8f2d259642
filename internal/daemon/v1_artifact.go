package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gpuemu/internal/artifact"
	"gpuemu/internal/campaign"
	"gpuemu/internal/config"
	"gpuemu/internal/diag"
	"gpuemu/internal/inspect"
	"gpuemu/internal/store"
	"gpuemu/internal/verdict"
	"gpuemu/internal/wire"
)

// This file implements the requests of protocol v1 on compiled kernels: lint, metrics that are kept, baselines of them.

func (h *v1Handler) lintKernel(ctx context.Context, r wire.V1LintKernel) (wire.V1Reply, error) {
	p, err := h.configured(nil)
	if err != nil {
		return nil, err
	}
	name := ""
	if r.KernelName != nil {
		name = *r.KernelName
	}
	doc, err := lintText(ctx, h.engine.Store, p, r.PtxContent, name, false)
	if err != nil {
		return nil, v1TextFault(err)
	}
	return wire.V1LintResults{Results: h.lintResults(doc)}, nil
}

// v1TextFault is the refusal of a text that is no PTX, or of a name that says too little.
func v1TextFault(err error) error {
	switch diag.CodeOf(err) {
	case inspect.UnknownKernel, inspect.AmbiguousKernel:
		return v1Error(wire.V1InvalidRequest, "%s", v1Text(err))
	}
	switch family, _, _ := strings.Cut(string(diag.CodeOf(err)), "-"); family {
	case "ptx", "artifact", "cubin", "sass":
		return v1Error(wire.V1PtxParseError, "%s", v1Text(err))
	}
	return err
}

// lintResults are the kernels of a document as v1 knows them; those that could not be looked at did not pass.
func (h *v1Handler) lintResults(doc *inspect.Document) []wire.V1LintResult {
	out := []wire.V1LintResult{}
	now := h.now()
	for i := range doc.Kernels {
		k := &doc.Kernels[i]
		res := wire.V1LintResult{KernelName: k.Label(), Passed: k.Passed, Timestamp: v1Time(now),
			Metrics: v1Metrics(k.Label(), k.Metrics, now), Violations: []wire.V1LintViolation{}}
		if src, ok := k.Metrics.Source(artifact.PTX); ok {
			if text, ok := doc.Texts[src.Digest]; ok {
				res.Metrics.PtxContent = &text
			}
		}
		for j := range k.Violations {
			// That a figure is not known from PTX is said of every kernel: v1 has no word for a remark.
			if v := &k.Violations[j]; v.Severity == artifact.Fault || v.Actual != nil {
				res.Violations = append(res.Violations, v1Violation(v))
			}
		}
		out = append(out, res)
	}
	for i := range doc.Unread {
		u := &doc.Unread[i]
		message := u.Message
		if u.Hint != "" {
			message += "; " + u.Hint
		}
		out = append(out, wire.V1LintResult{KernelName: u.Label(), Timestamp: v1Time(now),
			Metrics: wire.V1ArtifactMetrics{KernelName: u.Label(), PatternsFound: []string{}, Source: wire.V1FromPtx,
				Timestamp: v1Time(now)},
			Violations: []wire.V1LintViolation{{Kind: wire.V1NotLookedAt, Message: message}}})
	}
	return out
}

// v1Kinds are the words of v1 for kinds of violations.
var v1Kinds = map[artifact.ViolationKind]wire.V1LintKind{
	artifact.ExcessiveRegisters: wire.V1ExcessiveRegisters, artifact.ExcessiveSpills: wire.V1ExcessiveSpills,
	artifact.ExcessiveLocalMemory:   wire.V1ExcessiveLocalMemory,
	artifact.MissingRequiredPattern: wire.V1MissingRequiredPattern,
	artifact.ForbiddenPatternFound:  wire.V1ForbiddenPatternFound,
	artifact.ExcessiveShared:        wire.V1ExcessiveSharedMemory,
	artifact.ExcessiveInstructions:  wire.V1ExcessiveInstructions, artifact.ExcessiveStack: wire.V1ExcessiveStack,
}

func v1Violation(v *artifact.Violation) wire.V1LintViolation {
	out := wire.V1LintViolation{Kind: v1Kinds[v.Kind], Message: v.Message}
	if v.Line > 0 {
		out.Message = fmt.Sprintf("%s:%d: %s", v.File, v.Line, v.Message)
	}
	if v.Actual != nil {
		n := v1Figure(v.Actual)
		out.Actual = &n
	}
	if v.Limit != nil {
		n := v1Figure(&artifact.Figure{Value: *v.Limit})
		out.Threshold = &n
	}
	return out
}

func v1Time(t time.Time) uint64 { return uint64(max(t.Unix(), 0)) }

// v1Figure is a figure as v1 has it: one that is not known is 0 there.
func v1Figure(f *artifact.Figure) uint32 {
	if f == nil {
		return 0
	}
	return uint32(min(max(f.Value, 0), math.MaxUint32))
}

// v1Metrics is a record as v1 knows it. Registers may be an estimate.
func v1Metrics(label string, m *artifact.Metrics, saved time.Time) wire.V1ArtifactMetrics {
	out := wire.V1ArtifactMetrics{KernelName: label, RegisterCount: v1Figure(m.Registers),
		SpillCount: v1Figure(m.Spills()), LocalMemoryBytes: v1Figure(m.Local), SharedMemoryBytes: v1Figure(m.SharedStatic),
		InstructionCount: v1Figure(m.Instructions()), PatternsFound: append([]string{}, m.Patterns()...),
		Source: wire.V1FromBoth, Timestamp: v1Time(saved)}
	_, text := m.Source(artifact.PTX)
	switch {
	case text && len(m.Sources) == 1:
		out.Source = wire.V1FromPtx
	case !text:
		out.Source = wire.V1FromSass
	}
	return out
}

// v1Record is a record made of what a client knows. Whose figures those are only the client knows: those from PTX are
// taken for estimates.
func v1Record(m *wire.V1ArtifactMetrics) *inspect.Snapshot {
	origin, declared := artifact.FromCubin, artifact.FromCubin
	kinds := []artifact.SourceKind{artifact.PTX, artifact.SASS}
	switch m.Source {
	case wire.V1FromPtx:
		origin, declared, kinds = artifact.Estimated, artifact.Declared, kinds[:1]
	case wire.V1FromSass:
		kinds = kinds[1:]
	}
	figure := func(n uint32, o artifact.Origin) *artifact.Figure { return &artifact.Figure{Value: int(n), Origin: o} }
	code := &artifact.Code{Total: int(m.InstructionCount), Opcodes: map[string]int{}, Classes: map[artifact.Class]int{},
		Mnemonics: []artifact.Mnemonic{}, Patterns: m.PatternsFound}
	rec := artifact.Metrics{Kernel: m.KernelName, Registers: figure(m.RegisterCount, origin),
		SpillStores: figure(m.SpillCount, origin), SpillLoads: figure(0, origin),
		Local: figure(m.LocalMemoryBytes, declared), SharedStatic: figure(m.SharedMemoryBytes, declared)}
	texts := map[string]string{}
	for _, kind := range kinds {
		src := artifact.Source{Kind: kind, File: m.KernelName}
		if kind == artifact.PTX && m.PtxContent != nil {
			sum := sha256.Sum256([]byte(*m.PtxContent))
			src.Digest = hex.EncodeToString(sum[:])
			texts[src.Digest] = *m.PtxContent
		}
		rec.Sources = append(rec.Sources, src)
	}
	if kinds[0] == artifact.PTX {
		rec.PTXCode = code
	} else {
		rec.SASSCode = code
	}
	s := inspect.NewSnapshot()
	s.Add(m.KernelName, rec, texts)
	return s
}

func (h *v1Handler) storeArtifact(ctx context.Context, r wire.V1StoreArtifact) (wire.V1Reply, error) {
	p, err := h.configured(nil)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(v1Record(&r.Metrics))
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	if err := h.engine.Store.PutArtifact(ctx, projectKey(p), r.Metrics.KernelName, body); err != nil {
		return nil, err
	}
	return wire.V1Ok{}, nil
}

func (h *v1Handler) getArtifact(ctx context.Context, r wire.V1GetArtifact) (wire.V1Reply, error) {
	p, err := h.configured(nil)
	if err != nil {
		return nil, err
	}
	a, ok, err := h.engine.Store.Artifact(ctx, projectKey(p), r.KernelName)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, v1Error(wire.V1ArtifactNotFound, "there is no artifact of kernel %q", r.KernelName)
	}
	list, err := v1Kept(a)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, v1Error(wire.V1ArtifactNotFound, "there is no artifact of kernel %q", r.KernelName)
	}
	return wire.V1ArtifactMetricsResult{V1ArtifactMetrics: list[0]}, nil
}

func (h *v1Handler) listArtifacts(ctx context.Context) (wire.V1Reply, error) {
	p, err := h.configured(nil)
	if err != nil {
		return nil, err
	}
	list, err := h.engine.Store.Artifacts(ctx, projectKey(p))
	if err != nil {
		return nil, err
	}
	out := wire.V1ArtifactList{Artifacts: []wire.V1ArtifactMetrics{}}
	for i := range list {
		all, err := v1Kept(&list[i])
		if err != nil {
			return nil, err
		}
		out.Artifacts = append(out.Artifacts, all...)
	}
	return out, nil
}

// v1Kept are the records that are kept under one name.
func v1Kept(a *store.Artifact) ([]wire.V1ArtifactMetrics, error) {
	s, err := inspect.DecodeSnapshot(a.Kernel, a.Body)
	if err != nil {
		return nil, err
	}
	var out []wire.V1ArtifactMetrics
	for i := range s.Kernels {
		r := &s.Kernels[i]
		label := a.Kernel
		if len(s.Kernels) > 1 {
			label = r.Metrics.Kernel
		}
		m := v1Metrics(label, &r.Metrics, a.Saved)
		text, ok, err := s.Text(&r.Metrics)
		if err != nil {
			return nil, err
		}
		if ok {
			m.PtxContent = &text
		}
		out = append(out, m)
	}
	return out, nil
}

// storeArtifactBaseline keeps the stored kernels of the project under a tag. The results of that tag stay.
func (h *v1Handler) storeArtifactBaseline(ctx context.Context, r wire.V1StoreArtifactBaseline) (wire.V1Reply, error) {
	p, err := h.configured(nil)
	if err != nil {
		return nil, err
	}
	now, err := kept(ctx, h.engine.Store, projectKey(p))
	if err != nil {
		return nil, err
	}
	if len(now.Kernels) == 0 {
		return nil, v1Error(wire.V1ArtifactNotFound, "there are no artifacts yet; send LintKernel or StoreArtifact first")
	}
	body, err := json.Marshal(now)
	if err != nil {
		return nil, err
	}
	if err := h.engine.Store.SaveBaselineArtifacts(ctx, r.Tag, projectKey(p), body); err != nil {
		return nil, err
	}
	return wire.V1Ok{}, nil
}

func (h *v1Handler) diffArtifactBaseline(ctx context.Context, r wire.V1DiffArtifactBaseline) (wire.V1Reply, error) {
	p, err := h.configured(nil)
	if err != nil {
		return nil, err
	}
	b, err := h.engine.Store.Baseline(ctx, r.Tag, projectKey(p))
	if diag.CodeOf(err) == store.NotFound {
		return nil, v1Error(wire.V1BaselineNotFound, "%s", v1Text(err))
	}
	if err != nil {
		return nil, err
	}
	if b.Artifacts == nil {
		return nil, v1Error(wire.V1BaselineNotFound, "baseline %q has no artifacts", r.Tag)
	}
	then, err := inspect.DecodeSnapshot(r.Tag, b.Artifacts)
	if err != nil {
		return nil, err
	}
	now, err := kept(ctx, h.engine.Store, projectKey(p))
	if err != nil {
		return nil, err
	}
	out := wire.V1ArtifactDiffs{BaselineTag: r.Tag, Diffs: v1Diffs(p, then, now, b.Saved, h.now())}
	out.HasRegressions = slices.ContainsFunc(out.Diffs, func(d wire.V1ArtifactDiff) bool { return d.IsRegression })
	return out, nil
}

// v1Diffs are the kernels of both sides. One that vanished has a current record without figures and is a regression: v1
// has no other place for it.
func v1Diffs(p campaign.Project, then, now *inspect.Snapshot, saved, current time.Time) []wire.V1ArtifactDiff {
	cfg := p.Config
	if cfg == nil {
		cfg = config.Default()
	}
	out := []wire.V1ArtifactDiff{}
	c := inspect.Compare(then, now, cfg.Threshold())
	for i := range c.Kernels {
		k := &c.Kernels[i]
		d := wire.V1ArtifactDiff{KernelName: k.Label(), IsRegression: k.Regression}
		d.Current = wire.V1ArtifactMetrics{KernelName: k.Label(), PatternsFound: []string{}, Source: wire.V1FromPtx,
			Timestamp: v1Time(current)}
		if k.Change.Current != nil {
			d.Current = v1Metrics(k.Label(), k.Change.Current, current)
		} else {
			d.IsRegression = true
		}
		if k.Change.Baseline != nil {
			m := v1Metrics(k.Label(), k.Change.Baseline, saved)
			d.Baseline = &m
		}
		for _, f := range k.Figures {
			delta := int32(min(max(f.Delta, math.MinInt32), math.MaxInt32))
			switch f.Name {
			case "registers":
				d.RegisterDelta = delta
			case "spill_stores", "spill_loads":
				d.SpillDelta += delta
			case "local":
				d.LocalMemoryDelta = delta
			case "ptx_instructions", "sass_instructions":
				d.InstructionDelta = delta
			}
		}
		out = append(out, d)
	}
	return out
}

// ciKernels looks at the compiled kernels of a project for RunCi; nil where there are none.
func (h *v1Handler) ciKernels(ctx context.Context, p campaign.Project) (*inspect.Document, *verdict.Lint, error) {
	if p.Config == nil || len(p.Config.Kernels) == 0 {
		return nil, nil, nil
	}
	doc, err := lintProject(ctx, h.engine.Store, p, nil, false)
	if err != nil {
		return nil, nil, err
	}
	lint, err := lintSummary(doc)
	return doc, lint, err
}

// ciLint adds compiled kernels to the summary of RunCi. Each counts as a test: a client that looks at failed alone must
// not take a kernel that breaks its limits, or that is worse than in the baseline, for a pass.
func (h *v1Handler) ciLint(
	ctx context.Context, p campaign.Project, out *wire.V1CiRunSummary, doc *inspect.Document, baseline *string,
) error {
	worse := map[string]bool{}
	if baseline != nil {
		b, err := h.engine.Store.Baseline(ctx, *baseline, projectKey(p))
		if err != nil {
			return err
		}
		if b.Artifacts != nil {
			then, err := inspect.DecodeSnapshot(*baseline, b.Artifacts)
			if err != nil {
				return err
			}
			diffs := v1Diffs(p, then, doc.Snapshot(), b.Saved, h.now())
			out.ArtifactDiffs = &wire.V1ArtifactDiffSummary{BaselineTag: *baseline, Diffs: diffs}
			for i := range diffs {
				if diffs[i].IsRegression {
					worse[diffs[i].KernelName] = true
					out.ArtifactDiffs.HasRegressions = true
				}
			}
		}
	}
	out.LintResults = h.lintResults(doc)
	for i := range out.LintResults {
		out.TotalTests++
		if res := &out.LintResults[i]; res.Passed && !worse[res.KernelName] {
			out.Passed++
		} else {
			out.Failed++
		}
	}
	return nil
}
