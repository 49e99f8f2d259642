package ptxvm

import (
	"encoding/binary"
	"slices"

	"gpuemu/internal/ptx"
)

// This file implements loads, stores and atomic operations.

var memoryRows = []row{
	{syntax: "ld [.weak] [$space] [$cache] [.nc] [$l1] [$keep] [.L2::cache_hint] [$l2] [$vec] $data", build: load},
	{syntax: "ld .volatile [$space] [$l2] [$vec] $data", build: load},
	{syntax: "ld .relaxed|.acquire $scope [$space] [$l1] [$keep] [.L2::cache_hint] [$l2] [$vec] $data", build: load},
	{syntax: "ld .mmio .relaxed .sys [.global] $data", build: load},
	{syntax: "ldu [.global] [.v2|.v4] $data", build: load},
	{syntax: "st [.weak] [$stored] [$cache] [$l1] [$keep] [.L2::cache_hint] [$vec] $data", build: store},
	{syntax: "st .volatile [$stored] [$vec] $data", build: store},
	{syntax: "st .relaxed|.release $scope [$stored] [$l1] [$keep] [.L2::cache_hint] [$vec] $data", build: store},
	{syntax: "st .mmio .relaxed .sys [.global] $data", build: store},
	{syntax: "membar .cta|.gl|.sys", build: nothing},
	{syntax: "membar .proxy .alias", build: nothing},
	{syntax: "fence [.sc|.acq_rel|.acquire|.release] $scope", build: nothing},
	{syntax: "fence .proxy .alias", build: nothing},
	{syntax: "fence .proxy .async .global", build: nothing},
	{syntax: "fence .proxy .async [.shared::cta|.shared::cluster]", build: proxyFence},
	{syntax: "fence .mbarrier_init .release .cluster", build: nothing},
	{syntax: "prefetch [.global|.local] .L1|.L2", build: nothing},
	{syntax: "prefetch .global .L2::evict_last|.L2::evict_normal", build: nothing},
	{syntax: "prefetchu .L1", build: nothing},
	{syntax: "applypriority [.global] .L2::evict_normal", build: nothing},
	{syntax: "discard [.global] .L2", build: nothing},
	{syntax: "createpolicy .fractional $keep [.L2::evict_first|.L2::evict_unchanged] .b64", build: policy},
	{syntax: "createpolicy .range [.global] $keep [.L2::evict_first|.L2::evict_unchanged] .b64", build: policy},
	{syntax: "createpolicy .cvt .L2 .b64", build: policy},
	{syntax: "isspacep .global|.const|.local|.shared|.shared::cta|.shared::cluster|.param|.param::entry", build: isSpace},
}

// access is what a load, a store or an atomic operation does.
type access struct {
	space  space
	size   int    // bytes of an element
	typ    string // of an element
	base   ref    // register with the address, or a constant
	offset uint64
	width  int  // bytes of the registers of a load, which may be wider than the elements
	words  bool // elements of 4 bytes in registers of 32 bits
	atomic bool // other atomic accesses may come at the same time
}

// at is the address of a lane. Addresses in registers of 32 bits wrap there.
func (m *access) at(w *warp, lane int) uint64 {
	if m.base.wide() {
		return w.r64[m.base.index()][lane&31] + m.offset
	}
	return uint64(w.r32[m.base.index()][lane&31] + uint32(m.offset))
}

// nothing makes instructions that change no value: caches and the order of accesses are not modelled.
func nothing(b *builder) { b.out.run = func(*warp, *ins) {} }

// proxyFence orders stores to shared memory before what reads it another way, which only a check wants to know.
func proxyFence(b *builder) {
	b.out.run = func(w *warp, _ *ins) {
		if w.shadow != nil && w.shadow.block.reading != nil {
			w.shadow.block.proxy.fence(w.index)
		}
	}
}

// policy makes a cache policy. Nothing but hints reads it, and hints change no value.
func policy(b *builder) {
	b.out.d = b.dst(0, "b64")
	b.out.run = func(w *warp, in *ins) {
		for lane := range w.lanes() {
			w.set(in.d, lane, 0)
		}
	}
}

// isSpace tells the space of a generic address. Variables in .const are read-only buffers.
func isSpace(b *builder) {
	want := b.spaceMod()
	b.out.d, b.out.a = b.dst(0, "pred"), b.src(1, "b64")
	b.out.run = func(w *warp, in *ins) {
		for lane := range w.lanes() {
			s, at := generic(w.get(in.a, lane))
			if s == globalSpace {
				if buf := w.cta.grid.memory.find(at); buf != nil && buf.readOnly {
					s = constSpace
				}
			}
			w.set(in.d, lane, truth(s == want))
		}
	}
}

// memory reads the address operand.
func (b *builder) memory(o *ptx.Operand) *access { return b.memoryIn(o, b.spaceMod(), b.typ(0)) }

func (b *builder) memoryIn(o *ptx.Operand, sp space, t string) *access {
	m := &access{space: sp, size: typeBytes(t), typ: t}
	if o.Kind != ptx.AddressArg {
		b.fail(o.Pos, "", "%s is not an address", o)
		return m
	}
	base := &o.List[0]
	if len(o.List) != 1 || o.Field != "" {
		b.fail(o.Pos, "", "address %s is not executed here", o)
		return m
	}
	switch base.Kind {
	case ptx.RegisterArg:
		m.base, m.offset = b.register(base), uint64(base.Offset)
		if m.space == paramSpace && !b.fn.Entry && !b.in.Has("param::entry") {
			m.space = localSpace // parameters of functions
		}
		if b.err == nil && m.base.class() == classPred {
			b.fail(o.Pos, "", "a predicate is no address")
		}
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
	b.out.mem = b.memory(b.arg(1))
	b.out.list = b.elements(b.arg(0), true)
	b.hint(2)
	b.words()
	b.out.run = runLoad
}

func store(b *builder) {
	b.out.mem = b.memory(b.arg(0))
	b.out.list = b.elements(b.arg(1), false)
	b.hint(2)
	b.words()
	b.out.run = runStore
}

// words marks what kernels do most: they load and store words of 4 bytes.
func (b *builder) words() {
	wide := slices.ContainsFunc(b.out.list, func(r ref) bool { return r.class() != class32 })
	b.out.mem.words = b.out.mem.size == 4 && !wide
}

// hint checks how many operands there are: i, and a cache policy if there is a cache hint. It changes nothing.
func (b *builder) hint(i int) {
	n := i
	if b.in.Has("L2::cache_hint") {
		n++
	}
	switch {
	case len(b.in.Args) != n:
		b.fail(b.in.Pos, "", "%s has %d operands, not %d", b.in.Mnemonic(), len(b.in.Args), n)
	case n > i:
		b.src(i, "b64")
	}
}

// elements are the slots of a register or a vector. Registers may be wider than what is loaded or stored.
func (b *builder) elements(o *ptx.Operand, dst bool) []ref {
	list := o.List
	if o.Kind != ptx.VectorArg {
		list = []ptx.Operand{*o}
	}
	count := 1
	for _, m := range b.in.Mods {
		switch m {
		case "v2", "v4", "v8":
			count = int(m[1] - '0')
		}
	}
	size, typ := typeBytes(b.typ(0)), b.typ(0)
	if len(list) != count {
		b.fail(o.Pos, "", "%s needs %d registers", b.in.Mnemonic(), count)
		return nil
	}
	var refs []ref
	for i := range list {
		e := &list[i]
		switch {
		case e.Kind == ptx.RegisterArg:
			slot := b.register(e)
			if b.err == nil && (slot.class() == classPred || typeBytes(e.Reg.Type) < size) {
				b.fail(e.Pos, "", "register %s is too small for .%s", e.Text, typ)
			}
			if e.Reg != nil {
				b.out.mem.width = typeBytes(e.Reg.Type)
			}
			refs = append(refs, slot)
		case dst:
			refs = append(refs, b.dstOf(e, typ))
		default:
			refs = append(refs, b.srcOf(e, typ))
		}
	}
	return refs
}

// runLoad loads.
func runLoad(w *warp, in *ins) {
	m := in.mem
	n := len(in.list) * m.size
	if w.watch == nil {
		if s := w.sweep(m, n, false); s != nil && (w.shadow == nil || w.shadow.quickLoad(w, in, s, n)) {
			s.load(w, in)
			return
		}
	}
	for lane := range w.lanes() {
		data := w.reach(in, m, lane, m.at(w, lane), n, false)
		for i, d := range in.list {
			w.set(d, lane, m.value(data[i*m.size:]))
		}
	}
}

func runStore(w *warp, in *ins) {
	m := in.mem
	n := len(in.list) * m.size
	if w.watch == nil {
		if s := w.sweep(m, n, true); s != nil && (w.shadow == nil || w.shadow.quickStore(w, in, s, n)) {
			s.store(w, in)
			return
		}
	}
	for lane := range w.lanes() {
		data := w.reach(in, m, lane, m.at(w, lane), n, true)
		for i, s := range in.list {
			putBytes(data[i*m.size:], w.get(s, lane), m.size)
		}
	}
}

func getBytes(b []byte, size int) uint64 {
	switch size {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}

func putBytes(b []byte, v uint64, size int) {
	switch size {
	case 1:
		b[0] = byte(v)
	case 2:
		binary.LittleEndian.PutUint16(b, uint16(v))
	case 4:
		binary.LittleEndian.PutUint32(b, uint32(v))
	default:
		binary.LittleEndian.PutUint64(b, v)
	}
}
