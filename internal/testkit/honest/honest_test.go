package honest

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/rng"
	"gpuemu/internal/tensor"
)

// catalogueOps is the catalogue as the specification lists it.
const catalogueOps = `relu leaky_relu elu gelu gelu_tanh silu sigmoid tanh softplus exp log rsqrt
	add mul swiglu geglu
	sum mean max argmax var logsumexp cumsum
	softmax log_softmax
	layernorm rmsnorm groupnorm l2norm batchnorm
	matmul batched_matmul matmul_bias_act int8_matmul fp8_matmul
	attention causal_attention window_attention gqa_attention decode_attention
	rope cross_entropy
	embedding gather scatter_add topk
	conv1d conv2d depthwise_conv2d max_pool2d avg_pool2d
	quantize_tensor quantize_row quantize_group quantize_fp8_row dequantize_tensor dequantize_row dequantize_group
	quantize_static_tensor quantize_static_row dequantize_affine_tensor dequantize_affine_row
	moe_routing`

func TestOpsAreComplete(t *testing.T) {
	got, want := Ops(), strings.Fields(catalogueOps)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("Ops() = %v, want %v", got, want)
	}
}

func TestUnknownOp(t *testing.T) {
	if _, err := Run(New(dtype.Float32, Style{}, 1), &Call{Op: "nosuch"}); err == nil {
		t.Error("Run of an unknown op returns no error")
	}
	for _, op := range Ops() {
		if _, err := Run(New(dtype.Float32, Style{}, 1), &Call{Op: op, T: dtype.Float32}); err == nil {
			t.Errorf("Run of %s without inputs returns no error", op)
		}
	}
}

// arithmetic is the type A of a call.
func arithmetic(c *Call) dtype.DType {
	for _, o := range c.Outputs {
		if o.DType == dtype.Float64 {
			return dtype.Float64
		}
	}
	return dtype.Float32
}

// caseDTypes are the dtypes an op's case may have.
func caseDTypes(op string) []dtype.DType {
	switch {
	case op == "fp8_matmul":
		return []dtype.DType{dtype.Float8E4M3FN}
	case op == "int8_matmul" || strings.HasPrefix(op, "dequantize"):
		return []dtype.DType{dtype.Float32, dtype.Float16, dtype.BFloat16}
	}
	return []dtype.DType{dtype.Float64, dtype.Float32, dtype.Float16, dtype.BFloat16}
}

func mustRun(t *testing.T, m *Machine, c *Call) map[string]*tensor.Tensor {
	t.Helper()
	res, err := Run(m, c)
	if err != nil {
		t.Fatalf("%s: %v", c.Op, err)
	}
	return res
}

// distance is the largest error of got in units of tol·(1+|want|), infinite where one is NaN and the other is not.
func distance(got, want []float64, tol float64) float64 {
	worst := 0.0
	for i, g := range got {
		w := want[i]
		switch {
		case g == w || g != g && w != w:
		case g != g || w != w:
			return math.Inf(1)
		default:
			worst = max(worst, math.Abs(g-w)/(tol*(1+math.Abs(w))))
		}
	}
	return worst
}

// TestStylesAgree: all ways of computing give nearly the same on harmless values. tanh.approx and rounded
// intermediates set how near.
func TestStylesAgree(t *testing.T) {
	r := rng.New(23)
	styles := Styles()
	for range 40 {
		styles = append(styles, RandomStyle(r))
	}
	tols := map[dtype.DType]float64{dtype.Float64: 2e-13, dtype.Float32: 4e-3, dtype.Float16: 2e-2, dtype.BFloat16: 8e-2,
		dtype.Float8E4M3FN: 2e-2}
	for _, op := range Ops() {
		for _, d := range caseDTypes(op) {
			tol := tols[d]
			for range 4 {
				c := draw(r, op, d)
				a := arithmetic(c)
				if a == dtype.Float32 {
					tol = max(tol, tols[a])
				}
				want := mustRun(t, New(a, Style{}, 1), c)
				for i, s := range styles {
					got := mustRun(t, New(a, s, uint64(i)), c)
					if name, e := farthest(op, got, want, tol); e > 1 {
						t.Fatalf("%s %s in style %+v: %s is off by %.3g of the tolerance", op, d, s, name, e)
					}
				}
			}
		}
	}
}

// farthest returns the output with the largest distance, and that. Indices are left out: there are ties.
func farthest(op string, got, want map[string]*tensor.Tensor, tol float64) (string, float64) {
	worst, at := 0.0, ""
	for name, g := range got {
		x, y := g.Float64s(), want[name].Float64s()
		e := 0.0
		switch {
		case name == "indices" || op == "argmax":
			continue
		case g.DType == dtype.Int8: // a neighbour next to a tie
			for i := range x {
				e = max(e, math.Abs(x[i]-y[i]))
			}
		case g.DType == dtype.Float8E4M3FN:
			e = distance(x, y, 0x1p-3)
		default:
			e = distance(x, y, tol)
		}
		if e >= worst {
			worst, at = e, name
		}
	}
	return at, worst
}

// TestFloat32IsNearFloat64 runs all ops in float64 and float32: the difference is what float32 costs.
func TestFloat32IsNearFloat64(t *testing.T) {
	r := rng.New(29)
	for _, op := range Ops() {
		if op == "fp8_matmul" || op == "int8_matmul" || strings.Contains(op, "quantize") {
			continue
		}
		c := draw(r, op, dtype.Float32)
		got := mustRun(t, New(dtype.Float32, Style{}, 1), c)
		want := mustRun(t, New(dtype.Float64, Style{}, 1), c)
		for name, g := range got {
			if e := distance(g.Float64s(), want[name].Float64s(), 1e-5); e > 1 {
				t.Errorf("%s: %s in float32 is off by %.3g·1e-5", op, name, e)
			}
		}
	}
}

// TestSameSeedSameBits: a machine is a function of its seed, also when it is used again.
func TestSameSeedSameBits(t *testing.T) {
	r := rng.New(31)
	m := New(dtype.Float32, Style{}, 1)
	for _, op := range Ops() {
		c := draw(r, op, dtype.Float16)
		for _, s := range Styles() {
			want := mustRun(t, New(dtype.Float32, s, 5), c)
			m.Reset(dtype.Float32, s, 5)
			got := mustRun(t, m, c)
			for name := range want {
				if string(got[name].Data) != string(want[name].Data) {
					t.Errorf("%s in style %s: a used machine gives another %s", op, s.Name, name)
				}
			}
		}
	}
}

// TestFaultsShow: every fault changes what it is said to change, and nothing is changed without one.
func TestFaultsShow(t *testing.T) {
	for _, op := range Ops() {
		for _, f := range Faults() {
			if !Applies(op, f) {
				continue
			}
			if !faultShows(t, op, f) {
				t.Errorf("%s with fault %s gives what it gives without", op, f)
			}
		}
	}
	if Applies("nosuch", DropTerm) || Applies("relu", DropTerm) || Applies("matmul", NoFault) {
		t.Error("Applies is true of a fault that cannot be")
	}
}

func faultShows(t *testing.T, op string, f Fault) bool {
	d := dtype.Float16 // for NarrowAcc narrower than A
	if op == "fp8_matmul" {
		d = dtype.Float8E4M3FN
	}
	tiny := op == "l2norm" && f == WrongConstant // its eps bears on rows below 1e-12 only
	if tiny {
		d = dtype.Float32
	}
	r := rng.New(37)
	for range 500 {
		c := draw(r, op, d)
		if tiny {
			for i := range c.Inputs["input"].X {
				c.Inputs["input"].X[i] *= 0x1p-60
			}
		}
		if f == SwallowNaN {
			for name, a := range c.Inputs {
				if a.DType == d && len(a.X) > 0 {
					a.X[r.Intn(len(a.X))] = math.NaN()
					c.Inputs[name] = a
				}
			}
		}
		want := mustRun(t, New(dtype.Float32, Style{}, 1), c)
		got := mustRun(t, New(dtype.Float32, Style{Fault: f}, 1), c)
		for name := range want {
			if string(got[name].Data) != string(want[name].Data) {
				return true
			}
		}
	}
	return false
}

func TestStylesCoverEverything(t *testing.T) {
	var orders [Reversed + 1]bool
	var approx [Random + 1]bool
	var cores [Hopper + 1]bool
	var on, off int
	names := map[string]bool{}
	for _, s := range Styles() {
		orders[s.Order], approx[s.Approx], cores[s.TensorCore] = true, true, true
		on, off = on|s.Variant, off|^s.Variant
		if s.Fault != NoFault || s.Name == "" || names[s.Name] {
			t.Errorf("style %+v has a fault, no name, or one twice", s)
		}
		names[s.Name] = true
	}
	if slices.Contains(orders[:], false) || slices.Contains(approx[:], false) || slices.Contains(cores[:], false) ||
		on != Variants-1 || off&(Variants-1) != Variants-1 {
		t.Errorf("Styles() leaves something out: orders %v, approximations %v, cores %v, variants %b and not %b", orders,
			approx, cores, on, off)
	}
}

// TestRoundsOnceToTheOutput: outputs are rounded to nearest even from A, quantize_fp8_row saturates.
func TestRoundsOnceToTheOutput(t *testing.T) {
	c := &Call{Op: "add", T: dtype.Float16, Attrs: opspec.Attrs{}, Inputs: map[string]Array{
		"a": {tensor.MustShape(1, 1, 3), dtype.Float16, []float64{2048, 65504, 1}},
		"b": {tensor.MustShape(1, 1, 3), dtype.Float16, []float64{1, 16, 0x1p-11}},
	}, Outputs: map[string]OutSpec{"output": {tensor.MustShape(1, 1, 3), dtype.Float16}}}
	got := mustRun(t, New(dtype.Float32, Style{}, 1), c)["output"].Float64s()
	if want := []float64{2048, math.Inf(1), 1}; !slices.Equal(got, want) {
		t.Errorf("add in float16 = %v, want %v", got, want)
	}
	c = &Call{Op: "quantize_fp8_row", T: dtype.Float32, Attrs: opspec.Attrs{}, Inputs: map[string]Array{
		"input": {tensor.MustShape(1, 3), dtype.Float32, []float64{-7, 3.5, 0}},
	}, Outputs: map[string]OutSpec{"q": {tensor.MustShape(1, 3), dtype.Float8E4M3FN},
		"scale": {tensor.MustShape(1), dtype.Float32}}}
	for _, s := range Styles() {
		q := mustRun(t, New(dtype.Float32, s, 1), c)["q"].Float64s()
		if want := []float64{-448, 224, 0}; !slices.Equal(q, want) {
			t.Errorf("%s: quantize_fp8_row([-7 3.5 0]) = %v, want %v", s.Name, q, want)
		}
	}
}

func BenchmarkRun(b *testing.B) {
	for _, op := range Ops() {
		for _, s := range []Style{{Name: "plain"}, Styles()[17]} {
			b.Run(op+"/"+s.Name, func(b *testing.B) {
				r := rng.New(41)
				calls := make([]*Call, 20)
				for i := range calls {
					calls[i] = draw(r, op, dtype.Float16)
				}
				m := New(dtype.Float32, s, 1)
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if _, err := Run(m, calls[i%len(calls)]); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
