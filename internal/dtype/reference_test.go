package dtype_test

import (
	"fmt"
	"math"
	"math/big"
	"sort"
	"sync"
	"testing"

	"gpuemu/internal/dtype"
)

// This file implements the second side of the conversion tests: number formats as their definitions put them, in
// exact integer arithmetic. It was written from IEEE 754-2019 clause 3.4 and the OCP 8-bit Floating Point
// Specification, without a look at how package dtype computes, and it shares nothing with it: rounding searches the
// ordered list of all values of a format instead of working on bits.

// scale makes every float64 and every half of one an integer: values are held as value·2^scale.
const scale = 1200

// refFormat is a format by definition: a sign, expBits of exponent, manBits of trailing significand.
type refFormat struct {
	expBits, manBits int
	noInf            bool // e4m3fn: the top exponent holds numbers, all ones are the NaN
}

var refFormats = map[dtype.DType]refFormat{
	dtype.Float16:      {expBits: 5, manBits: 10},
	dtype.BFloat16:     {expBits: 8, manBits: 7},
	dtype.Float8E4M3FN: {expBits: 4, manBits: 3, noInf: true},
	dtype.Float8E5M2:   {expBits: 5, manBits: 2},
}

// narrowFloats are the formats that are tested on every code.
var narrowFloats = []dtype.DType{dtype.Float16, dtype.BFloat16, dtype.Float8E4M3FN, dtype.Float8E5M2}

func (f refFormat) bits() int { return 1 + f.expBits + f.manBits }

type class uint8

const (
	finite class = iota
	infinite
	notANumber
)

// magnitude returns what a code without its sign means; v is scaled and only set for finite values.
func (f refFormat) magnitude(code uint64) (c class, v *big.Int) {
	exp, man := int(code>>f.manBits), int64(code&(1<<f.manBits-1))
	allOnes := 1<<f.expBits - 1
	switch {
	case f.noInf && exp == allOnes && man == 1<<f.manBits-1:
		return notANumber, nil
	case !f.noInf && exp == allOnes && man == 0:
		return infinite, nil
	case !f.noInf && exp == allOnes:
		return notANumber, nil
	}
	return finite, f.number(exp, man)
}

// number is 2^(1-bias)·0.man for exponent field 0 and 2^(exp-bias)·1.man for the others.
func (f refFormat) number(exp int, man int64) *big.Int {
	bias := 1<<(f.expBits-1) - 1
	if exp > 0 {
		man += 1 << f.manBits
		exp--
	}
	return new(big.Int).Lsh(big.NewInt(man), uint(exp+1-bias-f.manBits+scale))
}

// exact returns |x|·2^scale of a finite x.
func exact(x float64) *big.Int {
	frac, exp := math.Frexp(math.Abs(x))
	return new(big.Int).Lsh(big.NewInt(int64(frac*(1<<53))), uint(exp-53+scale))
}

// toFloat64 returns the float64 that v·2^-scale is; it is a fault of the test when there is none.
func toFloat64(t testing.TB, v *big.Int) float64 {
	t.Helper()
	x, ok := new(big.Rat).SetFrac(v, new(big.Int).Lsh(big.NewInt(1), scale)).Float64()
	if !ok {
		t.Fatalf("%v·2^-%d is not a float64", v, scale)
	}
	return x
}

// refTable lists a format's finite magnitudes in order, so that the index is the code, then the value that would
// follow the largest if exponents had no end: rounding to that one is what overflow means (IEEE 754 clause 4.3.1).
type refTable struct {
	refFormat
	values []*big.Int
	last   uint64    // code of the largest finite value
	mids   []float64 // mids[i] is halfway between values[i] and values[i+1]; exact, newRefTable checks it
}

func newRefTable(t testing.TB, d dtype.DType) *refTable {
	t.Helper()
	f, ok := refFormats[d]
	if !ok {
		t.Fatalf("no reference for %v", d)
	}
	table := &refTable{refFormat: f}
	for code := uint64(0); ; code++ {
		c, v := f.magnitude(code)
		if c != finite {
			table.last = code - 1
			// The next code, read as if the exponent field had one more bit and no special values.
			table.values = append(table.values, f.number(int(code>>f.manBits), int64(code&(1<<f.manBits-1))))
			break
		}
		table.values = append(table.values, v)
	}
	for i := range table.last + 1 {
		sum := new(big.Int).Add(table.values[i], table.values[i+1])
		table.mids = append(table.mids, toFloat64(t, sum.Rsh(sum, 1)))
	}
	return table
}

// tables gives each format's table; building one takes a few milliseconds.
var tables sync.Map

func tableOf(t testing.TB, d dtype.DType) *refTable {
	t.Helper()
	if v, ok := tables.Load(d); ok {
		return v.(*refTable)
	}
	table := newRefTable(t, d)
	tables.Store(d, table)
	return table
}

// nearest rounds |x|, finite or infinite, to a code without sign; over says that no finite value is nearest.
func (r *refTable) nearest(x float64) (code uint64, over bool) {
	if math.IsInf(x, 0) {
		return 0, true
	}
	v := exact(x)
	above := uint64(sort.Search(len(r.values), func(i int) bool { return r.values[i].Cmp(v) > 0 }))
	if above == uint64(len(r.values)) {
		return 0, true
	}
	code = above - 1
	twice := new(big.Int).Lsh(v, 1)
	switch twice.Cmp(new(big.Int).Add(r.values[code], r.values[above])) {
	case 1:
		code = above
	case 0: // a tie goes to the even significand, whose parity is the code's
		code += code & 1
	}
	return code, code > r.last
}

// nearestFast is nearest by comparing with the halfway points. They are float64s, so nothing is rounded.
func (r *refTable) nearestFast(x float64) (code uint64, over bool) {
	x = math.Abs(x)
	lo, hi := 0, len(r.mids)
	for lo < hi { // the first halfway point that is not below x
		mid := int(uint(lo+hi) >> 1)
		if r.mids[mid] < x {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(r.mids) && r.mids[lo] == x {
		lo += lo & 1
	}
	return uint64(lo), uint64(lo) > r.last
}

// encode returns the code of x, which is not a NaN, in both modes.
func (r *refTable) encode(x float64, nearest func(float64) (uint64, bool)) (plain, saturated uint64) {
	code, over := nearest(x)
	plain, saturated = code, code
	if over {
		saturated = r.last
		plain = r.last + 1 // the infinity follows the largest value, and so does e4m3fn's NaN
	}
	if math.Signbit(x) {
		sign := uint64(1) << (r.bits() - 1)
		plain, saturated = plain|sign, saturated|sign
	}
	return plain, saturated
}

// refNaN returns the code of a float64 NaN: quiet, the sign and the upper payload bits kept.
func (f refFormat) refNaN(x float64) uint64 {
	u := math.Float64bits(x)
	man := u<<12>>(64-f.manBits) | 1<<(f.manBits-1)
	if f.noInf {
		man = 1<<f.manBits - 1
	}
	return u>>63<<(f.bits()-1) | (1<<f.expBits-1)<<f.manBits | man
}

// sameBits makes a readable failure of two float64s that differ in any bit.
func sameBits(got, want float64) error {
	if g, w := math.Float64bits(got), math.Float64bits(want); g != w {
		return fmt.Errorf("%v (%016x), want %v (%016x)", got, g, want, w)
	}
	return nil
}
