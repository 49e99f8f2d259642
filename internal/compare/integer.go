// This file implements the comparison of integers as integers: 64-bit values do not survive float64.

package compare

import (
	"math"
	"math/bits"
	"strconv"

	"gpuemu/internal/dtype"
)

// whole is an integer of any dtype: a sign and a magnitude.
type whole struct {
	neg bool
	mag uint64
}

// wholeOf returns the value of a bit pattern of an integer dtype or bool.
func wholeOf(d dtype.DType, b uint64) whole {
	switch d {
	case dtype.Int8:
		return signed(int64(int8(b)))
	case dtype.Int16:
		return signed(int64(int16(b)))
	case dtype.Int32:
		return signed(int64(int32(b)))
	case dtype.Int64:
		return signed(int64(b))
	case dtype.Bool:
		return whole{mag: min(b&0xff, 1)}
	}
	return whole{mag: b}
}

func signed(v int64) whole {
	if v < 0 {
		return whole{true, -uint64(v)}
	}
	return whole{false, uint64(v)}
}

// minus returns |w - o|; huge says that it is 2^64 more than the number returned.
func (w whole) minus(o whole) (d uint64, huge bool) {
	if w.neg == o.neg {
		return max(w.mag, o.mag) - min(w.mag, o.mag), false
	}
	d, carry := bits.Add64(w.mag, o.mag, 0)
	return d, carry != 0
}

func (w whole) float() float64 {
	if w.neg {
		return -float64(w.mag)
	}
	return float64(w.mag)
}

func (w whole) String() string {
	s := strconv.FormatUint(w.mag, 10)
	if w.neg {
		return "-" + s
	}
	return s
}

// wholeFloat returns the integer that v is, if it is one of magnitude below 2^64.
func wholeFloat(v float64) (whole, bool) {
	a := math.Abs(v)
	if !(a < 1<<64) || a != math.Floor(a) {
		return whole{}, false
	}
	return whole{v < 0, uint64(a)}, true
}

// integerAt is one element of an integer comparison.
type integerAt struct {
	got    whole
	want   float64 // nearest
	exact  whole   // the wanted integer, where wanted is one
	isInt  bool
	bound  float64
	steps  uint64  // |got - want|, where want is an integer
	huge   bool    // and 2^64 more
	diff   float64 // |got - want|, nearest
	ulp    uint64  // steps to want rounded to the dtype, saturating
	marked bool
}

// integerElement reads element i.
func (p *plan) integerElement(i int) integerAt {
	size := p.d.Size()
	e := integerAt{got: wholeOf(p.d, p.d.Load(p.got[i*size:]))}
	if t := p.want.Exact; t != nil {
		e.exact, e.isInt = wholeOf(t.DType, t.DType.Load(p.stored[i*t.DType.Size():])), true
		e.want = e.exact.float()
	} else {
		e.want = p.wantFloat(i)
		e.exact, e.isInt = wholeFloat(e.want)
	}
	inf := math.IsInf(e.want, 0)
	if p.want.Saturating {
		e.saturate(p)
	}
	if p.want.Undetermined != nil {
		e.marked = p.want.Undetermined[i]
	}
	switch {
	case p.regime != Bound:
		e.bound = p.tolerance(i, e.want)
	case p.want.Bound != nil:
		e.bound = p.want.Bound[i]
	}
	if p.wantULP {
		e.bound += p.opt.WantDType.HalfULP(e.want)
	}
	if inf && p.want.Saturating {
		e.bound = 0 // an infinity becomes the largest value exactly
	}
	e.measure(p)
	return e
}

// measure fills in the distances.
func (e *integerAt) measure(p *plan) {
	nearest := e.exact
	if e.isInt {
		e.steps, e.huge = e.got.minus(e.exact)
		e.diff = float64(e.steps)
		if e.huge {
			e.diff = 2 * float64(1<<63|e.steps>>1|e.steps&1) // the lowest bit only breaks ties: one rounding, not two
		}
	} else {
		e.diff = math.Abs(e.got.float() - e.want)
		nearest = wholeOf(p.d, p.d.Bits(e.want))
	}
	if p.d == dtype.Bool && nearest.mag != 0 {
		nearest = whole{mag: 1} // as dtype rounds to bool
	}
	low, high := p.wholeRange()
	e.ulp, _ = e.got.minus(nearest.clamp(low, high))
}

// wholeRange returns the least and the largest value of the output dtype.
func (p *plan) wholeRange() (low, high whole) {
	if p.d.IsSigned() {
		low = wholeOf(p.d, p.d.Bits(math.Inf(-1)))
	}
	return low, wholeOf(p.d, p.d.Bits(math.Inf(1)))
}

// clamp returns the nearest integer to w between low and high, where low is not positive and high is positive.
func (w whole) clamp(low, high whole) whole {
	switch {
	case w.neg && w.mag > low.mag:
		return low
	case !w.neg && w.mag > high.mag:
		return high
	}
	return w
}

// saturate clamps what is wanted to the range of the dtype.
func (e *integerAt) saturate(p *plan) {
	low, high := p.wholeRange()
	switch {
	case e.isInt:
		e.exact = e.exact.clamp(low, high)
	case e.want > high.float():
		e.exact, e.isInt = high, true
	case e.want < low.float():
		e.exact, e.isInt = low, true
	default:
		return // between two values, or NaN
	}
	e.want = e.exact.float()
}

// wantFloat returns element i of a float reference.
func (p *plan) wantFloat(i int) float64 {
	if p.want.Value != nil {
		return p.want.Value[i]
	}
	t := p.want.Stored
	return t.DType.Float64(t.DType.Load(p.stored[i*t.DType.Size():]))
}

// judge is plan.judge for an integer: got is always finite, and the distance is exact.
func (e *integerAt) judge() (k Kind, ok bool) {
	switch {
	case e.marked:
		return NotDetermined, true
	case e.want != e.want:
		return MissingNaN, true
	case math.IsInf(e.want, 0):
		return MissingInf, true
	case !(e.bound >= 0):
		return KindUnset, false
	case e.isInt && e.bound < 1<<64:
		if !e.huge && e.steps <= uint64(e.bound) {
			return Accepted, true
		}
	case e.diff <= e.bound:
		return Accepted, true
	}
	return BeyondBound, true
}

func (f *fullPass) integerChunk(lo, n int, s *sums) error {
	var sumAbs, sumRel, sumULP float64
	for i := lo; i < lo+n; i++ {
		e := f.p.integerElement(i)
		k, ok := e.judge()
		if !ok {
			return f.p.badBound(i, e.bound)
		}
		wrong := f.p.count(&f.counts, k)
		if wrong {
			f.markWrong(i, k)
		}
		if k != Accepted && k != BeyondBound {
			continue
		}
		d := maxFloat(e.diff)
		sumAbs += d
		f.hist.add(d)
		a := math.Abs(e.want)
		f.stats.MaxWant = max(f.stats.MaxWant, a)
		r := 0.0
		if a != 0 {
			f.stats.RelCount++
			r = maxFloat(d / a)
		}
		sumRel += r
		sumULP += float64(e.ulp)
		if d != 0 {
			f.rank(d, r, e.ulp, e.bound, i, wrong)
		}
	}
	s.abs.add(sumAbs)
	s.rel.add(sumRel)
	s.ulp.add(sumULP)
	return nil
}
