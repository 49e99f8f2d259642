package ptxvm

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"gpuemu/internal/diag"
	"gpuemu/internal/ptx"
)

// This file implements the way from a parsed kernel to instructions with slots.

// Windows of generic addresses. Addresses of global memory are the same everywhere; shared, local and parameter space
// begin at 0, and their windows are where generic addresses find them.
const (
	sharedWindow = 1 << 40
	localWindow  = 2 << 40
	paramWindow  = 3 << 40
	windowSize   = 1 << 40
	moduleBase   = 5 << 40 // variables of the module
	heapBase     = 8 << 40 // buffers of a launch
)

// lowering is the state while a program is made.
type lowering struct {
	file      *ptx.File
	prog      *Program
	slots     map[*ptx.Register]ref
	consts    map[constantKey]ref
	symbols   map[symbolKey]symbol
	used      map[symbolKey]bool // variables that the kernel uses
	functions map[*ptx.Function]*lowered
	todo      []*ptx.Function
	calls     []callSite
	module    uint64 // where the next variable of the module begins
	inits     []initial
	at        *ptx.Instr               // that is being lowered, nil between instructions
	addresses map[*ptx.Function]uint64 // of functions, in the order in which they were asked for
	err       error
	fusions   map[*ptx.Instr]fusion // of the function that is being lowered
	memory    int64                 // bytes that the program may have
}

type constantKey struct {
	class ref
	value uint64
}

// symbolKey names a variable: names are unique within a declaration only.
type symbolKey struct {
	v    *ptx.Variable
	name string
}

// initial is a variable of the module with initial values.
type initial struct {
	v     *ptx.Variable
	init  *ptx.Init
	index int // in Program.variables
}

// symbol is where a variable lies, in its own space.
type symbol struct {
	space   space
	address uint64
	size    int
}

// lowered is a function that has its place in the code.
type lowered struct {
	start, end int // of its code; end is the instruction that leaves it
}

func (l *lowering) fail(at ptx.Pos, hint, format string, args ...any) {
	if l.err != nil {
		return
	}
	text := fmt.Sprintf(format, args...)
	if l.at != nil && l.at.Loc != nil && l.at.Loc.Line > 0 {
		text += fmt.Sprintf(" (%s:%d)", sourceFiles(l.file)[l.at.Loc.File], l.at.Loc.Line)
	}
	l.err = diag.Errorf(Unsupported, hint, "%s", text).At(l.file.Position(at))
}

func (l *lowering) program() error {
	l.module = moduleBase
	l.kernelParams()
	l.takenAddresses()
	l.used = l.usedVariables()
	l.moduleVariables()
	l.function(l.prog.Kernel)
	for len(l.todo) > 0 && l.err == nil {
		fn := l.todo[0]
		l.todo = l.todo[1:]
		l.function(fn)
	}
	for _, i := range l.inits {
		v := &l.prog.variables[i.index]
		v.data = make([]byte, min(v.size, values(i.init)*typeBytes(i.v.Type)))
		l.initial(i.v, i.init, v.data)
	}
	l.connect()
	if l.err != nil {
		return l.err
	}
	l.facts()
	l.prog.takeTurns()
	l.prog.consts = make([]constant, 0, len(l.consts))
	for key, slot := range l.consts {
		l.prog.consts = append(l.prog.consts, constant{slot, key.value})
	}
	return nil
}

// sizeOf is the size in bytes of a declared name and its alignment.
func (l *lowering) sizeOf(v *ptx.Variable, n *ptx.Name) (size, align int) {
	elem := typeBytes(v.Type)
	if elem == 0 {
		l.fail(v.Pos, "", "memory of type .%s is not executed here", v.Type)
		return 0, 1
	}
	switch v.Vec {
	case "v2":
		elem *= 2
	case "v4":
		elem *= 4
	case "v8":
		elem *= 8
	}
	size, align = elem, elem
	for _, d := range n.Dims {
		if d < 0 {
			return 0, max(align, v.Align)
		}
		if d > 0 && size > math.MaxInt32/d {
			l.fail(v.Pos, "", "%s has more than 2 GiB", n.Name)
			return 0, 1
		}
		size *= d
	}
	return size, max(align, v.Align)
}

func alignUp(n, align int) int { return (n + align - 1) / align * align }

func (l *lowering) kernelParams() {
	end := 0
	for _, v := range l.prog.Kernel.Params {
		n := &v.Names[0]
		size, align := l.sizeOf(v, n)
		at := alignUp(end, align)
		l.prog.Params = append(l.prog.Params, Param{n.Name, at, size})
		l.symbols[symbolKey{v, n.Name}] = symbol{paramSpace, uint64(at), size}
		end = at + size
	}
	l.prog.paramBytes = end
	if end > maxParams && l.err == nil {
		l.fail(l.prog.Kernel.Pos, "", "%s has %d bytes of parameters; the limit is %d", l.prog.Kernel.Name, end, maxParams)
	}
}

// moduleVariables gives the variables of the module their places.
func (l *lowering) moduleVariables() {
	for _, item := range l.file.Items {
		v, ok := item.(*ptx.Variable)
		if !ok {
			continue
		}
		l.declare(v)
	}
}

// declare gives a variable its place.
func (l *lowering) declare(v *ptx.Variable) {
	for i := range v.Names {
		n := &v.Names[i]
		key := symbolKey{v, n.Name}
		if in := spaceOf(v.Space); (in == globalSpace || in == constSpace) && !l.used[key] {
			continue
		}
		size, align := l.sizeOf(v, n)
		if l.err != nil {
			return
		}
		switch spaceOf(v.Space) {
		case sharedSpace:
			if size == 0 && slices.Contains(v.Linkage, "extern") {
				l.prog.sharedDynamic = true
				l.prog.dynamicAlign = max(l.prog.dynamicAlign, align)
				l.symbols[key] = symbol{sharedSpace, dynamicShared, 0}
				continue
			}
			at := 0
			if n := len(l.prog.sharedParts); n > 0 {
				at = alignUp(int(l.prog.sharedParts[n-1].to)+sharedGap, align)
			}
			if l.used[key] {
				l.prog.sharedStatic = alignUp(l.prog.sharedStatic, align) + size
			} else if at+size > maxStaticShared { // another kernel of the module uses it
				continue
			}
			l.symbols[key] = symbol{sharedSpace, uint64(at), size}
			l.prog.sharedParts = append(l.prog.sharedParts, sharedPart{n.Name, extent{uint64(at), uint64(at + size)}})
		case globalSpace, constSpace:
			if slices.Contains(v.Linkage, "extern") { // refused where it is used
				continue
			}
			at := (l.module + uint64(align) - 1) / uint64(align) * uint64(align)
			if at+uint64(size)+variableGap > heapBase {
				l.fail(v.Pos, "", "the variables of the module have more than %s", byteText(heapBase-moduleBase))
				return
			}
			l.symbols[key] = symbol{globalSpace, at, size}
			l.module = at + uint64(size) + variableGap
			l.prog.variables = append(l.prog.variables, variable{n.Name, at, size, nil, v.Space == "const"})
			if n.Init != nil {
				l.inits = append(l.inits, initial{v, n.Init, len(l.prog.variables) - 1})
			}
		case localSpace, paramSpace:
			at := alignUp(l.prog.localBytes, align)
			l.symbols[key] = symbol{localSpace, uint64(at), size}
			l.prog.localBytes = at + size
		default:
			l.fail(v.Pos, "", "memory in .%s is not executed here", v.Space)
		}
	}
}

// dynamicShared stands for the address behind all static shared memory, which is known at the end.
const dynamicShared = math.MaxUint64

// initial writes one initial value, or a list, and returns how many bytes it filled.
func (l *lowering) initial(v *ptx.Variable, in *ptx.Init, data []byte) int {
	if in.IsList() {
		n := 0
		for e := range in.Elements() {
			n += l.initial(v, e, data[min(n, len(data)):])
		}
		return n
	}
	size := typeBytes(v.Type)
	value := constantBits(&in.Value, v.Type)
	if in.Value.Kind == ptx.SymbolArg {
		value = l.initialAddress(&in.Value)
	}
	if in.Mask != "" { // 0xFF00(symbol): the bytes of the mask, moved to the lowest place (PTX ISA 5.4.5)
		mask, err := strconv.ParseUint(in.Mask, 0, 64)
		if err != nil || mask == 0 {
			l.fail(in.Pos, "", "mask %s of an initial value is not executed here", in.Mask)
			return size
		}
		value = value & mask >> bits.TrailingZeros64(mask)
	}
	if len(data) >= size {
		putBytes(data, value, size)
	}
	return size
}

// values is how many values an initial value has.
func values(in *ptx.Init) int {
	if !in.IsList() {
		return 1
	}
	n := 0
	for e := range in.Elements() {
		n += values(e)
	}
	return n
}

// initialAddress is the address of a variable or a function in an initial value. Variables of the module have the same
// address in their space as among generic addresses; shared ones have none before a block runs.
func (l *lowering) initialAddress(o *ptx.Operand) uint64 {
	if o.Func != nil {
		return l.functionAddress(o.Func) + uint64(o.Offset)
	}
	s, ok := l.symbols[symbolKey{o.Var, o.Text}]
	if !ok || s.space != globalSpace {
		l.fail(o.Pos, "", "the address of %s as an initial value is not executed here", o.Text)
	}
	return s.address + uint64(o.Offset)
}

// function makes the code of a function. Its last instruction leaves it, and every ret goes there, so that lanes which
// return at different places meet before they go back.
func (l *lowering) function(fn *ptx.Function) {
	if fn.Body == nil {
		l.fail(fn.Pos, "", "function %s has no body", fn.Name)
		return
	}
	if !l.room(len(fn.Code)) {
		return
	}
	f := &lowered{start: len(l.prog.code)}
	l.functions[fn] = f
	if !fn.Entry {
		l.formals(fn)
	}
	l.locals(fn.Body)
	if l.prog.Numerics.Contract {
		l.fusions = l.contractions(fn)
	}
	starts := make([]int, len(fn.Code)+1) // code index of each instruction
	for i, in := range fn.Code {
		starts[i] = len(l.prog.code)
		l.instruction(fn, in)
		if l.err != nil {
			return
		}
	}
	f.end = len(l.prog.code)
	starts[len(fn.Code)] = f.end
	kind := leave
	if fn.Entry {
		kind = finish
	}
	l.prog.code = append(l.prog.code, ins{kind: kind, guard: noRef})
	l.branches(fn, f, starts)
}

// insBytes is about how many bytes an instruction takes: itself, and lists of registers. Instructions in the text that
// become several are few.
const insBytes = int64(unsafe.Sizeof(ins{})) + 128

// room makes room for n instructions, if there may be so many.
func (l *lowering) room(n int) bool {
	l.prog.bytes += int64(n) * insBytes
	if l.prog.bytes > l.memory {
		at := l.file.Position(l.prog.Kernel.Pos)
		l.err = diag.Errorf(MemoryLimit, MemoryHint(l.prog.bytes), "%s needs at least %s of memory (%s); the limit is %s",
			l.prog.Kernel.Name, byteText(l.prog.bytes), purposeNames[forProgram], byteText(l.memory)).At(at)
		return false
	}
	l.prog.code = slices.Grow(l.prog.code, n+n/16+1)
	return true
}

// locals gives the variables of all blocks of a body their places.
func (l *lowering) locals(b *ptx.Block) {
	for _, s := range b.Stmts {
		switch x := s.(type) {
		case *ptx.Variable:
			if x.Space != "reg" {
				l.declare(x)
			}
		case *ptx.Block:
			l.locals(x)
		}
	}
}

// unset notes the registers that may be read before they are written. They are zero at the beginning of every block:
// what another block has left in them would depend on which blocks a worker has executed.
func (l *lowering) unset(g *ptx.Graph) {
	list := g.Func.Registers // where the function is too large to tell
	if live, err := g.Liveness(); err == nil {
		list = live.Uninitialised()
	}
	for _, r := range list {
		if slot, ok := l.slots[r]; ok {
			l.prog.unset = append(l.prog.unset, slot)
		}
	}
}

// branches fills in where branches go and where lanes meet again.
func (l *lowering) branches(fn *ptx.Function, f *lowered, starts []int) {
	graph := ptx.NewGraph(fn)
	l.unset(graph)
	meet := graph.Rejoins()
	for i := f.start; i < f.end; i++ {
		in := &l.prog.code[i]
		switch {
		case in.kind != branch && in.kind != indexed || placed(in.src):
			continue
		case in.src.Op == "ret":
			in.target = f.end
		case in.kind == indexed:
			for _, to := range in.src.Args[1].Targets.List {
				in.targets = append(in.targets, starts[to.Label.Index])
			}
		default:
			in.target = starts[in.src.Args[0].Label.Index]
		}
		in.rejoin = f.end
		if p := meet[graph.BlockOf(in.src.Index)]; p >= 0 {
			in.rejoin = starts[graph.Blocks[p].First]
		}
	}
}

// instruction adds the code of one instruction.
func (l *lowering) instruction(fn *ptx.Function, in *ptx.Instr) {
	l.at = in
	defer func() { l.at = nil }()
	r, mod := find(in)
	if r == nil {
		if mod != "" {
			l.fail(in.Pos, "", "%s is not executed here because of .%s", in.Mnemonic(), mod)
		} else {
			l.fail(in.Pos, "", "%s is not executed here", in.Mnemonic())
		}
		return
	}
	b := &builder{lowering: l, fn: fn, in: in, out: ins{guard: noRef, src: in}}
	if in.Guard != nil {
		b.out.guard = l.register(in.Guard)
		if in.Guard.Not {
			b.out.guardFlip = ^uint32(0)
		}
	}
	r.build(b)
	if l.err == nil && !b.done {
		l.prog.code = append(l.prog.code, b.out)
	}
}

// register is the slot of a register.
func (l *lowering) register(o *ptx.Operand) ref {
	if o.Reg == nil || o.Field != "" || o.Reg.Vec != "" {
		l.fail(o.Pos, "", "operand %s is not executed here", o)
		return 0
	}
	slot, ok := l.slots[o.Reg]
	if !ok {
		slot = l.slot(o.Pos, o.Reg.Type)
		l.slots[o.Reg] = slot
	}
	return slot
}

// slot makes a slot for values of a type.
func (l *lowering) slot(at ptx.Pos, typ string) ref {
	p := l.prog
	switch size := typeBytes(typ); {
	case typ == "pred":
		p.nPreds++
		return classPred | ref(p.nPreds-1)
	case size == 8:
		p.n64++
		return class64 | ref(p.n64-1)
	case size == 4 || size == 2 || size == 1:
		p.n32++
		return class32 | ref(p.n32-1)
	}
	l.fail(at, "", "registers of type .%s are not executed here", typ)
	return 0
}

// constant is a slot that holds a value.
func (l *lowering) constant(class ref, value uint64) ref {
	key := constantKey{class, value}
	slot, ok := l.consts[key]
	if !ok {
		slot = l.slot(0, map[ref]string{class32: "b32", class64: "b64", classPred: "pred"}[class])
		l.consts[key] = slot
	}
	return slot
}

// special is the slot of a special register.
func (l *lowering) special(o *ptx.Operand, class ref) ref {
	name := o.Text
	if o.Field != "" {
		name += "." + o.Field
	}
	if shift, ok := clocks[name]; ok {
		return l.clock(o.Pos, class, shift)
	}
	if _, ok := specialValues[name]; !ok {
		l.fail(o.Pos, "", "special register %s is not executed here", name)
		return 0
	}
	key := name
	if class == class64 {
		key += " wide"
	}
	slot, ok := l.prog.specials[key]
	if !ok {
		slot = l.slot(o.Pos, map[ref]string{class32: "b32", class64: "b64"}[class])
		l.prog.specials[key] = slot
		if strings.HasPrefix(name, "%ctaid") {
			l.prog.ofBlock = append(l.prog.ofBlock, blockValue{slot, specialValues[name]})
		}
	}
	return slot
}

// clocks are the special registers that count, with the bits that they leave out.
var clocks = map[string]int{"%clock": 0, "%clock64": 0, "%clock_hi": 32, "%globaltimer": 0, "%globaltimer_lo": 0,
	"%globaltimer_hi": 32}

// clock is a slot that gets the time just before the instruction reads it. Time is counted in instructions of the warp,
// and begins above zero as it does on hardware.
func (l *lowering) clock(at ptx.Pos, class ref, shift int) ref {
	slot := l.slot(at, map[ref]string{class32: "b32", class64: "b64"}[class])
	l.prog.code = append(l.prog.code, ins{guard: noRef, d: slot, src: l.at, clock: true, run: func(w *warp, in *ins) {
		for lane := range w.lanes() {
			w.set(in.d, lane, (1<<20+w.steps)>>shift)
		}
	}})
	return slot
}

// typeBytes is the size of a type; 0 for those without one here.
func typeBytes(typ string) int {
	switch typ {
	case "u8", "s8", "b8":
		return 1
	case "u16", "s16", "b16", "f16", "bf16":
		return 2
	case "u32", "s32", "b32", "f32", "f16x2", "bf16x2", "u16x2", "s16x2":
		return 4
	case "u64", "s64", "b64", "f64":
		return 8
	}
	return 0
}

// constantBits are the bits of a number as a value of a type.
func constantBits(o *ptx.Operand, typ string) uint64 {
	v := o.Value
	switch {
	case typ == "pred":
		return truth(v != 0)
	case o.Kind == ptx.F32Arg && typ == "f64":
		return math.Float64bits(float64(math.Float32frombits(uint32(v))))
	case o.Kind == ptx.F64Arg && typ == "f32":
		return uint64(math.Float32bits(float32(math.Float64frombits(v))))
	}
	if size := typeBytes(typ); size < 8 {
		v &= 1<<(8*size) - 1
	}
	return v
}

func (l *lowering) symbolOf(o *ptx.Operand) symbol {
	s, ok := l.symbols[symbolKey{o.Var, o.Text}]
	switch {
	case !ok && slices.Contains(o.Var.Linkage, "extern"):
		l.fail(o.Pos, "link the modules first", "%s is defined in another module", o.Text)
	case !ok || o.Generic && s.space != globalSpace:
		l.fail(o.Pos, "", "the address of %s is not executed here", o)
	}
	return s
}
