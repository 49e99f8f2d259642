package gemm

// This file implements packing: panels of a and b in the order in which the tile kernel reads them.

import "math"

// A mover is one call of a packing kernel.
//
// copyGo copies n rows of twelve elements, stride apart in src, without a gap to dst, through mask. turnGo copies
// four rows of n elements, stride apart in src, into columns: row r, element p goes to dst[p*step+r].
type mover struct {
	dst, src        []float64
	step, stride, n int
	mask            uint64
	vector          bool // run the assembly
}

func copyGo(m *mover) {
	for i := range m.n {
		dst, src := m.dst[i*tileCols:][:tileCols], m.src[i*m.stride:][:tileCols]
		for j, x := range src {
			dst[j] = math.Float64frombits(math.Float64bits(x) & m.mask)
		}
	}
}

func turnGo(m *mover) {
	n := m.n
	r0, r1, r2, r3 := m.src[:n], m.src[m.stride:][:n], m.src[2*m.stride:][:n], m.src[3*m.stride:][:n]
	for p := range r0 {
		q := m.dst[p*m.step:][:4]
		q[0], q[1], q[2], q[3] = r0[p], r1[p], r2[p], r3[p]
	}
}

// copy copies n rows of twelve.
func (m *mover) copy(dst, src []float64, stride, n int, mask uint64) {
	m.dst, m.src, m.stride, m.n, m.mask = dst, src, stride, n, mask
	if m.vector {
		copyAVX2(m)
	} else {
		copyGo(m)
	}
}

// turn copies rows (at most four) of n elements, stride apart, into columns, which are step apart.
func (m *mover) turn(dst, src []float64, rows, n int) {
	if rows < 4 {
		for r := range rows {
			for p, x := range src[r*m.stride:][:n] {
				dst[p*m.step+r] = x
			}
		}
		return
	}
	whole := 0
	if m.vector {
		whole = n / 4 * 4
	}
	if whole > 0 {
		m.dst, m.src, m.n = dst, src, whole
		turnAVX2(m)
	}
	if whole < n {
		m.dst, m.src, m.n = dst[whole*m.step:], src[whole:], n-whole
		turnGo(m)
	}
}

// packA copies part's rows of a into panels of four: a[i,p] of a panel is at p*tileRows+i. Rows beyond the edge
// are zero. The length is rounded up to whole rows of the copying kernel.
func (s *scratch) packA(st *step, part block) {
	s.aPack = grown(s.aPack, roundUp(roundUp(part.i1-part.i0, tileRows)*st.kc, tileCols))
	s.m.step, s.m.stride = tileRows, st.lda
	for i := part.i0; i < part.i1; i += tileRows {
		rows := min(part.i1-i, tileRows)
		if st.aInPlace && rows == tileRows {
			continue
		}
		panel := s.aPack[(i-part.i0)*st.kc:][:tileRows*st.kc]
		if rows < tileRows {
			clear(panel)
		}
		s.m.turn(panel, st.a[i*st.lda+st.p0:], rows, st.kc)
	}
	if st.s != nil {
		s.aAbs = grown(s.aAbs, len(s.aPack))
		s.m.copy(s.aAbs, s.aPack, tileCols, len(s.aPack)/tileCols, maskSign)
	}
}

// packB copies part's columns of b into panels of twelve: b[p,j] of a panel is at p*tileCols+j. Columns beyond
// the edge are zero.
func (s *scratch) packB(st *step, part block) {
	s.bPack = grown(s.bPack, roundUp(part.j1-part.j0, tileCols)*st.kc)
	for j := part.j0; j < part.j1; j += tileCols {
		cols := min(part.j1-j, tileCols)
		if st.bInPlace && cols == tileCols {
			continue
		}
		panel := s.bPack[(j-part.j0)*st.kc:][:tileCols*st.kc]
		if cols < tileCols {
			clear(panel)
		}
		switch {
		case st.transB:
			s.m.step, s.m.stride = tileCols, st.ldb
			for q := 0; q < cols; q += 4 {
				s.m.turn(panel[q:], st.b[(j+q)*st.ldb+st.p0:], min(cols-q, 4), st.kc)
			}
		case cols == tileCols:
			s.m.copy(panel, st.b[st.p0*st.ldb+j:], st.ldb, st.kc, maskAll)
		default:
			for p := range st.kc {
				copy(panel[p*tileCols:][:cols], st.b[(st.p0+p)*st.ldb+j:])
			}
		}
	}
}
