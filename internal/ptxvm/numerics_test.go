package ptxvm

import (
	"strings"
	"testing"

	"gpuemu/internal/ptx"
)

// This file implements tests of the results that PTX leaves open: ends of bounds, and fused products.

// loadWith loads the kernel of a case with a choice of results.
func (c *rowCase) loadWith(t testing.TB, n Numerics) *Program {
	t.Helper()
	f, err := ptx.Parse("row.ptx", c.kernel())
	if err != nil {
		t.Fatalf("%s: %v", c.text, err)
	}
	p, err := LoadWith(f, "", n)
	if err != nil {
		t.Fatalf("%s: %v", c.text, err)
	}
	return p
}

// same is a launch of full warps with one tuple of operands.
func same(x ...uint64) [][]uint64 {
	list := make([][]uint64, warpSize)
	for i := range list {
		list[i] = x
	}
	return list
}

// TestEdges: the results of approximate instructions lie where they are asked to be. The bounds are those of the PTX
// ISA, in units in the last place or computed by hand.
func TestEdges(t *testing.T) {
	for _, c := range []struct {
		text, typ                  string
		x                          []uint64
		nearest, largest, smallest uint64
	}{
		{"ex2.approx.f32 $d, $a;", "f32", []uint64{0x3f000000}, 0x3fb504f3, 0x3fb504f5, 0x3fb504f1},     // 2 places
		{"rcp.approx.ftz.f32 $d, $a;", "f32", []uint64{0x40400000}, 0x3eaaaaab, 0x3eaaaaac, 0x3eaaaaaa}, // 1 place
		{"div.full.f32 $d, $a, $b;", "f32", []uint64{0x3f800000, 0x40400000}, 0x3eaaaaab, 0x3eaaaaad, 0x3eaaaaa9},
		{"tanh.approx.f32 $d, $a;", "f32", []uint64{0x3f800000}, 0x3f42f7d6, 0x3f431034, 0x3f42df77}, // 2^-11 of it
		{"sin.approx.f32 $d, $a;", "f32", []uint64{0x447a0000}, 0x3f53ae61, 0x3f800000, 0xbf800000},  // 1000: anything
		{"sin.approx.f32 $d, $a;", "f32", []uint64{0x3f800000}, 0x3f576aa4, 0x3f576aaf, 0x3f576a9a},  // 2^-20.5
		{"ex2.approx.f32 $d, $a;", "f32", []uint64{0x7f800000}, 0x7f800000, 0x7f800000, 0x7f800000},  // not finite
		{"ex2.approx.ftz.bf16x2 $d, $a;", "b32", []uint64{0x3f003f00}, 0x3fb53fb5, 0x3fb63fb6, 0x3fb43fb4},
		{"rsqrt.approx.f64 $d, $a;", "f64", []uint64{0x4010000000000000}, 0x3fe0000000000000, 0x3fe0000000000002,
			0x3fdffffffffffffe},
	} {
		r := rowCase{text: c.text, dst: bitsType(c.typ), src: times(len(c.x), c.typ)}
		for edge, want := range map[Edge]uint64{Nearest: c.nearest, Largest: c.largest, Smallest: c.smallest} {
			if got := r.run(t, r.loadWith(t, Numerics{Approx: edge}), same(c.x...), 32, true)[7]; got != want {
				t.Errorf("%s of %#x at edge %d: %#x, want %#x", c.text, c.x, edge, got, want)
			}
		}
	}
}

// TestContract fuses what ptxas 13.0 fuses for sm_90a, and nothing else. $a and $b are 1+2^-12, $c is -(1+2^-11), for
// types with fewer bits accordingly: the rounded product and $c cancel, the exact one leaves its last bit.
func TestContract(t *testing.T) {
	operands := map[string][]uint64{
		"f32":    {0x3f800800, 0x3f800800, 0xbf801000, 0x3f800000},
		"f64":    {0x3ff0000001000000, 0x3ff0000001000000, 0xbff0000002000000, 1},
		"f16":    {0x3c10, 0x3c10, 0xbc20, 0x3c00},
		"f16x2":  {0x3c103c10, 0x3c103c10, 0xbc20bc20, 0x3c003c00},
		"bf16":   {0x3f88, 0x3f88, 0xbf90, 0x3f80},
		"bf16x2": {0x3f883f88, 0x3f883f88, 0xbf90bf90, 0x3f803f80},
	}
	for _, c := range []struct {
		text, typ string
		fused     bool
	}{
		{"mul.T $m, $a, $b; add.T $d, $m, $c;", "f32", true},
		{"mul.T $m, $a, $b; add.T $d, $c, $m;", "f32", true},
		{"neg.T $c, $c; mul.T $m, $a, $b; sub.T $d, $m, $c;", "f32", true},
		{"neg.T $c, $c; mul.T $m, $a, $b; sub.T $d, $c, $m;", "f32", true},
		{"mul.T $m, $a, $b; mul.T $n, $c, $e; add.T $d, $m, $n;", "f32", true},
		{"mul.T $m, $a, $b; mul.T $n, $c, $e; add.T $d, $n, $m;", "f32", false}, // $n is fused, and exact
		{"mul.T $m, $a, $b; add.T $d, $m, $c; add.T $n, $m, $e;", "f32", true},
		{"mul.T $m, $a, $b; add.T $d, $m, $c; mov.b32 $n, $m;", "f32", false},
		{"mul.rn.T $m, $a, $b; add.T $d, $m, $c;", "f32", false},
		{"mul.T $m, $a, $b; add.rn.T $d, $m, $c;", "f32", false},
		{"mul.T $m, $a, $b; add.rz.T $d, $m, $c;", "f32", false},
		{"mul.ftz.T $m, $a, $b; add.ftz.T $d, $m, $c;", "f32", true},
		{"mul.ftz.T $m, $a, $b; add.T $d, $m, $c;", "f32", false},
		{"mul.T $m, $a, $b; add.ftz.T $d, $m, $c;", "f32", false},
		{"mul.T $m, $a, $b; add.sat.T $d, $m, $c;", "f32", true},
		{"mul.sat.T $m, $a, $b; add.T $d, $m, $c;", "f32", false},
		{"mul.T $m, $a, $b; add.T $n, $m, $m; sub.T $n, $n, $m; add.T $d, $n, $c;", "f32", false},
		{"setp.ne.b32 $u0, $c, 0; mul.T $m, $a, $b; @$u0 add.T $d, $m, $c; @!$u0 mov.b32 $d, $a;", "f32", true},
		{"setp.ne.b32 $u0, $c, 0; mov.b32 $d, $a; mul.T $m, $a, $b; @!$u0 bra skip; add.T $d, $m, $c; skip:", "f32", false},
		{"mov.b32 $m, $a; setp.ne.b32 $u0, $c, 0; @$u0 mul.T $m, $a, $b; add.T $d, $m, $c;", "f32", false},
		{"mul.T $m, $a, $b; mov.b32 $a, $e; add.T $d, $m, $c; mov.b32 $n, $a;", "f32", false}, // ptxas renames $a
		{"mul.T $m, $a, $b; add.T $n, $m, $e; mul.T $m, $a, $b; add.T $d, $m, $c;", "f32", true},
		{"mul.T $m, $a, $b; add.T $d, $m, $c;", "f64", true},
		{"mul.T $m, $a, $b; sub.T $d, $c, $m; add.T $n, $m, $e;", "f64", false}, // the sum of two numbers above 1
		{"mul.rn.T $m, $a, $b; add.T $d, $m, $c;", "f64", false},
		{"mul.T $m, $a, $b; add.T $d, $m, $c;", "f16", true},
		{"mul.T $m, $a, $b; add.T $d, $m, $c;", "f16x2", true},
		{"mul.rn.T $m, $a, $b; add.rn.T $d, $m, $c;", "f16x2", false},
		{"mul.T $m, $a, $b; add.T $d, $m, $c;", "bf16", true},
		{"mul.T $m, $a, $b; add.T $d, $m, $c;", "bf16x2", true},
	} {
		bits := bitsType(c.typ)
		r := rowCase{text: ".reg ." + bits + " $m, $n; " + strings.ReplaceAll(c.text, "T ", c.typ+" "), dst: bits,
			src: times(4, c.typ)}
		inputs := same(operands[c.typ]...)
		apart := r.run(t, r.load(t), inputs, 32, true)[5]
		for _, block := range []int{32, 16} {
			if got := r.run(t, r.loadWith(t, Numerics{Contract: true}), inputs, block, true)[5]; got != apart != c.fused {
				t.Errorf("%s: %#x, and %#x with contraction; fused is to be %v", c.text, apart, got, c.fused)
			}
		}
	}
}
