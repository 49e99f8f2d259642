package oracle_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"gpuemu/internal/compare"
	"gpuemu/internal/dtype"
	"gpuemu/internal/gen"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/tensor"
	"gpuemu/internal/testkit"
	"gpuemu/internal/testkit/honest"
)

// reducedDim names the dimension each op reduces over, where a fault can leave terms out.
var reducedDim = map[string]string{
	"sum": "H", "mean": "H", "var": "H", "logsumexp": "H", "cumsum": "H", "softmax": "H", "log_softmax": "H",
	"layernorm": "H", "rmsnorm": "H", "l2norm": "H", "groupnorm": "L", "matmul": "K", "batched_matmul": "K",
	"matmul_bias_act": "K", "int8_matmul": "K", "fp8_matmul": "K", "attention": "N", "cross_entropy": "C",
	"conv1d": "CI", "scatter_add": "R",
}

// detectionLengths are the lengths of the reduction: leaving one of n terms out is a fault of size 1/n.
var detectionLengths = []int{16, 64, 256, 1024}

// rates counts how many faulty cases each regime catches.
type rates struct{ cases, bound, fixed, calibrated int }

// fixedLength returns the op's schema with the reduced dimension held at n.
func fixedLength(op *oracle.Op, dim string, n int) *opspec.Schema {
	s := *op.Schema
	s.Dims = append([]opspec.Dim(nil), s.Dims...)
	for i := range s.Dims {
		if s.Dims[i].Name == dim {
			s.Dims[i].Candidates, s.Dims[i].Min, s.Dims[i].Max, s.Dims[i].Empty = []int{n}, n, n, false
		}
	}
	return &s
}

// detect runs controls and faulty implementations of one op, dtype and length and counts what each regime catches.
func detect(t *testing.T, op *oracle.Op, d dtype.DType, f honest.Fault, n int) rates {
	t.Helper()
	stream, err := gen.Cases(fixedLength(op, reducedDim[op.Name], n), gen.Strategy{
		Values: "normal", DTypes: []dtype.DType{d}, MaxElems: 1 << 14, Layouts: []tensor.Layout{tensor.Contiguous},
	}, 42)
	if err != nil {
		t.Fatal(err)
	}
	styles := honest.Styles()
	var samples []compare.Sample
	var faulty []map[string]*tensor.Tensor
	var trialsOf []*trial
	for i := range compare.MinSamples {
		c, err := stream.Case(i)
		if err != nil {
			t.Fatal(err)
		}
		tr := &trial{op: op, c: c, attrs: c.AttrMap()}
		if tr.inputs, err = gen.Inputs(op.Schema, c); err != nil {
			t.Fatal(err)
		}
		if tr.want, err = oracle.Evaluate(op, tr.inputs, tr.attrs, d); err != nil {
			t.Fatal(err)
		}
		control, err := tr.run(styles[i%len(styles)], c.Seed)
		if err != nil {
			t.Fatal(err)
		}
		r := compareAs(t, tr, control, compare.Bound, compare.Tolerance{})
		samples = append(samples, compare.Sample{MaxAbs: r.Stats.MaxAbs, MaxWant: r.Stats.MaxWant})
		if i%2 == 0 {
			bad, err := tr.run(honest.Style{Fault: f, FMA: true}, c.Seed)
			if err != nil {
				t.Fatal(err)
			}
			faulty, trialsOf = append(faulty, bad), append(trialsOf, tr)
		}
	}
	cal, err := compare.Calibrate(mainOutput(trialsOf[0]).DType, samples)
	if err != nil {
		t.Fatal(err)
	}
	var got rates
	for i, bad := range faulty {
		got.cases++
		hit := func(r compare.Regime, tol compare.Tolerance, n *int) {
			if compareAs(t, trialsOf[i], bad, r, tol).Verdict == compare.Fail {
				*n++
			}
		}
		hit(compare.Bound, compare.Tolerance{}, &got.bound)
		hit(compare.Fixed, compare.Tolerance{Abs: 1e-2, Rel: 1e-2}, &got.fixed)
		hit(compare.Calibrated, cal.Tol, &got.calibrated)
	}
	return got
}

func mainOutput(tr *trial) *compare.Want { return tr.want[tr.op.Schema.Outputs[0].Name] }

// compareAs compares the first output under one regime.
func compareAs(
	t *testing.T, tr *trial, got map[string]*tensor.Tensor, r compare.Regime, tol compare.Tolerance,
) *compare.Report {
	t.Helper()
	opt := compare.DefaultOptions()
	opt.Regime, opt.Tol, opt.Workers = r, tol, 1
	rep, err := compare.Quick(got[tr.op.Schema.Outputs[0].Name], mainOutput(tr), opt)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// TestBoundDetectsWhatTolerancesMiss holds the bound to its promise on faults that are not small: one tile of 16 left
// out of 64 terms, or one of 16 terms.
func TestBoundDetectsWhatTolerancesMiss(t *testing.T) {
	testkit.ValuesOnly(t)
	for name := range reducedDim {
		op, ok := oracle.Lookup(name)
		if !ok {
			t.Fatalf("no op %q", name)
		}
		for _, d := range op.Schema.AllowedDTypes() {
			t.Run(name+"/"+d.String(), func(t *testing.T) {
				t.Parallel()
				for _, f := range []honest.Fault{honest.DropTerm, honest.SkipTile} {
					if !honest.Applies(name, f) {
						continue
					}
					got := detect(t, op, d, f, 64)
					least := got.cases * 9 / 10
					if d.UnitRoundoff() >= dtype.BFloat16.UnitRoundoff() {
						least = got.cases / 2 // one of 64 terms is below an ulp of some outputs
					}
					if got.bound < got.fixed || got.bound < least {
						t.Errorf("%s of 64 terms: bound %d, fixed 1e-2 %d, calibrated %d of %d cases",
							f, got.bound, got.fixed, got.calibrated, got.cases)
					}
				}
			})
		}
	}
}

// TestRecordDetection writes docs/evidence/detection.md; GPUEMU_DETECTION_RECORD names the file.
func TestRecordDetection(t *testing.T) {
	path := os.Getenv("GPUEMU_DETECTION_RECORD")
	if path == "" {
		t.Skip("GPUEMU_DETECTION_RECORD is not set: `make evidence` writes the record")
	}
	var b strings.Builder
	b.WriteString("# What each tolerance regime detects\n\nMade by `make evidence`. Cells: faulty cases caught, in " +
		"percent, by the per-element **bound** / by atol = rtol = 1e-2 / by p95 × 1.5 fitted on correct implementations of " +
		"the same cases. Leaving one of n terms out is a fault of relative size 1/n; inputs are standard " +
		"normal.\n\n| op | dtype | fault |")
	for _, n := range detectionLengths {
		fmt.Fprintf(&b, " n = %d |", n)
	}
	b.WriteString("\n|---|---|---|" + strings.Repeat("---:|", len(detectionLengths)) + "\n")
	for _, op := range oracle.Ops() {
		if reducedDim[op.Name] == "" {
			continue
		}
		for _, d := range op.Schema.AllowedDTypes() {
			for _, f := range []honest.Fault{honest.DropTerm, honest.SkipTile, honest.NarrowAcc} {
				if !honest.Applies(op.Name, f) || f == honest.NarrowAcc && (d == dtype.Float32 || d == dtype.Float64) {
					continue
				}
				fmt.Fprintf(&b, "| %s | %s | %s |", op.Name, d, f)
				for _, n := range detectionLengths {
					r := detect(t, op, d, f, n)
					fmt.Fprintf(&b, " **%d** / %d / %d |", 100*r.bound/r.cases, 100*r.fixed/r.cases, 100*r.calibrated/r.cases)
				}
				b.WriteString("\n")
			}
		}
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
