package main

import (
	"math"
	"slices"
	"testing"
)

func near(got, want, within float64) bool { return math.Abs(got-want) <= within }

// TestWilson has values of the literature: R. G. Newcombe, Statistics in Medicine 17 (1998), table I, method 3, and two
// ends worked out by hand, where the interval is z²/(n+z²).
func TestWilson(t *testing.T) {
	const z2 = z95 * z95
	for _, tt := range []struct {
		s      share
		lo, hi float64
	}{
		{share{81, 263}, 0.2553, 0.3662},
		{share{15, 148}, 0.0624, 0.1605},
		{share{0, 20}, 0, 0.1611},
		{share{1, 29}, 0.0061, 0.1718},
		{share{0, 10}, 0, z2 / (10 + z2)},
		{share{10, 10}, 10 / (10 + z2), 1},
		{share{0, 0}, 0, 1},
	} {
		if lo, hi := tt.s.wilson(); !near(lo, tt.lo, 5e-5) || !near(hi, tt.hi, 5e-5) {
			t.Errorf("%v.wilson() = %.4f, %.4f, want %.4f, %.4f", tt.s, lo, hi, tt.lo, tt.hi)
		}
	}
}

// TestUpper: for none of n the limit solves (1-p)^n = 0.05; for n-1 of n it solves 1-p^n = 0.05; 1 of 2 by hand:
// (1-p)² + 2p(1-p) = 1-p² = 0.05. For many trials it is near the exact 4.744/n of a Poisson count of one.
func TestUpper(t *testing.T) {
	for _, tt := range []struct {
		s    share
		want float64
	}{
		{share{0, 1}, 0.95},
		{share{0, 10}, 1 - math.Pow(0.05, 0.1)},
		{share{0, 19200}, 1 - math.Pow(0.05, 1.0/19200)},
		{share{1, 2}, math.Sqrt(0.95)},
		{share{9, 10}, math.Pow(0.95, 0.1)},
		{share{10, 10}, 1},
		{share{0, 0}, 1},
	} {
		if got := tt.s.upper(); !near(got, tt.want, 1e-9) {
			t.Errorf("%v.upper() = %.10f, want %.10f", tt.s, got, tt.want)
		}
	}
	if got, want := (share{1, 1000000}).upper(), 4.743865e-6; !near(got, want, 1e-10) {
		t.Errorf("one of a million: upper() = %.6g, want %.6g", got, want)
	}
	if got, rule := (share{0, 1000}).upper(), 3.0/1000; !near(got, rule, 1e-5) {
		t.Errorf("none of a thousand: upper() = %.6f, the rule of three says %.6f", got, rule)
	}
}

// TestBootstrap: with all mass at one end there is nothing to draw; two clusters, one all and one none, give 0, 1/2 or
// 1 with probabilities of a quarter, a half, a quarter; a hundred halves stay near a half.
func TestBootstrap(t *testing.T) {
	type interval struct{ lo, hi float64 }
	for _, tt := range []struct {
		name     string
		clusters []share
		want     interval
		within   float64
	}{
		{"all", []share{{5, 5}, {3, 3}}, interval{1, 1}, 0},
		{"none", []share{{0, 5}, {0, 3}}, interval{0, 0}, 0},
		{"two", []share{{5, 5}, {0, 5}}, interval{0, 1}, 0},
		{"one", []share{{1, 4}}, interval{0.25, 0.25}, 0},
		{"empty clusters", []share{{1, 4}, {0, 0}}, interval{0.25, 0.25}, 0},
		{"nothing", nil, interval{0, 1}, 0},
		// The drawn share has the deviation 0.5/sqrt(100) = 0.05: the interval is 0.5 ± 1.96 × 0.05.
		{"hundred", append(slices.Repeat([]share{{1, 1}}, 50), slices.Repeat([]share{{0, 1}}, 50)...),
			interval{0.402, 0.598}, 0.011},
	} {
		lo, hi := bootstrap(tt.clusters)
		if !near(lo, tt.want.lo, tt.within) || !near(hi, tt.want.hi, tt.within) {
			t.Errorf("%s: bootstrap = %.3f, %.3f, want %.3f, %.3f", tt.name, lo, hi, tt.want.lo, tt.want.hi)
		}
		if lo2, hi2 := bootstrap(tt.clusters); lo2 != lo || hi2 != hi {
			t.Errorf("%s: bootstrap differs between two calls", tt.name)
		}
	}
}

func TestQuantile(t *testing.T) {
	for _, tt := range []struct {
		values []int
		q      float64
		want   int
	}{
		{[]int{3, 1, 2}, 0.5, 2},
		{[]int{1, 2, 3, 4}, 0.5, 2},
		{[]int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 0.9, 9},
		{[]int{1, 2, never}, 0.9, never},
		{[]int{7}, 0.9, 7},
		{nil, 0.5, never},
	} {
		if got := quantile(tt.values, tt.q, never); got != tt.want {
			t.Errorf("quantile(%v, %v) = %d, want %d", tt.values, tt.q, got, tt.want)
		}
	}
	if got := quantile([]float64{0.5, 2, math.Inf(1)}, 0.5, 0); got != 2 {
		t.Errorf("quantile of seconds = %v, want 2", got)
	}
}

func TestSurvival(t *testing.T) {
	got := survival([]int{1, 1, 3, never}, 3)
	if want := []float64{1, 0.5, 0.5, 0.25}; !slices.Equal(got, want) {
		t.Errorf("survival = %v, want %v", got, want)
	}
}

func TestPercent(t *testing.T) {
	for x, want := range map[float64]string{
		1: "100 %", 0: "0 %", 0.99999: "> 99.9 %", 0.00001: "< 0.1 %", 0.5: "50.0 %", 0.9912: "99.1 %", math.NaN(): "–",
	} {
		if got := percent(x); got != want {
			t.Errorf("percent(%v) = %q, want %q", x, got, want)
		}
	}
}
