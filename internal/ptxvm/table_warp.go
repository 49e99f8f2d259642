package ptxvm

import "gpuemu/internal/ptx"

// This file implements instructions that lanes of a warp execute together.

var warpRows = []row{
	{syntax: "shfl .sync .up|.down|.bfly|.idx .b32", build: shuffle},
	{syntax: "vote .sync .all|.any|.uni .pred", build: vote},
	{syntax: "vote .sync .ballot .b32", build: vote},
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
	dst := &b.in.Args[0]
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
	b.out.run = func(w *warp, in *ins) { w.shuffle(in, mode) }
}

// shuffle follows the definition of PTX ISA 9.7.9.6.
func (w *warp) shuffle(in *ins, mode string) {
	var out lanes32
	var valid uint32
	for lane := range w.lanes() {
		by, how := int(w.get(in.b, lane)&31), w.get(in.list[1], lane)
		clamp, segment := int(how&31), int(how>>8&31)
		low, high := lane&segment, lane&segment|clamp&^segment
		from, ok := 0, false
		switch mode {
		case "up":
			from = lane - by
			ok = from >= high
		case "down":
			from = lane + by
			ok = from <= high
		case "bfly":
			from = lane ^ by
			ok = from <= high
		case "idx":
			from = low | by&^segment
			ok = from <= high
		}
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

func vote(b *builder) {
	mode := b.in.Mods[1]
	b.out.kind = together
	if mode == "ballot" {
		b.out.d = b.dst(0, "b32")
	} else {
		b.out.d = b.dst(0, "pred")
	}
	b.out.a, b.out.c = b.src(1, "pred"), b.src(2, "b32")
	if b.in.Args[1].Not {
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

func truth(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
