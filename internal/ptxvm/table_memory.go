package ptxvm

import "gpuemu/internal/ptx"

// This file implements loads, stores and atomic operations.

var memoryRows = []row{
	{syntax: "ld [$space] [$cache] [.nc] [$l1] [$l2] [.v2|.v4] $data", build: load},
	{syntax: "ld .volatile [$space] [.v2|.v4] $data", build: load},
	{syntax: "ld .weak|.relaxed|.acquire [$scope] [$space] [.v2|.v4] $data", build: load},
	{syntax: "st [$space] [$cache] [$l1] [.v2|.v4] $data", build: store},
	{syntax: "st .volatile [$space] [.v2|.v4] $data", build: store},
	{syntax: "st .weak|.relaxed|.release [$scope] [$space] [.v2|.v4] $data", build: store},
	{syntax: "membar .cta|.gl|.sys", build: nothing},
	{syntax: "fence .sc|.acq_rel $scope", build: nothing},
	{syntax: "prefetch .global|.local .L1|.L2", build: nothing},
}

// access is what a load or a store does.
type access struct {
	space  space
	size   int    // bytes of an element
	typ    string // of an element
	base   ref    // register with the address, or a constant
	offset uint64
}

func nothing(b *builder) { b.out.run = func(*warp, *ins) {} }

// memory reads the address operand.
func (b *builder) memory(o *ptx.Operand) *access {
	t := b.typ(0)
	m := &access{space: b.spaceMod(), size: typeBytes(t), typ: t}
	base := &o.List[0]
	if len(o.List) != 1 || o.Field != "" {
		b.fail(o.Pos, "", "address %s is not executed here", o)
		return m
	}
	switch base.Kind {
	case ptx.RegisterArg:
		m.base, m.offset = b.register(base), uint64(base.Offset)
	case ptx.SymbolArg:
		s := b.symbolOf(base)
		if m.space != genericSpace {
			m.space = s.space // parameters of functions are local memory
		} else if s.space != globalSpace {
			b.fail(o.Pos, "", "a generic address of %s is not executed here", base.Text)
		}
		m.base = b.address(s, base.Offset, class64)
	case ptx.IntArg:
		m.base = b.constant(class64, base.Value)
	default:
		b.fail(o.Pos, "", "address %s is not executed here", o)
	}
	if m.space == constSpace {
		m.space = globalSpace
	}
	return m
}

func load(b *builder) {
	b.out.mem = b.memory(&b.in.Args[1])
	b.out.list = b.elements(&b.in.Args[0], true)
	b.out.run = runLoad
}

func store(b *builder) {
	b.out.mem = b.memory(&b.in.Args[0])
	b.out.list = b.elements(&b.in.Args[1], false)
	b.out.run = runStore
}

// elements are the slots of a register or a vector. Registers may be wider than what is loaded or stored.
func (b *builder) elements(o *ptx.Operand, dst bool) []ref {
	list := o.List
	if o.Kind != ptx.VectorArg {
		list = []ptx.Operand{*o}
	}
	var refs []ref
	for i := range list {
		e := &list[i]
		switch {
		case e.Kind == ptx.RegisterArg:
			refs = append(refs, b.register(e))
		case dst:
			refs = append(refs, b.dstOf(e, b.typ(0)))
		default:
			refs = append(refs, b.srcOf(e, b.typ(0)))
		}
	}
	return refs
}

func runLoad(w *warp, in *ins) {
	m := in.mem
	if w.mask == allLanes && m.size == 4 && len(in.list) == 1 && in.list[0].class() == class32 && w.loadRow(in) {
		return
	}
	for lane := range w.lanes() {
		at := w.get(m.base, lane) + m.offset
		for _, d := range in.list {
			data := w.reach(in, m, lane, at, m.size, false)
			if data == nil {
				return
			}
			v := getBytes(data, m.size)
			if m.typ[0] == 's' {
				v = uint64(signed(v, m.typ))
			}
			w.set(d, lane, v)
			at += uint64(m.size)
		}
	}
}

// loadRow loads 32 neighbouring words at once, and reports whether it could.
func (w *warp) loadRow(in *ins) bool {
	m := in.mem
	if !m.base.wide() || m.space != globalSpace {
		return false
	}
	a := &w.r64[m.base.index()]
	first := a[0] + m.offset
	for i := 1; i < warpSize; i++ {
		if a[i] != a[0]+uint64(4*i) {
			return false
		}
	}
	buf := w.cta.grid.memory.find(first)
	if buf == nil || first&3 != 0 || first+4*warpSize > buf.base+uint64(len(buf.data)) {
		return false
	}
	data := buf.data[first-buf.base:][:4*warpSize]
	d := &w.r32[in.list[0].index()]
	for i := range d {
		d[i] = uint32(data[4*i]) | uint32(data[4*i+1])<<8 | uint32(data[4*i+2])<<16 | uint32(data[4*i+3])<<24
	}
	return true
}

func runStore(w *warp, in *ins) {
	m := in.mem
	for lane := range w.lanes() {
		at := w.get(m.base, lane) + m.offset
		for _, s := range in.list {
			data := w.reach(in, m, lane, at, m.size, true)
			if data == nil {
				return
			}
			putBytes(data, w.get(s, lane), m.size)
			at += uint64(m.size)
		}
	}
}

func getBytes(b []byte, size int) (v uint64) {
	switch size {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(b[0]) | uint64(b[1])<<8
	case 4:
		return uint64(uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24)
	}
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 | uint64(b[4])<<32 | uint64(b[5])<<40 |
		uint64(b[6])<<48 | uint64(b[7])<<56
}

func putBytes(b []byte, v uint64, size int) {
	for i := range size {
		b[i] = byte(v >> (8 * i))
	}
}
