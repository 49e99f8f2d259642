package main

// This file implements the run "baselines": what the acceptance rules of other harnesses say of the same compiled
// kernels. Each harness is a row of data: shapes, values, seeds, tolerance, comparison.
//
// Kernels are launched without the emulator's checks on zeroed memory, as a GPU would run them: reads behind a tensor
// give zero, writes there are lost. What a GPU reports by itself, a harness sees: an address that is not aligned, a
// kernel that stops itself, one that never ends.

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"gpuemu/bench/detection/record"
	"gpuemu/internal/compare"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/ptxvm"
	"gpuemu/internal/runner"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// baseline is a harness.
type baseline struct {
	name   string
	shapes func(op *oracle.Op) []shape
	values source
	trials int // seeds of each shape
	runs   int // executions of each trial, all of which must be accepted
	rule   func(op *oracle.Op) rule
	dtypes func(op *oracle.Op) []dtype.DType // nil: all
	// drawn: shape and number format are drawn for each trial, instead of all shapes in all formats.
	drawn bool
}

// The values that harnesses draw.
func rand01(r *rand.Rand) float64    { return r.Float64() }         // torch.rand
func randn(r *rand.Rand) float64     { return r.NormFloat64() }     // torch.randn
func uniform10(r *rand.Rand) float64 { return 20*r.Float64() - 10 } // the published gpuemu
func sample9(r *rand.Rand) float64   { return 18*r.Float64() - 9 }  // make_tensor of PyTorch's tests

// always is a rule that does not depend on the operator.
func always(r rule) func(*oracle.Op) rule { return func(*oracle.Op) rule { return r } }

// assertClose are the defaults of torch.testing.assert_close.
var assertClose = tolerances{
	dtype.Float64:      {Abs: 1e-7, Rel: 1e-7},
	dtype.Float32:      {Abs: 1e-5, Rel: 1.3e-6},
	dtype.Float16:      {Abs: 1e-5, Rel: 1e-3},
	dtype.BFloat16:     {Abs: 1e-5, Rel: 1.6e-2},
	dtype.Float8E4M3FN: {Abs: 1e-5, Rel: 0.125},
	dtype.Float8E5M2:   {Abs: 1e-5, Rel: 0.25},
}

// baselines are the harnesses. Sources: the sentence above each, which sums up its file at the commit named there.
var baselines = []baseline{
	// What most repositories do: one shape, torch.randn, one tolerance for everything.
	{name: "allclose-1e-2", shapes: oneShape, values: randn, trials: 1, runs: 1, rule: always(allclose(same(1e-2, 1e-2)))},
	// The same with the defaults of torch.testing.assert_close by number format.
	{name: "assert-close", shapes: oneShape, values: randn, trials: 1, runs: 1, rule: always(allclose(assertClose))},
	// KernelBench 423217d, src/kernelbench/eval.py lines 83-103, 730-850: one fixed shape a problem, odd ones among
	// them (an operator with several problems gets the shapes of all), torch.rand (never negative), 5 seeds,
	// torch.allclose with atol = rtol = 1e-4 for float32 and 1e-2 for float16 and bfloat16.
	{name: "kernelbench", shapes: kernelBenchShape, values: rand01, trials: 5, runs: 1,
		rule: always(allclose(byWidth(1e-4, 1e-2)))},
	// robust-kbench 078f5ba, robust_kbench/sandbox/correct_forward_fn.py, tasks/*/config_forward.json: 2 × 2 regular
	// configurations, 5 seeds, the kernel runs twice, float32, allclose 1e-5/1e-5.
	{name: "robust-kbench", shapes: twoByTwo, values: randn, trials: 5, runs: 2, dtypes: single,
		rule: always(allclose(same(1e-5, 1e-5)))},
	// GEAK-eval 453b021, geak_eval/evaluators/TB_correctness.py: the tests of the gold file, which has up to four, of
	// powers of two as a rule, seed 42, allclose with atol 1e-3 and rtol 1e-1.
	{name: "geak", shapes: twoByTwo, values: randn, trials: 1, runs: 1, rule: always(allclose(same(1e-3, 1e-1)))},
	// flashinfer-bench 40e6ca7, flashinfer_bench/bench/utils.py lines 97-121, bench/config.py lines 39-45: workloads of
	// servers, torch.randn, 3 trials; an element is bad iff abs > 1e-2 and rel > 1e-2, all must be good (95 % for MoE
	// and few bits), values that are not finite are refused.
	{name: "flashinfer-bench", shapes: servingShapes, values: randn, trials: 3, runs: 1, rule: flashinferRule},
	// GPU MODE reference-kernels f83cb92, problems/*/task.yml and utils.py verbose_allclose: a list of shapes, a seed
	// each, which a leaderboard's runs change (seed += 13; two of them here), atol + rtol |ref| and the same positions of
	// NaN and infinities, 1e-3 for float32, 2e-2 for 16 bits.
	{name: "gpu-mode", shapes: listedShapes, values: randn, trials: 3, runs: 1,
		rule: always(allcloseNaN(byWidth(1e-3, 2e-2)))},
	// BackendBench 66e0dbc, BackendBench/eval.py lines 68-100, suite/opinfo.py: small shapes of OpInfo samples, odd ones
	// among them, values of make_tensor in [-9, 9], assert_close 1e-2/1e-2 with equal_nan.
	{name: "backendbench", shapes: smallShapes, values: sample9, trials: 1, runs: 1,
		rule: always(allcloseNaN(same(1e-2, 1e-2)))},
	// The published gpuemu, as its first paper ran it: 30 cases, sizes drawn from the operator's lists, the number format
	// drawn of float32 and, but for products of matrices, float16 (its bfloat16 holds bits of float16), values U[-10,10],
	// an absolute tolerance by operator and number format, any NaN or infinity fails.
	{name: "gpuemu-published", values: uniform10, trials: publishedCases, runs: 1, drawn: true,
		dtypes: publishedFormats, rule: publishedRule},
}

// single is float32 alone.
func single(*oracle.Op) []dtype.DType { return []dtype.DType{dtype.Float32} }

// publishedFormats: it has no tolerance for products of matrices in float16, and an alarm by one of ours is not its
// own.
func publishedFormats(op *oracle.Op) []dtype.DType {
	if op.Family == "matmul" {
		return single(op)
	}
	return []dtype.DType{dtype.Float32, dtype.Float16}
}

// publishedRule has a tolerance for each operator.
func publishedRule(op *oracle.Op) rule { return absolute(publishedTolerances(op)) }

// flashinferRule asks less of operators whose results are choices or few bits.
func flashinferRule(op *oracle.Op) rule {
	share := map[string]float64{"quant": 0.95}
	if op.Name == "moe_routing" {
		share["index"] = 0.95
	}
	return both(1e-2, 1e-8, share)
}

// publishedCases is the number of iterations per operator of the published gpuemu's first paper.
const publishedCases = 30

// publishedAbs are the absolute tolerances of the published gpuemu for float32 and for float16, as the table of its
// second paper has them ("now"); matmul was tested in float32 alone.
var publishedAbs = map[string][2]float64{
	"softmax": {1e-5, 2e-2}, "layernorm": {1e-4, 5e-2}, "matmul": {5e-2, 5e-2}, "gelu": {1e-4, 5e-2},
	"silu": {1e-4, 5e-2}, "rmsnorm": {1e-4, 5e-2}, "l2norm": {1e-4, 5e-2}, "leaky_relu": {1e-5, 5e-2},
	"sigmoid": {1e-4, 5e-2}, "tanh": {1e-4, 5e-2}, "elu": {1e-4, 5e-2}, "attention": {1e-3, 5e-2},
}

// publishedLike names, for each family, the operator of the papers whose tolerance others of the family get. Sums are
// like products of matrices.
var publishedLike = map[string]string{
	"activation": "gelu", "binary": "gelu", "reduce": "matmul", "softmax": "softmax", "norm": "layernorm",
	"matmul": "matmul", "attention": "attention", "loss": "softmax", "index": "matmul", "conv": "matmul", "pool": "gelu",
	"quant": "gelu",
}

// publishedTolerances are those of an operator, by number format; formats that are not float32 have those of float16.
func publishedTolerances(op *oracle.Op) tolerances {
	abs, ok := publishedAbs[op.Name]
	if !ok {
		abs = publishedAbs[publishedLike[op.Family]]
	}
	t := tolerances{}
	for _, d := range dtype.Floats() {
		t[d] = compare.Tolerance{Abs: abs[1]}
	}
	t[dtype.Float64], t[dtype.Float32] = compare.Tolerance{Abs: abs[0]}, compare.Tolerance{Abs: abs[0]}
	return t
}

// candidates draws sizes from the lists of the operator, as the published fuzzer does, and attributes as well.
func (s *subject) candidates(r *rand.Rand) shape {
	sh := shape{dims: map[string]int{}, attrs: opspec.Attrs{}}
	for i := range s.entry.Schema.Attrs {
		values := s.entry.Schema.Attrs[i].NormalValues()
		sh.attrs[s.entry.Schema.Attrs[i].Name] = values[r.IntN(len(values))]
	}
	for i := range s.entry.Schema.Dims {
		d := &s.entry.Schema.Dims[i]
		if d.Derived() {
			continue
		}
		list := d.Candidates
		if len(list) == 0 {
			list, _ = d.Sizes()
		}
		sh.dims[d.Name] = list[r.IntN(len(list))]
	}
	return sh
}

// formats are the number formats of a subject that a harness knows.
func (b *baseline) formats(s *subject) (list []dtype.DType) {
	for _, d := range s.dtypes {
		if b.dtypes == nil || slices.Contains(b.dtypes(s.entry), d) {
			list = append(list, d)
		}
	}
	return list
}

// choose takes the harness's values; scales are what takes quantised values to those of activations.
func (b *baseline) choose(_ *rand.Rand, in *opspec.Input, _ tensor.Shape) source {
	if in.Role == opspec.RoleScale {
		return func(r *rand.Rand) float64 { return (math.Abs(b.values(r)) + 0.1) / 64 }
	}
	return b.values
}

// plan lists the trials of a harness on a subject; none where it knows none of the subject's number formats.
func (b *baseline) plan(s *subject) (list []planned) {
	formats := b.formats(s)
	if b.drawn && len(formats) > 0 {
		for trial := range b.trials {
			list = append(list, planned{seed: uint64(trial)})
		}
		return list
	}
	for _, d := range formats {
		for i, sh := range b.shapes(s.entry) {
			for trial := range b.trials {
				list = append(list, planned{d, sh, uint64(i)<<32 | uint64(trial)})
			}
		}
	}
	return list
}

// planned is a trial that is still to be drawn.
type planned struct {
	dtype dtype.DType // Invalid: drawn, and the shape as well
	shape shape
	seed  uint64
}

// run executes a harness on a subject, up to the first trial that it refuses.
func (b *baseline) run(ctx context.Context, s *subject) (*record.Record, error) {
	rec := &record.Record{Run: record.Baselines, ID: s.id, Setting: b.name}
	// Bounds are watched for addresses that are not aligned, which a GPU refuses; nobody asks for the rest.
	k, err := s.open(ptxvm.CheckBounds)
	if err != nil {
		return nil, err
	}
	rule, formats := b.rule(s.entry), b.formats(s)
	if len(formats) == 0 {
		rec.Message = "the harness has none of its number formats"
	}
	for _, p := range b.plan(s) {
		r := rand.New(rand.NewPCG(stream(b.name), p.seed)) // the same inputs for a kernel and its mutants
		if p.dtype == dtype.Invalid {
			p.dtype, p.shape = formats[r.IntN(len(formats))], s.candidates(r)
		}
		legal, ok := s.nearest(p.shape)
		if !ok {
			return nil, fmt.Errorf("%s: %s has no legal shape near %v", s.id, b.name, p.shape.dims)
		}
		t, err := s.draw(r, p.dtype, legal, dense, b.choose)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", s.id, b.name, err)
		}
		rec.Cases++
		reason, err := b.refuses(ctx, k, t, &rule)
		var f *runner.Failure
		switch {
		case errors.As(err, &f) && f.Reason != verdict.OverBudget:
			rec.NotRun++
			rec.Message = shortened(f.Msg)
			continue
		case errors.As(err, &f):
			reason = string(f.Reason)
		case err != nil:
			return nil, fmt.Errorf("%s: %s: %w", s.id, b.name, err)
		}
		if reason != "" {
			rec.Failed, rec.First = 1, rec.Cases
			rec.Reason, rec.FailDType, rec.Case = reason, t.dtype.String(), t.String()
			break
		}
	}
	return rec, nil
}

// stopping are findings on what a GPU stops a kernel for, or never ends.
var stopping = []string{string(verdict.Misaligned), string(verdict.Trap), string(verdict.Assertion),
	string(verdict.Deadlock)}

// refuses says why a harness refuses a kernel on a trial; "" where it accepts it.
func (b *baseline) refuses(ctx context.Context, k *kernel, t *trial, rule *rule) (string, error) {
	wants, err := oracle.Evaluate(k.entry, t.inputMap(), t.attrs, t.dtype)
	if err != nil {
		return "", err
	}
	for range b.runs {
		reply, err := k.run(ctx, t, true)
		if err != nil {
			return "", err
		}
		for _, f := range reply.Findings {
			if slices.Contains(stopping, f.Kind) {
				return f.Kind, nil
			}
		}
		for _, out := range reply.Outputs {
			ok, err := rule.accepts(k.entry.Family, t.dtype, out.Tensor, wants[out.Name])
			if err != nil {
				return "", err
			}
			if !ok {
				return string(verdict.Mismatch), nil
			}
		}
	}
	return "", nil
}

// stream is the number of a named stream of random numbers.
func stream(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name)) // never fails
	return h.Sum64()
}

// shortened keeps records short: a message is for people who look one up.
func shortened(text string) string {
	const most = 200
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}
