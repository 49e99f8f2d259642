package ptxvm

import (
	"math"
	"strings"

	"gpuemu/internal/libm"
	"gpuemu/internal/ptx"
	"gpuemu/internal/ptxmath"
)

// This file implements the evaluation of slices in real arithmetic for all threads of a block. Integers are exact: so
// indices and addresses are what they are. What is not computed here (packed formats, tensor cores, the bits of a
// float) is opaque: a random number that varies with the thread as the operands do.

// numberRanges are where random numbers lie that are used as floats. Functions such as the minimum with a constant may
// hide a difference in one range.
var numberRanges = [...]struct{ low, high float64 }{{1, 2}, {-4, 4}, {-0.5, 0.5}}

// realRounding is how far two evaluations of one sum in float64 may be apart, relatively: rounding of 2^-53, and room
// for cancellation. Single precision rounds at 2^-24, so what differs by rounding there is equal here.
const realRounding = 0x1p-32

// slicedValue is a value in all threads: integers or floats.
type slicedValue struct {
	ints   []uint64
	floats []float64 // nil for integers
	opaque bool      // integers whose bits are random: they may stand for a float

	parts []*slicedValue // of which it is put together, the lowest first, all of one size; nil is a part of zeros

	same     invariance
	compared bool
}

// equal compares two threads. NaN says nothing.
func (v *slicedValue) equal(x, y int) bool {
	if v.floats == nil {
		return v.ints[x] == v.ints[y]
	}
	a, b := v.floats[x], v.floats[y]
	return a == b || math.IsNaN(a) && math.IsNaN(b) ||
		math.Abs(a-b) <= float64(realRounding*math.Max(math.Abs(a), math.Abs(b)))
}

// evaluation is a slice in blocks of a size.
type evaluation struct {
	block   Dim
	threads int // whole warps
	seed    int // in numberRanges
	values  [len(numberRanges)]map[*sliceNode]*slicedValue
	joined  map[*sliceNode]invariance
}

func newEvaluation(block Dim) *evaluation {
	e := &evaluation{block: block, joined: map[*sliceNode]invariance{}}
	e.threads = (block.X*block.Y*block.Z + warpSize - 1) / warpSize * warpSize
	for i := range e.values {
		e.values[i] = map[*sliceNode]*slicedValue{}
	}
	return e
}

// stays is what leaves a joined value as it is, as far as is known.
func (e *evaluation) stays(n *sliceNode) invariance {
	if v, ok := e.joined[n]; ok {
		return v
	}
	return everyBit
}

// randomNumber is made of some others (Steele and others, "Fast Splittable Pseudorandom Number Generators", 2014).
func randomNumber(list ...uint64) (x uint64) {
	for _, v := range list {
		x += v + 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
	}
	return x
}

// fresh is an opaque value that flipping some bits of the thread leaves as it is.
func (e *evaluation) fresh(n *sliceNode, out int, same invariance) *slicedValue {
	v := &slicedValue{ints: make([]uint64, e.threads), opaque: true}
	for t := range v.ints {
		v.ints[t] = randomNumber(uint64(e.seed), uint64(n.index), uint64(out), uint64(t&^int(same)))
	}
	return v
}

// value is that of a node.
func (e *evaluation) value(n *sliceNode) *slicedValue {
	n = n.find()
	known := e.values[e.seed]
	if v := known[n]; v != nil {
		return v
	}
	var v *slicedValue
	switch {
	case n.operand != nil:
		v = e.operand(n)
	case n.in != nil:
		v = e.define(n)
	default: // joined, or never set
		v = e.fresh(n, 0, e.stays(n))
	}
	known[n] = v
	return v
}

// each makes integers from the index of a thread.
func (e *evaluation) each(f func(t int) uint64) *slicedValue {
	v := &slicedValue{ints: make([]uint64, e.threads)}
	for t := range v.ints {
		v.ints[t] = f(t)
	}
	return v
}

// eachFloat makes floats.
func (e *evaluation) eachFloat(f func(t int) float64) *slicedValue {
	v := &slicedValue{floats: make([]float64, e.threads)}
	for t := range v.floats {
		v.floats[t] = f(t)
	}
	return v
}

// symbolAlign is the alignment of addresses of variables, in bytes: compilers put offsets in by or.
const symbolAlign = 1 << 12

// operand is the value of an operand that is no register.
func (e *evaluation) operand(n *sliceNode) *slicedValue {
	o := n.operand
	switch o.Kind {
	case ptx.IntArg:
		return e.each(func(int) uint64 { return o.Value })
	case ptx.F32Arg:
		return e.eachFloat(func(int) float64 { return float64(math.Float32frombits(uint32(o.Value))) })
	case ptx.F64Arg:
		return e.eachFloat(func(int) float64 { return math.Float64frombits(o.Value) })
	case ptx.SymbolArg:
		base := uint64(0)
		for _, c := range []byte(o.Text) {
			base = randomNumber(base, uint64(c))
		}
		base = base &^ (symbolAlign - 1)
		return e.each(func(int) uint64 { return base + uint64(o.Offset) })
	case ptx.SpecialArg:
		return e.special(n, o)
	}
	return e.fresh(n, 0, everyBit)
}

// special is a special register.
func (e *evaluation) special(n *sliceNode, o *ptx.Operand) *slicedValue {
	name, field := strings.TrimPrefix(o.Text, "%"), o.Field
	if before, after, ok := strings.Cut(name, "."); ok {
		name, field = before, after
	}
	b := e.block
	switch name {
	case "tid":
		each := b.X * b.Y
		switch field {
		case "x":
			each = 1
		case "y":
			each = b.X
		}
		size := map[string]int{"x": b.X, "y": b.Y, "z": b.Z}[field]
		return e.each(func(t int) uint64 { return uint64(t / each % max(size, 1)) })
	case "ntid":
		return e.each(func(int) uint64 { return uint64(map[string]int{"x": b.X, "y": b.Y, "z": b.Z}[field]) })
	case "laneid":
		return e.each(func(t int) uint64 { return uint64(t % warpSize) })
	case "warpid":
		return e.each(func(t int) uint64 { return uint64(t / warpSize) })
	case "WARP_SZ":
		return e.each(func(int) uint64 { return warpSize })
	case "ctaid", "nctaid", "gridid", "nwarpid", "smid", "nsmid", "dynamic_smem_size", "total_smem_size":
		return e.fresh(n, 0, everyBit)
	}
	return e.fresh(n, 0, 0)
}

// inputs are the values that an instruction reads.
func (e *evaluation) inputs(n *sliceNode) []*slicedValue {
	list := make([]*slicedValue, len(n.inputs))
	for i, x := range n.inputs {
		list[i] = e.value(x)
	}
	return list
}

// define is the value that an instruction gives, or what was there before where its guard is false.
func (e *evaluation) define(n *sliceNode) *slicedValue {
	v := e.compute(n, e.inputs(n))
	if n.guard == nil {
		return v
	}
	guard, old := e.value(n.guard), e.value(n.old)
	return e.choose(func(t int) bool { return guard.ints != nil && (guard.ints[t]&1 != 0) != n.in.Guard.Not }, v, old)
}

// choose takes each thread's value from one of two.
func (e *evaluation) choose(first func(t int) bool, a, b *slicedValue) *slicedValue {
	if a.floats != nil || b.floats != nil {
		a, b = e.real(a), e.real(b)
		return e.eachFloat(func(t int) float64 {
			if first(t) {
				return a.floats[t]
			}
			return b.floats[t]
		})
	}
	v := e.each(func(t int) uint64 {
		if first(t) {
			return a.ints[t]
		}
		return b.ints[t]
	})
	v.opaque = a.opaque || b.opaque
	return v
}

// real is a value as floats. Bits of a constant are those of a float32; what is opaque gets a number of the range.
func (e *evaluation) real(v *slicedValue) *slicedValue {
	if v.floats != nil {
		return v
	}
	r := numberRanges[e.seed]
	return e.eachFloat(func(t int) float64 {
		if v.opaque {
			return r.low + float64((r.high-r.low)*float64(float64(randomNumber(v.ints[t])>>11)*0x1p-53))
		}
		return float64(math.Float32frombits(uint32(v.ints[t])))
	})
}

// whole is an operand of a node as integers. The bits of a float are opaque: equal values have equal ones.
func (e *evaluation) whole(n *sliceNode, i int, v *slicedValue) *slicedValue {
	if v.floats == nil {
		return v
	}
	return e.fresh(n, -1-i, e.invariance(v))
}

// blend is an opaque value that varies with the thread as its operands do.
func (e *evaluation) blend(n *sliceNode, list []*slicedValue, within invariance) *slicedValue {
	for _, v := range list {
		within &= e.invariance(v)
	}
	return e.fresh(n, n.out, within)
}

// compute is the value that an instruction gives.
func (e *evaluation) compute(n *sliceNode, x []*slicedValue) *slicedValue {
	in := n.in
	switch in.Op {
	case "ld", "ldu":
		return e.load(n, x)
	case "mov", "cvta":
		switch {
		case in.Args[0].Kind != ptx.RegisterArg && len(x) == 1 && len(x[0].parts) == len(in.Args[0].List) &&
			x[0].parts[n.out] != nil:
			return x[0].parts[n.out]
		case in.Args[0].Kind == ptx.RegisterArg && len(x) == 1:
			return x[0]
		}
		v := e.blend(n, x, everyBit)
		if len(x) > 1 {
			v.parts = x
		}
		return v
	case "shfl":
		return e.shuffle(n, x)
	case "vote", "redux":
		if e.fullWarp(n) {
			v := warpBits
			for _, a := range x {
				v &= e.invariance(a)
			}
			return e.fresh(n, 0, v|laneBits)
		}
		return e.fresh(n, 0, 0)
	case "mma", "wmma", "ldmatrix", "movmatrix", "match": // lanes together
		return e.blend(n, x, warpBits)
	case "selp":
		return e.choose(func(t int) bool { return x[2].ints != nil && x[2].ints[t]&1 != 0 }, x[0], x[1])
	case "setp":
		return e.compare(n, x)
	case "atom", "call", "wgmma", "tcgen05", "cp", "mbarrier", "elect", "activemask", "bar", "barrier", "multimem":
		return e.fresh(n, n.out, 0)
	}
	v := e.arithmetic(n, x)
	if v == nil {
		v = e.blend(n, x, everyBit)
	}
	if v.parts == nil {
		v.parts = e.parts(n, x)
	}
	return v
}

// parts are those of the result of an instruction that puts two halves together, or computes with both of them; nil for
// others.
func (e *evaluation) parts(n *sliceNode, x []*slicedValue) []*slicedValue {
	in := n.in
	if len(in.Mods) == 0 {
		return nil
	}
	size, _ := sizeOf(kindOf(in))
	switch in.Op {
	case "cvt":
		if wide, _ := sizeOf(in.Mods[max(len(in.Mods)-2, 0)]); len(x) == 1 && wide == 2*size && kindOf(in)[0] == 'u' {
			return []*slicedValue{x[0], nil}
		}
	case "shl":
		if x[1].ints != nil && x[1].ints[0] == uint64(size/2) && len(x[0].parts) == 2 {
			return []*slicedValue{nil, x[0].parts[0]}
		}
	case "or", "add":
		if a, b := x[0].parts, x[1].parts; len(a) == 2 && len(b) == 2 && !isFloat(kindOf(in)) {
			if a[1] == nil && b[0] == nil {
				return []*slicedValue{a[0], b[1]}
			}
			if b[1] == nil && a[0] == nil {
				return []*slicedValue{b[0], a[1]}
			}
		}
	}
	f := realOperation(in.Op)
	if !strings.HasSuffix(kindOf(in), "x2") || f == nil {
		return nil
	}
	halves := make([]*slicedValue, 2)
	for i := range halves {
		var list []*slicedValue
		for _, a := range x {
			if len(a.parts) != 2 || a.parts[i] == nil {
				return nil
			}
			list = append(list, a.parts[i])
		}
		halves[i] = e.realOf(f, list)
	}
	return halves
}

// realOf applies an operation on floats to one to three values.
func (e *evaluation) realOf(f func(a, b, c float64) float64, x []*slicedValue) *slicedValue {
	list := make([]*slicedValue, 3)
	for i := range list {
		list[i] = e.real(x[min(i, len(x)-1)])
	}
	return e.eachFloat(func(t int) float64 { return f(list[0].floats[t], list[1].floats[t], list[2].floats[t]) })
}

// load is what lies at an address: a number of its own for each address. Of what others may write at any time nothing
// is known.
func (e *evaluation) load(n *sliceNode, x []*slicedValue) *slicedValue {
	if n.in.Has("volatile") || n.in.Has("relaxed") || n.in.Has("acquire") || n.in.Has("local") {
		return e.fresh(n, n.out, 0)
	}
	v := &slicedValue{ints: make([]uint64, e.threads), opaque: true}
	at := make([]*slicedValue, len(x))
	for i := range x {
		at[i] = e.whole(n, i, x[i])
	}
	for t := range v.ints {
		place := uint64(0)
		for _, a := range at {
			place = randomNumber(place, a.ints[t])
		}
		v.ints[t] = randomNumber(uint64(e.seed), uint64(n.in.Index), uint64(n.out), place)
	}
	if n.in.Has("param") { // offsets are put into addresses by or
		for t := range v.ints {
			v.ints[t] &^= symbolAlign - 1
		}
	}
	return v
}

// fullWarp reports whether an instruction is one of all lanes.
func (e *evaluation) fullWarp(n *sliceNode) bool {
	last := n.in.Args[len(n.in.Args)-1]
	return last.Kind == ptx.IntArg && uint32(last.Value) == allLanes
}

// shuffle exchanges values within warps.
func (e *evaluation) shuffle(n *sliceNode, x []*slicedValue) *slicedValue {
	by, how := x[1], x[2]
	if !e.fullWarp(n) || by.ints == nil || how.ints == nil {
		return e.fresh(n, n.out, 0)
	}
	from := func(t int) (int, bool) {
		lane, ok := shuffleFrom(n.in.Mods[1], t%warpSize, by.ints[t], how.ints[t])
		if !ok {
			lane = t
		}
		return t&^(warpSize-1) | lane&(warpSize-1), ok
	}
	if n.out == 1 {
		return e.each(func(t int) uint64 {
			_, ok := from(t)
			return truth(ok)
		})
	}
	return e.permuted(x[0], func(t int) int { at, _ := from(t); return at })
}

// permuted takes each thread's value from another thread.
func (e *evaluation) permuted(x *slicedValue, from func(t int) int) (v *slicedValue) {
	if x.floats != nil {
		v = e.eachFloat(func(t int) float64 { return x.floats[from(t)] })
	} else {
		v = e.each(func(t int) uint64 { return x.ints[from(t)] })
		v.opaque = x.opaque
	}
	for _, part := range x.parts {
		if part != nil {
			part = e.permuted(part, from)
		}
		v.parts = append(v.parts, part)
	}
	return v
}

// isFloat reports whether a type is one of floats; packed ones count as their elements do.
func isFloat(kind string) bool {
	return strings.HasPrefix(kind, "f") || strings.HasPrefix(kind, "bf") || kind == "tf32"
}

// kindOf is the type that an instruction computes in, its last one.
func kindOf(in *ptx.Instr) string { return in.Mods[len(in.Mods)-1] }

// compare is setp, which may combine its result with another predicate and give the opposite, too.
func (e *evaluation) compare(n *sliceNode, x []*slicedValue) *slicedValue {
	in := n.in
	test := strings.TrimSuffix(in.Mods[0], "u")
	var holds func(t int) bool
	ordered := func(less, same bool) bool {
		switch test {
		case "lt", "lo":
			return less
		case "le", "ls":
			return less || same
		case "gt", "hi":
			return !less && !same
		case "ge", "hs":
			return !less
		}
		return same == (test == "eq")
	}
	if isFloat(kindOf(in)) {
		a, b := e.real(x[0]), e.real(x[1])
		holds = func(t int) bool {
			if math.IsNaN(a.floats[t]) || math.IsNaN(b.floats[t]) {
				return strings.HasSuffix(in.Mods[0], "u") || test == "nan"
			}
			if test == "num" {
				return true
			}
			return ordered(a.floats[t] < b.floats[t], a.floats[t] == b.floats[t])
		}
	} else {
		a, b := e.whole(n, 0, x[0]), e.whole(n, 1, x[1])
		if test == "l" || test == "h" { // "lu" and the like are of floats alone
			test = in.Mods[0]
		}
		size, signed := sizeOf(kindOf(in))
		holds = func(t int) bool {
			p, q := clip(a.ints[t], size, signed), clip(b.ints[t], size, signed)
			less := p < q
			if signed {
				less = int64(p) < int64(q)
			}
			return ordered(less, p == q)
		}
	}
	v := e.each(func(t int) uint64 {
		is := holds(t) != (n.out == 1)
		if len(x) > 2 && x[2].ints != nil {
			other := x[2].ints[t]&1 != 0 != in.Args[len(in.Args)-1].Not
			switch {
			case in.Has("and"):
				is = is && other
			case in.Has("or"):
				is = is || other
			default:
				is = is != other
			}
		}
		return truth(is)
	})
	return v
}

// sizeOf is how many bits a type of integers has, and whether they are signed.
func sizeOf(kind string) (size int, signed bool) {
	switch strings.TrimLeft(kind, "bsu") {
	case "64":
		size = 64
	case "32":
		size = 32
	case "16":
		size = 16
	case "8":
		size = 8
	case "pred", "red": // TrimLeft leaves the p
		size = 1
	default:
		size = 64
	}
	return size, strings.HasPrefix(kind, "s")
}

// clip is an integer in so many bits, extended to 64.
func clip(v uint64, size int, signed bool) uint64 {
	if signed {
		return uint64(int64(v<<(64-size)) >> (64 - size))
	}
	return v << (64 - size) >> (64 - size)
}

// arithmetic is the value of an instruction that computes thread by thread; nil for one that is not known here.
func (e *evaluation) arithmetic(n *sliceNode, x []*slicedValue) *slicedValue {
	in := n.in
	if len(in.Mods) == 0 || len(x) == 0 {
		return nil
	}
	kind := kindOf(in)
	if in.Op == "cvt" {
		return e.convert(n, x)
	}
	if isFloat(kind) {
		f := realOperation(in.Op)
		if f == nil {
			return nil
		}
		return e.realOf(f, x)
	}
	f := fourOperands(in)
	if three := wholeOperation(in); f == nil && three != nil {
		f = func(a, b, c, _ uint64) uint64 { return three(a, b, c) }
	}
	if f == nil {
		return nil
	}
	size, signed := sizeOf(kind)
	list := make([]*slicedValue, 4)
	opaque := false
	for i := range list {
		list[i] = e.whole(n, min(i, len(x)-1), x[min(i, len(x)-1)])
		opaque = opaque || list[i].opaque
	}
	not := make([]uint64, 3)
	if kind == "pred" {
		for i := range not {
			if at := 1 + i; at < len(in.Args) && in.Args[at].Not {
				not[i] = 1
			}
		}
	}
	v := e.each(func(t int) uint64 {
		return f(clip(list[0].ints[t], size, signed)^not[0], clip(list[1].ints[t], size, signed)^not[1],
			list[2].ints[t]^not[2], list[3].ints[t])
	})
	if !in.Has("wide") {
		for t := range v.ints {
			v.ints[t] = clip(v.ints[t], size, false)
		}
	}
	v.opaque = opaque
	return v
}

// convert is cvt. Floats stay what they are in every format: rounding is what this evaluation is to be without.
func (e *evaluation) convert(n *sliceNode, x []*slicedValue) *slicedValue {
	in := n.in
	from, to := kindOf(in), in.Mods[max(len(in.Mods)-2, 0)]
	_, packed := map[string]bool{"f16x2": true, "bf16x2": true, "e4m3x2": true, "e5m2x2": true}[to]
	switch {
	case len(x) > 1 || packed || in.Has("rzi") || in.Has("rmi") || in.Has("rpi") || in.Has("rni"):
		return nil
	case isFloat(from) && isFloat(to):
		return e.real(x[0])
	case isFloat(from):
		return nil
	}
	a := e.whole(n, 0, x[0])
	size, signed := sizeOf(from)
	if isFloat(to) {
		return e.eachFloat(func(t int) float64 {
			if signed {
				return float64(int64(clip(a.ints[t], size, true)))
			}
			return float64(clip(a.ints[t], size, false))
		})
	}
	width, _ := sizeOf(to)
	v := e.each(func(t int) uint64 { return clip(clip(a.ints[t], size, signed), width, false) })
	v.opaque = a.opaque
	return v
}

// realOperation is an operation on floats; nil for one that is not known here.
func realOperation(op string) func(a, b, c float64) float64 {
	switch op {
	case "add":
		return func(a, b, _ float64) float64 { return a + b }
	case "sub":
		return func(a, b, _ float64) float64 { return a - b }
	case "mul":
		return func(a, b, _ float64) float64 { return a * b }
	case "fma", "mad":
		return func(a, b, c float64) float64 { return float64(a*b) + c }
	case "div":
		return func(a, b, _ float64) float64 { return a / b }
	case "min":
		return func(a, b, _ float64) float64 { return math.Min(a, b) }
	case "max":
		return func(a, b, _ float64) float64 { return math.Max(a, b) }
	case "neg":
		return func(a, _, _ float64) float64 { return -a }
	case "abs":
		return func(a, _, _ float64) float64 { return math.Abs(a) }
	case "rcp":
		return func(a, _, _ float64) float64 { return 1 / a }
	}
	if f := map[string]func(float64) float64{"sqrt": math.Sqrt, "ex2": libm.Exp2, "lg2": libm.Log2, "sin": libm.Sin,
		"cos": libm.Cos, "tanh": libm.Tanh}[op]; f != nil {
		return func(a, _, _ float64) float64 { return f(a) }
	}
	if op == "rsqrt" {
		return func(a, _, _ float64) float64 { return 1 / math.Sqrt(a) }
	}
	return nil
}

// fourOperands is an operation on integers that reads four of them; nil for one that is not known here.
func fourOperands(in *ptx.Instr) func(a, b, c, d uint64) uint64 {
	size, _ := sizeOf(kindOf(in))
	switch {
	case in.Op == "lop3" && len(in.Mods) == 1:
		return func(a, b, c, d uint64) uint64 {
			return uint64(ptxmath.Lop3(uint32(a), uint32(b), uint32(c), uint8(d)))
		}
	case in.Op == "bfi" && size == 32:
		return func(a, b, c, d uint64) uint64 {
			return uint64(ptxmath.Bfi32(uint32(a), uint32(b), uint32(c), uint32(d)))
		}
	case in.Op == "bfi":
		return func(a, b, c, d uint64) uint64 { return ptxmath.Bfi64(a, b, uint32(c), uint32(d)) }
	}
	return nil
}

// wholeOperation is an operation on integers of 64 bits; nil for one that is not known here.
func wholeOperation(in *ptx.Instr) func(a, b, c uint64) uint64 {
	if in.Has("hi") || in.Has("sat") {
		return nil
	}
	size, signed := sizeOf(kindOf(in))
	switch in.Op {
	case "add":
		return func(a, b, _ uint64) uint64 { return a + b }
	case "sub":
		return func(a, b, _ uint64) uint64 { return a - b }
	case "mul":
		return func(a, b, _ uint64) uint64 { return a * b }
	case "mad":
		return func(a, b, c uint64) uint64 { return a*b + c }
	case "and":
		return func(a, b, _ uint64) uint64 { return a & b }
	case "or":
		return func(a, b, _ uint64) uint64 { return a | b }
	case "xor":
		return func(a, b, _ uint64) uint64 { return a ^ b }
	case "not":
		if size == 1 {
			return func(a, _, _ uint64) uint64 { return a ^ 1 }
		}
		return func(a, _, _ uint64) uint64 { return ^a }
	case "neg":
		return func(a, _, _ uint64) uint64 { return -a }
	case "shl":
		return func(a, b, _ uint64) uint64 { return a << min(b, 64) }
	case "shr":
		if signed {
			return func(a, b, _ uint64) uint64 { return uint64(int64(a) >> min(b, 63)) }
		}
		return func(a, b, _ uint64) uint64 { return a >> min(b, 64) }
	case "bfe":
		if size == 32 {
			return func(a, b, c uint64) uint64 { return uint64(ptxmath.Bfe32(uint32(a), uint32(b), uint32(c), signed)) }
		}
		return func(a, b, c uint64) uint64 { return ptxmath.Bfe64(a, uint32(b), uint32(c), signed) }
	case "prmt":
		if len(in.Mods) == 1 {
			return func(a, b, c uint64) uint64 {
				return uint64(ptxmath.Prmt(uint32(a), uint32(b), uint32(c), ptxmath.Index))
			}
		}
	case "shf":
		f := ptxmath.ShfR
		if in.Has("l") {
			f = ptxmath.ShfL
		}
		return func(a, b, c uint64) uint64 { return uint64(f(uint32(a), uint32(b), uint32(c), in.Has("wrap"))) }
	case "div", "rem":
		if signed {
			return nil
		}
		return func(a, b, _ uint64) uint64 {
			if b == 0 {
				return 0
			}
			if in.Op == "div" {
				return a / b
			}
			return a % b
		}
	case "min", "max":
		return func(a, b, _ uint64) uint64 {
			less := a < b
			if signed {
				less = int64(a) < int64(b)
			}
			if less == (in.Op == "min") {
				return a
			}
			return b
		}
	}
	return nil
}
