// This file implements the test of the frozen results: known answers, and hashes over many results.

package libm_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"testing"

	"gpuemu/internal/libm"
	"gpuemu/internal/testkit"
	"gpuemu/internal/testkit/bigmath"
)

const vectorFile = "libm/libm-v1.json"

var freeze = flag.Bool("freeze", false, "write the vectors if there are none; existing ones are never rewritten")

// vectors is the content of the vector file.
type vectors struct {
	Format    string        `json:"format"`
	Functions []vectorGroup `json:"functions"`
}

// vectorGroup has the answers of one function. Pow has a y with each x.
type vectorGroup struct {
	Name  string   `json:"name"`
	Known []answer `json:"known"`
	Sweep sweep    `json:"sweep"`
}

type answer struct {
	X    testkit.Bits  `json:"x"`
	Y    *testkit.Bits `json:"y,omitempty"`
	Want testkit.Bits  `json:"want"`
}

// sweep is the SHA-256 of the results, 8 bytes each and little-endian, for arguments drawn with splitmix64 from seed:
// with the numbers u, v of draws 2i and 2i+1, argument i is the float64 with bits u for even i, and for odd i
// lo + (hi-lo)·w, each operation rounded, with w = u·2^-64 cut to 53 bits. The second argument is the same with v and
// the interval y.
type sweep struct {
	Seed   testkit.U64     `json:"seed"`
	Count  int             `json:"count"`
	X      [2]testkit.Bits `json:"x"`
	Y      [2]testkit.Bits `json:"y"`
	SHA256 string          `json:"sha256"`
}

func (s sweep) hash(f func(x, y float64) float64) string {
	state := uint64(s.Seed)
	draw := func(i int, interval [2]testkit.Bits) float64 {
		state += 0x9e3779b97f4a7c15
		z := state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		z ^= z >> 31
		if i%2 == 0 {
			return math.Float64frombits(z)
		}
		lo, hi := interval[0].F64(), interval[1].F64()
		return lo + float64((hi-lo)*(float64(z>>11)*0x1p-53))
	}
	h := sha256.New()
	var b [8]byte
	for i := range s.Count {
		x := draw(i, s.X)
		binary.LittleEndian.PutUint64(b[:], math.Float64bits(f(x, draw(i, s.Y))))
		h.Write(b[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// binaryFunction is any function of the package as a function of two arguments, with its exact counterpart and error.
type binaryFunction struct {
	name   string
	f      func(x, y float64) float64
	exact  func(m *bigmath.Math, x, y *big.Float) *big.Float
	ulps   float64
	x, y   [2]float64 // intervals of the sweep
	fixed  [][2]float64
	domain func(x, y float64) bool
}

func allFunctions() []binaryFunction {
	intervals := map[string][2]float64{
		"Exp": {-746, 710}, "Exp2": {-1076, 1025}, "Expm1": {-41, 41}, "Log": {0, 4}, "Log2": {0, 4}, "Log1p": {-1, 3},
		"Tanh": {-20, 20}, "Erf": {-6, 6}, "Erfc": {-6, 28}, "Sin": {-100, 100}, "Cos": {-100, 100},
	}
	var all []binaryFunction
	for _, fn := range functions {
		b := binaryFunction{name: fn.name, ulps: fn.ulps, x: intervals[fn.name]}
		b.f = func(x, _ float64) float64 { return fn.f(x) }
		b.exact = func(m *bigmath.Math, x, _ *big.Float) *big.Float { return fn.exact(m, x) }
		b.domain = func(x, _ float64) bool { return fn.inDomain(x) }
		single := []float64{nan, inf, -inf, 0, negZero, 1, -1, subnormal}
		for _, x := range append(single, fn.extra[:min(len(fn.extra), 8)]...) {
			b.fixed = append(b.fixed, [2]float64{x})
		}
		points := fn.arguments(30 + 8*len(fn.extra))
		for _, x := range points[len(points)-30:] {
			b.fixed = append(b.fixed, [2]float64{x})
		}
		all = append(all, b)
	}
	pow := binaryFunction{name: "Pow", f: libm.Pow, exact: (*bigmath.Math).Pow, ulps: powULP, x: [2]float64{0, 4},
		y: [2]float64{-300, 300}}
	pow.domain = func(x, y float64) bool {
		return x > 0 && x <= math.MaxFloat64 && math.Abs(y*math.Log(x)) < 1e6
	}
	xs, ys := powArguments(60)
	for i, x := range xs {
		pow.fixed = append(pow.fixed, [2]float64{x, ys[i]})
	}
	return append(all, pow)
}

func TestVectors(t *testing.T) {
	if *freeze {
		writeVectors(t)
	}
	v := testkit.Read[vectors](t, vectorFile)
	groups := map[string]vectorGroup{}
	for _, g := range v.Functions {
		groups[g.Name] = g
	}
	all := allFunctions()
	if len(groups) != len(all) || len(v.Functions) != len(all) {
		t.Errorf("%s has %d functions, want %d", vectorFile, len(v.Functions), len(all))
	}
	m := bigmath.New(160)
	for _, fn := range all {
		g := groups[fn.name]
		testkit.EachOf(t, fn.name, g.Known, func(t *testing.T, a answer) { fn.check(t, m, a) })
		t.Run(fn.name+"/sweep", func(t *testing.T) {
			if g.Sweep.Count < 100000 {
				t.Fatalf("sweep of %s has %d points, want at least 100000", fn.name, g.Sweep.Count)
			}
			if got := g.Sweep.hash(fn.f); got != g.Sweep.SHA256 {
				t.Errorf("sweep of %s = %s, want %s", fn.name, got, g.Sweep.SHA256)
			}
		})
	}
}

// check compares the frozen answer with the function, and with the truth.
func (fn binaryFunction) check(t *testing.T, m *bigmath.Math, a answer) {
	x, y := a.X.F64(), 0.0
	if a.Y != nil {
		y = a.Y.F64()
	}
	if got := fn.f(x, y); !same(got, a.Want.F64()) {
		t.Errorf("%s(%v, %v) = %#016x, want %v", fn.name, x, y, math.Float64bits(got), a.Want)
	}
	if !fn.domain(x, y) {
		return
	}
	if e := bigmath.ULPError(a.Want.F64(), fn.exact(m, m.FromFloat64(x), m.FromFloat64(y))); e > fn.ulps {
		t.Errorf("%s(%v, %v) is frozen as %v, which is off by %.3f ulp, want at most %v", fn.name, x, y, a.Want, e, fn.ulps)
	}
}

// textAnswer is an answer for writing.
type textAnswer struct {
	X    string `json:"x"`
	Y    string `json:"y,omitempty"`
	Want string `json:"want"`
}

func writeVectors(t *testing.T) {
	t.Helper()
	path := testkit.VectorPath(t, vectorFile)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s is there already: a changed result is a new version of the vectors", path)
	}
	bits := func(x float64) testkit.Bits { return testkit.Bits{U: math.Float64bits(x), Width: 64} }
	var groups []any
	for i, fn := range allFunctions() {
		var known []textAnswer
		for _, p := range fn.fixed {
			a := textAnswer{X: bits(p[0]).String(), Want: bits(fn.f(p[0], p[1])).String()}
			if fn.name == "Pow" {
				a.Y = bits(p[1]).String()
			}
			known = append(known, a)
		}
		s := sweep{Seed: testkit.U64(i + 1), Count: 100000}
		s.X = [2]testkit.Bits{bits(fn.x[0]), bits(fn.x[1])}
		s.Y = [2]testkit.Bits{bits(fn.y[0]), bits(fn.y[1])}
		groups = append(groups, map[string]any{"name": fn.name, "known": known, "sweep": map[string]any{
			"seed": big.NewInt(int64(s.Seed)).String(), "count": s.Count,
			"x": []string{s.X[0].String(), s.X[1].String()}, "y": []string{s.Y[0].String(), s.Y[1].String()},
			"sha256": s.hash(fn.f),
		}})
	}
	out, err := json.MarshalIndent(map[string]any{
		"format": "gpuemu libm v1: results of the fp64 elementary functions, as IEEE bit strings; " +
			"sweep: see internal/libm/vectors_test.go",
		"functions": groups,
	}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(out, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}
