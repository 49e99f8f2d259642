package compare

import (
	"math"
	"slices"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

// one compares a single element.
func one(t *testing.T, d dtype.DType, got uint64, w *Want, opt Options) *Report {
	t.Helper()
	out := tensor.New(d, tensor.MustShape(1))
	d.Store(out.Data, got)
	w.DType, w.Shape = d, tensor.MustShape(1)
	rep, err := Compare(out, w, opt)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// TestOverflowRule is the rule next to the overflow threshold: within its bound both the largest finite value and
// overflow are right.
func TestOverflowRule(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	f16, e4, e5 := dtype.Float16, dtype.Float8E4M3FN, dtype.Float8E5M2
	for _, c := range []struct {
		name  string
		d     dtype.DType
		got   float64
		want  float64
		bound float64
		sat   bool
		kind  Kind
	}{
		{"below threshold", f16, inf, 65503, 16, false, UnexpectedInf},
		{"at threshold", f16, inf, 65504, 16, false, Overflowed},
		{"beyond", f16, inf, 70000, 0, false, Overflowed},
		{"wrong sign", f16, -inf, 70000, 1, false, UnexpectedInf},
		{"negative", f16, -inf, -70000, 1, false, Overflowed},
		{"interval reaches the other end", f16, -inf, 0.5, 70000, false, Overflowed},
		{"interval reaches one end only", f16, -inf, 60000, 70000, false, UnexpectedInf},
		{"finite near", f16, 65504, 65519, 16, false, Accepted},
		{"finite beyond its bound", f16, 65504, 70000, 16, false, BeyondBound},
		{"nan is no overflow", f16, nan, 70000, 16, false, UnexpectedNaN},
		{"saturating wants the largest", f16, 65504, 70000, 0, true, Accepted},
		{"saturating infinity", f16, 65504, inf, 0, true, Accepted},
		{"saturating negative infinity", f16, -65504, -inf, 5, true, Accepted},
		{"saturating infinity is exact", f16, 65472, inf, 100, true, BeyondBound},
		{"saturating forbids infinity", f16, inf, 70000, 0, true, UnexpectedInf},
		{"saturating nan", f16, nan, nan, 0, true, MatchedNaN},
		{"e4m3 overflow is nan", e4, nan, 464, 0, false, Overflowed},
		{"e4m3 negative overflow", e4, nan, -500, 0, false, Overflowed},
		{"e4m3 below", e4, nan, 463, 0.5, false, UnexpectedNaN},
		{"e4m3 infinity is nan", e4, nan, inf, 0, false, MatchedInf},
		{"e4m3 finite for infinity", e4, 448, inf, 0, false, MissingInf},
		{"e4m3 saturating", e4, 448, 1e9, 0, true, Accepted},
		{"e4m3 saturating nan", e4, nan, 1e9, 0, true, UnexpectedNaN},
		{"e5m2", e5, inf, 61440, 0, false, Overflowed},
		{"float64", dtype.Float64, inf, math.MaxFloat64, math.MaxFloat64 / 100, false, Overflowed},
		{"float64 small bound", dtype.Float64, inf, math.MaxFloat64, 1, false, UnexpectedInf},
		{"infinite bound", f16, 3, 70, inf, false, Accepted},
		{"infinite bound and inf", f16, inf, 70, inf, false, Overflowed},
		{"infinite bound and nan", f16, nan, 70, inf, false, UnexpectedNaN},
		{"inf for inf", f16, inf, inf, 0, false, MatchedInf},
		{"other inf", f16, -inf, inf, 0, false, OppositeInf},
		{"nan for inf", f16, nan, inf, 0, false, UnexpectedNaN},
		{"inf for nan", f16, inf, nan, 0, false, MissingNaN},
		{"bad bound of a wanted nan is not looked at", f16, nan, nan, nan, false, MatchedNaN},
	} {
		w := &Want{Value: []float64{c.want}, Bound: []float64{c.bound}, Saturating: c.sat}
		rep := one(t, c.d, c.d.Bits(c.got), w, DefaultOptions())
		if rep.Counts.Of[c.kind] != 1 {
			t.Errorf("%s: got %v, want %v, bound %v: counts %v, want %v", c.name, c.got, c.want, c.bound, rep.Counts.Of, c.kind)
		}
	}
}

func TestNonFiniteOptions(t *testing.T) {
	d := dtype.Float32
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		name      string
		got, want float64
		marked    bool
		opt       func(o *Options)
		verdict   Verdict
		kind      Kind
		ignored   int
	}{
		{"nan unchecked", nan, 1, false, func(o *Options) { o.CheckNaN = false }, Pass, UnexpectedNaN, 1},
		{"nan unchecked, inf is", inf, 1, false, func(o *Options) { o.CheckNaN = false }, Fail, UnexpectedInf, 0},
		{"inf unchecked", inf, 1, false, func(o *Options) { o.CheckInf = false }, Pass, UnexpectedInf, 1},
		{"missing nan is never unchecked", 1, nan, false, func(o *Options) { o.CheckNaN, o.CheckInf = false, false },
			Fail, MissingNaN, 0},
		{"missing inf is never unchecked", 1, inf, false, func(o *Options) { o.CheckInf = false }, Fail, MissingInf, 0},
		{"forbid beats unchecked", nan, 1, false, func(o *Options) { o.CheckNaN, o.NonFinite = false, Forbid },
			Fail, UnexpectedNaN, 0},
		{"forbid a match", nan, nan, false, func(o *Options) { o.NonFinite = Forbid }, Fail, Forbidden, 0},
		{"forbid undetermined", inf, 1, true, func(o *Options) { o.NonFinite = Forbid }, Fail, Forbidden, 0},
		{"forbid, undetermined and finite", 5, 1, true, func(o *Options) { o.NonFinite = Forbid },
			Undecided, NotDetermined, 0},
		{"undetermined", inf, 1, true, func(*Options) {}, Undecided, NotDetermined, 0},
		{"match", nan, nan, false, func(*Options) {}, Pass, MatchedNaN, 0},
	} {
		opt := DefaultOptions()
		c.opt(&opt)
		rep := one(t, d, d.Bits(c.got), &Want{Value: []float64{c.want}, Undetermined: []bool{c.marked}}, opt)
		if rep.Verdict != c.verdict || rep.Counts.Of[c.kind] != 1 || rep.Counts.Ignored != c.ignored {
			t.Errorf("%s: %v %+v, want %v %v", c.name, rep.Verdict, rep.Counts, c.verdict, c.kind)
		}
	}
}

// TestIntegers checks that 64-bit neighbours which are one float64 stay apart.
func TestIntegers(t *testing.T) {
	i64, u64 := dtype.Int64, dtype.Uint64
	big53 := uint64(1)<<53 + 1
	exact := func(d dtype.DType, bits uint64) *tensor.Tensor {
		e := tensor.New(d, tensor.MustShape(1))
		d.Store(e.Data, bits)
		return e
	}
	minInt := uint64(1) << 63
	for _, c := range []struct {
		name  string
		d     dtype.DType
		got   uint64
		want  *Want
		kind  Kind
		ulp   uint64
		value float64
	}{
		{"value 2^53, got 2^53+1", i64, big53, &Want{Value: []float64{1 << 53}}, BeyondBound, 1, 1},
		{"exact", i64, big53, &Want{Exact: exact(i64, big53-1)}, BeyondBound, 1, 1},
		{"exact equal", i64, big53, &Want{Exact: exact(i64, big53)}, Accepted, 0, 0},
		{"exact of another width", i64, 7, &Want{Exact: exact(dtype.Int8, 7)}, Accepted, 0, 0},
		{"bound 1", i64, big53, &Want{Exact: exact(i64, big53-1), Bound: []float64{1}}, Accepted, 1, 1},
		{"bound 1.5, off by 2", i64, big53 + 1, &Want{Exact: exact(i64, big53-1), Bound: []float64{1.5}}, BeyondBound, 2, 2},
		{"uint64 largest", u64, math.MaxUint64, &Want{Exact: exact(u64, math.MaxUint64-1)}, BeyondBound, 1, 1},
		{"uint64 against int64", u64, 1, &Want{Exact: exact(i64, math.MaxUint64)}, BeyondBound, 1, 2},
		{"widest difference", u64, math.MaxUint64, &Want{Exact: exact(i64, minInt)}, BeyondBound, math.MaxUint64, 0x1.8p64},
		{"saturating", i64, 1<<63 - 1, &Want{Value: []float64{1e30}, Saturating: true}, Accepted, 0, 0},
		{"saturating low", i64, minInt, &Want{Value: []float64{math.Inf(-1)}, Saturating: true}, Accepted, 0, 0},
		{"saturating unsigned", u64, 0, &Want{Value: []float64{-7}, Saturating: true}, Accepted, 0, 0},
		{"saturating bool", dtype.Bool, 1, &Want{Value: []float64{5}, Saturating: true}, Accepted, 0, 0},
		{"nan", i64, 0, &Want{Value: []float64{math.NaN()}}, MissingNaN, 0, 0},
		{"halfway", i64, 3, &Want{Value: []float64{2.5}, Bound: []float64{0.5}}, Accepted, 1, 0.5},
		{"fraction", i64, 3, &Want{Value: []float64{2.4}, Bound: []float64{0.5}}, BeyondBound, 1, 0.6},
		{"int8 wrap", dtype.Int8, 0x80, &Want{Value: []float64{128}}, BeyondBound, 255, 256},
		{"bool byte 2 is true", dtype.Bool, 2, &Want{Value: []float64{1}}, Accepted, 0, 0},
		{"bool", dtype.Bool, 0, &Want{Exact: exact(dtype.Bool, 1)}, BeyondBound, 1, 1},
	} {
		rep := one(t, c.d, c.got, c.want, DefaultOptions())
		if rep.Counts.Of[c.kind] != 1 || rep.Stats.MaxULP != c.ulp || math.Abs(rep.Stats.MaxAbs-c.value) > 1e-15*c.value {
			t.Errorf("%s: kinds %v, ulp %d, abs %v, want %v, %d, %v", c.name, rep.Counts.Of, rep.Stats.MaxULP,
				rep.Stats.MaxAbs, c.kind, c.ulp, c.value)
		}
	}
	rep := one(t, i64, big53, &Want{Value: []float64{1 << 53}}, DefaultOptions())
	if e := rep.Worst.Abs[0]; e.GotText != "9007199254740993" || e.WantText != "9007199254740992" {
		t.Errorf("texts = %s, %s, want exact integers", e.GotText, e.WantText)
	}
}

func TestWantDType(t *testing.T) {
	// A reference that replied in float16 may be half an ulp off: 2^-11 at 1.
	opt := DefaultOptions()
	opt.Regime, opt.Tol = Fixed, Tolerance{}
	d := dtype.Float32
	w := func() *Want { return &Want{Value: []float64{1}} }
	got := d.Bits(1 + 0x1p-11)
	if rep := one(t, d, got, w(), opt); rep.Verdict != Fail {
		t.Errorf("without WantDType: %v, want fail", rep.Verdict)
	}
	opt.WantDType = dtype.Float16
	if rep := one(t, d, got, w(), opt); rep.Verdict != Pass || rep.Stats.MaxRatio != 1 {
		t.Errorf("with WantDType: %v ratio %v, want pass at the bound", rep.Verdict, rep.Stats.MaxRatio)
	}
	if rep := one(t, d, d.Bits(1+0x1.1p-11), w(), opt); rep.Verdict != Fail {
		t.Errorf("beyond half an ulp: %v, want fail", rep.Verdict)
	}
}

func TestTies(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name  string
		ties  Ties
		want  []float64
		got   []float64
		kinds []Kind
	}{
		{"argmax equal", Ties{Rows: 1, K: 1, N: 4, Score: []float64{1, 3, 3, 2}}, []float64{1}, []float64{2},
			[]Kind{Accepted}},
		{"argmax wrong", Ties{Rows: 1, K: 1, N: 4, Score: []float64{1, 3, 3, 2}, Ordered: true}, []float64{1}, []float64{3},
			[]Kind{BeyondBound}},
		{"slack", Ties{Rows: 1, K: 1, N: 2, Score: []float64{1, 3}, Slack: []float64{1, 1}, Ordered: true}, []float64{1},
			[]float64{0}, []Kind{Accepted}},
		{"too little slack", Ties{Rows: 1, K: 1, N: 2, Score: []float64{1, 3}, Slack: []float64{1, 0.5}, Ordered: true},
			[]float64{1}, []float64{0}, []Kind{BeyondBound}},
		{"out of range", Ties{Rows: 2, K: 1, N: 2, Score: []float64{1, 3, 1, 3}}, []float64{1, 1}, []float64{2, -1},
			[]Kind{OutOfRange, OutOfRange}},
		{"nan is highest", Ties{Rows: 1, K: 1, N: 3, Score: []float64{1, nan, nan}, Ordered: true}, []float64{1},
			[]float64{2}, []Kind{Accepted}},
		{"nan is missed", Ties{Rows: 1, K: 1, N: 3, Score: []float64{1, nan, math.Inf(1)}}, []float64{1}, []float64{2},
			[]Kind{BeyondBound}},
		{"infinite slack", Ties{Rows: 1, K: 1, N: 2, Score: []float64{1, 3}, Slack: []float64{0, math.Inf(1)}, Ordered: true},
			[]float64{1}, []float64{0}, []Kind{Accepted}},
		{"top-k duplicate", Ties{Rows: 1, K: 2, N: 3, Score: []float64{5, 5, 1}, Distinct: true, Ordered: true},
			[]float64{0, 1}, []float64{1, 1}, []Kind{Accepted, Duplicate}},
		{"top-k other order of ties", Ties{Rows: 1, K: 2, N: 3, Score: []float64{5, 5, 1}, Distinct: true, Ordered: true},
			[]float64{0, 1}, []float64{1, 0}, []Kind{Accepted, Accepted}},
		{"top-k unsorted, ordered", Ties{Rows: 1, K: 2, N: 3, Score: []float64{5, 4, 1}, Distinct: true, Ordered: true},
			[]float64{0, 1}, []float64{1, 0}, []Kind{BeyondBound, Accepted}},
		{"top-k as a set", Ties{Rows: 1, K: 2, N: 3, Score: []float64{5, 4, 1}, Distinct: true},
			[]float64{0, 1}, []float64{1, 0}, []Kind{Accepted, Accepted}},
		{"set misses the best", Ties{Rows: 1, K: 2, N: 4, Score: []float64{10, 1, 1, 1}, Distinct: true},
			[]float64{0, 1}, []float64{1, 2}, []Kind{BeyondBound, BeyondBound}},
		{"set with a tie at the end", Ties{Rows: 1, K: 2, N: 4, Score: []float64{10, 1, 1, 1}, Distinct: true},
			[]float64{0, 1}, []float64{3, 0}, []Kind{Accepted, Accepted}},
		{"set of all", Ties{Rows: 1, K: 2, N: 2, Score: []float64{10, 1}, Distinct: true},
			[]float64{0, 1}, []float64{1, 0}, []Kind{Accepted, Accepted}},
	} {
		shape := tensor.MustShape(c.ties.Rows, c.ties.K)
		for _, d := range []dtype.DType{dtype.Int64, dtype.Int32} {
			ties := c.ties
			w := &Want{DType: d, Shape: shape, Value: c.want, Ties: &ties}
			rep, err := Compare(tensor.FromFloat64s(d, shape, c.got), w, DefaultOptions())
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			var counts [kinds]int
			for _, k := range c.kinds {
				counts[k]++
			}
			if rep.Counts.Of != counts {
				t.Errorf("%s: kinds %v, want %v", c.name, rep.Counts.Of, counts)
			}
			quick, err := Quick(tensor.FromFloat64s(d, shape, c.got), w, DefaultOptions())
			if err != nil || quick.Counts != rep.Counts || quick.Verdict != rep.Verdict {
				t.Errorf("%s: Quick = %+v, %v, want %+v", c.name, quick, err, rep.Counts)
			}
		}
	}
}

// TestTiesAgainstSorting checks random rows: a correct top-k of perturbed scores is always accepted, one with an index
// from clearly below never.
func TestTiesAgainstSorting(t *testing.T) {
	r := newRand(11)
	for c := range 2000 {
		n := 2 + r.IntN(20)
		k := 1 + r.IntN(n)
		ties := &Ties{Rows: 1, K: k, N: n, Score: make([]float64, n), Slack: make([]float64, n), Distinct: true,
			Ordered: r.IntN(2) == 0}
		noisy := make([]float64, n)
		for i := range noisy {
			ties.Score[i], ties.Slack[i] = float64(r.IntN(6)), float64(r.IntN(3))*0.3
			noisy[i] = ties.Score[i] + ties.Slack[i]*(2*r.Float64()-1)
		}
		order := func(score []float64) []float64 {
			idx := make([]int, n)
			for i := range idx {
				idx[i] = i
			}
			slices.SortFunc(idx, func(x, y int) int {
				if score[x] != score[y] {
					return map[bool]int{true: -1, false: 1}[score[x] > score[y]]
				}
				return x - y
			})
			out := make([]float64, k)
			for j := range out {
				out[j] = float64(idx[j])
			}
			return out
		}
		want, got := order(ties.Score), order(noisy)
		if !ties.Ordered {
			r.Shuffle(k, func(i, j int) { got[i], got[j] = got[j], got[i] })
		}
		shape := tensor.MustShape(k)
		w := &Want{DType: dtype.Int64, Shape: shape, Value: want, Ties: ties}
		rep, err := Compare(tensor.FromFloat64s(dtype.Int64, shape, got), w, DefaultOptions())
		if err != nil || rep.Verdict != Pass {
			t.Fatalf("case %d: honest top-k: %v %v, want pass", c, rep, err)
		}
		if k == n {
			continue
		}
		// Replace the best by one that nothing excuses.
		best := int(want[0])
		for i := range n {
			taken := slices.Contains(got, float64(i))
			if !taken && ties.Score[i]+ties.Slack[i] < ties.Score[best]-ties.Slack[best] {
				bad := slices.Clone(got)
				at := slices.Index(bad, float64(best))
				if at < 0 {
					break
				}
				bad[at] = float64(i)
				rep, err := Compare(tensor.FromFloat64s(dtype.Int64, shape, bad), w, DefaultOptions())
				if err != nil || rep.Verdict != Fail {
					t.Fatalf("case %d: top-k without its best: %v %v, want fail", c, rep, err)
				}
				break
			}
		}
	}
}

func TestBadTies(t *testing.T) {
	shape := tensor.MustShape(2, 1)
	for name, ties := range map[string]*Ties{
		"rows":           {Rows: 3, K: 1, N: 2, Score: make([]float64, 6)},
		"negative":       {Rows: -1, K: 1, N: 2},
		"scores":         {Rows: 2, K: 1, N: 2, Score: make([]float64, 3)},
		"slacks":         {Rows: 2, K: 1, N: 2, Score: make([]float64, 4), Slack: make([]float64, 3)},
		"negative slack": {Rows: 2, K: 1, N: 2, Score: make([]float64, 4), Slack: []float64{0, 0, -1, 0}},
		"nan slack":      {Rows: 2, K: 1, N: 2, Score: make([]float64, 4), Slack: []float64{0, 0, math.NaN(), 0}},
		"none to take":   {Rows: 2, K: 1, N: 0, Distinct: true},
		"wanted index":   {Rows: 2, K: 1, N: 1, Score: make([]float64, 2)},
	} {
		w := &Want{DType: dtype.Int64, Shape: shape, Value: []float64{0, 1}, Ties: ties}
		if rep, err := Compare(tensor.New(dtype.Int64, shape), w, DefaultOptions()); err == nil {
			t.Errorf("%s: Compare = %+v, want an error", name, rep)
		}
	}
}
