// This file implements the tests of special values and of exact properties.

package libm_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gpuemu/internal/libm"
)

var (
	inf      = math.Inf(1)
	nan      = math.NaN()
	negZero  = math.Copysign(0, -1)
	otherNaN = math.Float64frombits(0xfff0dead0000beef)
)

// same compares bits, so that zeros have signs and the NaN is that of math.NaN.
func same(got, want float64) bool { return math.Float64bits(got) == math.Float64bits(want) }

func TestSpecials(t *testing.T) {
	for _, c := range []struct {
		name    string
		f       func(float64) float64
		x, want float64
	}{
		{"Exp", libm.Exp, 0, 1}, {"Exp", libm.Exp, negZero, 1}, {"Exp", libm.Exp, inf, inf}, {"Exp", libm.Exp, -inf, 0},
		{"Exp", libm.Exp, nan, nan}, {"Exp", libm.Exp, otherNaN, nan}, {"Exp", libm.Exp, 710, inf},
		{"Exp", libm.Exp, -746, 0}, {"Exp", libm.Exp, subnormal, 1}, {"Exp", libm.Exp, -math.MaxFloat64, 0},
		{"Exp2", libm.Exp2, 0, 1}, {"Exp2", libm.Exp2, inf, inf}, {"Exp2", libm.Exp2, -inf, 0},
		{"Exp2", libm.Exp2, otherNaN, nan}, {"Exp2", libm.Exp2, 1024, inf}, {"Exp2", libm.Exp2, -1074, subnormal},
		{"Exp2", libm.Exp2, -1075, 0}, {"Exp2", libm.Exp2, math.Nextafter(-1075, 0), subnormal},
		{"Expm1", libm.Expm1, 0, 0}, {"Expm1", libm.Expm1, negZero, negZero}, {"Expm1", libm.Expm1, inf, inf},
		{"Expm1", libm.Expm1, -inf, -1}, {"Expm1", libm.Expm1, otherNaN, nan}, {"Expm1", libm.Expm1, 710, inf},
		{"Expm1", libm.Expm1, -subnormal, -subnormal}, {"Expm1", libm.Expm1, -1e300, -1},
		{"Log", libm.Log, 0, -inf}, {"Log", libm.Log, negZero, -inf}, {"Log", libm.Log, 1, 0}, {"Log", libm.Log, inf, inf},
		{"Log", libm.Log, -inf, nan}, {"Log", libm.Log, -1, nan}, {"Log", libm.Log, -subnormal, nan},
		{"Log", libm.Log, otherNaN, nan},
		{"Log2", libm.Log2, 0, -inf}, {"Log2", libm.Log2, negZero, -inf}, {"Log2", libm.Log2, 1, 0},
		{"Log2", libm.Log2, inf, inf}, {"Log2", libm.Log2, -1, nan}, {"Log2", libm.Log2, otherNaN, nan},
		{"Log1p", libm.Log1p, 0, 0}, {"Log1p", libm.Log1p, negZero, negZero}, {"Log1p", libm.Log1p, -1, -inf},
		{"Log1p", libm.Log1p, inf, inf}, {"Log1p", libm.Log1p, -inf, nan}, {"Log1p", libm.Log1p, -1.5, nan},
		{"Log1p", libm.Log1p, otherNaN, nan}, {"Log1p", libm.Log1p, -subnormal, -subnormal},
		{"Tanh", libm.Tanh, 0, 0}, {"Tanh", libm.Tanh, negZero, negZero}, {"Tanh", libm.Tanh, inf, 1},
		{"Tanh", libm.Tanh, -inf, -1}, {"Tanh", libm.Tanh, otherNaN, nan}, {"Tanh", libm.Tanh, -subnormal, -subnormal},
		{"Erf", libm.Erf, 0, 0}, {"Erf", libm.Erf, negZero, negZero}, {"Erf", libm.Erf, inf, 1},
		{"Erf", libm.Erf, -inf, -1}, {"Erf", libm.Erf, otherNaN, nan}, {"Erf", libm.Erf, -subnormal, -subnormal},
		{"Erfc", libm.Erfc, 0, 1}, {"Erfc", libm.Erfc, negZero, 1}, {"Erfc", libm.Erfc, inf, 0},
		{"Erfc", libm.Erfc, -inf, 2}, {"Erfc", libm.Erfc, otherNaN, nan}, {"Erfc", libm.Erfc, 28, 0},
		{"Sin", libm.Sin, 0, 0}, {"Sin", libm.Sin, negZero, negZero}, {"Sin", libm.Sin, inf, nan},
		{"Sin", libm.Sin, -inf, nan}, {"Sin", libm.Sin, otherNaN, nan}, {"Sin", libm.Sin, -subnormal, -subnormal},
		{"Cos", libm.Cos, 0, 1}, {"Cos", libm.Cos, negZero, 1}, {"Cos", libm.Cos, inf, nan}, {"Cos", libm.Cos, -inf, nan},
		{"Cos", libm.Cos, otherNaN, nan}, {"Cos", libm.Cos, subnormal, 1},
	} {
		if got := c.f(c.x); !same(got, c.want) {
			t.Errorf("%s(%v) = %v, want %v", c.name, c.x, got, c.want)
		}
	}
}

// TestPowSpecials is C99 F.9.4.4 line by line, and the exact cases.
func TestPowSpecials(t *testing.T) {
	for _, c := range []struct{ x, y, want float64 }{
		{0, -3, inf}, {negZero, -3, -inf}, {0, -2, inf}, {negZero, -2, inf}, {negZero, -2.5, inf}, {0, -inf, inf},
		{negZero, -inf, inf}, {0, 3, 0}, {negZero, 3, negZero}, {negZero, 2, 0}, {negZero, 2.5, 0}, {0, inf, 0},
		{negZero, -0x1p60, inf}, {negZero, 0x1p60, 0}, {negZero, 0x1p52 + 1, negZero},
		{-1, inf, 1}, {-1, -inf, 1}, {1, nan, 1}, {1, inf, 1}, {1, -inf, 1}, {1, 3.7, 1}, {nan, 0, 1}, {nan, negZero, 1},
		{inf, 0, 1}, {-inf, negZero, 1}, {0, 0, 1}, {-2, 0.5, nan}, {-subnormal, 1.5, nan}, {-2, -0.1, nan},
		{-2, 0x1p-70, nan}, {-0.5, inf, 0}, {0.5, -inf, inf}, {-0.5, -inf, inf}, {2, -inf, 0}, {-2, inf, inf},
		{-2, -inf, 0}, {-inf, -3, negZero}, {-inf, -2, 0}, {-inf, -0.5, 0}, {-inf, 3, -inf}, {-inf, 2, inf},
		{-inf, 0.5, inf}, {inf, -0.5, 0}, {inf, 0.5, inf}, {-inf, inf, inf}, {inf, -inf, 0}, {otherNaN, 1, nan},
		{2, otherNaN, nan}, {inf, nan, nan}, {0, nan, nan}, {-1, nan, nan},
		{2, 0x1p-70, 1}, {2, subnormal, 1}, {math.MaxFloat64, -subnormal, 1}, {-1, 0x1p70, 1}, {-1, 0x1p53 - 1, -1},
		{-1, 0x1p53, 1}, {1 + 0x1p-52, 0x1p64, inf}, {1 - 0x1p-53, 0x1p64, 0}, {-1 - 0x1p-52, 0x1p65, inf},
		{1 - 0x1p-53, -0x1p80, inf}, {1 + 0x1p-52, -0x1p80, 0},
		{2, 1023, 0x1p1023}, {2, 1024, inf}, {2, -1074, subnormal}, {2, -1075, 0}, {-2, -1074, subnormal},
		{-2, -1073, -2 * subnormal}, {-2, 1023, -0x1p1023}, {-2, 1025, -inf}, {-2, -1077, negZero},
		{subnormal, 1, subnormal}, {-subnormal, 1, -subnormal}, {subnormal, -1, inf}, {0x1p-1022, -1, 0x1p1022},
		{math.MaxFloat64, 1, math.MaxFloat64}, {3, 4, 81}, {-3, 3, -27}, {9, 0.5, 3}, {0.25, -1.5, 8}, {10, 22, 1e22},
		{4, subnormal, 1},
	} {
		if got := libm.Pow(c.x, c.y); !same(got, c.want) {
			t.Errorf("Pow(%v, %v) = %v, want %v", c.x, c.y, got, c.want)
		}
	}
}

// TestExact: with an error below 0.52 ulp, a result that is a float64 number comes out exactly.
func TestExact(t *testing.T) {
	check := func(name string, x, got, want float64) {
		t.Helper()
		if !same(got, want) {
			t.Errorf("%s(%v) = %v, want %v", name, x, got, want)
		}
	}
	for k := -1074; k <= 1023; k++ {
		x, power := float64(k), math.Ldexp(1, k)
		check("Exp2", x, libm.Exp2(x), power)
		check("Log2", power, libm.Log2(power), x)
		check("Pow 2^", x, libm.Pow(2, x), power)
	}
	r := rand.New(rand.NewPCG(5, 6))
	for range 20000 {
		x := spreadBoth(subnormal, math.MaxFloat64).draw(r)
		check("Pow ^1", x, libm.Pow(x, 1), x)
		short := float64(float32(math.Ldexp(1+r.Float64(), r.IntN(100)-50)))
		check("Pow ^2", short, libm.Pow(-short, 2), short*short)
		check("Pow ^0.5", short, libm.Pow(short*short, 0.5), short)
		n := float64(r.IntN(1<<17) + 1)
		check("Pow ^3", n, libm.Pow(-n, 3), -n*n*n)
	}
}

// TestSymmetries: odd and even functions, and the forms that compute the same.
func TestSymmetries(t *testing.T) {
	odd := map[string]bool{"Tanh": true, "Erf": true, "Sin": true}
	for _, fn := range functions {
		for _, x := range fn.arguments(3000) {
			got := fn.f(x)
			switch {
			case odd[fn.name] && !same(fn.f(-x), -got):
				t.Fatalf("%s(%v) = %v, but %v for the negative argument", fn.name, x, got, fn.f(-x))
			case fn.name == "Cos" && !same(fn.f(-x), got):
				t.Fatalf("Cos(%v) = %v, but %v for the negative argument", x, got, fn.f(-x))
			}
			sin, cos := libm.Sincos(x)
			if fn.name == "Sin" && !same(sin, got) || fn.name == "Cos" && !same(cos, got) {
				t.Fatalf("Sincos(%v) = %v, %v; %s has %v", x, sin, cos, fn.name, got)
			}
		}
	}
	for _, x := range []float64{nan, inf, -inf, 0, negZero} {
		sin, cos := libm.Sincos(x)
		if !same(sin, libm.Sin(x)) || !same(cos, libm.Cos(x)) {
			t.Errorf("Sincos(%v) = %v, %v; want %v, %v", x, sin, cos, libm.Sin(x), libm.Cos(x))
		}
	}
}

// TestMonotonic: neighbours stay in order for the functions whose error allows no other outcome but by bad luck. The
// points are where a table entry or a polynomial ends.
func TestMonotonic(t *testing.T) {
	check := func(name string, f func(float64) float64, at float64) {
		t.Helper()
		x := at
		for range 20 {
			x = math.Nextafter(x, -inf)
		}
		for range 40 {
			next := math.Nextafter(x, inf)
			if f(next) < f(x) {
				t.Errorf("%s(%x) = %x, but %x at the next number", name, x, f(x), f(next))
			}
			x = next
		}
	}
	for i := -2000; i < 2000; i++ {
		check("Exp", libm.Exp, (float64(i)+0.5)*math.Ln2/128)
		check("Exp2", libm.Exp2, (float64(i)+0.5)/128)
		edge := math.Float64frombits(math.Float64bits(1) + 1<<43 + uint64(i)<<44)
		check("Log", libm.Log, edge)
		check("Log2", libm.Log2, edge)
		check("Log1p", libm.Log1p, edge-1)
	}
}

func TestExpSlice(t *testing.T) {
	src := append([]float64{nan, inf, -inf, 0, -745, 709.7, -709, subnormal}, block(-50, 50)...)
	dst := make([]float64, len(src)+1)
	dst[len(src)] = 7
	libm.ExpSlice(dst, src)
	for i, x := range src {
		if !same(dst[i], libm.Exp(x)) {
			t.Errorf("ExpSlice: element %v = %v, want %v", x, dst[i], libm.Exp(x))
		}
	}
	if dst[len(src)] != 7 {
		t.Error("ExpSlice wrote beyond the length of its source")
	}
	libm.ExpSlice(src, src)
	for i, y := range src {
		if !same(y, dst[i]) {
			t.Errorf("ExpSlice in place: element %d = %v, want %v", i, y, dst[i])
		}
	}
}
