package ptxvm

import (
	"encoding/binary"
	"math/bits"
)

// This file implements accesses of all active lanes at once: where all of them lie in one piece of memory and are
// aligned, the memory is looked up once. All other accesses go lane by lane, and say what is wrong with them.

// sweep is such an access. Its offsets are in warp.at; those of lanes that are not active are that of the first one.
type sweep struct {
	space  space
	data   []byte
	buffer *buffer // nil outside of global memory
	like   layout
	all    uint32 // lanes that access everything the sweep does; filled in for checks of loads
	shares uint32 // of them, those whose place others access, too; the same
}

// sweep looks up the memory for size bytes a lane; nil where not all active lanes can access one piece of it.
func (w *warp) sweep(m *access, size int, write bool) *sweep {
	s := &w.swept
	first := m.at(w, bits.TrailingZeros32(w.mask))
	start, lowest := uint64(0), uint64(0)
	if s.space = m.space; s.space == genericSpace {
		var at uint64
		s.space, at = generic(first)
		start = first - at
		first = at
	}
	s.buffer = nil
	switch s.space {
	case sharedSpace:
		s.data = w.cta.shared
		if g := w.cta.grid; len(g.sharedParts) > 1 && g.checks.has(CheckBounds) {
			part, inside := g.sharedAt(first, size)
			if !inside {
				return nil
			}
			s.data, lowest = s.data[:part.to], part.from
		}
	case paramSpace:
		s.data = w.cta.grid.params
	case globalSpace:
		b := w.last
		if b == nil || first-b.base >= uint64(len(b.data)) {
			if b = w.cta.grid.memory.find(first); b == nil {
				return nil
			}
			w.last = b
		}
		if b.valid != nil { // parts of it are looked at lane by lane
			return nil
		}
		s.data, s.buffer, start = b.data, b, b.base
	default: // local memory is another one for each lane
		return nil
	}
	if len(s.data) < size || start&uint64(size-1) != 0 ||
		write && (s.space == paramSpace || s.buffer != nil && (s.buffer.readOnly || s.buffer.input)) {
		return nil
	}
	base := w.addresses(m)
	if base != &w.at {
		start -= m.offset
	}
	s.like = fast.offsets(&w.at, base, start, uint64(len(s.data)-size), uint64(size-1))
	if s.like&outside != 0 {
		return nil
	}
	if lowest > 0 {
		for _, at := range w.at {
			if at < lowest {
				return nil
			}
		}
	}
	if write && s.buffer != nil {
		s.buffer.touch()
	}
	return s
}

// addresses are those of the lanes, without the offset of the instruction unless they are in warp.at.
func (w *warp) addresses(m *access) *lanes64 {
	switch {
	case w.mask != allLanes && m.base.wide():
		base := &w.r64[m.base.index()]
		fill64(&w.scratch64, base[bits.TrailingZeros32(w.mask)&31])
		fast.select64(&w.scratch64, base, &w.scratch64, w.mask)
		return &w.scratch64
	case w.mask != allLanes:
		first := m.at(w, bits.TrailingZeros32(w.mask))
		for lane := range w.at {
			w.at[lane] = first
			if w.mask>>lane&1 != 0 {
				w.at[lane] = m.at(w, lane)
			}
		}
		return &w.at
	case m.base.wide():
		return &w.r64[m.base.index()]
	case m.offset == 0:
		fast.zeroExtend(&w.at, &w.r32[m.base.index()])
		return &w.at
	}
	for lane, x := range w.r32[m.base.index()] {
		w.at[lane] = uint64(x + uint32(m.offset))
	}
	return &w.at
}

// load moves the data of a sweep to registers.
func (s *sweep) load(w *warp, in *ins) {
	m := in.mem
	like := s.like
	if len(in.list) > 1 {
		like &^= side
	}
	for i, r := range in.list {
		data := s.data[i*m.size:]
		switch {
		case m.words:
			fast.load(w.to32(r), data, &w.at, like)
			w.keep32(r)
		case r.wide() && like&uniform != 0:
			fill64(w.to64(r), m.value(data[w.at[0]:]))
			w.keep64(r)
		case r.wide():
			d := w.to64(r)
			for lane := range d {
				d[lane] = m.value(data[w.at[lane]:])
			}
			w.keep64(r)
		default:
			d := w.to32(r)
			for lane := range d {
				d[lane] = uint32(m.value(data[w.at[lane]:]))
			}
			w.keep32(r)
		}
	}
}

// value is an element of a load. A register that is wider gets it with its sign, or with zeros.
func (m *access) value(data []byte) uint64 {
	switch {
	case m.size == 2 && !m.extends():
		return uint64(binary.LittleEndian.Uint16(data))
	case m.size == 8:
		return binary.LittleEndian.Uint64(data)
	}
	v := getBytes(data, m.size)
	if m.extends() {
		v = uint64(signed(v, m.typ)) << (64 - 8*m.width) >> (64 - 8*m.width)
	}
	return v
}

// extends reports whether a load carries a sign on.
func (m *access) extends() bool { return m.typ[0] == 's' && m.width > m.size }

// store moves registers to the data of a sweep, the lowest lane first.
func (s *sweep) store(w *warp, in *ins) {
	m := in.mem
	like := s.like
	if len(in.list) > 1 {
		like &^= side
	}
	for i, r := range in.list {
		data := s.data[i*m.size:]
		if m.words && w.mask == allLanes {
			fast.store(data, &w.at, &w.r32[r.index()], like)
			continue
		}
		for mask := w.mask; mask != 0; mask &= mask - 1 {
			lane := bits.TrailingZeros32(mask) & 31
			putBytes(data[w.at[lane]:], w.get(r, lane), m.size)
		}
	}
}
