package ptxvm

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	atomics "sync/atomic"
)

// This file implements memory: buffers of a launch, and how addresses find them.

// bufferGap is the space between two buffers of a launch, in bytes: an access that misses a buffer by less than this
// hits nothing. No index of 32 bits of elements of 8 bytes reaches another buffer.
const bufferGap = 1 << 34

// variableGap is the same for variables of a module, of which there may be many.
const variableGap = 1 << 16

// bufferAlign is what addresses of buffers are multiples of, but for the residues that launches ask for: cudaMalloc
// gives no less.
const bufferAlign = 256

// memory is the global memory of a launch.
type memory struct{ buffers []*buffer }

// buffer is a piece of memory.
type buffer struct {
	name     string
	base     uint64
	data     []byte
	readOnly bool
	arg      *Arg // nil for a variable of the module
	index    int  // in memory.buffers
	valid    []extent

	input     bool         // the kernel is to read it, and not to write to it
	unwritten bool         // it is taken to be read only: see runApart
	touched   atomics.Bool // somebody was allowed to write to it
}

// touch notes that the buffer is written to. Workers share it: who has nothing to say only reads.
func (b *buffer) touch() {
	if !b.touched.Load() {
		b.touched.Store(true)
	}
}

// sharedGap lies between two variables in shared memory, in bytes: what misses one by less hits no other. It is as wide
// as all banks, so that conflicts stay as they are.
const sharedGap = 128

// sharedPart is a variable in shared memory, or the dynamic part of it.
type sharedPart struct {
	name string
	extent
}

// sharedBytes is how much shared memory a block has.
func (g *grid) sharedBytes() int {
	if n := len(g.sharedParts); n > 0 {
		return int(g.sharedParts[n-1].to)
	}
	return 0
}

// nearestShared is the part of shared memory that an address misses by the least; nil where there is none.
func (g *grid) nearestShared(at uint64) (nearest *sharedPart) {
	least := ^uint64(0)
	for i := range g.sharedParts {
		p := &g.sharedParts[i]
		far := uint64(0)
		switch {
		case at < p.from:
			far = p.from - at
		case at >= p.to:
			far = at - p.to + 1
		}
		if far < least {
			nearest, least = p, far
		}
	}
	return nearest
}

// sharedAt is the last part of shared memory that begins before an access, and whether the access lies in it.
func (g *grid) sharedAt(at uint64, size int) (part *sharedPart, inside bool) {
	list := g.sharedParts
	i := sort.Search(len(list), func(i int) bool { return list[i].from > at }) - 1
	if i < 0 {
		return nil, false
	}
	return &list[i], at+uint64(size) <= list[i].to
}

// extent is a part of a buffer, in bytes.
type extent struct{ from, to uint64 }

// allows reports whether an access to a buffer lies in one of the parts that may be accessed.
func (b *buffer) allows(offset uint64, size int) bool {
	if b.valid == nil {
		return true
	}
	i := sort.Search(len(b.valid), func(i int) bool { return b.valid[i].to > offset })
	return i < len(b.valid) && b.valid[i].from <= offset && offset+uint64(size) <= b.valid[i].to
}

// extents are the valid parts of a buffer of an argument in order, those that touch as one; nil where all of it is
// valid. It returns false where one of them is not in the buffer.
func (a *Arg) extents() (list []extent, ok bool) {
	for _, v := range a.Valid {
		if v[0] < 0 || v[1] < 0 || v[0] > len(a.Buffer) || v[1] > len(a.Buffer)-v[0] {
			return nil, false
		}
		list = append(list, extent{uint64(v[0]), uint64(v[0] + v[1])})
	}
	slices.SortFunc(list, func(a, b extent) int { return cmp.Compare(a.from, b.from) })
	n := 0
	for _, s := range list {
		if n > 0 && s.from <= list[n-1].to {
			list[n-1].to = max(list[n-1].to, s.to)
			continue
		}
		list[n] = s
		n++
	}
	return list[:n], true
}

// add puts a buffer behind the others.
func (m *memory) add(a *Arg) *buffer {
	at := uint64(heapBase)
	if n := len(m.buffers); n > 0 {
		last := m.buffers[n-1]
		at = max(at, (last.base+uint64(len(last.data))+bufferGap+bufferAlign-1)/bufferAlign*bufferAlign)
	}
	b := &buffer{name: a.Name, base: at + uint64(a.Residue), data: a.Buffer, arg: a, index: len(m.buffers)}
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
	for i := range m.buffers {
		m.buffers[i].index = i
	}
}

// find returns the buffer that an address lies in, or nil.
func (m *memory) find(at uint64) *buffer {
	i := sort.Search(len(m.buffers), func(i int) bool { return m.buffers[i].base > at }) - 1
	if i < 0 || at-m.buffers[i].base >= uint64(len(m.buffers[i].data)) {
		return nil
	}
	return m.buffers[i]
}

// nowhere is what an access reaches that has no memory: reads give zero, and writes are lost.
type nowhere [64]byte

func (n *nowhere) bytes(size int) []byte {
	if size > len(n) {
		return make([]byte, size)
	}
	clear(n[:size])
	return n[:size]
}

// reach returns the bytes of an access of one lane. If there are none, it reports that and returns zeros that nobody
// else sees.
func (w *warp) reach(in *ins, m *access, lane int, at uint64, size int, write bool) []byte {
	sp := m.space
	if sp == genericSpace {
		sp, at = generic(at)
	}
	if at%uint64(size) != 0 {
		if f := w.report(in, lane, Misaligned, "address %#x is not a multiple of %d", at, size); f != nil {
			f.Address = at
		}
		return w.nowhere.bytes(size)
	}
	var data []byte
	var b *buffer
	offset := at
	switch sp {
	case sharedSpace:
		data = w.cta.shared
	case localSpace:
		data = w.local[lane*w.cta.grid.prog.localBytes:][:w.cta.grid.prog.localBytes]
	case paramSpace:
		data = w.cta.grid.params
	default:
		b = w.last
		if b == nil || at-b.base >= uint64(len(b.data)) {
			if b = w.cta.grid.memory.find(at); b == nil {
				w.outside(in, lane, sp, at, size, write)
				return w.nowhere.bytes(size)
			}
			w.last = b
		}
		data, offset = b.data, at-b.base
	}
	if offset >= uint64(len(data)) || uint64(size) > uint64(len(data))-offset {
		w.outside(in, lane, sp, at, size, write)
		return w.nowhere.bytes(size)
	}
	if sp == sharedSpace && len(w.cta.grid.sharedParts) > 1 && w.cta.grid.checks.has(CheckBounds) {
		if _, inside := w.cta.grid.sharedAt(offset, size); !inside {
			w.outside(in, lane, sp, at, size, write)
			return w.nowhere.bytes(size)
		}
	}
	if b != nil && !b.allows(offset, size) && w.cta.grid.checks.has(CheckBounds) {
		w.between(in, lane, b, offset, size, write)
		return w.nowhere.bytes(size)
	}
	if write && b != nil && b.unwritten {
		w.cta.grid.wrong.Store(true)
		return w.nowhere.bytes(size)
	}
	if write && (sp == paramSpace || b != nil && b.readOnly) {
		if f := w.report(in, lane, OutOfBoundsWrite, "writes to memory that is read only, at %#x", at); f != nil {
			f.Address = at
		}
		return w.nowhere.bytes(size)
	}
	if write && b != nil {
		if b.touch(); b.input {
			w.modifies(in, lane, b, offset, size)
		}
	}
	data = data[offset:][:size]
	if w.watch != nil {
		w.watch.touch(sp, lane, at, size)
	}
	if w.shadow != nil {
		w.shadow.note(sp, lane, write, b, offset, data)
	}
	return data
}

// modifies reports a write to an input.
func (w *warp) modifies(in *ins, lane int, b *buffer, offset uint64, size int) {
	f := w.report(in, lane, InputModified, "writes %d bytes at byte %d of %s, which is an input", size, offset, b.name)
	if f != nil {
		f.Address, f.Buffer, f.Element = b.base+offset, b.name, in.element()
	}
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

// between reports an access to bytes of a buffer that are not valid.
func (w *warp) between(in *ins, lane int, b *buffer, offset uint64, size int, write bool) {
	class, verb := OutOfBoundsRead, "reads"
	if write {
		class, verb = OutOfBoundsWrite, "writes"
	}
	i := sort.Search(len(b.valid), func(i int) bool { return b.valid[i].to > offset })
	where := "before the first valid part"
	switch {
	case i < len(b.valid) && b.valid[i].from <= offset:
		where = fmt.Sprintf("across the end of the valid part from %d to %d", b.valid[i].from, b.valid[i].to)
	case i > 0:
		where = fmt.Sprintf("behind the valid part from %d to %d", b.valid[i-1].from, b.valid[i-1].to)
	}
	f := w.report(in, lane, class, "%s %d bytes at byte %d of %s, %s", verb, size, offset, b.name, where)
	if f != nil {
		f.Address, f.Buffer = b.base+offset, b.name
	}
}

// outside reports an access where there is no memory.
func (w *warp) outside(in *ins, lane int, sp space, at uint64, size int, write bool) {
	class, verb := OutOfBoundsRead, "reads"
	if write {
		class, verb = OutOfBoundsWrite, "writes"
	}
	name, bytes, start := spaceNames[sp], 0, uint64(0)
	switch sp {
	case sharedSpace:
		if part := w.cta.grid.nearestShared(at); part != nil {
			name, bytes, start = name+" ("+part.name+")", int(part.to-part.from), part.from
		}
	case localSpace:
		bytes = w.cta.grid.prog.localBytes
	case paramSpace:
		bytes = len(w.cta.grid.params)
	default:
		b := w.cta.grid.memory.nearest(at)
		if b == nil {
			w.report(in, lane, class, "%s %d bytes at %#x, but there is no memory at all", verb, size, at)
			return
		}
		name, bytes, start = b.name, len(b.data), b.base
	}
	far := int64(at-start) + int64(size) - int64(bytes) // behind the end
	where := fmt.Sprintf("%d bytes behind the end of %s", far, name)
	switch {
	case at < start:
		far = int64(at - start)
		where = fmt.Sprintf("%d bytes before %s", -far, name)
	case far < 0 || uint64(far) > 1<<40:
		where = "far from " + name
	}
	f := w.report(in, lane, class, "%s %d bytes at %#x, %s, which has %d bytes", verb, size, at, where, bytes)
	if f != nil {
		f.Address, f.Buffer, f.Outside, f.Element = at, name, far, in.element()
	}
}

// element is how many bytes an element has that the instruction loads or stores; 0 where it does something else.
func (in *ins) element() int {
	if in.mem == nil {
		return 0
	}
	return in.mem.size
}

var spaceNames = map[space]string{sharedSpace: "shared memory", localSpace: "local memory",
	paramSpace: "the parameters"}

// nearest is the buffer that an access outside of all of them begins in, or misses by the least; nil if there are none.
func (m *memory) nearest(at uint64) *buffer {
	i := sort.Search(len(m.buffers), func(i int) bool { return m.buffers[i].base > at })
	switch {
	case len(m.buffers) == 0:
		return nil
	case i == 0:
		return m.buffers[0]
	case i == len(m.buffers):
		return m.buffers[i-1]
	}
	below, above := m.buffers[i-1], m.buffers[i]
	if end := below.base + uint64(len(below.data)); at < end || at-end <= above.base-at {
		return below
	}
	return above
}
