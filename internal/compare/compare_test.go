package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
	"gpuemu/internal/testkit"
)

// specials are the float64 values around which formats and rules change.
func specials(d dtype.DType) []float64 {
	vals := []float64{0, math.Copysign(0, -1), 1, -1, 0.1, 1e-30, math.Inf(1), math.Inf(-1), math.NaN(),
		d.MaxFinite(), d.SmallestNormal(), d.SmallestSubnormal()}
	if t := d.OverflowThreshold(); t <= math.MaxFloat64 {
		vals = append(vals, t, math.Nextafter(t, 0), math.Nextafter(t, math.Inf(1)), 2*t)
	}
	for _, v := range slices.Clone(vals) {
		vals = append(vals, -v, v*1.0001)
	}
	return vals
}

// normal returns a roughly normal number. math/rand's own may be computed with fused operations, which would make the
// data differ between CPUs.
func normal(r *rand.Rand) float64 {
	return 2 * (r.Float64() + r.Float64() + r.Float64() - r.Float64() - r.Float64() - r.Float64())
}

// draw returns a value near a base: the same, a few ulps away, or something else altogether.
func draw(r *rand.Rand, d dtype.DType, near float64) float64 {
	switch r.IntN(8) {
	case 0:
		s := specials(d)
		return s[r.IntN(len(s))]
	case 1:
		return normal(r) * math.Ldexp(1, r.IntN(40)-20)
	case 2:
		return -near
	case 3, 4:
		return near * (1 + float64(float64(r.IntN(9)-4)*d.UnitRoundoff()))
	case 5:
		return near * (1 + float64(normal(r)*1e-3))
	}
	return near
}

// randomCase makes an output and what is wanted of it. All features occur with some probability.
func randomCase(r *rand.Rand, d dtype.DType) (*tensor.Tensor, *Want, Options) {
	shape := tensor.MustShape(1+r.IntN(4), 1+r.IntN(5), 1+r.IntN(40))
	n := shape.Elems()
	vals := make([]float64, n)
	got := tensor.New(d, shape)
	raw := got.Bytes()
	for i := range vals {
		vals[i] = draw(r, d, 1+r.Float64())
		if d.IsInteger() && r.IntN(4) > 0 {
			vals[i] = math.Floor(vals[i] * math.Ldexp(1, r.IntN(64)))
		}
		if d.IsInteger() && d.Size() == 8 && math.Abs(vals[i]) <= math.MaxFloat64 {
			// Integers below 2^64 have exact distances; others are rounded twice, see TestIntegers.
			vals[i] = math.Floor(min(vals[i], 0x1.fffffffffffffp63))
			vals[i] = max(vals[i], -0x1.fffffffffffffp63)
		}
		d.Store(raw[i*d.Size():], d.Bits(draw(r, d, vals[i])))
		if r.IntN(50) == 0 {
			d.Store(raw[i*d.Size():], r.Uint64())
		}
	}
	w := &Want{DType: d, Shape: shape, Value: vals, Saturating: r.IntN(4) == 0}
	opt := DefaultOptions()
	opt.CheckNaN, opt.CheckInf = r.IntN(4) > 0, r.IntN(4) > 0
	if r.IntN(4) == 0 {
		opt.NonFinite = Forbid
	}
	if r.IntN(3) == 0 {
		w.Undetermined = make([]bool, n)
		for i := range w.Undetermined {
			w.Undetermined[i] = r.IntN(8) == 0
		}
	}
	switch r.IntN(4) {
	case 0:
		opt.Regime, opt.Tol = Fixed, Tolerance{math.Ldexp(r.Float64(), -r.IntN(30)), math.Ldexp(r.Float64(), -r.IntN(30))}
	case 1:
		w.Bound = make([]float64, n)
		for i := range w.Bound {
			w.Bound[i] = math.Ldexp(r.Float64(), r.IntN(60)-50) * math.Abs(vals[i])
			if math.IsNaN(w.Bound[i]) || r.IntN(10) == 0 {
				w.Bound[i] = float64(r.IntN(2))
			}
		}
	case 2:
		opt.WantDType = dtype.Floats()[r.IntN(6)]
	}
	switch {
	case d.IsFloat() && r.IntN(3) == 0:
		w.Stored, w.Value = tensor.FromFloat64s(dtype.Floats()[r.IntN(6)], shape, vals), nil
	case !d.IsFloat() && r.IntN(2) == 0:
		ints := dtype.All()[6:]
		w.Exact, w.Value = tensor.FromFloat64s(ints[r.IntN(len(ints))], shape, vals), nil
	}
	return spread(r, got), w, opt
}

// spread moves an output into another layout with the same elements.
func spread(r *rand.Rand, t *tensor.Tensor) *tensor.Tensor {
	if r.IntN(2) == 0 {
		return t
	}
	layouts := []tensor.Layout{tensor.Strided, tensor.Transposed, tensor.Sliced}
	out, err := tensor.Allocate(t.DType, t.Shape, layouts[r.IntN(len(layouts))], tensor.LayoutParams{})
	if err != nil {
		panic(err)
	}
	out.SetBytes(t.Bytes())
	return out
}

func TestCompareAgainstNaive(t *testing.T) {
	testkit.ValuesOnly(t)
	for _, d := range dtype.All() {
		t.Run(d.String(), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, uint64(d)))
			for c := range 250 {
				got, want, opt := randomCase(r, d)
				checkAgainstNaive(t, fmt.Sprintf("case %d", c), got, want, opt)
				if t.Failed() {
					t.Fatalf("case %d: regime %v", c, opt.Regime)
				}
			}
		})
	}
}

func checkAgainstNaive(t *testing.T, name string, got *tensor.Tensor, want *Want, opt Options) {
	t.Helper()
	rep, err := Compare(got, want, opt)
	if err != nil {
		t.Fatalf("%s: Compare = %v", name, err)
	}
	second := naive(got, want, opt)
	if rep.Verdict != second.verdict || rep.Counts != second.counts {
		t.Errorf("%s: Compare = %v %+v, want %v %+v", name, rep.Verdict, rep.Counts, second.verdict, second.counts)
		return
	}
	checkStats(t, name, rep, second)
	checkWorst(t, name, rep, second)
	checkMap(t, name, rep, second)
	quick, err := Quick(got, want, opt)
	if err != nil {
		t.Fatalf("%s: Quick = %v", name, err)
	}
	s := rep.Stats
	wantStats := Stats{Count: s.Count, MaxAbs: s.MaxAbs, MaxRel: s.MaxRel, MaxULP: s.MaxULP, MaxRatio: s.MaxRatio}
	if quick.Verdict != rep.Verdict || quick.Counts != rep.Counts || quick.Stats != wantStats {
		t.Errorf("%s: Quick = %v %+v %+v, want %v %+v %+v", name, quick.Verdict, quick.Counts, quick.Stats,
			rep.Verdict, rep.Counts, wantStats)
	}
}

func checkStats(t *testing.T, name string, rep *Report, second naiveReport) {
	t.Helper()
	var abs []float64
	var want Stats
	var sumAbs, sumRel, sumULP float64
	for _, e := range second.elements {
		if !e.finite {
			continue
		}
		want.Count++
		abs = append(abs, e.abs)
		sumAbs += e.abs / float64(len(second.elements)) // in parts, so as not to overflow before the division
		want.MaxAbs = math.Max(want.MaxAbs, e.abs)
		want.MaxULP = max(want.MaxULP, e.ulp)
		want.MaxRatio = math.Max(want.MaxRatio, e.ratio)
		want.MaxWant = math.Max(want.MaxWant, math.Abs(e.want))
		sumULP += float64(e.ulp)
		if e.hasRel {
			want.RelCount++
			want.MaxRel = math.Max(want.MaxRel, e.rel)
			sumRel += e.rel / float64(len(second.elements))
		}
	}
	got := rep.Stats
	slices.Sort(abs)
	for _, q := range []struct {
		name string
		q    float64
		got  *float64
	}{{"P50Abs", 0.5, &got.P50Abs}, {"P90Abs", 0.9, &got.P90Abs}, {"P99Abs", 0.99, &got.P99Abs}} {
		exact := 0.0
		if len(abs) > 0 {
			exact = abs[int(math.RoundToEven(q.q*float64(len(abs)-1)))]
		}
		if *q.got > exact || exact-*q.got > math.Max(exact/256, 0x1p-1030) {
			t.Errorf("%s: %s = %v, want %v less at most 1/256", name, q.name, *q.got, exact)
		}
		*q.got = 0
	}
	total := float64(len(second.elements))
	for _, m := range []struct {
		name  string
		got   *float64
		sum   float64
		count int
	}{{"MeanAbs", &got.MeanAbs, sumAbs * total, want.Count}, {"MeanRel", &got.MeanRel, sumRel * total, want.RelCount},
		{"MeanULP", &got.MeanULP, sumULP, want.Count}} {
		mean := math.Min(m.sum, math.MaxFloat64) / math.Max(1, float64(m.count))
		if math.Abs(*m.got-mean) > 1e-12*mean+0x1p-1060 {
			t.Errorf("%s: %s = %v, want %v", name, m.name, *m.got, mean)
		}
		*m.got = 0
	}
	if got != want {
		t.Errorf("%s: stats = %+v, want %+v", name, got, want)
	}
}

func checkWorst(t *testing.T, name string, rep *Report, second naiveReport) {
	t.Helper()
	at := func(idx []int) int {
		p := 0
		for k, i := range idx {
			p = p*rep.Shape[k] + i
		}
		return p
	}
	for _, list := range []struct {
		name  string
		got   []Element
		value func(e naiveElement) float64
		own   func(e Element) float64
	}{
		{"abs", rep.Worst.Abs, func(e naiveElement) float64 { return e.abs }, func(e Element) float64 { return e.Abs }},
		{"rel", rep.Worst.Rel, func(e naiveElement) float64 { return e.rel }, func(e Element) float64 { return e.Rel }},
		{"ulp", rep.Worst.ULP, func(e naiveElement) float64 { return float64(e.ulp) },
			func(e Element) float64 { return float64(e.ULP) }},
		{"ratio", rep.Worst.Ratio, func(e naiveElement) float64 { return e.ratio },
			func(e Element) float64 { return e.Ratio }},
	} {
		var order []int
		for i, e := range second.elements {
			if e.finite && list.value(e) > 0 {
				order = append(order, i)
			}
		}
		slices.SortStableFunc(order, func(x, y int) int {
			ex, ey := second.elements[x], second.elements[y]
			switch {
			case ex.wrong != ey.wrong:
				return map[bool]int{true: -1, false: 1}[ex.wrong]
			case list.value(ex) != list.value(ey):
				return map[bool]int{true: -1, false: 1}[list.value(ex) > list.value(ey)]
			}
			return x - y
		})
		order = order[:min(len(order), DefaultWorst)]
		var got []int
		for _, e := range list.got {
			i := at(e.Index)
			got = append(got, i)
			if s := second.elements[i]; list.own(e) != list.value(s) || e.Wrong != s.wrong || e.Kind != s.kind {
				t.Errorf("%s: worst %s at %v = %+v, want %+v", name, list.name, e.Index, e, s)
			}
		}
		if !slices.Equal(got, order) {
			t.Errorf("%s: worst %s at %v, want %v", name, list.name, got, order)
		}
	}
	var class []int
	for i, e := range second.elements {
		if e.wrong && !e.finite && len(class) < DefaultWorst {
			class = append(class, i)
		}
	}
	var got []int
	for _, e := range rep.Worst.Class {
		got = append(got, at(e.Index))
	}
	if !slices.Equal(got, class) {
		t.Errorf("%s: first class mismatches at %v, want %v", name, got, class)
	}
}

func checkMap(t *testing.T, name string, rep *Report, second naiveReport) {
	t.Helper()
	if (rep.Map != nil) != (second.counts.Mismatched > 0) {
		t.Fatalf("%s: map is %v with %d mismatches", name, rep.Map, second.counts.Mismatched)
	}
	if rep.Map == nil {
		return
	}
	m := rep.Map
	wrong, size := make([]int, len(m.Wrong)), make([]int, len(m.Wrong))
	for i, idx := range indexes(rep.Shape) {
		row, col := 0, 0
		if k := len(idx); k >= 1 {
			col = idx[k-1]
			if k >= 2 {
				row = idx[k-2]
			}
		}
		cell := row*m.GridRows/m.Rows*m.GridCols + col*m.GridCols/m.Cols
		size[cell]++
		if second.elements[i].wrong {
			wrong[cell]++
		}
	}
	if !slices.Equal(m.Wrong, wrong) {
		t.Errorf("%s: map = %v, want %v", name, m.Wrong, wrong)
	}
	for c := range size {
		if got := m.Size(c/m.GridCols, c%m.GridCols); got != size[c] {
			t.Errorf("%s: Size of cell %d = %d, want %d", name, c, got, size[c])
		}
	}
}

// TestWorkers checks that a report of several segments does not depend on the number of workers.
func TestWorkers(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	shape := tensor.MustShape(5, segmentElems/4+17)
	vals := make([]float64, shape.Elems())
	for i := range vals {
		vals[i] = normal(r)
	}
	for _, d := range []dtype.DType{dtype.Float32, dtype.BFloat16, dtype.Int64} {
		got := tensor.New(d, shape)
		raw := got.Bytes()
		for i, v := range vals {
			if d == dtype.Int64 {
				v = math.Floor(v * 1000)
				vals[i] = v
			}
			d.Store(raw[i*d.Size():], d.Bits(v*(1+float64(normal(r)*1e-6))))
		}
		want := &Want{DType: d, Shape: shape, Value: vals}
		var first *Report
		for workers := 1; workers <= 5; workers++ {
			opt := DefaultOptions()
			opt.Workers = workers
			rep, err := Compare(got, want, opt)
			if err != nil {
				t.Fatal(err)
			}
			quick, err := Quick(got, want, opt)
			if err != nil {
				t.Fatal(err)
			}
			if quick.Stats.MaxAbs != rep.Stats.MaxAbs || quick.Counts != rep.Counts {
				t.Errorf("%v: Quick = %+v, Compare = %+v", d, quick.Stats, rep.Stats)
			}
			if first == nil {
				first = rep
			} else if !reflect.DeepEqual(rep, first) {
				t.Errorf("%v: report with %d workers = %+v, want %+v", d, workers, rep, first)
			}
		}
	}
}

// TestKernels checks the assembly against the Go kernels at all lengths around its rounds, on values of every class.
func TestKernels(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 5))
	for c := range 2000 {
		n := r.IntN(200) + 1
		if c%50 == 0 {
			n = chunkElems - r.IntN(9)
		}
		k := newKernelCase(r, n, c%3)
		k.check(t, fmt.Sprintf("case %d of %d", c, n))
	}
}

// TestKernelsWarm lets the maxima grow over many chunks, so that the kernel for two float32 buffers takes its fast way:
// each chunk must leave the state that the exact kernel leaves.
func TestKernelsWarm(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 5))
	for style := range 3 {
		for _, tol := range []Tolerance{{1e-5, 1e-5}, {0, 1e-6}, {1e-6, 0}, {0, 0}, {1, 1}} {
			var asm, pure quickState
			for i := range asm.atol {
				asm.atol[i], asm.rtol[i] = tol.Abs, tol.Rel
			}
			pure = asm
			for c := range 60 {
				k := newKernelCase(r, chunkElems, style)
				odd1, odd2 := make([]uint64, chunkElems/64), make([]uint64, chunkElems/64)
				quick32x32(k.got, k.want32, &asm, odd1)
				quick32x32Go(k.got, k.want32, &pure, odd2)
				t1, t2 := (&quickPass{fast: asm}).total(), (&quickPass{fast: pure}).total()
				if t1 != t2 || !slices.Equal(odd1, odd2) {
					t.Fatalf("style %d, %v, chunk %d: %+v, want %+v", style, tol, c, t1, t2)
				}
			}
		}
	}
}

// kernelCase is a chunk for the float32 kernels.
type kernelCase struct {
	got, want32 []byte
	want, bound []float64
	start       quickState
}

// newKernelCase draws a chunk. Style 0 holds every class of value, style 1 small errors at one magnitude, style 2 small
// errors at all magnitudes down to the subnormals.
func newKernelCase(r *rand.Rand, n, style int) *kernelCase {
	d := dtype.Float32
	k := &kernelCase{got: make([]byte, 4*n), want32: make([]byte, 4*n),
		want: make([]float64, n), bound: make([]float64, n)}
	for i := range k.want {
		w := normal(r)
		if style == 2 {
			w = math.Ldexp(w, r.IntN(276)-149)
		}
		if style == 0 {
			w = draw(r, d, w)
		}
		k.want[i] = w
		k.bound[i] = math.Ldexp(r.Float64(), r.IntN(60)-50)
		bits := d.Bits(w)
		d.Store(k.want32[4*i:], bits)
		if style > 0 {
			d.Store(k.got[4*i:], bits+uint64(r.IntN(3)))
			k.bound[i] = math.Abs(w) * 0x1p-20
			continue
		}
		d.Store(k.got[4*i:], d.Bits(draw(r, d, w)))
		if r.IntN(20) == 0 {
			k.bound[i] = []float64{0, math.Inf(1), math.NaN(), -1, math.MaxFloat64}[r.IntN(5)]
		}
		if r.IntN(30) == 0 {
			d.Store(k.got[4*i:], r.Uint64())
			d.Store(k.want32[4*i:], r.Uint64())
			k.want[i] = math.Float64frombits(r.Uint64())
		}
	}
	atol, rtol := 1e-5*float64(r.IntN(2)), 1e-5*float64(r.IntN(2))
	for i := range k.start.atol {
		k.start.atol[i], k.start.rtol[i] = atol, rtol
	}
	return k
}

// check runs each kernel in assembly and in Go.
func (k *kernelCase) check(t *testing.T, name string) {
	t.Helper()
	words := (len(k.want) + 63) / 64
	pair := func() (odd1, odd2 []uint64) {
		odd1, odd2 = make([]uint64, words), make([]uint64, words)
		for i := range odd1 {
			odd1[i] = ^uint64(0) // a kernel sets every word
		}
		return odd1, odd2
	}
	quick := func(kernel string, asm, pure func(s *quickState, odd []uint64)) {
		s1, s2 := k.start, k.start
		odd1, odd2 := pair()
		asm(&s1, odd1)
		pure(&s2, odd2)
		t1, t2 := (&quickPass{fast: s1}).total(), (&quickPass{fast: s2}).total()
		if t1 != t2 || !slices.Equal(odd1, odd2) {
			t.Fatalf("%s, %s: %+v %x, want %+v %x", name, kernel, t1, odd1, t2, odd2)
		}
	}
	quick("quick32x64", func(s *quickState, odd []uint64) { quick32x64(k.got, k.want, k.bound, s, odd) },
		func(s *quickState, odd []uint64) { quick32x64Go(k.got, k.want, k.bound, s, odd) })
	quick("quick32x32", func(s *quickState, odd []uint64) { quick32x32(k.got, k.want32, s, odd) },
		func(s *quickState, odd []uint64) { quick32x32Go(k.got, k.want32, s, odd) })
	var s1, s2 sweepState
	odd1, odd2 := pair()
	diff1, diff2 := make([]float64, len(k.want)), make([]float64, len(k.want))
	sweep32(k.got, k.want, k.bound, diff1, &s1, odd1)
	sweep32Go(k.got, k.want, k.bound, diff2, &s2, odd2)
	if !slices.Equal(odd1, odd2) || !slices.Equal(diff1, diff2) || s1.folded() != s2.folded() {
		t.Fatalf("%s, sweep32: %+v, want %+v", name, s1.folded(), s2.folded())
	}
}

// folded leaves of a state what does not depend on the lane of a maximum.
func (s sweepState) folded() sweepState {
	s.maxAbs = [4]float64{slices.Max(s.maxAbs[:])}
	s.maxRel = [4]float64{slices.Max(s.maxRel[:])}
	s.maxRatio = [4]float64{slices.Max(s.maxRatio[:])}
	s.maxWant = [4]float64{slices.Max(s.maxWant[:])}
	s.maxULP32 = [8]uint32{slices.Max(s.maxULP32[:])}
	return s
}
