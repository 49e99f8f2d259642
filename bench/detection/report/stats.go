package main

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// This file implements the statistics of the study: shares with their intervals, and quantiles of what is censored.

// z95 is the normal distribution's quantile of 0.975: a two-sided interval of 95 % is z95 deviations wide on each side.
const z95 = 1.959963984540054

// share is how many of a number of things have a property.
type share struct{ k, n int }

func (s *share) add(has bool) {
	s.n++
	if has {
		s.k++
	}
}

// value is the share as a number; of nothing it is NaN.
func (s share) value() float64 { return float64(s.k) / float64(s.n) }

// wilson is the 95 % interval of a binomial share by Wilson's score method (E. B. Wilson, JASA 22, 1927), which stays
// within 0 and 1 and is honest at both ends, unlike the textbook's normal interval.
func (s share) wilson() (lo, hi float64) {
	if s.n == 0 {
		return 0, 1
	}
	n, p, z2 := float64(s.n), s.value(), z95*z95
	middle := (p + z2/(2*n)) / (1 + z2/n)
	half := z95 / (1 + z2/n) * math.Sqrt(p*(1-p)/n+z2/(4*n*n))
	return max(0, middle-half), min(1, middle+half)
}

// upper is the one-sided upper 95 % limit of the share by Clopper and Pearson (Biometrika 26, 1934): the largest
// probability that gives k or fewer of n in at least one of twenty studies. For k = 0 it is 1 - 0.05^(1/n), for which
// the rule of three says 3/n.
func (s share) upper() float64 {
	if s.k >= s.n {
		return 1
	}
	const alpha = 0.05
	lo, hi := s.value(), 1.0
	for range 200 { // halving: far below the last bit
		mid := (lo + hi) / 2
		if binomialCDF(s.k, s.n, mid) > alpha {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// binomialCDF is the probability of at most k of n, each with probability p.
func binomialCDF(k, n int, p float64) float64 {
	if p <= 0 {
		return 1
	}
	if p >= 1 {
		return 0
	}
	sum := 0.0
	for i := 0; i <= k; i++ {
		sum += math.Exp(logChoose(n, i) + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return min(1, sum)
}

func logChoose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}

// The bootstrap draws this many times, from this seed: the pages are the same whoever makes them.
const (
	bootstrapDraws = 10000
	bootstrapSeed  = 1
)

// bootstrap is the 95 % interval of a share whose members come in clusters, here the mutants of one base kernel, which
// are alike: clusters are drawn with replacement, and the 2.5 and 97.5 % quantiles of the drawn shares are the
// interval.
func bootstrap(clusters []share) (lo, hi float64) {
	clusters = slices.DeleteFunc(slices.Clone(clusters), func(s share) bool { return s.n == 0 })
	if len(clusters) == 0 {
		return 0, 1
	}
	source := rand.NewPCG(bootstrapSeed, 0)
	drawn := make([]float64, bootstrapDraws)
	for i := range drawn {
		var sum share
		for range clusters {
			pick, _ := bits.Mul64(source.Uint64(), uint64(len(clusters)))
			sum.k += clusters[pick].k
			sum.n += clusters[pick].n
		}
		drawn[i] = sum.value()
	}
	slices.Sort(drawn)
	return drawn[bootstrapDraws*25/1000], drawn[bootstrapDraws*975/1000-1]
}

// never stands for an event that did not come within the budget.
const never = math.MaxInt

// quantile is the least value that at least the share q of the values does not exceed; of no values it is none. Values
// may be never, or +Inf where they are seconds.
func quantile[T int | float64](values []T, q float64, none T) T {
	if len(values) == 0 {
		return none
	}
	sorted := slices.Sorted(slices.Values(values))
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

// survival is the share of values above each of 0 to last: what is not found after so many cases.
func survival(values []int, last int) []float64 {
	left := make([]float64, last+1)
	for at := range left {
		var s share
		for _, v := range values {
			s.add(v > at)
		}
		left[at] = s.value()
	}
	return left
}

// percent prints a share; only a whole one is 100 %, and only an empty one 0 %.
func percent(x float64) string {
	switch {
	case math.IsNaN(x):
		return "–"
	case x > 0.9995 && x < 1:
		return "> 99.9 %"
	case x > 0 && x < 0.0005:
		return "< 0.1 %"
	case x == math.Trunc(x):
		return fmt.Sprintf("%.0f %%", 100*x)
	}
	return fmt.Sprintf("%.1f %%", 100*x)
}

// ratio prints a share as "k of n".
func (s share) ratio() string {
	if s.n == 0 {
		return "–"
	}
	return fmt.Sprintf("%d of %d", s.k, s.n)
}

// both prints a share as percentage and as a ratio.
func (s share) both() string {
	if s.n == 0 {
		return "–"
	}
	return fmt.Sprintf("%s (%s)", percent(s.value()), s.ratio())
}

// interval prints Wilson's interval of the share.
func (s share) interval() string {
	if s.n == 0 {
		return "–"
	}
	lo, hi := s.wilson()
	return fmt.Sprintf("%.1f–%.1f %%", 100*lo, 100*hi)
}

// limit prints the upper limit of the share.
func (s share) limit() string {
	if s.n == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2g %%", 100*s.upper())
}
