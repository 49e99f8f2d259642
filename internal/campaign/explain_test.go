package campaign

import (
	"context"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/compare"
	"gpuemu/internal/dtype"
	"gpuemu/internal/gen"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/runner"
	"gpuemu/internal/tensor"
	"gpuemu/internal/testkit"
	"gpuemu/internal/testkit/honest"
	"gpuemu/internal/verdict"
)

// explained is one case of an op with what judging needs.
type explained struct {
	subject *subject
	c       opspec.Case
	inputs  map[string]*tensor.Tensor
	wants   []expected
}

// casesOf returns n cases of an op with ordinary values.
func casesOf(t *testing.T, op string, d dtype.DType, attrs opspec.Attrs, n int) []*explained {
	t.Helper()
	return casesWith(t, op, "normal", d, attrs, n)
}

func casesWith(t *testing.T, op, values string, d dtype.DType, attrs opspec.Attrs, n int) []*explained {
	t.Helper()
	s, ok := catalogueSubject(nil, op)
	if !ok {
		t.Fatalf("no op %q", op)
	}
	s.attrs = attrs
	stream, err := gen.Cases(s.schema, gen.Strategy{Values: values, DTypes: []dtype.DType{d}, MaxElems: 8192,
		Attrs: attrs, Layouts: []tensor.Layout{tensor.Contiguous}}, 7)
	if err != nil {
		t.Fatal(err)
	}
	var out []*explained
	for i := range n {
		c, err := stream.Case(i)
		if err != nil {
			t.Fatal(err)
		}
		e := &explained{subject: s, c: c}
		if e.inputs, err = gen.Inputs(s.schema, c); err != nil {
			t.Fatal(err)
		}
		if e.wants, err = s.evaluate(c, e.inputs); err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// machine computes cases on a conforming machine of another contract (other attributes, another op, another style or
// accumulation type) or with a fault. It is the candidate of a subject.
type machine struct {
	style honest.Style
	attrs opspec.Attrs
	op    string
	acc   dtype.DType
	runs  *int // executions; nil: not counted
}

func (m machine) Close() error { return nil }

func (m machine) Run(_ context.Context, call *runner.Call) (*runner.Reply, error) {
	if m.runs != nil {
		*m.runs++
	}
	in := &honest.Call{Op: call.Op, T: call.DType, Attrs: opspec.Attrs{}, Inputs: map[string]honest.Array{},
		Outputs: map[string]honest.OutSpec{}}
	if m.op != "" {
		in.Op = m.op
	}
	maps.Copy(in.Attrs, call.Attrs)
	maps.Copy(in.Attrs, m.attrs)
	for _, t := range call.Inputs {
		in.Inputs[t.Name] = honest.Array{Shape: t.Tensor.Shape, DType: t.Tensor.DType, X: t.Tensor.Float64s()}
	}
	for _, o := range call.Outputs {
		in.Outputs[o.Name] = honest.OutSpec{Shape: o.Shape, DType: o.DType}
	}
	acc := m.acc
	if acc == dtype.Invalid {
		acc = dtype.Float32
		if call.DType == dtype.Float64 {
			acc = dtype.Float64
		}
	}
	outs, err := honest.Run(honest.New(acc, m.style, call.Seed), in)
	if err != nil {
		return nil, err
	}
	reply := &runner.Reply{}
	for _, o := range call.Outputs {
		reply.Outputs = append(reply.Outputs, tensor.Named{Name: o.Name, Tensor: outs[o.Name]})
	}
	return reply, nil
}

// valued is a candidate that returns exactly what an alternative expects.
type valued struct {
	op   *oracle.Op
	name string
}

func (v valued) Close() error { return nil }

func (v valued) Run(_ context.Context, call *runner.Call) (*runner.Reply, error) {
	inputs := map[string]*tensor.Tensor{}
	for _, t := range call.Inputs {
		inputs[t.Name] = t.Tensor
	}
	all := oracle.Alternatives(v.op, call.Attrs, call.DType)
	evaluate := oracle.Evaluate
	if i := slices.IndexFunc(all, func(a oracle.Alternative) bool { return a.Name == v.name }); i >= 0 {
		evaluate = all[i].Evaluate
	}
	wants, err := evaluate(v.op, inputs, call.Attrs, call.DType)
	if err == nil && wants == nil {
		wants, err = oracle.Evaluate(v.op, inputs, call.Attrs, call.DType)
	}
	if err != nil {
		return nil, err
	}
	reply := &runner.Reply{}
	for _, o := range call.Outputs {
		t := tensor.New(o.DType, o.Shape)
		dtype.Encode(t.Data, o.DType, wants[o.Name].Value)
		reply.Outputs = append(reply.Outputs, tensor.Named{Name: o.Name, Tensor: t})
	}
	return reply, nil
}

// sayings runs a candidate on cases and counts what is said of those that fail: the sentence up to its number.
func sayings(t *testing.T, cases []*explained, candidate runner.Runner) (fails int, said map[string]int) {
	t.Helper()
	said = map[string]int{}
	x := &executor{candidates: map[*subject]runner.Runner{cases[0].subject: candidate}}
	for _, e := range cases {
		reply, err := candidate.Run(t.Context(), e.subject.call(e.c, e.inputs, false))
		if err != nil {
			t.Fatalf("%s: %v", e.c, err)
		}
		res := &verdict.Result{}
		run := observed{inputs: e.inputs, confirm: func(name string) evidence {
			return x.confirm(t.Context(), e.subject, e.c.DType, name)
		}}
		if err := e.subject.judge(res, e.c, reply.Outputs, e.wants, run); err != nil {
			t.Fatal(err)
		}
		if res.Verdict != verdict.Fail {
			continue
		}
		fails++
		for _, o := range res.Outputs {
			if o.Mismatched == 0 {
				continue
			}
			if o.Diagnosis == nil || o.Diagnosis[0].Kind != FindContract {
				said[""]++
				break
			}
			text, rest, _ := strings.Cut(o.Diagnosis[0].Sentence, " (max error/bound ")
			if rest == "" || !strings.Contains(res.Message, o.Diagnosis[0].Sentence) {
				t.Errorf("diagnosis %q, message %q", o.Diagnosis[0].Sentence, res.Message)
			}
			said[strings.TrimPrefix(text, "the output matches ")]++
			break
		}
	}
	return fails, said
}

// TestAlternativesAreNamed runs conforming implementations of other contracts: each fails the one asked for, and most
// failures say which one it keeps. What else may be said is narrower and true as well.
func TestAlternativesAreNamed(t *testing.T) {
	testkit.ValuesOnly(t)
	f32, f16, bf16, f64 := dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Float64
	attr := func(name string, v any) opspec.Attrs { return opspec.Attrs{name: v} }
	tf32, storage := honest.PrecisionStyles("tf32"), honest.PrecisionStyles("storage")
	narrow := machine{style: honest.Style{Fault: honest.NarrowAcc}}
	const tanh, erf = "the tanh approximation of gelu", "gelu with erf"
	for _, tt := range []struct {
		op    string
		d     dtype.DType
		m     machine
		attrs opspec.Attrs // of the cases
		want  string
		also  string
	}{
		{op: "matmul", d: f32, m: machine{style: tf32[0]}, want: "products in TF32"},
		{op: "matmul", d: f32, m: machine{style: tf32[2]}, want: "products in TF32"},
		{op: "batched_matmul", d: f32, m: machine{style: tf32[1]}, want: "products in TF32"},
		{op: "matmul_bias_act", d: f32, m: machine{style: tf32[3]}, want: "products in TF32"},
		{op: "conv2d", d: f32, m: machine{style: tf32[0]}, want: "products in TF32"},
		{op: "attention", d: f32, m: machine{style: tf32[1]}, want: "products in TF32"},
		{op: "decode_attention", d: f32, m: machine{style: tf32[0]}, want: "products in TF32"},
		{op: "silu", d: bf16, m: machine{style: storage[0]}, want: "intermediates rounded to bfloat16"},
		{op: "softmax", d: f16, m: machine{style: storage[1]}, want: "intermediates rounded to float16"},
		{op: "layernorm", d: bf16, m: machine{style: storage[0]}, want: "intermediates rounded to bfloat16"},
		{op: "rope", d: f16, m: machine{style: storage[0]}, want: "intermediates rounded to float16"},
		{op: "batchnorm", d: f16, m: machine{style: storage[3]}, want: "intermediates rounded to float16"},
		{op: "quantize_row", d: bf16, m: machine{style: storage[0]}, want: "intermediates rounded to bfloat16"},
		{op: "matmul", d: f16, m: narrow, want: "sums accumulated in float16"},
		{op: "matmul", d: bf16, m: narrow, want: "sums accumulated in bfloat16"},
		{op: "conv1d", d: f16, m: narrow, want: "sums accumulated in float16", also: "intermediates rounded to float16"},
		{op: "avg_pool2d", d: bf16, m: narrow, want: "sums accumulated in bfloat16",
			also: "intermediates rounded to bfloat16"},
		{op: "mean", d: f64, m: machine{acc: f32}, want: "float32 arithmetic on float64 inputs"},
		{op: "attention", d: f64, m: machine{acc: f32}, want: "float32 arithmetic on float64 inputs"},
		{op: "gelu", d: f32, m: machine{op: "gelu_tanh"}, want: tanh},
		{op: "gelu", d: bf16, m: machine{op: "gelu_tanh"}, want: tanh, also: "intermediates rounded to bfloat16"},
		{op: "gelu", d: f64, m: machine{op: "gelu_tanh"}, want: tanh},
		{op: "gelu_tanh", d: f32, m: machine{op: "gelu"}, attrs: attr("math", "ieee"), want: erf},
		{op: "matmul_bias_act", d: f32, m: machine{attrs: attr("act", "gelu_tanh")}, attrs: attr("act", "gelu"), want: tanh},
		{op: "var", d: f32, m: machine{attrs: attr("correction", int64(1))}, attrs: attr("correction", int64(0)),
			want: "the unbiased variance (divided by n-1)"},
		{op: "var", d: f32, m: machine{attrs: attr("correction", int64(0))}, attrs: attr("correction", int64(1)),
			want: "the biased variance (divided by n)"},
		{op: "causal_attention", d: f32, m: machine{attrs: attr("align", "top_left")}, want: "a mask aligned top_left"},
		{op: "causal_attention", d: bf16, m: machine{style: honest.Style{Fault: honest.OffByOne}},
			want: "a mask shifted by +1"},
		{op: "window_attention", d: f16, m: machine{attrs: attr("window", int64(17))}, attrs: attr("window", int64(16)),
			want: "window = 17 where the case has 16"},
		{op: "window_attention", d: f32, m: machine{attrs: attr("window", int64(15))}, attrs: attr("window", int64(16)),
			want: "window = 15 where the case has 16"},
	} {
		t.Run(tt.op+"/"+tt.d.String()+"/"+tt.want, func(t *testing.T) {
			t.Parallel()
			fails, said := sayings(t, casesOf(t, tt.op, tt.d, tt.attrs, 10), tt.m)
			other := fails - said[""] - said[tt.want]
			if tt.also != "" {
				other -= said[tt.also]
			}
			if fails == 0 || 2*said[tt.want] < fails || other > 0 {
				t.Errorf("of %d failing cases: %v, want %q", fails, said, tt.want)
			}
		})
	}
}

// TestEveryFormulaAlternative: what an alternative with another formula or mask expects is recognized as that one.
func TestEveryFormulaAlternative(t *testing.T) {
	for _, tt := range []struct {
		op, name, want string
		attrs          opspec.Attrs
	}{
		{op: "geglu", name: "gelu-tanh", want: "the tanh approximation of gelu"},
		{op: "layernorm", name: "variance", want: "a variance divided by n-1"},
		{op: "groupnorm", name: "variance", want: "a variance divided by n-1"},
		{op: "causal_attention", name: "mask-shift-1", want: "a mask shifted by -1"},
		{op: "window_attention", name: "mask-align", want: "a mask aligned top_left"},
		{op: "window_attention", name: "window-1", want: "window = 15 where the case has 16",
			attrs: opspec.Attrs{"window": int64(16)}},
	} {
		t.Run(tt.op+"/"+tt.name, func(t *testing.T) {
			t.Parallel()
			cases := casesOf(t, tt.op, dtype.Float32, tt.attrs, 10)
			fails, said := sayings(t, cases, valued{cases[0].subject.entry, tt.name})
			if fails == 0 || 2*said[tt.want] < fails || said[""]+said[tt.want] != fails {
				t.Errorf("of %d failing cases: %v, want %q", fails, said, tt.want)
			}
		})
	}
}

// flushing is a candidate whose outputs have no subnormal values.
type flushing struct{ runner.Runner }

func (f flushing) Run(ctx context.Context, call *runner.Call) (*runner.Reply, error) {
	reply, err := f.Runner.Run(ctx, call)
	if err != nil {
		return nil, err
	}
	for _, o := range reply.Outputs {
		x := o.Tensor.Float64s()
		for i, v := range x {
			if math.Abs(v) < o.Tensor.DType.SmallestNormal() {
				x[i] = 0
			}
		}
		dtype.Encode(o.Tensor.Data, o.Tensor.DType, x)
	}
	return reply, nil
}

// TestFlushedSubnormalsAreNamed: float16 and float64 contracts keep subnormal values, float32 ones under math = "ieee".
func TestFlushedSubnormalsAreNamed(t *testing.T) {
	for _, tt := range []struct {
		d      dtype.DType
		values string
		attrs  opspec.Attrs
		want   string
	}{
		{dtype.Float16, "normal", nil, "subnormal values of float16 flushed to zero"},
		{dtype.Float32, "boundary", opspec.Attrs{"math": "ieee"}, "approximate functions or flushed subnormals"},
	} {
		cases := casesWith(t, "mul", tt.values, tt.d, tt.attrs, 20)
		fails, said := sayings(t, cases, flushing{valued{cases[0].subject.entry, ""}})
		if fails == 0 || 2*said[tt.want] < fails || said[""]+said[tt.want] != fails {
			t.Errorf("%s: of %d failing cases: %v, want %q", tt.d, fails, said, tt.want)
		}
	}
}

// TestOneCaseAlone: where the candidate cannot be run again, a case that shows little by itself says nothing.
func TestOneCaseAlone(t *testing.T) {
	for _, tt := range []struct {
		op   string
		d    dtype.DType
		m    machine
		want string // "": nothing may be said
	}{
		{"matmul", dtype.Float32, machine{style: honest.PrecisionStyles("tf32")[0]}, "products in TF32"},
		{"matmul", dtype.Float16, machine{style: honest.Style{Fault: honest.NarrowAcc}}, ""},
		{"matmul", dtype.BFloat16, machine{style: honest.Style{Fault: honest.DropTerm}}, ""},
		{"gelu", dtype.Float32, machine{op: "gelu_tanh"}, "the tanh approximation of gelu"},
	} {
		fails, named := 0, 0
		for _, e := range casesOf(t, tt.op, tt.d, nil, 10) {
			reply, err := tt.m.Run(t.Context(), e.subject.call(e.c, e.inputs, false))
			if err != nil {
				t.Fatal(err)
			}
			res := &verdict.Result{}
			if err := e.subject.judge(res, e.c, reply.Outputs, e.wants, observed{inputs: e.inputs}); err != nil {
				t.Fatal(err)
			}
			if res.Verdict == verdict.Fail {
				fails++
				if strings.Contains(res.Message, "the output matches "+tt.want) {
					named++
				}
			}
		}
		if fails == 0 || tt.want == "" && named > 0 || tt.want != "" && 2*named < fails {
			t.Errorf("%s of %s: %d of %d failing cases say that the output matches %q", tt.op, tt.d, named, fails, tt.want)
		}
	}
}

// TestBrokenKernelsMatchNoContract: what lacks a term, a tile or an element keeps no other contract, even where one
// case of it could pass for the rounding of a narrow type.
func TestBrokenKernelsMatchNoContract(t *testing.T) {
	testkit.ValuesOnly(t)
	for _, o := range oracle.Ops() {
		for _, d := range o.Schema.AllowedDTypes() {
			for _, f := range []honest.Fault{honest.DropTerm, honest.SkipTile, honest.DropLast} {
				if !honest.Applies(o.Name, f) || testing.Short() && d == dtype.Float64 {
					continue
				}
				t.Run(o.Name+"/"+d.String()+"/"+f.String(), func(t *testing.T) {
					t.Parallel()
					fails, said := sayings(t, casesOf(t, o.Name, d, nil, 6), machine{style: honest.Style{Fault: f}})
					if fails != said[""] {
						t.Errorf("of %d failing cases: %v, want nothing said", fails, said)
					}
				})
			}
		}
	}
}

// TestDiagnosisCost: the candidate runs probeCases more cases for an op and dtype, whatever the number of failures, and
// cases beyond maxExplained are not looked at.
func TestDiagnosisCost(t *testing.T) {
	cases := casesOf(t, "matmul", dtype.Float32, nil, 20)
	runs := 0
	fails, said := sayings(t, cases, machine{style: honest.PrecisionStyles("tf32")[0], runs: &runs})
	if want := len(cases) + probeCases; fails < 10 || said["products in TF32"] < fails/2 || runs != want {
		t.Errorf("%d executions for %d failing cases (%v), want %d", runs, fails, said, want)
	}
	big := map[string]*tensor.Tensor{"x": tensor.New(dtype.Float32, tensor.MustShape(maxExplained+1))}
	if explainable(big, nil, nil) {
		t.Errorf("a case of %d elements is looked at", maxExplained+1)
	}
}

// TestVacuousMatchIsNone: an alternative whose bounds would accept zeros as well says nothing.
func TestVacuousMatchIsNone(t *testing.T) {
	for _, tt := range []struct {
		value, bound []float64
		want         bool
	}{
		{[]float64{1, -2, 3}, []float64{0.1, 0.1, 0.1}, true},
		{[]float64{1, -2, 3}, []float64{2, 3, 0.1}, false},
		{[]float64{0, 0, 0}, []float64{1, 1, 1}, false}, // zeros are wanted: nothing is decided
		{[]float64{0, 0, 2}, []float64{1, 1, 1}, true},
		{nil, nil, false},
	} {
		var d decisions
		d.add(&compare.Want{DType: dtype.Float32, Value: tt.value, Bound: tt.bound})
		if got := d.meaningful(); got != tt.want {
			t.Errorf("values %v with bounds %v: meaningful = %v, want %v", tt.value, tt.bound, got, tt.want)
		}
	}
}

const tf32Py = `
import numpy as np

def mm(inputs):
    cut = lambda x: (np.ascontiguousarray(x).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return cut(inputs["a"]) @ cut(inputs["b"])
`

// TestTF32IsSaid is the whole way: a float32 product in TF32 fails, its failure names TF32 and the line that permits
// it, and with that line it passes.
func TestTF32IsSaid(t *testing.T) {
	const text = "\n[[ops]]\nname = \"matmul\"\ncandidate = \"mm.py:mm\"\ndtypes = [\"float32\"]\nvalues = \"normal\"\n"
	for _, more := range []string{"", "attributes = { compute = \"tf32\" }\n"} {
		tr := newTrial(t, head+text+more)
		if err := os.WriteFile(filepath.Join(tr.project.Config.Dir, "mm.py"), []byte(tf32Py), 0o600); err != nil {
			t.Fatal(err)
		}
		_, results := tr.run(KindTest, Options{Quick: true})
		failed, said := 0, 0
		for _, r := range results {
			if r.Verdict == verdict.Fail {
				failed++
				if strings.Contains(r.Message, `the output matches products in TF32 (max error/bound 0.`) &&
					strings.Contains(r.Message, `set attributes = { compute = "tf32" } for this op in gpuemu.toml`) &&
					strings.Contains(r.Message, `tl.dot(..., input_precision="ieee")`) {
					said++
				}
			}
		}
		if more == "" && (failed == 0 || 2*said < failed) || more != "" && failed > 0 {
			t.Errorf("with %q: %d of %d cases fail, %d name TF32", more, failed, len(results), said)
		}
	}
}
