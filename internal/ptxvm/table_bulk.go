package ptxvm

import "slices"

// This file implements bulk copies that combine what they bring with what is there, and stores to shared memory that
// tell a barrier. Both happen when somebody waits for them, as other copies do.

var bulkRows = []row{
	{syntax: "cp .async .bulk .shared::cluster .shared::cta .mbarrier::complete_tx::bytes", build: bulkLoad},
	{syntax: "cp .reduce .async .bulk .global .shared::cta .bulk_group [.L2::cache_hint] .add .u32|.s32|.u64|.f32|.f64",
		build: bulkReduce},
	{syntax: "cp .reduce .async .bulk .global .shared::cta .bulk_group [.L2::cache_hint] .add .noftz .f16|.bf16",
		build: bulkReduce},
	{syntax: "cp .reduce .async .bulk .global .shared::cta .bulk_group [.L2::cache_hint] .min|.max .u32|.s32|.u64|.s64",
		build: bulkReduce},
	{syntax: "cp .reduce .async .bulk .global .shared::cta .bulk_group [.L2::cache_hint] .inc|.dec .u32",
		build: bulkReduce},
	{syntax: "cp .reduce .async .bulk .global .shared::cta .bulk_group [.L2::cache_hint] .and|.or|.xor .b32|.b64",
		build: bulkReduce},
	{syntax: "cp .reduce .async .bulk .shared::cluster .shared::cta .mbarrier::complete_tx::bytes .add .u32|.s32|.u64",
		build: bulkReduceShared},
	{syntax: "cp .reduce .async .bulk .shared::cluster .shared::cta .mbarrier::complete_tx::bytes .min|.max .u32|.s32",
		build: bulkReduceShared},
	{syntax: "cp .reduce .async .bulk .shared::cluster .shared::cta .mbarrier::complete_tx::bytes .inc|.dec .u32",
		build: bulkReduceShared},
	{syntax: "cp .reduce .async .bulk .shared::cluster .shared::cta .mbarrier::complete_tx::bytes .and|.or|.xor .b32",
		build: bulkReduceShared},
	{syntax: "st .async [.weak] .shared::cta|.shared::cluster .mbarrier::complete_tx::bytes [.v2|.v4] " +
		".b32|.u32|.s32|.f32", build: asyncStore},
	{syntax: "st .async [.weak] .shared::cta|.shared::cluster .mbarrier::complete_tx::bytes [.v2] .b64|.u64|.s64|.f64",
		build: asyncStore},
}

// reduction is how a copy combines elements with what is there.
type reduction struct {
	f    func(old, b, c uint64) uint64
	size int
}

func (b *builder) reduction() *reduction {
	typ := b.typ(0)
	op := b.in.Mods[slices.IndexFunc(b.in.Mods, func(m string) bool {
		return slices.Contains([]string{"add", "min", "max", "inc", "dec", "and", "or", "xor"}, m)
	})]
	return &reduction{atomicOp(op, typ), typeBytes(typ)}
}

func bulkReduce(b *builder) {
	bulkStore(b)
	if b.err == nil {
		b.out.copy.reduce = b.reduction()
	}
}

func bulkReduceShared(b *builder) {
	bulkLoad(b)
	if b.err == nil {
		b.out.copy.reduce = b.reduction()
	}
}

// combine makes a copy that combines. Other workers may do so at the same time. Subnormal numbers count, measured, also
// those of f32.
func (w *warp) combine(t transfer, lane int) {
	if g := w.cta.grid; g.several {
		g.shared.Lock()
		defer g.shared.Unlock()
	}
	r, use := t.in.copy.reduce, t.in.copy
	for i := 0; i < t.size; i += r.size {
		b := getBytes(w.reach(t.in, use.from, lane, t.from+uint64(i), r.size, false), r.size)
		data := w.reach(t.in, use.to, lane, t.to+uint64(i), r.size, true)
		putBytes(data, r.f(getBytes(data, r.size), b, 0), r.size)
	}
}

// nowhereElse is the source of a store whose values came from registers.
var nowhereElse = &access{space: genericSpace}

// asyncStore stores registers and tells a barrier: [to], values, [barrier].
func asyncStore(b *builder) {
	b.args(3)
	if b.err != nil {
		return
	}
	args := b.in.Args
	typ := b.typ(0)
	b.out.mem = b.memoryIn(&args[0], sharedSpace, typ)
	b.out.list = b.elements(&args[1], false)
	b.out.copy = &transferUse{to: b.out.mem, from: nowhereElse}
	b.out.mem = b.memoryIn(&args[2], sharedSpace, "b64")
	size := typeBytes(typ)
	b.out.run = func(w *warp, in *ins) {
		for lane := range w.lanes() {
			total := size * len(in.list)
			t := transfer{in: in, to: in.copy.to.at(w, lane), size: total, value: make([]byte, total)}
			for i, r := range in.list {
				putBytes(t.value[i*size:], w.get(r, lane), size)
			}
			if w.ask(t, lane, total) && !w.crowded(len(w.cta.bulk)) {
				w.cta.bulk = append(w.cta.bulk, delivery{t, w.barrierAt(in, lane)})
			}
		}
	}
}
