package ptxvm

// This file implements the definedness of matrices that the lanes of a warp hold together: an element of a result is
// undefined only if one that it depends on is. Registers are judged as a whole.

// rowsDefined says which rows of A or B are defined, for the layout of [product.each].
func (x *warpShadow) rowsDefined(w *warp, refs []ref, rows []bool) {
	for i := range rows {
		rows[i] = true
	}
	for i, r := range refs {
		m := x.of(w, r)
		if m == allLanes {
			continue
		}
		first := 0
		if len(rows) == mmaRowsMost {
			first = 8 * (i % 2)
		}
		for lane := range warpSize {
			rows[first+lane/4] = rows[first+lane/4] && m>>lane&1 != 0
		}
	}
}

// resultDefined fills in which lanes of D are defined: those whose rows and columns are, and what stands in c, unless
// that does not count.
func (x *warpShadow) resultDefined(w *warp, p *product, rows, cols []bool, c []ref, fresh bool) {
	masks := make([]uint32, len(p.d))
	for i := range masks {
		masks[i] = allLanes
		if !fresh {
			masks[i] = x.of(w, c[i])
		}
	}
	p.results(func(reg, _, lane, row, col int) {
		if !rows[row] || !cols[col] {
			masks[reg] &^= 1 << lane
		}
	})
	for i, r := range p.d {
		x.defined[w.cta.grid.prog.position(r)] = masks[i]
	}
}

// flow is for mma.
func (p *product) flow(x *warpShadow, w *warp, _ *ins) {
	all := allLanes
	for _, refs := range [][]ref{p.a, p.b, p.c} {
		for _, r := range refs {
			all &= x.of(w, r)
		}
	}
	if all == allLanes { // as nearly always
		for _, r := range p.d {
			x.define(w, r, allLanes)
		}
		return
	}
	var rows, cols [mmaRowsMost]bool
	x.rowsDefined(w, p.a, rows[:p.m])
	x.rowsDefined(w, p.b, cols[:p.n])
	x.resultDefined(w, p, rows[:], cols[:], p.c, false)
}

// laneOf is the lane that holds an element of an 8x8 matrix.
func laneOf(row, col int, trans bool) int {
	if trans {
		row, col = col, row
	}
	return 4*row + col/2
}

// flowLoad is for ldmatrix: an access is a row, and its lane says which one of which matrix.
func flowLoad(x *warpShadow, w *warp, in *ins) {
	p := w.cta.grid.prog
	for _, r := range in.list {
		x.defined[p.position(r)] |= w.mask
	}
	trans := in.src.Has("trans")
	for i := range x.touches {
		t := &x.touches[i]
		if x.isDefined(t) {
			continue
		}
		d := &x.defined[p.position(in.list[t.lane/8])]
		for c := range 8 {
			if e := t.part(c, 2); !x.isDefined(&e) {
				*d &^= 1 << laneOf(t.lane%8, c, trans)
			}
		}
	}
}

// flowStore is for stmatrix.
func flowStore(x *warpShadow, w *warp, in *ins) {
	trans := in.src.Has("trans")
	for i := range x.touches {
		t := &x.touches[i]
		m := x.of(w, in.list[t.lane/8])
		for c := range 8 {
			e := t.part(c, 2)
			x.set(&e, m>>laneOf(t.lane%8, c, trans)&1 != 0)
		}
	}
}

// flowMove is for movmatrix.
func flowMove(x *warpShadow, w *warp, in *ins) {
	from, m := x.of(w, in.a), uint32(0)
	for lane := range warpSize {
		row, col := lane/4, lane%4*2
		left, right := from>>laneOf(row, col, true), from>>laneOf(row, col+1, true)
		m |= (left & right & 1) << lane
	}
	x.defined[w.cta.grid.prog.position(in.d)] = m
}

// fragmentRows says which rows of a fragment of wmma are defined.
func (x *warpShadow) fragmentRows(w *warp, f *fragment) (rows [wmmaRowsMost]bool) {
	for row := range f.rows {
		rows[row] = true
		for col := 0; col < f.cols; col += f.per() {
			reg, lane, _ := f.at(row, col)
			rows[row] = rows[row] && x.of(w, f.refs[reg])>>lane&1 != 0
		}
	}
	return rows
}

// define says which lanes of a register are defined.
func (x *warpShadow) define(w *warp, r ref, mask uint32) {
	if x != nil {
		x.defined[w.cta.grid.prog.position(r)] = mask
	}
}

// lastUndefined reports whether the last access reads something that was never set.
func (x *warpShadow) lastUndefined() bool {
	if x == nil || !x.block.worker.uninit || len(x.touches) == 0 {
		return false
	}
	return !x.isDefined(&x.touches[len(x.touches)-1])
}

// lastStored says that the last access stores a register.
func (x *warpShadow) lastStored(w *warp, in *ins, r ref) {
	if x == nil || !x.block.worker.uninit || len(x.touches) == 0 {
		return
	}
	t := &x.touches[len(x.touches)-1]
	defined := x.of(w, r)>>t.lane&1 != 0
	if !defined && t.buffer != nil {
		x.reportStore(w, in, t)
	}
	x.set(t, defined)
}
