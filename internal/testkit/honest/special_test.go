package honest

import (
	"math"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/rng"
	"gpuemu/internal/tensor"
)

// attentionCall is one query of value 1 on keys and values of dimension 1, without scaling.
func attentionCall(k, v []float64) *Call {
	n := len(k)
	return &Call{Op: "attention", T: dtype.Float16, Attrs: opspec.Attrs{"scale": 1.0}, Inputs: map[string]Array{
		"q": {tensor.MustShape(1, 1, 1, 1), dtype.Float16, []float64{1}},
		"k": {tensor.MustShape(1, 1, n, 1), dtype.Float16, k},
		"v": {tensor.MustShape(1, 1, n, 1), dtype.Float16, v},
	}, Outputs: map[string]OutSpec{"output": {tensor.MustShape(1, 1, 1, 1), dtype.Float16}}}
}

// allVariants returns the styles with every variant of the algorithm.
func allVariants() []Style {
	var all []Style
	for _, s := range Styles() {
		for v := range Variants {
			s.Variant = v
			all = append(all, s)
		}
	}
	return all
}

// near is false for NaN.
func near(got, want float64) bool { return math.Abs(got-want) <= 2e-3 }

func TestAttentionSpecials(t *testing.T) {
	const n = 50
	fill := func(f func(i int) float64) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = f(i)
		}
		return x
	}
	third := func(i int) float64 { return float64(i % 3) }
	minusInfFirst := attentionCall(fill(func(i int) float64 {
		if i < 40 {
			return math.Inf(-1)
		}
		return 0
	}), fill(third))
	plusInf := attentionCall(fill(func(i int) float64 {
		if i == 20 {
			return math.Inf(1)
		}
		return 0
	}), fill(third))
	rising := attentionCall(fill(func(i int) float64 { return float64(20 * i / n) }), fill(third))
	hidden := attentionCall(fill(func(int) float64 { return 0 }), fill(func(i int) float64 {
		if i > 9 {
			return math.NaN()
		}
		return 2
	}))
	hidden.Op = "decode_attention"
	hidden.Inputs["q"] = Array{tensor.MustShape(1, 1, 1), dtype.Float16, []float64{1}}
	hidden.Inputs["kv_len"] = Array{tensor.MustShape(1), dtype.Int32, []float64{10}}
	hidden.Outputs["output"] = OutSpec{tensor.MustShape(1, 1, 1), dtype.Float16}
	num, den := 0.0, 0.0
	for i := range n {
		p := math.Exp(float64(20*i/n) - 19)
		num, den = num+p*third(i), den+p
	}
	m := New(dtype.Float32, Style{}, 1)
	for _, s := range allVariants() {
		m.Reset(dtype.Float32, s, 1)
		one := func(c *Call) float64 { return mustRun(t, m, c)["output"].Float64s()[0] }
		if got := one(minusInfFirst); !near(got, 1) { // keys 40..49: 1 2 0 1 2 0 1 2 0 1
			t.Errorf("%+v: first scores -Inf: %v, want 1", s, got)
		}
		if got := one(plusInf); got == got {
			t.Errorf("%+v: one score +Inf: %v, want NaN", s, got)
		}
		if got := one(rising); !near(got, num/den) {
			t.Errorf("%+v: rising scores: %v, want %v", s, got, num/den)
		}
		got := one(hidden)
		if mayRead := s.Variant&AltPad != 0; !near(got, 2) && !(mayRead && got != got) {
			t.Errorf("%+v: NaN behind the last key: %v, want 2", s, got)
		}
	}
	hidden.Inputs["kv_len"].X[0] = 0
	if got := mustRun(t, New(dtype.Float32, Style{}, 1), hidden)["output"].Float64s()[0]; got != 0 {
		t.Errorf("row that sees nothing: %v, want 0", got)
	}
}

// TestWildInputs runs every op on bit patterns: nothing panics, and a NaN in an elementwise op stays one.
func TestWildInputs(t *testing.T) {
	r := rng.New(43)
	m := New(dtype.Float32, Style{}, 1)
	for _, op := range Ops() {
		for i := range 60 {
			types := caseDTypes(op)
			d := types[i%len(types)]
			c := draw(r, op, d)
			for name, a := range c.Inputs {
				if !a.DType.IsFloat() {
					continue
				}
				for j := range a.X {
					if r.Bool(0.3) {
						a.X[j] = a.DType.Float64(r.Uint64() & (1<<(8*a.DType.Size()) - 1))
					}
				}
				c.Inputs[name] = a
			}
			if i%3 == 0 {
				c.Attrs["math"] = "ieee"
			}
			s := RandomStyle(r)
			if i%5 == 0 {
				s.Fault = Faults()[r.Intn(len(Faults()))]
			}
			m.Reset(arithmetic(c), s, uint64(i))
			res := mustRun(t, m, c)
			a := c.Inputs["input"]
			if out := res["output"]; s.Fault == NoFault && out != nil && len(c.Inputs) == 1 && out.Shape.Equal(a.Shape) {
				for j, y := range out.Float64s() {
					if x := a.X[j]; x != x && y == y {
						t.Errorf("%s in style %+v: NaN at %d becomes %v", op, s, j, y)
					}
				}
			}
		}
	}
}

// TestArgmaxTies: under "any" the last of equal values may come, under "first" never.
func TestArgmaxTies(t *testing.T) {
	x := reduced("", "argmax", opspec.Attrs{"ties": "any"}, vec(1, 3, 2, 3), 0)
	for order, want := range map[Order]float64{Sequential: 1, Reversed: 3} {
		m := New(dtype.Float32, Style{Order: order}, 1)
		if got := mustRun(t, m, x.call(dtype.Float32))["output"].At(0, 0); got != want {
			t.Errorf("argmax in order %d = %v, want %v", order, got, want)
		}
	}
	x.attrs["ties"] = "first"
	m := New(dtype.Float32, Style{Order: Reversed}, 1)
	if got := mustRun(t, m, x.call(dtype.Float32))["output"].At(0, 0); got != 1 {
		t.Errorf("first argmax = %v, want 1", got)
	}
}

// TestSelectionsDoNotRound: float64 values that are equal in float32 stay apart on a float32 machine.
func TestSelectionsDoNotRound(t *testing.T) {
	a, b := 1.0, 1+0x1p-40
	arg := reduced("", "argmax", nil, vec(a, b, a), 1)
	top := example{"", "topk", opspec.Attrs{"k": int64(1)}, map[string]lit{"input": of(vec(a, b, a), 1, 3)},
		map[string]lit{"values": of(vec(b), 1, 1), "indices": of(vec(1), 1, 1)}}
	for _, x := range []example{arg, top} {
		for _, s := range Styles() {
			for name, got := range mustRun(t, New(dtype.Float32, s, 1), x.call(dtype.Float64)) {
				if got.Float64s()[0] != x.want[name].x[0] {
					t.Errorf("%s %s: %s = %v, want %v", s.Name, x.op, name, got.Float64s(), x.want[name].x)
				}
			}
		}
	}
}

// TestRoundIntermediates: swiglu of a gate whose silu is not a float16.
func TestRoundIntermediates(t *testing.T) {
	x := example{"", "swiglu", nil, map[string]lit{"gate": of(vec(1), 1, 1, 1), "up": of(vec(3000), 1, 1, 1)},
		map[string]lit{"output": of(vec(0), 1, 1, 1)}}
	silu := float64(float32(1 / (1 + math.Exp(-1))))
	for round, want := range map[bool]float64{
		false: dtype.Float16.Float64(dtype.Float16.Bits(float64(float32(silu * 3000)))),
		true:  dtype.Float16.Float64(dtype.Float16.Bits(dtype.Float16.Float64(dtype.Float16.Bits(silu)) * 3000)),
	} {
		m := New(dtype.Float32, Style{RoundIntermediates: round}, 1)
		got := mustRun(t, m, x.call(dtype.Float16))["output"].At(0, 0, 0)
		if got != want {
			t.Errorf("swiglu with rounding %v = %v, want %v", round, got, want)
		}
	}
}

// TestStableForms: AltNorm gives limits where the written formulas give NaN or overflow.
func TestStableForms(t *testing.T) {
	ninf := math.Inf(-1)
	for _, x := range []struct {
		plain, stable example
	}{
		{row3("", "gelu", nil, vec(ninf, -1), vec(nan, -0.158655)), row3("", "gelu", nil, vec(ninf, -1), vec(0, -0.158655))},
		{row3("", "gelu_tanh", nil, vec(ninf), vec(nan)), row3("", "gelu_tanh", nil, vec(ninf), vec(0))},
		{row3("", "silu", nil, vec(ninf), vec(nan)), row3("", "silu", nil, vec(ninf), vec(0))},
		{reduced("", "logsumexp", nil, vec(1, inf), nan), reduced("", "logsumexp", nil, vec(1, inf), inf)},
		{row3("", "softplus", opspec.Attrs{"threshold": 1e4}, vec(1, 800), vec(1.313262, inf)),
			row3("", "softplus", opspec.Attrs{"threshold": 1e4}, vec(1, 800), vec(1.313262, 800))},
	} {
		x.plain.check(t, Style{}, dtype.Float32, "gpu")
		x.plain.check(t, Style{}, dtype.Float64, "gpu")
		x.stable.check(t, Style{Variant: AltNorm}, dtype.Float32, "gpu")
		x.stable.check(t, Style{Variant: AltNorm}, dtype.Float64, "gpu")
	}
}
