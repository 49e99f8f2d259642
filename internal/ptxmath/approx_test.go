// This file implements the checks of the approximate instructions: specials, bounds, and the edges of the bounds.

package ptxmath

import (
	"math"
	"strings"
	"testing"

	"gpuemu/internal/testkit/recorded"
)

// approxOf is the instruction of a recorded form, and whether it flushes.
func approxOf(t testing.TB, name string) (a Approx, ftz bool) {
	table := map[string]Approx{
		"ex2.approx.f32": Ex2, "lg2.approx.f32": Lg2, "sin.approx.f32": Sin, "cos.approx.f32": Cos,
		"rcp.approx.f32": RcpApprox, "rsqrt.approx.f32": RsqrtApprox, "sqrt.approx.f32": SqrtApprox,
		"tanh.approx.f32": Tanh, "div.approx.f32": DivApprox, "div.full.f32": DivFull, "ex2.approx.f16": Ex2F16,
		"tanh.approx.f16": TanhF16, "ex2.approx.ftz.bf16": Ex2BF16, "tanh.approx.bf16": TanhBF16,
		"rcp.approx.ftz.f64": RcpF64, "rsqrt.approx.ftz.f64": RsqrtF64, "rsqrt.approx.f64": RsqrtWide,
	}
	a, ok := table[name]
	if !ok {
		a, ok = table[strings.Replace(name, ".ftz", "", 1)]
	}
	if !ok {
		t.Fatalf("%s is not a known approximation", name)
	}
	return a, strings.Contains(name, ".ftz")
}

// number is the value of a result's bits.
func (a Approx) number(d uint64) float64 {
	if a == RcpF64 || a == RsqrtF64 {
		return math.Float64frombits(d)
	}
	return a.value(d)
}

// inside reports whether a result is where the bound allows it: equal where the exact result is no finite number, and
// else at most so far away.
func (a Approx) inside(x, y, got uint64, ftz bool) bool {
	want, v := a.Eval(x, y, ftz), a.compute(x, y, ftz)
	bound := a.Bound(x, y)
	switch {
	case got == want:
		return true
	case v-v != 0:
		return false
	case ftz && bound.ULP > 0 && got&^sign32 == 0: // what may be one step below the normal numbers may be flushed
		return math.Abs(v) < 0x1.00001p-126
	case bound.ULP > 0:
		return got <= want+uint64(bound.ULP) && want <= got+uint64(bound.ULP)
	}
	return math.Abs(a.number(got)-v) <= max(bound.Abs, bound.Rel*math.Abs(v))*(1+0x1p-40)
}

// TestRecordedApproximations: the device stays inside the bounds around our results, and agrees on special values.
func TestRecordedApproximations(t *testing.T) {
	seen := 0
	eachForm(t, func(t *testing.T, r *recorded.Record, form *recorded.Form) {
		if form.Sample == nil {
			return
		}
		a, ftz := approxOf(t, form.Name)
		width := recorded.Classes[form.Result].Width
		m := recorded.NewMaker(r, form)
		faults := 0
		check := func(o *[4]uint64, got uint64) {
			if !a.inside(o[0], o[1], got, ftz) {
				if faults++; faults <= 8 {
					t.Errorf("%#x: %#x (%g), the device %#x (%g)", o[:len(m.Class)], a.Eval(o[0], o[1], ftz),
						a.number(a.Eval(o[0], o[1], ftz)), got, a.number(got))
				}
			}
		}
		i := 0
		m.Grid(r, func(o *[4]uint64) {
			check(o, recorded.Word(form.Edge, i, width))
			i++
		})
		total := r.First * 255
		if len(m.Class) == 1 && m.Class[0].Width <= 16 {
			total = 1 << 16
		}
		var o [4]uint64
		for i := range r.Sample {
			m.Tuple(&o, uint64(i*(total/r.Sample)))
			check(&o, recorded.Word(form.Sample, i, width))
		}
	})
	for _, form := range recorded.Load(t).Forms {
		if form.Sample != nil {
			seen++
		}
	}
	if seen < 20 {
		t.Errorf("the record has %d approximate instructions, too few", seen)
	}
}

// TestMeasuredErrors: over all arguments (for quotients, 2^30 pairs) no instruction of the device leaves its bound.
func TestMeasuredErrors(t *testing.T) {
	const ulps, relative, near, far, middle, outside, classes = 0, 1, 2, 3, 4, 5, 6
	r := recorded.Load(t)
	limits := map[Approx]map[int]float64{
		Ex2: {ulps: 2, classes: 0}, RcpApprox: {ulps: 1}, DivApprox: {ulps: 2, classes: 0}, DivFull: {ulps: 2, classes: 0},
		RsqrtApprox: {relative: bounds[RsqrtApprox].Rel}, SqrtApprox: {relative: bounds[SqrtApprox].Rel},
		Tanh: {relative: bounds[Tanh].Rel, classes: 0}, Sin: {near: circleNear, far: circleFar, classes: 0},
		Cos: {near: circleCosine, far: circleFar, classes: 0}, Lg2: {middle: 0x1p-22, outside: 0x1p-22},
	}
	if len(r.Errors) < 19 {
		t.Errorf("errors of %d instructions are recorded, want 19", len(r.Errors))
	}
	for name, stats := range r.Errors {
		a, ftz := approxOf(t, name)
		for i, limit := range limits[a] {
			// A quotient or reciprocal just above the smallest normal number may be flushed, 2^23 places away.
			if ftz && (a == DivApprox || a == DivFull) {
				continue
			}
			if stats[i] > limit {
				t.Errorf("%s: statistic %d is %g, the bound %g", name, i, stats[i], limit)
			}
		}
	}
}

// TestWorst: the edges of a bound lie inside it, on their sides, and are not always the result itself.
func TestWorst(t *testing.T) {
	for a := range numApprox {
		moved := 0
		for i := range uint64(20000) {
			r := recorded.Mix(i*recorded.Step + uint64(a))
			x, y := r, recorded.Mix(r)
			switch {
			case a.isF32():
				x, y = x&math.MaxUint32, y&math.MaxUint32
			case a < RcpF64:
				x &= math.MaxUint16
			}
			ftz := r>>40&1 != 0 && a.isF32()
			want := a.Eval(x, y, ftz)
			v := a.compute(x, y, ftz)
			for _, up := range []bool{false, true} {
				got := a.Worst(x, y, ftz, up)
				if got == want {
					continue
				}
				moved++
				if g := a.number(got); !a.inside(x, y, got, ftz) && !math.IsInf(g, 0) || up && g < v || !up && g > v {
					t.Fatalf("%d: Worst(%#x, %#x, %v, %v) is %#x, the result %#x", a, x, y, ftz, up, got, want)
				}
			}
		}
		if moved < 500 {
			t.Errorf("approximation %d: the edges differ from the result in %d of 40000 cases", a, moved)
		}
	}
}

// TestLanes compares all lanes of a warp at once with one after the other.
func TestLanes(t *testing.T) {
	for _, a := range []Approx{Ex2, Lg2, Sin, Cos, RcpApprox, RsqrtApprox, SqrtApprox, Tanh} {
		for _, ftz := range []bool{false, true} {
			for start := uint32(0); start < 1<<16; start += 32 {
				var d, x [32]uint32
				for i := range x {
					x[i] = (start + uint32(i)) * 0x10001
				}
				a.Lanes(&d, &x, ftz)
				for i := range x {
					if want := uint32(a.Eval(uint64(x[i]), 0, ftz)); d[i] != want {
						t.Fatalf("approximation %d of %#x, ftz %v: %#x in a warp, %#x alone", a, x[i], ftz, d[i], want)
					}
				}
			}
		}
	}
}
