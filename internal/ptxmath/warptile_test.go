package ptxmath

import (
	"testing"

	"gpuemu/internal/testkit/recorded"
)

// warpCase is a product in the registers of a warp, and the elements that lie there.
type warpCase struct {
	tileCase
	tile    WarpTile
	words   [14]Lanes // A, B, C and D
	rows    [16][]Elem
	columns [Width][]Elem
}

// place puts an element of A or B into its register (PTX ISA 9.7.14.5): number counts rows or columns, perGroup is how
// many registers eight neighbours along k have.
func (x *warpCase) place(registers []Lanes, number, k, perGroup int, v uint32) {
	r := &registers[k/8*perGroup+number/8]
	r[number%8*4+k%8/2] |= v << (k % 2 * 16)
}

// Kinds of products beside those of tiles.
const (
	mixedKind = tileKinds + iota // every element is of a kind of its own
	smallKind                    // products are smaller than the least normal number, their sums are not, and c is zero
	warpKinds
)

// fill draws all elements.
func (x *warpCase) fill(k int) {
	kind := x.kind
	element := func() uint32 {
		l := layouts[x.inA]
		switch kind {
		case mixedKind:
			x.kind = int(x.next() % tileKinds)
		case smallKind: // of bf16: f16 has no such numbers
			field := uint32(63)
			if r := x.next(); r%4 == 0 {
				field -= uint32(r >> 8 % 16)
			}
			return uint32(x.next())&(1<<l.fraction-1) | field<<l.fraction&(1<<15-1)
		}
		return x.draw(uint(l.fraction), uint(l.exponent))
	}
	for row := range x.rows {
		x.elemA = x.elemA[:0]
		for i := range k {
			v := element()
			x.place(x.words[:4], row, i, 2, v)
			x.elemA = append(x.elemA, x.inA.Decode(v))
		}
		x.rows[row] = append([]Elem(nil), x.elemA...)
	}
	for column := range x.columns {
		x.columns[column] = nil
		for i := range k {
			v := element()
			x.place(x.words[4:6], column, i, 1, v)
			x.columns[column] = append(x.columns[column], x.inA.Decode(v))
		}
	}
	for i := range x.words[6:10] {
		for lane := range x.words[6+i] {
			if x.words[6+i][lane] = x.draw(23, 8); kind == smallKind {
				x.words[6+i][lane] &= sign32
			}
		}
	}
	for i := range x.words {
		switch {
		case i < 4:
			x.tile.A[i] = &x.words[i]
		case i < 6:
			x.tile.B[i-4] = &x.words[i]
		case i < 10:
			x.tile.C[i-6] = &x.words[i]
		default:
			x.tile.D[i-10] = &x.words[i]
		}
	}
}

// usual are the kinds of tiles whose sums are always normal numbers or zero.
func (x *warpCase) usual() bool { return x.kind == 1 || x.kind == 3 || x.kind == 4 }

// TestWarpTiles compares products in registers with sums of one element: for both formats, depths, and chains of sums,
// also where D is C or A.
func TestWarpTiles(t *testing.T) {
	done := 0
	count := recorded.Soak(3000)
	for i := range count {
		k := 8 + i>>2&1*8
		x := &warpCase{tileCase: tileCase{state: uint64(i) << 20, inA: Input(i & 1), kind: i >> 3 % warpKinds, depth: k}}
		x.core = NewCore(Ampere+Arch(i>>1&1), x.inA, false)
		usual := x.usual()
		var quick bool
		if x.tile, quick = x.core.WarpTile(x.inA, k); !quick {
			t.Fatalf("%+v has no quick way", x.core)
		}
		x.fill(k)
		c := x.tile.C
		switch x.next() % 3 {
		case 1: // the registers of C, in another order
			x.tile.D = [4]*Lanes{c[2], c[3], c[0], c[1]}
		case 2:
			x.tile.D = x.tile.A
		}
		before := x.words
		if !x.tile.Add() {
			if x.words != before {
				t.Fatalf("kind %d: a product that was not made changes registers", x.kind)
			}
			if usual && quickTiles() {
				t.Fatalf("%+v, kind %d: %#x has no quick product", x.core, x.kind, before)
			}
			continue
		}
		done++
		for at := range 16 * Width {
			row, column := at/Width, at%Width
			register, lane := row/8*2+column%2, row%8*4+column/2
			want := x.core.slowF32(before[6+register][lane], x.rows[row], x.columns[column])
			if got := x.tile.D[register][lane]; got != want {
				t.Fatalf("%+v, format %d, kind %d, row %d, column %d of %#x: %#x, want %#x", x.core, x.inA, x.kind, row,
					column, before, got, want)
			}
		}
	}
	if quickTiles() && done < count/3 {
		t.Errorf("%d products of %d were made, want more than a third", done, count)
	}
	t.Logf("%d of %d products were made the quick way", done, count)
}

// TestSlowTiles: what has no quick way says so.
func TestSlowTiles(t *testing.T) {
	for name, x := range map[string]struct {
		core Core
		in   Input
		k    int
	}{
		"blocks of four": {NewCore(Volta, InF16, false), InF16, 16}, "tf32": {NewCore(Ampere, InTF32, false), InTF32, 8},
		"fp8": {NewCore(Hopper, InE4M3, false), InE4M3, 32}, "a short one": {NewCore(Ampere, InF16, false), InF16, 4},
	} {
		if _, quick := x.core.WarpTile(x.in, x.k); quick {
			t.Errorf("%s: there is a quick way", name)
		}
	}
}
