package ptxvm

import (
	"slices"
	"sort"
)

// This file implements memory: buffers of a launch, and how addresses find them.

// guardGap is the space between two buffers, in bytes: an access that misses a buffer by less than this hits nothing.
const guardGap = 1 << 16

// memory is the global memory of a launch.
type memory struct{ buffers []*buffer }

// buffer is a piece of memory.
type buffer struct {
	name     string
	base     uint64
	data     []byte
	readOnly bool
}

// add puts a buffer behind the others, 256-byte aligned.
func (m *memory) add(name string, data []byte, readOnly bool) *buffer {
	at := uint64(heapBase)
	if n := len(m.buffers); n > 0 {
		last := m.buffers[n-1]
		at = max(at, (last.base+uint64(len(last.data))+guardGap+255)/256*256)
	}
	b := &buffer{name, at, data, readOnly}
	m.buffers = append(m.buffers, b)
	return b
}

// fix puts a buffer at a given address.
func (m *memory) fix(b *buffer) {
	m.buffers = append(m.buffers, b)
	slices.SortFunc(m.buffers, func(a, b *buffer) int {
		if a.base < b.base {
			return -1
		}
		return 1
	})
}

// find returns the buffer that an address lies in, or nil.
func (m *memory) find(at uint64) *buffer {
	i := sort.Search(len(m.buffers), func(i int) bool { return m.buffers[i].base > at }) - 1
	if i < 0 || at-m.buffers[i].base >= uint64(len(m.buffers[i].data)) {
		return nil
	}
	return m.buffers[i]
}

// reach returns the bytes of an access of one lane. If there are none, it reports that and returns nil.
func (w *warp) reach(in *ins, m *access, lane int, at uint64, size int, write bool) []byte {
	sp := m.space
	if sp == genericSpace {
		sp, at = generic(at)
	}
	if at%uint64(size) != 0 {
		w.report(in, lane, Misaligned, "address %#x is not a multiple of %d", at, size)
		return nil
	}
	var data []byte
	readOnly := false
	switch sp {
	case sharedSpace:
		data = w.cta.shared
	case localSpace:
		data = w.local[lane*w.cta.grid.prog.localBytes:][:w.cta.grid.prog.localBytes]
	case paramSpace:
		data, readOnly = w.cta.grid.params, true
	default:
		b := w.cta.grid.memory.find(at)
		if b == nil {
			w.outside(in, lane, at, size, write)
			return nil
		}
		data, at, readOnly = b.data, at-b.base, b.readOnly
	}
	if at >= uint64(len(data)) || uint64(size) > uint64(len(data))-at {
		w.outside(in, lane, at, size, write)
		return nil
	}
	if write && readOnly {
		w.report(in, lane, OutOfBoundsWrite, "writes to memory that is read only, at %#x", at)
		return nil
	}
	return data[at:][:size]
}

// generic finds the space of a generic address.
func generic(at uint64) (space, uint64) {
	switch at / windowSize {
	case sharedWindow / windowSize:
		return sharedSpace, at - sharedWindow
	case localWindow / windowSize:
		return localSpace, at - localWindow
	case paramWindow / windowSize:
		return paramSpace, at - paramWindow
	}
	return globalSpace, at
}

func (w *warp) outside(in *ins, lane int, at uint64, size int, write bool) {
	if write {
		w.report(in, lane, OutOfBoundsWrite, "writes %d bytes at %#x, where there is no memory", size, at)
	} else {
		w.report(in, lane, OutOfBoundsRead, "reads %d bytes at %#x, where there is no memory", size, at)
	}
}
