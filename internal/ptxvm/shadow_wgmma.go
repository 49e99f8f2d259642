package ptxvm

import "math/bits"

// This file implements the checks of wgmma: registers and shared memory belong to a product from the instruction that
// asks for it to the one that waits; registers need wgmma.fence and shared memory fence.proxy.async before it.

// flying is the product that a register belongs to; op is nil where there is none.
type flying struct {
	op     *issued
	result bool // an accumulator, not a part of A
}

// proxyState tells whether stores to shared memory, which go another way than wgmma and bulk copies, are ordered before
// those by fence.proxy.async. A fence orders the stores of its own warp, and those of others that something may have
// ordered before it: a hazard may be missed so, but none is invented. Times count fences, barriers and atomic
// operations.
type proxyState struct {
	now    uint32
	synced uint32   // the last barrier or atomic operation
	fenced uint32   // what was synced at the last fence
	own    []uint32 // the last fence, by warp
	words  []ordinaryWrite
}

// ordinaryWrite is the last store to a word of shared memory; when is 0 where there is none.
type ordinaryWrite struct {
	when uint32
	warp uint8
}

func newProxyState(warps, shared int) proxyState {
	return proxyState{now: 1, own: make([]uint32, warps), words: make([]ordinaryWrite, (shared+3)/4)}
}

func (p *proxyState) reset() {
	clear(p.own)
	clear(p.words)
	p.now, p.synced, p.fenced = 1, 0, 0
}

// sync is a barrier or an atomic operation.
func (p *proxyState) sync() {
	p.now++
	p.synced = p.now
}

// fence is fence.proxy.async.
func (p *proxyState) fence(warp int) {
	p.now++
	p.own[warp], p.fenced = p.now, p.synced
}

// wrote notes a store.
func (p *proxyState) wrote(warp int, t *touch) {
	for i := t.offset / 4; i < (t.offset+uint64(len(t.data))+3)/4; i++ {
		p.words[i] = ordinaryWrite{p.now, uint8(warp)}
	}
}

// unfenced reports whether one of n bytes from at was stored and no fence came between.
func (p *proxyState) unfenced(at uint64, n int) bool {
	for i := at / 4; i < (at+uint64(n)+3)/4 && i < uint64(len(p.words)); i++ {
		if s := p.words[i]; s.when != 0 && p.own[s.warp] <= s.when && s.when >= p.fenced {
			return true
		}
	}
	return false
}

// unfencedSource judges the bytes of shared memory that something other than a load is to read.
func (x *warpShadow) unfencedSource(w *warp, in *ins, lane int, at uint64, n int) {
	x.unfenced(w, in, lane, at, n, "reads")
}

// unfenced judges the bytes of shared memory that something other than a load or a store is to access.
func (x *warpShadow) unfenced(w *warp, in *ins, lane int, at uint64, n int, verb string) {
	b := x.block
	if !b.worker.async || !b.proxy.unfenced(at, n) {
		return
	}
	f := w.report(in, lane, AsyncHazard, "%s byte %d of shared memory, which was stored without fence.proxy.async "+
		"afterwards", verb, at)
	if f != nil {
		f.Address, f.Buffer = at, "shared memory"
	}
}

// asked judges the operands of a product and marks them.
func (x *warpShadow) asked(w *warp, op *issued) {
	if x == nil || !x.block.worker.async {
		return
	}
	u, p := op.use, w.cta.grid.prog
	if !x.fenced {
		w.report(op.in, 0, AsyncHazard, "no wgmma.fence comes before the first product")
	}
	use := func(r ref, result bool) {
		at := p.position(r)
		f := x.flying[at]
		same := f.op == nil || result == f.result && (!result || f.op.use.n == u.n && f.op.use.result == u.result)
		switch {
		case !same:
			w.report(op.in, 0, AsyncHazard, "uses a register of %s (%s), which nobody has waited for",
				f.op.in.src.Mnemonic(), p.spot(f.op.in))
		case x.written[at] == wroteAfter:
			w.report(op.in, 0, AsyncHazard, "uses a register that was written after an earlier product used it, and no "+
				"wgmma.fence came since")
		}
		x.written[at] = inProduct
		x.flying[at] = flying{op, result}
	}
	for _, r := range u.d {
		use(r, true)
	}
	for _, r := range u.a {
		use(r, false)
	}
	for _, list := range [][]uint32{op.a, op.b} {
		for i, at := range list {
			x.unfencedSource(w, op.in, i%warpSize, uint64(at), pieceBytes)
		}
	}
	x.block.read(op, 1)
}

// read counts the products that read pieces of shared memory.
func (b *blockShadow) read(op *issued, n int16) {
	for _, list := range [][]uint32{op.a, op.b} {
		for _, at := range list {
			if i := int(at / pieceBytes); i < len(b.reading) {
				b.reading[i] += n
			}
		}
	}
}

// isRead reports whether a product may still have to read one of n bytes.
func (b *blockShadow) isRead(at uint64, n int) bool {
	for i := at / pieceBytes; i < (at+uint64(n)+pieceBytes-1)/pieceBytes && i < uint64(len(b.reading)); i++ {
		if b.reading[i] > 0 {
			return true
		}
	}
	return false
}

// multiplied ends a product.
func (x *warpShadow) multiplied(op *issued) {
	if x != nil && x.block.worker.async {
		x.block.read(op, -1)
	}
}

// underWay marks the registers of the products that nobody has waited for, and no others.
func (x *warpShadow) underWay(w *warp) {
	if x == nil || !x.block.worker.async {
		return
	}
	clear(x.flying)
	p := w.cta.grid.prog
	for _, list := range append(w.products.groups, w.products.open) {
		for _, op := range list {
			for _, r := range op.use.d {
				x.flying[p.position(r)] = flying{op, true}
			}
			for _, r := range op.use.a {
				x.flying[p.position(r)] = flying{op, false}
			}
		}
	}
}

// States of a register since the last wgmma.fence. Compilers place what a kernel writes before its fence behind it, so
// a write alone says nothing; one between two products that both use the register does.
const (
	_          = iota // nothing
	inProduct         // a product used it
	wroteAfter        // and then it was written
)

// fence is wgmma.fence: what was written to registers before it may be used.
func (x *warpShadow) fence() {
	if x.block.worker.async {
		x.fenced = true
		clear(x.written)
	}
}

// registers judges the registers of an instruction that is no product itself.
func (x *warpShadow) registers(w *warp, in *ins) {
	if in.wgmma != nil {
		return
	}
	report := func(at int32, verb string) {
		if f := x.flying[at]; f.op != nil {
			w.report(in, firstLane(w.mask), AsyncHazard, "%s a register of %s (%s), which nobody has waited for", verb,
				f.op.in.src.Mnemonic(), w.cta.grid.prog.spot(f.op.in))
		}
	}
	for _, list := range [][]int32{in.facts.reads, in.facts.address} {
		for _, at := range list {
			report(at, "reads")
		}
	}
	for _, at := range in.facts.writes {
		report(at, "writes")
		if x.written[at] == inProduct {
			x.written[at] = wroteAfter
		}
	}
}

// products says which lanes of a result are defined: an element depends on its row of A, its column of B, and on what
// it is added to.
func (x *warpShadow) products(w *warp, u *wgmmaUse) {
	n := len(w.products.open)
	if n == 0 || w.cta.stopped {
		return
	}
	op := w.products.open[n-1]
	for _, r := range []ref{u.descA, u.descB, u.scale} {
		if r == noRef {
			continue
		}
		if bad := ^x.of(w, r); bad != 0 {
			w.report(op.in, bits.TrailingZeros32(bad), Uninitialised, "a descriptor or scale-d was never set")
			x.defined[w.cta.grid.prog.position(r)] = allLanes
		}
	}
	var rows [mmaRowsMost]bool
	var cols [wgmmaColumns]bool
	if u.descA == noRef {
		x.rowsDefined(w, u.a, rows[:])
	} else {
		x.placed(op.a, u.transA, rows[:])
	}
	x.placed(op.b, u.transB, cols[:u.n])
	x.resultDefined(w, &u.product, rows[:], cols[:], u.d, !op.scaleD)
}

// placed says which rows of a matrix in shared memory are defined. What lies outside of it was reported.
func (x *warpShadow) placed(list []uint32, across bool, rows []bool) {
	known := x.block.shared
	size := uint64(len(x.block.cta.shared))
	for r := range rows {
		rows[r] = true
		if !across {
			for _, at := range list[2*r:][:2] {
				rows[r] = rows[r] && (uint64(at)+pieceBytes > size || known.all(uint64(at), pieceBytes))
			}
			continue
		}
		for _, piece := range list[r/8*16:][:16] {
			at := uint64(piece) + uint64(r%8*2)
			rows[r] = rows[r] && (at+2 > size || known.all(at, 2))
		}
	}
}
