package gemm

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestMisuse checks that wrong sizes are refused before anything is read or written.
func TestMisuse(t *testing.T) {
	const m, n, k = 2, 3, 4 // a 8, b 12, c 6 elements
	tests := []struct {
		name       string
		m          int
		c, s, a, b int // elements
		opt        Options
		want       string
	}{
		{"negative m", -1, 6, 6, 8, 12, Options{}, "negative size: m=-1 n=3 k=4 threads=0"},
		{"negative threads", m, 6, 6, 8, 12, Options{Threads: -1}, "negative size: m=2 n=3 k=4 threads=-1"},
		{"short a", m, 6, 6, 7, 12, Options{}, "a has 7 elements, too few for 2 rows of 4 at stride 4"},
		{"short b", m, 6, 6, 8, 11, Options{}, "b has 11 elements, too few for 4 rows of 3 at stride 3"},
		{"short b turned", m, 6, 6, 8, 11, Options{TransB: true}, "b has 11 elements, too few for 3 rows of 4 at stride 4"},
		{"short c", m, 5, 6, 8, 12, Options{}, "c has 5 elements, too few for 2 rows of 3 at stride 3"},
		{"short s", m, 6, 5, 8, 12, Options{}, "s has 5 elements, too few for 2 rows of 3 at stride 3"},
		{"no s", m, 6, 0, 8, 12, Options{}, "s has 0 elements, too few for 2 rows of 3 at stride 3"},
		{"short for stride", m, 6, 6, 8, 12, Options{LDB: 4}, "b has 12 elements, too few for 4 rows of 3 at stride 4"},
		{"stride below row", m, 6, 6, 8, 12, Options{LDA: 3}, "row stride of a is 3, want at least 4"},
		{"stride overflow", m, 6, 6, 8, 12, Options{LDA: math.MaxInt}, "a has 8 elements, too few for 2 rows of 4 at stride"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			defer func() {
				got, _ := recover().(string)
				if !strings.HasPrefix(got, "gemm: internal error: "+tt.want) {
					t.Errorf("MulAbs panics with %q, want %q", got, "gemm: internal error: "+tt.want)
				}
			}()
			var s []float64
			if tt.s > 0 {
				s = make([]float64, tt.s)
			}
			MulAbs(make([]float64, tt.c), s, make([]float64, tt.a), make([]float64, tt.b), tt.m, n, k, tt.opt)
		})
	}
}

// TestEmpty checks sizes with a zero: no result at all, or empty chains, which are +0.
func TestEmpty(t *testing.T) {
	b := make([]float64, 35)
	Mul(nil, nil, b, 0, 5, 7, Options{})
	MulAbs(nil, nil, b, nil, 5, 0, 7, Options{})
	c, s := []float64{1, 2, 3, 4, 5}, []float64{1, 2, 3, 4, 5}
	MulAbs(c, s, nil, nil, 2, 2, 0, Options{LDC: 3})
	want := [5]float64{0, 0, 3, 0, 0}
	if [5]float64(c) != want || [5]float64(s) != want {
		t.Errorf("MulAbs with k=0 = %v, %v, want %v twice", c, s, want)
	}
}

// TestUpperHalvesCleared checks that no assembly function returns with the upper halves of vector registers in use: the
// SSE code of the Go compiler would run many times slower after it, which no result shows.
func TestUpperHalvesCleared(t *testing.T) {
	text, err := os.ReadFile("kernel_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	got, want := strings.Count(string(text), "\tVZEROUPPER\n\tRET\n"), strings.Count(string(text), "TEXT ")
	if returns := strings.Count(string(text), "\tRET\n"); got != want || returns != want {
		t.Errorf("kernel_amd64.s: %d functions, %d returns, %d after VZEROUPPER, want all equal", want, returns, got)
	}
}

// TestPanicReachesCaller: every goroutine of a product panics, because a is shorter than newProblem would allow. One of
// the panics must arrive in the caller and end no one else's program, and the next product must be right.
func TestPanicReachesCaller(t *testing.T) {
	const m, n, k = 256, 256, 64
	src := source(1)
	a, b := src.fill(make([]float64, m*k), 0), src.fill(make([]float64, k*n), 0)
	got, want := make([]float64, m*n), make([]float64, m*n)
	for _, threads := range []int{1, 4} {
		p := newProblem(got, nil, a, b, m, n, k, Options{})
		p.a = nil
		func() {
			defer func() {
				if r := recover(); !strings.Contains(fmt.Sprint(r), "slice bounds out of range") {
					t.Errorf("%d threads: the product panics with %v, want a range error", threads, r)
				}
			}()
			p.solve(threads, false)
		}()
	}
	Mul(got, a, b, m, n, k, Options{Threads: 4})
	newProblem(want, nil, a, b, m, n, k, Options{}).solve(1, false)
	if !slices.Equal(got, want) {
		t.Error("the product after a panic differs from that of one thread")
	}
}
