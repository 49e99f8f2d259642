package ptxvm

import (
	"math/bits"
	"sync"
)

// This file implements bits of bytes of global memory: which are defined, and which were written. Their memory grows
// with what a kernel touches.

// bitPage has the bits of pageBits bytes.
type bitPage [pageBits / 64]uint64

// pageBits is how many bytes share a page: the page is one of the machine's, and a buffer of a few elements costs no
// more than that.
const (
	pageBits     = 1 << 15
	bitPageBytes = pageBits / 8
)

// freeBitPages are pages of launches that have ended, with all bits clear.
var freeBitPages = sync.Pool{New: func() any { return new(bitPage) }}

// marks has one bit per byte of a buffer. A page that is not there has none set.
type marks struct {
	grid  *grid
	pages []*bitPage
	spare *bitPage // what is marked when the budget is used up, until the worker stops
}

func newMarks(g *grid, bytes int) *marks {
	return &marks{grid: g, pages: make([]*bitPage, (bytes+pageBits-1)/pageBits)}
}

// page is the page of an offset, which comes into being. After it was denied memory, a launch has one page for all.
func (m *marks) page(at uint64) *bitPage {
	p := m.pages[at/pageBits]
	switch {
	case p != nil:
	case m.grid.reserve(bitPageBytes, forChecks):
		p = freeBitPages.Get().(*bitPage)
		m.pages[at/pageBits] = p
	default:
		if m.spare == nil {
			m.spare = new(bitPage)
		}
		p = m.spare
	}
	return p
}

// all reports whether n bytes from at are marked, for an access as in bitset.all.
func (m *marks) all(at uint64, n int) bool {
	p := m.pages[at/pageBits]
	return p != nil && bitset(p[:]).all(at%pageBits, n)
}

// mark marks n bytes from at, of such an access.
func (m *marks) mark(at uint64, n int) {
	word := &m.page(at)[at%pageBits/64]
	*word |= ^uint64(0) >> (64 - n) << (at % 64)
}

// allRange is all for any number of bytes.
func (m *marks) allRange(at uint64, n int) bool {
	for end := at + uint64(n); at < end; {
		step := min(pageBits-at%pageBits, end-at)
		p := m.pages[at/pageBits]
		if p == nil || !bitset(p[:]).allRange(at%pageBits, int(step)) {
			return false
		}
		at += step
	}
	return true
}

// markRange marks any number of bytes.
func (m *marks) markRange(at uint64, n int) {
	for end := at + uint64(n); at < end; {
		step := min(pageBits-at%pageBits, end-at)
		bitset(m.page(at)[:]).markRange(at%pageBits, int(step), true)
		at += step
	}
}

// swept reports whether the bytes of a load are marked, of those lanes that access everything it does.
func (m *marks) swept(w *warp, s *sweep, size int) bool {
	switch {
	case s.like&uniform != 0:
		return m.all(w.at[0], size)
	case s.like&side != 0 && size == 4:
		return m.allRange(w.at[0], size*warpSize)
	}
	for lanes := s.all; lanes != 0; lanes &= lanes - 1 {
		if !m.all(w.at[bits.TrailingZeros32(lanes)&31], size) {
			return false
		}
	}
	return true
}

// sweep marks the bytes of a store.
func (m *marks) sweep(w *warp, s *sweep, size int) {
	if s.like&side != 0 && size == 4 {
		m.markRange(w.at[0], size*warpSize)
		return
	}
	for lanes := w.mask; lanes != 0; lanes &= lanes - 1 {
		m.mark(w.at[bits.TrailingZeros32(lanes)&31], size)
	}
}

// merge adds the marks of another worker, which has no use for them any more.
func (m *marks) merge(other *marks) {
	if m == nil {
		return
	}
	for i, p := range other.pages {
		switch {
		case p == nil:
		case m.pages[i] == nil:
			m.pages[i], other.pages[i] = p, nil
		default:
			for j, x := range p {
				m.pages[i][j] |= x
			}
		}
	}
}

// release gives the pages of a launch back.
func (m *marks) release() {
	if m == nil {
		return
	}
	for i, p := range m.pages {
		if p != nil {
			clear(p[:])
			freeBitPages.Put(p)
			m.pages[i] = nil
		}
	}
}
