package ptxvm

import "gpuemu/internal/ptx"

// This file implements instructions that lanes of a warp execute together.

var warpRows = []row{
	{syntax: "shfl .sync .up|.down|.bfly|.idx .b32", build: shuffle},
	{syntax: "vote .sync .all|.any|.uni .pred", build: vote},
	{syntax: "vote .sync .ballot .b32", build: vote},
	{syntax: "match .any .sync .b32|.b64", build: match},
	{syntax: "match .all .sync .b32|.b64", build: match},
	{syntax: "redux .sync .add|.min|.max .u32|.s32", build: redux},
	{syntax: "redux .sync .and|.or|.xor .b32", build: redux},
	{syntax: "elect .sync", build: elect},
	{syntax: "activemask .b32", build: func(b *builder) {
		b.out.d = b.dst(0, "b32")
		b.out.run = func(w *warp, in *ins) {
			for lane := range w.lanes() {
				w.set(in.d, lane, uint64(w.mask))
			}
		}
	}},
	{syntax: "bar .warp .sync", build: func(b *builder) {
		b.out.kind, b.out.c, b.out.run = together, b.src(0, "b32"), func(*warp, *ins) {}
	}},
}

// shuffle exchanges values: d[|p], a, lane, clamp and segment, members.
func shuffle(b *builder) {
	dst := b.arg(0)
	b.out.kind = together
	if dst.Kind == ptx.PairArg {
		b.out.d = b.dstOf(&dst.List[0], "b32")
		b.out.list = []ref{b.dstOf(&dst.List[1], "pred"), b.src(3, "b32")}
	} else {
		b.out.d = b.dstOf(dst, "b32")
		b.out.list = []ref{noRef, b.src(3, "b32")}
	}
	b.out.a, b.out.b, b.out.c = b.src(1, "b32"), b.src(2, "b32"), b.src(4, "b32")
	mode := b.in.Mods[1]
	by, how := b.arg(2), b.arg(3)
	if by.Kind != ptx.IntArg || how.Kind != ptx.IntArg {
		b.out.run = func(w *warp, in *ins) { w.shuffle(in, mode) }
		return
	}
	r := &routes{}
	for lane := range warpSize {
		from, ok := shuffleFrom(mode, lane, by.Value, how.Value)
		if !ok {
			from = lane
		} else {
			r.valid |= 1 << lane
		}
		r.from[lane] = uint8(from & 31)
	}
	b.out.run = func(w *warp, in *ins) { w.exchangeBy(in, r) }
}

// routes say where lanes take their values from if an instruction names constants, and which of those are in their
// segments.
type routes struct {
	from  [warpSize]uint8
	valid uint32
}

func (w *warp) exchangeBy(in *ins, r *routes) {
	a, out := &w.r32[in.a.index()], &w.scratch32
	for lane, from := range &r.from {
		out[lane] = a[from&31]
	}
	d := &w.r32[in.d.index()]
	fast.select32(d, out, d, w.mask)
	if p := in.list[0]; p != noRef {
		w.p[p.index()] = w.p[p.index()]&^w.mask | r.valid&w.mask
	}
}

// shuffle follows the definition of PTX ISA 9.7.9.6.
func (w *warp) shuffle(in *ins, mode string) {
	var out lanes32
	var valid uint32
	for lane := range w.lanes() {
		from, ok := shuffleFrom(mode, lane, w.get(in.b, lane), w.get(in.list[1], lane))
		if !ok {
			from = lane
		} else {
			valid |= 1 << lane
		}
		out[lane] = w.r32[in.a.index()][from&31]
	}
	for lane := range w.lanes() {
		w.set(in.d, lane, uint64(out[lane]))
	}
	if p := in.list[0]; p != noRef {
		w.p[p.index()] = w.p[p.index()]&^w.mask | valid&w.mask
	}
}

// shuffleFrom is the lane that a lane reads from, and whether that is one of its segment (PTX ISA 9.7.9.6).
func shuffleFrom(mode string, lane int, by, how uint64) (from int, ok bool) {
	n, clamp, segment := int(by&31), int(how&31), int(how>>8&31)
	low, high := lane&segment, lane&segment|clamp&^segment
	switch mode {
	case "up":
		from = lane - n
		return from, from >= high
	case "down":
		from = lane + n
	case "bfly":
		from = lane ^ n
	default: // idx
		from = low | n&^segment
	}
	return from, from <= high
}

func vote(b *builder) {
	mode := b.in.Mods[1]
	b.out.kind = together
	if mode == "ballot" {
		b.out.d = b.dst(0, "b32")
	} else {
		b.out.d = b.dst(0, "pred")
	}
	b.out.a, b.out.c = b.src(1, "pred"), b.src(2, "b32")
	if b.arg(1).Not {
		b.out.flipC = ^uint32(0)
	}
	b.out.run = func(w *warp, in *ins) {
		yes := (w.p[in.a.index()] ^ in.flipC) & w.mask
		result := uint64(yes)
		switch mode {
		case "all":
			result = truth(yes == w.mask)
		case "any":
			result = truth(yes != 0)
		case "uni":
			result = truth(yes == 0 || yes == w.mask)
		}
		for lane := range w.lanes() {
			w.set(in.d, lane, result)
		}
	}
}

// match finds the lanes that have the same value: d[|p], a, members. For all, d is the members if they all have the
// same value, and else 0; p says which.
func match(b *builder) {
	b.out.kind = together
	dst, pred := b.arg(0), noRef
	if dst.Kind == ptx.PairArg {
		pred = b.dstOf(&dst.List[1], "pred")
		dst = &dst.List[0]
	}
	all := b.in.Mods[0] == "all"
	if !all && pred != noRef {
		b.fail(b.in.Pos, "", "%s has no predicate", b.in.Mnemonic())
	}
	b.out.d, b.out.a, b.out.c = b.dstOf(dst, "b32"), b.src(1, b.typ(0)), b.src(2, "b32")
	b.out.list = []ref{pred}
	b.out.run = func(w *warp, in *ins) {
		var same lanes32
		for lane := range w.lanes() {
			for other := range w.lanes() {
				if w.get(in.a, lane) == w.get(in.a, other) {
					same[lane] |= 1 << other
				}
			}
		}
		for lane := range w.lanes() {
			if all && same[lane] != w.mask {
				same[lane] = 0
			}
			if p := in.list[0]; p != noRef {
				w.set(p, lane, truth(same[lane] != 0))
			}
			w.set(in.d, lane, uint64(same[lane]))
		}
	}
}

// redux combines the values of all members.
func redux(b *builder) {
	t, op := b.typ(0), b.in.Mods[1]
	b.out.kind, b.out.d, b.out.a, b.out.c = together, b.dst(0, t), b.src(1, t), b.src(2, "b32")
	f := atomicOp(op, t)
	b.out.run = func(w *warp, in *ins) {
		first, v := true, uint64(0)
		for lane := range w.lanes() {
			x := w.get(in.a, lane)
			if first {
				v, first = x, false
			} else {
				v = f(v, x, 0)
			}
		}
		for lane := range w.lanes() {
			w.set(in.d, lane, cut(v, t))
		}
	}
}

// elect chooses one of the members: d|p, members. Which one is not specified; here it is the lowest.
func elect(b *builder) {
	pair := b.arg(0)
	if pair.Kind != ptx.PairArg {
		b.fail(pair.Pos, "", "%s needs a register and a predicate", b.in.Mnemonic())
		return
	}
	b.out.kind, b.out.c = together, b.src(1, "b32")
	b.out.d, b.out.list = b.dstOf(&pair.List[0], "b32"), []ref{b.dstOf(&pair.List[1], "pred")}
	b.out.run = func(w *warp, in *ins) {
		leader := firstLane(w.mask)
		for lane := range w.lanes() {
			w.set(in.d, lane, uint64(leader))
			w.set(in.list[0], lane, truth(lane == leader))
		}
	}
}

func truth(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
