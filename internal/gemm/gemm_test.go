package gemm

import (
	"fmt"
	"math"
	"runtime"
	"testing"
)

// naive is the definition in the package comment, written from it and not from the code under test.
func naive(a, b []float64, m, n, k int, opt Options, abs bool) []float64 {
	c := make([]float64, m*n)
	for i := range m {
		for j := range n {
			acc := 0.0
			for p := range k {
				x, y := a[i*opt.LDA+p], 0.0
				if opt.TransB {
					y = b[j*opt.LDB+p]
				} else {
					y = b[p*opt.LDB+j]
				}
				if abs {
					x, y = math.Abs(x), math.Abs(y)
				}
				acc = math.FMA(x, y, acc)
			}
			if math.IsNaN(acc) {
				acc = math.NaN()
			}
			c[i*n+j] = acc
		}
	}
	return c
}

// A source gives test values; splitmix64, so that a failure names a seed and repeats.
type source uint64

func (s *source) bits() uint64 {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// value returns a number in (-1, 1), or in wild mode often a special one: both zeros, subnormals, infinities,
// NaNs with signs and payloads, numbers whose products overflow or underflow.
func (s *source) value(wild int) float64 {
	u := s.bits()
	x := float64(int64(u)>>10) * 0x1p-53
	if wild == 0 || u%uint64(wild) != 0 {
		return x
	}
	switch s.bits() % 12 {
	case 0:
		return 0
	case 1:
		return math.Copysign(0, -1)
	case 2:
		return math.Inf(1)
	case 3:
		return math.Inf(-1)
	case 4:
		return math.Float64frombits(0x7ff8000000000123)
	case 5:
		return math.Float64frombits(0xfff0000000000456) // signalling
	case 6, 7:
		return x * 0x1p-1040
	case 8:
		return x * 0x1p-537
	case 9:
		return x * 0x1p1022
	case 10:
		return math.MaxFloat64
	default:
		return x * 0x1p600
	}
}

func (s *source) fill(x []float64, wild int) []float64 {
	for i := range x {
		x[i] = s.value(wild)
	}
	return x
}

// A trial is one product to check: strides are the extra elements per row.
type trial struct {
	m, n, k          int
	padA, padB, padC int
	transB           bool
	wild             int
	threads          int
}

func (tr trial) String() string {
	return fmt.Sprintf("m=%d n=%d k=%d pad=%d,%d,%d trans=%v wild=%d threads=%d",
		tr.m, tr.n, tr.k, tr.padA, tr.padB, tr.padC, tr.transB, tr.wild, tr.threads)
}

const guard = -12345.678 // what lies between and behind the rows of c must stay

// check runs tr with each kernel and both entries and compares every bit with the definition.
func (tr trial) check(t *testing.T, seed uint64) {
	t.Helper()
	src := source(seed)
	bRows, bCols := tr.k, tr.n
	if tr.transB {
		bRows, bCols = tr.n, tr.k
	}
	opt := Options{LDA: tr.k + tr.padA, LDB: bCols + tr.padB, LDC: tr.n + tr.padC, TransB: tr.transB, Threads: tr.threads}
	// The last row has no padding behind it: reading beyond the matrix would be reading beyond the slice.
	a := src.fill(make([]float64, max(0, tr.m*opt.LDA-tr.padA)), tr.wild)
	b := src.fill(make([]float64, max(0, bRows*opt.LDB-tr.padB)), tr.wild)
	wantC := naive(a, b, tr.m, tr.n, tr.k, opt, false)
	wantS := naive(a, b, tr.m, tr.n, tr.k, opt, true)
	size := max(0, tr.m*opt.LDC-tr.padC)
	fresh := func() []float64 {
		x := make([]float64, size)
		for i := range x {
			x[i] = guard
		}
		return x
	}
	for _, vector := range kernels() {
		c, s := fresh(), fresh()
		newProblem(c, nil, a, b, tr.m, tr.n, tr.k, opt).solve(opt.Threads, vector)
		tr.compare(t, fmt.Sprintf("Mul vector=%v", vector), c, wantC, opt.LDC)
		c = fresh()
		newProblem(c, s, a, b, tr.m, tr.n, tr.k, opt).solve(opt.Threads, vector)
		tr.compare(t, fmt.Sprintf("MulAbs vector=%v c", vector), c, wantC, opt.LDC)
		tr.compare(t, fmt.Sprintf("MulAbs vector=%v s", vector), s, wantS, opt.LDC)
	}
}

func (tr trial) compare(t *testing.T, what string, got, want []float64, ldc int) {
	t.Helper()
	for i, x := range got {
		r, j := i/ldc, i%ldc
		w := guard
		if j < tr.n {
			w = want[r*tr.n+j]
		}
		if math.Float64bits(x) != math.Float64bits(w) {
			t.Fatalf("%s, %v: c[%d,%d] = %x (%#x), want %x (%#x)", what, tr, r, j, x, math.Float64bits(x), w,
				math.Float64bits(w))
		}
	}
}

// kernels returns the settings of problem.vector that this build and processor can run.
func kernels() []bool {
	if haveAVX2() {
		return []bool{false, true}
	}
	return []bool{false}
}

// TestEveryRemainder walks through all remainders of the tile and the row kernel, plain and transposed.
func TestEveryRemainder(t *testing.T) {
	for _, trans := range []bool{false, true} {
		for m := range 10 {
			for n := range 40 {
				for _, k := range []int{0, 1, 2, 3, 4, 5, 7, 8, 17} {
					tr := trial{m: m, n: n, k: k, transB: trans, threads: 1}
					tr.check(t, uint64(m*10000+n*100+k))
				}
			}
		}
	}
}

// TestBlocks crosses every block boundary: rows, columns and steps of the chain, and the limits for reading in place.
func TestBlocks(t *testing.T) {
	sizes := []trial{
		{m: mBlock - 1, n: 25, k: kBlock - 1},
		{m: mBlock, n: 24, k: kBlock},
		{m: mBlock + 1, n: 37, k: kBlock + 1},
		{m: 2*mBlock + 3, n: 13, k: 2*kBlock + 5},
		{m: 5, n: nBlock + 1, k: 33},
		{m: 1, n: nBlock + 17, k: kBlock + 3},
		{m: 3, n: 2*nBlock + 5, k: 2*rowSteps + 1},
		{m: inPlaceB, n: inPlaceA, k: kBlock + 9},
		{m: inPlaceB + 1, n: inPlaceA + 1, k: kBlock + 9},
		{m: inPlaceB - 1, n: inPlaceA - 1, k: kBlock + 9},
		{m: 300, n: 1, k: 300},
		{m: 1, n: 1, k: 3*kBlock + 1},
		{m: 260, n: 200, k: 70},
	}
	if testing.Short() {
		sizes = sizes[2:9]
	}
	for i, tr := range sizes {
		for _, trans := range []bool{false, true} {
			for threads := 1; threads <= 3; threads++ {
				tr.transB, tr.threads = trans, threads
				t.Run(tr.String(), func(t *testing.T) { tr.check(t, uint64(i)) })
			}
		}
	}
}

// TestRandom draws sizes, strides, threads and values; a third of the trials are full of special values.
func TestRandom(t *testing.T) {
	trials := 600
	if testing.Short() {
		trials = 100
	}
	for i := range trials {
		src := source(i) * 7919
		pick := func(limit int) int { return int(src.bits() % uint64(limit)) }
		tr := trial{
			m: pick(1 + pick(90)), n: pick(1 + pick(120)), k: pick(1 + pick(300)),
			padA: pick(5), padB: pick(5), padC: pick(5),
			transB: pick(2) == 1, threads: pick(4),
		}
		if i%3 == 0 {
			tr.wild = []int{2, 20, 400}[pick(3)]
		}
		tr.check(t, uint64(i))
	}
}

// TestSpecialValues puts each special value in each lane of a tile alone, so that what it does to its neighbours
// shows.
func TestSpecialValues(t *testing.T) {
	nan := math.NaN()
	inf := math.Inf(1)
	negZero := math.Copysign(0, -1)
	tests := []struct {
		name string
		a, b []float64
		want float64
	}{
		{"empty chain starts at +0", []float64{negZero}, []float64{1}, 0},
		{"subnormal product", []float64{0x1p-1000}, []float64{0x1p-60}, 0x1p-1060},
		{"subnormal sum", []float64{0x1p-537, 0x1p-537}, []float64{0x1p-537, 0x1p-537}, 0x1p-1073},
		{"one rounding", []float64{1, 0x1p-30}, []float64{1, 0x1p-30}, 1},
		{"fused", []float64{-1, 1 + 0x1p-30}, []float64{1, 1 - 0x1p-30}, -0x1p-60},
		{"overflow stays", []float64{0x1p1000, -0x1p1000}, []float64{0x1p1000, 0x1p1000}, inf},
		{"inf-inf", []float64{inf, -inf}, []float64{1, 1}, nan},
		{"inf*0", []float64{inf}, []float64{0}, nan},
		{"negative nan", []float64{math.Float64frombits(0xfff8000000000099)}, []float64{1}, nan},
		{"no overflow inside a step", []float64{-0x1p1023, 0x1p512}, []float64{1, 0x1p511}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			const m, n = 5, 13
			k := len(tt.a)
			for _, vector := range kernels() {
				for _, trans := range []bool{false, true} {
					a, b, c := make([]float64, m*k), make([]float64, k*n), make([]float64, m*n)
					for p := range k {
						for i := range m {
							a[i*k+p] = tt.a[p]
						}
						for j := range n {
							if trans {
								b[j*k+p] = tt.b[p]
							} else {
								b[p*n+j] = tt.b[p]
							}
						}
					}
					newProblem(c, nil, a, b, m, n, k, Options{TransB: trans}).solve(1, vector)
					for i, x := range c {
						if math.Float64bits(x) != math.Float64bits(tt.want) {
							t.Fatalf("vector=%v trans=%v: Mul(%v, %v)[%d] = %v, want %v", vector, trans, tt.a, tt.b, i, x, tt.want)
						}
					}
				}
			}
		})
	}
}

// TestNaNStaysInItsRowAndColumn checks that a NaN reaches exactly the results whose chains contain it.
func TestNaNStaysInItsRowAndColumn(t *testing.T) {
	const m, n, k = 9, 29, 300
	src := source(1)
	for _, vector := range kernels() {
		for i := range m {
			a, b := src.fill(make([]float64, m*k), 0), src.fill(make([]float64, k*n), 0)
			a[i*k+k/2] = math.NaN()
			b[3*n+i] = math.Inf(1)
			b[4*n+i] = math.Inf(-1)
			c := make([]float64, m*n)
			newProblem(c, nil, a, b, m, n, k, Options{}).solve(1, vector)
			for e, x := range c {
				if e/n == i && x == x {
					t.Fatalf("vector=%v: NaN in row %d of a: c[%d,%d] = %v, want NaN", vector, i, e/n, e%n, x)
				}
				if e/n != i && e%n != i && (math.IsNaN(x) || math.IsInf(x, 0)) {
					t.Fatalf("vector=%v: c[%d,%d] = %v, want a number", vector, e/n, e%n, x)
				}
			}
		}
	}
}

// TestBitsFrozen pins one product: the same bits on every processor, build and number of threads.
func TestBitsFrozen(t *testing.T) {
	const m, n, k = 67, 131, 517
	src := source(2026)
	a, b := src.fill(make([]float64, m*k), 0), src.fill(make([]float64, k*n), 0)
	for threads := range 4 {
		c, s := make([]float64, m*n), make([]float64, m*n)
		MulAbs(c, s, a, b, m, n, k, Options{Threads: threads})
		var sum uint64 = 14695981039346656037
		for _, x := range append(c, s...) {
			sum = (sum ^ math.Float64bits(x)) * 1099511628211
		}
		if want := uint64(0x7144b1a65d6d2827); sum != want {
			t.Errorf("FNV of the bits with %d threads = %#x, want %#x", threads, sum, want)
		}
	}
}

// TestManyThreads runs a product large enough for every goroutine, several times at once, for the race detector.
func TestManyThreads(t *testing.T) {
	const m, n, k = 190, 210, 120
	src := source(3)
	a, b := src.fill(make([]float64, m*k), 0), src.fill(make([]float64, k*n), 0)
	want := naive(a, b, m, n, k, Options{LDA: k, LDB: n}, false)
	done := make(chan []float64)
	for range 4 {
		go func() {
			c, s := make([]float64, m*n), make([]float64, m*n)
			MulAbs(c, s, a, b, m, n, k, Options{Threads: 8})
			Mul(c, a, b, m, n, k, Options{Threads: 8})
			done <- c
		}()
	}
	tr := trial{m: m, n: n, k: k, threads: 8}
	for range 4 {
		tr.compare(t, "Mul", <-done, want, n)
	}
}

// TestDivide checks that blocks cover c, keep to the cache sizes and give every goroutine work.
func TestDivide(t *testing.T) {
	sizes := [][2]int{{1, 1}, {1, 100000}, {100000, 1}, {64, 4096}, {4096, 64}, {1024, 1024}, {130, 130}, {5, 13}}
	for _, size := range sizes {
		for _, threads := range []int{1, 2, 3, 16, 200} {
			j := job{problem: problem{m: size[0], n: size[1], k: 1}}
			j.divide(threads)
			if j.cols > nBlock || j.cols%tileCols != 0 || j.rows%tileRows != 0 {
				t.Errorf("divide(%v, %d threads) = blocks of %d×%d", size, threads, j.rows, j.cols)
			}
			if j.across != ceilDiv(j.n, j.cols) || j.blocks != ceilDiv(j.m, j.rows)*j.across {
				t.Errorf("divide(%v, %d threads): %d blocks, %d across, of %d×%d", size, threads, j.blocks, j.across,
					j.rows, j.cols)
			}
			if j.m >= 2*mBlock && j.n >= 2*minCols && j.blocks < min(threads, 16) {
				t.Errorf("divide(%v, %d threads) = %d blocks, want at least %d", size, threads, j.blocks, min(threads, 16))
			}
		}
	}
}

// TestNoAllocation checks that pooled memory is reused, goroutines included.
func TestNoAllocation(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes sync.Pool drop a part of what it is given")
	}
	const m, n, k = 140, 140, 100
	src := source(4)
	a, b := src.fill(make([]float64, m*k), 0), src.fill(make([]float64, k*n), 0)
	c, s := make([]float64, m*n), make([]float64, m*n)
	for _, threads := range []int{1, 2} {
		got := testing.AllocsPerRun(50, func() {
			Mul(c, a, b, m, n, k, Options{Threads: threads})
			MulAbs(c, s, a, b, m, n, k, Options{Threads: threads})
		})
		if got >= 1 { // a collection in between may empty the pools
			t.Errorf("Mul and MulAbs with %d threads allocate %v times, want 0", threads, got)
		}
	}
	runtime.KeepAlive(c)
}
