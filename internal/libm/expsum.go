// This file implements the sum of exponentials less 1 in twice the precision, for logarithms of sums near 1.

package libm

import "math"

// A pair is the number hi + lo, with |lo| at most half an ulp of hi: about 106 bits.
type pair struct{ hi, lo float64 }

func quickPair(a, b float64) pair { // for |a| >= |b|
	s := a + b
	return pair{s, b - (s - a)}
}

func (a pair) plus(b pair) pair {
	s, e := twoSum(a.hi, b.hi)
	t, f := twoSum(a.lo, b.lo)
	p := quickPair(s, e+t)
	return quickPair(p.hi, p.lo+f)
}

// exactProduct returns a·b as a pair (Dekker, Numer. Math. 18 (1971) 224), for numbers of moderate size.
func exactProduct(a, b float64) pair {
	const splitter = 1<<27 + 1
	p := float64(a * b)
	c := float64(a * splitter)
	ah := c - (c - a)
	al := a - ah
	c = float64(b * splitter)
	bh := c - (c - b)
	bl := b - bh
	return pair{p, (float64(ah*bh) - p + float64(ah*bl) + float64(al*bh)) + float64(al*bl)}
}

func (a pair) times(b pair) pair {
	p := exactProduct(a.hi, b.hi)
	return quickPair(p.hi, p.lo+(float64(a.hi*b.lo)+float64(a.lo*b.hi)))
}

// inverseFactorials are 1/n! from n = 10 down to 2.
var inverseFactorials = [...]pair{
	{0x1.27e4fb7789f5cp-22, 0x1.cbbc05b4fa99ap-76},
	{0x1.71de3a556c734p-19, -0x1.c154f8ddc6c00p-73},
	{0x1.a01a01a01a01ap-16, 0x1.a01a01a01a01ap-76},
	{0x1.a01a01a01a01ap-13, 0x1.a01a01a01a01ap-73},
	{0x1.6c16c16c16c17p-10, -0x1.f49f49f49f49fp-65},
	{0x1.1111111111111p-7, 0x1.1111111111111p-63},
	{0x1.5555555555555p-5, 0x1.5555555555555p-59},
	{0x1.5555555555555p-3, 0x1.5555555555555p-57},
	{0.5, 0},
}

// expPair returns e^x, for -80 <= x <= 0: x = n·ln2 + 2^8·r, and e^r - 1 by its series.
func expPair(x float64) pair {
	const ( // ln2 in three parts; the products of n with the first two are exact
		ln2Hi, ln2Mid, ln2Lo = 0x1.62e4200000000p-1, 0x1.fdf473de60000p-22, 0x1.5e4f1d9cc01f9p-59
		halvings             = 8
	)
	n := math.Round(x * math.Log2E)
	s, e := twoSum(x-float64(n*ln2Hi), -float64(n*ln2Mid)) // the first difference is exact
	r := pair{s, e}.plus(pair{-float64(n * ln2Lo), 0})
	r = pair{r.hi * (1.0 / (1 << halvings)), r.lo * (1.0 / (1 << halvings))}
	p := pair{}
	for _, c := range inverseFactorials {
		p = p.times(r).plus(c)
	}
	p = p.times(r).times(r).plus(r)
	for range halvings { // (1+p)² - 1 = 2p + p²
		p = pair{2 * p.hi, 2 * p.lo}.plus(p.times(p))
	}
	p = p.plus(pair{1, 0})
	scale := power2(int(n))
	return pair{p.hi * scale, p.lo * scale}
}

// ExpSumLess1 returns Σe^x - 1 for numbers x <= 0. The error is below 2^-100 for each of them that is above -80, so the
// difference keeps its digits where the sum is next to 1.
func ExpSumLess1(xs []float64) float64 {
	sum := pair{-1, 0}
	for _, x := range xs {
		if x > -80 {
			sum = sum.plus(expPair(x))
		} else {
			sum.lo += Exp(x)
		}
	}
	return sum.hi + sum.lo
}
