package gemm

// This file implements the product for one block of c, by one goroutine: packing, tiles and edges.

import "sync"

// A block is the part c[i0:i1, j0:j1].
type block struct{ i0, i1, j0, j1 int }

// Reading a matrix in place saves packing it, which pays while few tiles read each element.
const (
	inPlaceA = 3 * tileCols // columns of c up to which a is read in place
	inPlaceB = 4 * tileRows // rows of c up to which b is read in place
)

// A scratch is what one goroutine needs besides the matrices.
type scratch struct {
	aPack, aAbs []float64                    // a step's rows of a in panels of four, and their magnitudes
	bPack       []float64                    // a step's columns of b in panels of twelve
	bAbs        [kBlock * tileCols]float64   // the magnitudes of one panel
	edge        [tileRows * tileCols]float64 // a tile that sticks out of c
	t           tile
	r           row
	m           mover
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// A step is the part of a problem from p0 to p0+kc along the chains, and how it reads the matrices: packed, or in
// place, where only the panel at the edge is packed.
type step struct {
	*problem
	p0, kc, flags      int
	aInPlace, bInPlace bool
}

// tileBlock computes blk in steps of kBlock along the chains. Within one step it is the usual scheme of Goto and
// van de Geijn (Anatomy of High-Performance Matrix Multiplication, 2008).
func (s *scratch) tileBlock(p *problem, blk block) {
	st := step{problem: p}
	st.aInPlace = blk.j1-blk.j0 <= inPlaceA && p.s == nil
	st.bInPlace = blk.i1-blk.i0 <= inPlaceB && !p.transB
	for st.p0 = 0; st.p0 < p.k; st.p0 += kBlock {
		st.kc = min(kBlock, p.k-st.p0)
		st.flags = chainFlags(st.p0, st.kc, p.k)
		s.packB(&st, blk)
		for i0 := blk.i0; i0 < blk.i1; i0 += mBlock {
			part := block{i0: i0, i1: min(i0+mBlock, blk.i1), j0: blk.j0, j1: blk.j1}
			s.packA(&st, part)
			s.tiles(&st, part)
		}
	}
}

// chainFlags returns the flags for the steps from p0 to p0+kc of k.
func chainFlags(p0, kc, k int) int {
	flags := 0
	if p0 == 0 {
		flags |= flagFirst
	}
	if p0+kc == k {
		flags |= flagLast
	}
	return flags
}

// tiles computes part of c, and of s if it is wanted, from the panels of a and b. The magnitudes of a panel of b
// are made when it is in the first-level cache anyway.
func (s *scratch) tiles(st *step, part block) {
	t := &s.t
	t.k, t.flags = st.kc, st.flags
	for j := part.j0; j < part.j1; j += tileCols {
		if st.bInPlace && part.j1-j >= tileCols {
			t.b, t.bRow = st.b[st.p0*st.ldb+j:], st.ldb
		} else {
			t.b, t.bRow = s.bPack[(j-part.j0)*st.kc:], tileCols
		}
		s.panel(st, st.c, s.aPack, part, j)
		if st.s != nil {
			s.m.copy(s.bAbs[:], t.b, t.bRow, st.kc, maskSign)
			t.b, t.bRow = s.bAbs[:], tileCols
			s.panel(st, st.s, s.aAbs, part, j)
		}
	}
}

// panel computes part's rows of the columns from j of c, with the panel of b that s.t has already.
func (s *scratch) panel(st *step, c, a []float64, part block, j int) {
	t := &s.t
	cols := min(tileCols, part.j1-j)
	for i := part.i0; i < part.i1; i += tileRows {
		rows := min(tileRows, part.i1-i)
		if st.aInPlace && rows == tileRows {
			t.a, t.aRow, t.aCol = st.a[i*st.lda+st.p0:], st.lda, 1
		} else {
			t.a, t.aRow, t.aCol = a[(i-part.i0)*st.kc:], 1, tileRows
		}
		at := c[i*st.ldc+j:]
		if rows == tileRows && cols == tileCols {
			t.c, t.ldc = at, st.ldc
			runTile(t, st.vector)
		} else {
			s.edgeTile(st, at, rows, cols)
		}
	}
}

// edgeTile computes the rows×cols elements at c through a whole tile of its own. What the padding of the panels
// gives beyond them is dropped.
func (s *scratch) edgeTile(st *step, c []float64, rows, cols int) {
	if st.flags&flagFirst == 0 {
		for i := range rows {
			copy(s.edge[i*tileCols:][:cols], c[i*st.ldc:])
		}
	}
	s.t.c, s.t.ldc = s.edge[:], tileCols
	runTile(&s.t, st.vector)
	for i := range rows {
		copy(c[i*st.ldc:][:cols], s.edge[i*tileCols:])
	}
}

func runTile(t *tile, vector bool) {
	if vector {
		tileAVX2(t)
	} else {
		tileGo(t)
	}
}

// grown returns a slice of n elements, buf's own memory where it suffices.
func grown(buf []float64, n int) []float64 {
	if cap(buf) < n {
		return make([]float64, n)
	}
	return buf[:n]
}
