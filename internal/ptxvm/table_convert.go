package ptxvm

// This file implements moves and conversions.

var convertRows = []row{
	{syntax: "mov $move|.pred", build: move},
	{syntax: "cvta .global|.shared|.shared::cta|.local|.const|.param .u32|.u64", build: cvta},
	{syntax: "cvta .to .global|.shared|.shared::cta|.local|.const|.param .u32|.u64", build: cvta},
	{syntax: "cvt .u8|.u16|.u32|.u64|.s8|.s16|.s32|.s64 .u8|.u16|.u32|.u64|.s8|.s16|.s32|.s64", build: cvtInt},
	{syntax: "cvt .rn .f32 .u8|.u16|.u32|.u64|.s8|.s16|.s32|.s64", build: cvtToFloat},
}

// move also packs and unpacks: mov.b64 {a, b}, c.
func move(b *builder) {
	t := b.typ(0)
	dst, src := &b.in.Args[0], &b.in.Args[1]
	if dst.List != nil || src.List != nil {
		b.pack(t)
		return
	}
	b.out.d, b.out.a, b.out.run = b.dst(0, t), b.src(1, t), runUnary
	b.out.f1 = func(a uint64) uint64 { return a }
	switch b.out.d.class() {
	case class32:
		b.out.run = runMove32
	case class64:
		b.out.run = runMove64
	}
}

func (b *builder) pack(t string) {
	dst, src := &b.in.Args[0], &b.in.Args[1]
	list := dst.List
	if list == nil {
		list = src.List
	}
	size := typeBytes(t) / len(list)
	part := map[int]string{1: "b8", 2: "b16", 4: "b32"}[size]
	if part == "" || size*len(list) != typeBytes(t) {
		b.fail(b.in.Pos, "", "%s with %d parts is not executed here", b.in.Mnemonic(), len(list))
		return
	}
	if dst.List != nil {
		for i := range list {
			b.out.list = append(b.out.list, b.dstOf(&list[i], part))
		}
		b.out.a = b.src(1, t)
		b.out.run = func(w *warp, in *ins) {
			for lane := range w.lanes() {
				v := w.get(in.a, lane)
				for i, d := range in.list {
					w.set(d, lane, cut(v>>(8*size*i), part))
				}
			}
		}
		return
	}
	b.out.d = b.dst(0, t)
	for i := range list {
		b.out.list = append(b.out.list, b.srcOf(&list[i], part))
	}
	b.out.run = func(w *warp, in *ins) {
		for lane := range w.lanes() {
			v := uint64(0)
			for i, s := range in.list {
				v |= w.get(s, lane) << (8 * size * i)
			}
			w.set(in.d, lane, v)
		}
	}
}

// window is where generic addresses of a space begin.
func window(s space) uint64 {
	switch s {
	case sharedSpace:
		return sharedWindow
	case localSpace:
		return localWindow
	case paramSpace:
		return paramWindow
	}
	return 0
}

func cvta(b *builder) {
	t := b.typ(0)
	shift := window(b.spaceMod())
	if b.in.Has("to") {
		shift = -shift
	}
	b.unary(t, func(a uint64) uint64 { return cut(a+shift, t) })
}

func cvtInt(b *builder) {
	to, from := b.typ(1), b.typ(0)
	b.out.d, b.out.a, b.out.run = b.dst(0, inRegister(to)), b.src(1, inRegister(from)), runUnary
	b.out.f1 = func(a uint64) uint64 {
		if isSigned(from) {
			a = uint64(signed(a, from))
		} else {
			a = cut(a, from)
		}
		if isSigned(to) { // in a register that is wider than the type, the sign is carried on
			a = uint64(signed(a, to))
		} else {
			a = cut(a, to)
		}
		return cut(a, inRegister(to))
	}
}

// inRegister is the type of a register that holds values of a type.
func inRegister(typ string) string {
	if typeBytes(typ) < 4 {
		return typ[:1] + "32"
	}
	return typ
}

func cvtToFloat(b *builder) {
	from := b.typ(0)
	b.out.d, b.out.a, b.out.run = b.dst(0, "f32"), b.src(1, inRegister(from)), runUnary
	b.out.f1 = func(a uint64) uint64 {
		if isSigned(from) {
			return uint64(bits32(float32(signed(a, from))))
		}
		return uint64(bits32(float32(cut(a, from))))
	}
}
