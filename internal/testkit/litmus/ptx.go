package litmus

import (
	"fmt"
	"slices"
	"strings"
)

// This file implements the writer of kernels: a litmus program as PTX that a driver or an emulator runs.

// Kernel is a program as PTX. Its parameters are the global variables in their order and then the buffer of results.
type Kernel struct {
	PTX     string
	Entry   string
	Blocks  int
	Threads int // of a block
	Buffers []Buffer
}

// Buffer is the memory that one parameter points to.
type Buffer struct {
	Name string
	Data []byte
}

// resultBytes is what a thread has in the buffer of results: 8 bytes for each register that is loaded.
const resultBytes = 8

// writer collects the text.
type writer struct {
	p       *Program
	b       strings.Builder
	regs    map[string]int // numbers of registers of the program
	temps   int            // scratch registers so far
	preds   int
	labels  int
	threads int
}

// PTX writes the program as a kernel. The first lanes of the warps of the program execute their code, all others leave;
// shared memory is initialized before, in front of a barrier.
func (p *Program) PTX() Kernel {
	w := &writer{p: p, regs: map[string]int{}}
	warps := 1
	for i := range p.Warps {
		warps = max(warps, p.Warps[i].Index+1)
		each(p.Warps[i].Body, func(s *Stmt) {
			if _, ok := w.regs[s.Dest]; s.Dest != "" && !ok {
				w.regs[s.Dest] = len(w.regs)
			}
		})
	}
	w.threads = 32 * warps
	k := Kernel{Entry: "litmus", Blocks: p.Blocks(), Threads: w.threads}
	for i := range p.Vars {
		v := &p.Vars[i]
		if v.Space == Global {
			k.Buffers = append(k.Buffers, Buffer{v.Name, v.bytes()})
		}
	}
	k.Buffers = append(k.Buffers, Buffer{"results", make([]byte, resultBytes*max(len(w.regs), 1)*k.Blocks*k.Threads)})
	w.prologue()
	for i := range p.Warps {
		w.warp(i)
	}
	w.put("$exit:")
	w.put("\tret;")
	k.PTX = w.head(k) + w.b.String() + "}\n"
	return k
}

// bytes are the first values of a variable.
func (v *Var) bytes() []byte {
	out := make([]byte, v.Count*v.Width)
	for i := range out {
		out[i] = byte(v.Init >> (8 * (i % v.Width)))
	}
	return out
}

func (w *writer) put(format string, args ...any) { fmt.Fprintf(&w.b, format+"\n", args...) }

// head is everything before the first instruction; it needs the number of registers.
func (w *writer) head(k Kernel) string {
	var b strings.Builder
	target := "sm_80"
	if strings.Contains(w.p.Text, ".cluster") {
		target = "sm_90"
	}
	fmt.Fprintf(&b, "// %s/%s: %s\n", w.p.Family, w.p.Name, w.p.Title)
	fmt.Fprintf(&b, ".version 8.5\n.target %s\n.address_size 64\n\n", target)
	b.WriteString(".visible .entry litmus(\n")
	for i, buf := range k.Buffers {
		comma := ","
		if i == len(k.Buffers)-1 {
			comma = ""
		}
		fmt.Fprintf(&b, "\t.param .u64 p_%s%s\n", buf.Name, comma)
	}
	b.WriteString(")\n{\n")
	for i := range w.p.Vars {
		if v := &w.p.Vars[i]; v.Space == Shared {
			fmt.Fprintf(&b, "\t.shared .align 16 .b8 s_%s[%d];\n", v.Name, v.Count*v.Width)
		}
	}
	fmt.Fprintf(&b, "\t.reg .b64 %%base<%d>, %%val<%d>;\n", len(w.p.Vars)+1, len(w.regs)+1)
	fmt.Fprintf(&b, "\t.reg .b64 %%addr<%d>, %%wide<%d>;\n", w.temps+1, w.temps+1)
	fmt.Fprintf(&b, "\t.reg .b32 %%thread, %%lane, %%warp, %%block, %%t<%d>;\n", w.temps+1)
	fmt.Fprintf(&b, "\t.reg .pred %%p<%d>;\n\n", w.preds+1)
	return b.String()
}

func (w *writer) temp() int {
	w.temps++
	return w.temps - 1
}

func (w *writer) pred() int {
	w.preds++
	return w.preds - 1
}

func (w *writer) label() int {
	w.labels++
	return w.labels - 1
}

// prologue loads addresses, initializes shared memory and goes to the code of the warp.
func (w *writer) prologue() {
	w.put("\tmov.u32 %%thread, %%tid.x;\n\tmov.u32 %%block, %%ctaid.x;")
	w.put("\tand.b32 %%lane, %%thread, 31;\n\tshr.u32 %%warp, %%thread, 5;")
	shared := false
	for i := range w.p.Vars {
		v := &w.p.Vars[i]
		if v.Space == Global {
			w.put("\tld.param.u64 %%base%d, [p_%s];\n\tcvta.to.global.u64 %%base%d, %%base%d;", i, v.Name, i, i)
		} else {
			shared = true
			w.put("\tmov.u64 %%base%d, s_%s;", i, v.Name)
		}
	}
	w.put("\tld.param.u64 %%base%d, [p_results];\n\tcvta.to.global.u64 %%base%d, %%base%d;", len(w.p.Vars), len(w.p.Vars),
		len(w.p.Vars))
	for i := range len(w.regs) {
		w.put("\tmov.u64 %%val%d, 0;", i)
	}
	if shared {
		p, l := w.pred(), w.label()
		w.put("\tsetp.ne.u32 %%p%d, %%thread, 0;\n\t@%%p%d bra $L%d;", p, p, l)
		for i := range w.p.Vars {
			v := &w.p.Vars[i]
			for k := range v.Count {
				if v.Space == Shared {
					w.put("\tst.shared.%s [%%base%d+%d], %d;", typeOf(v.Width), i, k*v.Width, v.Init)
				}
			}
		}
		w.put("$L%d:\n\tbar.sync 0;", l)
	}
	for i := range w.p.Warps {
		c := &w.p.Warps[i]
		p, t := w.pred(), w.temp()
		w.put("\tmad.lo.u32 %%t%d, %%block, %d, %%warp;", t, w.threads/32)
		w.put("\tsetp.eq.u32 %%p%d, %%t%d, %d;", p, t, c.Block*w.threads/32+c.Index)
		w.put("\t@%%p%d bra $warp%d;", p, i)
	}
	w.put("\tbra $exit;")
}

func typeOf(width int) string { return fmt.Sprintf("u%d", 8*width) }

// warp writes the code of one warp.
func (w *writer) warp(i int) {
	c := &w.p.Warps[i]
	w.put("$warp%d:", i)
	if c.Lanes < 32 {
		p := w.pred()
		w.put("\tsetp.ge.u32 %%p%d, %%lane, %d;\n\t@%%p%d bra $exit;", p, c.Lanes, p)
	}
	w.body(c, c.Body)
	w.results(c)
}

// results writes what the registers of a warp hold, and leaves the kernel.
func (w *writer) results(c *Warp) {
	var dests []string
	each(c.Body, func(s *Stmt) {
		if s.Dest != "" && !slices.Contains(dests, s.Dest) {
			dests = append(dests, s.Dest)
		}
	})
	if len(dests) > 0 {
		t := w.temp()
		w.put("\tmad.lo.u32 %%t%d, %%block, %d, %%thread;\n\tmul.wide.u32 %%addr%d, %%t%d, %d;", t, w.threads, t, t,
			resultBytes*len(w.regs))
		w.put("\tadd.u64 %%addr%d, %%addr%d, %%base%d;", t, t, len(w.p.Vars))
		for _, d := range dests {
			w.put("\tst.global.u64 [%%addr%d+%d], %%val%d;", t, resultBytes*w.regs[d], w.regs[d])
		}
	}
	w.put("\tbra $exit;")
}

func (w *writer) body(c *Warp, list []*Stmt) {
	for _, s := range list {
		w.put("\t// %s", s.Text)
		if s.Op == OpIf {
			w.branch(c, s)
			continue
		}
		w.stmt(c, s)
	}
}

func (w *writer) branch(c *Warp, s *Stmt) {
	no, end := w.label(), w.label()
	p := w.compare(s.Cond, w.expr(s.Cond.A))
	w.put("\t@!%%p%d bra $L%d;", p, no)
	w.body(c, s.Then)
	if len(s.Else) > 0 {
		w.put("\tbra $L%d;\n$L%d:", end, no)
		w.body(c, s.Else)
		w.put("$L%d:", end)
		return
	}
	w.put("$L%d:", no)
}

// compare puts whether a condition holds of a 32-bit register into a predicate.
func (w *writer) compare(c *Cond, left int) int {
	names := map[string]string{"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
	right, p := w.expr(c.B), w.pred()
	w.put("\tsetp.%s.s32 %%p%d, %%t%d, %%t%d;", names[c.Cmp], p, left, right)
	return p
}

// operand puts an operand into a new 32-bit register.
func (w *writer) operand(o Operand) int {
	t := w.temp()
	switch {
	case o.Lane:
		w.put("\tmov.u32 %%t%d, %%lane;", t)
	case o.Reg != "":
		w.put("\tcvt.u32.u64 %%t%d, %%val%d;", t, w.regs[o.Reg])
	default:
		w.put("\tmov.u32 %%t%d, %d;", t, uint32(o.Num))
	}
	return t
}

// expr puts the value of an expression into a new 32-bit register.
func (w *writer) expr(e Expr) int {
	a := w.operand(e.A)
	if e.Op == 0 {
		return a
	}
	b, t := w.operand(e.B), w.temp()
	op := map[byte]string{'+': "add.u32", '-': "sub.u32", '*': "mul.lo.u32", '/': "div.u32", '^': "xor.b32",
		'&': "and.b32"}
	w.put("\t%s %%t%d, %%t%d, %%t%d;", op[e.Op], t, a, b)
	return t
}

// address puts the address of a place into a new register.
func (w *writer) address(pl Place) int {
	v := &w.p.Vars[pl.Var]
	i, t := w.expr(pl.Index), w.temp()
	w.put("\tmul.wide.u32 %%addr%d, %%t%d, %d;\n\tadd.u64 %%addr%d, %%addr%d, %%base%d;", t, i, v.Width, t, t, pl.Var)
	return t
}

func (w *writer) space(pl Place) string {
	if w.p.Vars[pl.Var].Space == Shared {
		return ".shared"
	}
	return ".global"
}

var (
	semText = map[Sem]string{Weak: "", Relaxed: ".relaxed", Acquire: ".acquire", Release: ".release",
		AcqRel: ".acq_rel", SC: ".sc"}
	scopeText = map[Scope]string{CTA: ".cta", Cluster: ".cluster", GPU: ".gpu", Sys: ".sys"}
)

// order is the qualifiers of an operation.
func (s *Stmt) order() string {
	switch {
	case s.Sem == Volatile:
		return ".volatile"
	case s.Sem == Weak || s.Plain:
		return ""
	}
	return semText[s.Sem] + scopeText[s.Scope]
}

func (w *writer) stmt(c *Warp, s *Stmt) {
	mask := uint32(1<<c.Lanes - 1)
	if c.Lanes == 32 {
		mask = ^uint32(0)
	}
	switch s.Op {
	case OpLoad, OpStore, OpAtom:
		w.access(s)
	case OpFence:
		switch {
		case s.Old && s.Scope == GPU:
			w.put("\tmembar.gl;")
		case s.Old:
			w.put("\tmembar%s;", scopeText[s.Scope])
		default:
			w.put("\tfence%s%s;", semText[s.Sem], scopeText[s.Scope])
		}
	case OpBarSync, OpBarArrive:
		name := map[Op]string{OpBarSync: "sync", OpBarArrive: "arrive"}[s.Op]
		if s.Count > 0 {
			w.put("\tbar.%s %d, %d;", name, s.N, s.Count)
		} else {
			w.put("\tbar.%s %d;", name, s.N)
		}
	case OpWarpSync:
		w.put("\tbar.warp.sync 0x%x;", s.Mask)
	case OpExit:
		w.results(c)
	case OpShuffle, OpBallot, OpActive:
		w.exchange(s, mask)
	case OpAsync:
		to, from := w.address(s.Place), w.address(s.From)
		w.put("\tcp.async.ca.shared.global [%%addr%d], [%%addr%d], %d;", to, from, s.Width)
	case OpCommit:
		w.put("\tcp.async.commit_group;")
	case OpWaitGroup:
		w.put("\tcp.async.wait_group %d;", s.N)
	}
}

// exchange writes what lanes do with registers.
func (w *writer) exchange(s *Stmt, mask uint32) {
	t := w.temp()
	switch s.Op {
	case OpShuffle:
		v := w.expr(s.Args[0])
		w.put("\tshfl.sync.bfly.b32 %%t%d, %%t%d, 1, 0x1f, 0x%x;", t, v, mask)
	case OpBallot:
		v, p := w.expr(s.Args[0]), w.pred()
		w.put("\tsetp.ne.u32 %%p%d, %%t%d, 0;\n\tvote.sync.ballot.b32 %%t%d, %%p%d, 0x%x;", p, v, t, p, mask)
	default:
		w.put("\tactivemask.b32 %%t%d;", t)
	}
	if s.Dest != "" {
		w.put("\tcvt.u64.u32 %%val%d, %%t%d;", w.regs[s.Dest], t)
	}
}

// access writes a load, a store or an atomic operation, in a loop if the program waits.
func (w *writer) access(s *Stmt) {
	var args []int
	for _, a := range s.Args {
		args = append(args, w.expr(a))
	}
	addr := w.address(s.Place)
	reg := func(i int) string { // of an operand
		if s.Width < 8 {
			return fmt.Sprintf("%%t%d", args[i])
		}
		t := w.temp()
		w.put("\tcvt.u64.u32 %%wide%d, %%t%d;", t, args[i])
		return fmt.Sprintf("%%wide%d", t)
	}
	where, typ := w.space(s.Place), typeOf(s.Width)
	if s.Pair {
		typ = "v2." + typ
	}
	if s.Op == OpStore {
		value := reg(0)
		if s.Pair {
			value = fmt.Sprintf("{%[1]s, %[1]s}", value)
		}
		w.put("\tst%s%s.%s [%%addr%d], %s;", s.order(), where, typ, addr, value)
		return
	}
	dest := w.temp()
	result := fmt.Sprintf("%%t%d", dest)
	if s.Width == 8 {
		result = fmt.Sprintf("%%wide%d", dest)
	}
	ops := ""
	for i := range args {
		ops += ", " + reg(i)
	}
	loop := w.label()
	if s.Until != nil {
		w.put("$L%d:", loop)
	}
	switch {
	case s.Op == OpLoad && s.Pair:
		kind := strings.TrimRight(result, "0123456789")
		w.put("\tld%s%s.%s {%s%d, %s}, [%%addr%d];", s.order(), where, typ, kind, w.temp(), result, addr)
	case s.Op == OpLoad:
		w.put("\tld%s%s.%s %s, [%%addr%d];", s.order(), where, typ, result, addr)
	case s.Red:
		w.put("\tred%s%s.%s [%%addr%d]%s;", s.order(), where, s.rmwType(), addr, ops)
		return
	default:
		w.put("\tatom%s%s.%s %s, [%%addr%d]%s;", s.order(), where, s.rmwType(), result, addr, ops)
	}
	if s.Width == 8 {
		w.put("\tcvt.u32.u64 %%t%d, %%wide%d;", dest, dest)
	}
	if s.Until != nil {
		p := w.compare(s.Until, dest)
		w.put("\t@!%%p%d bra $L%d;", p, loop)
	}
	if s.Dest != "" {
		w.put("\tcvt.u64.u32 %%val%d, %%t%d;", w.regs[s.Dest], dest)
	}
}

// rmwType is the operation of an atomic instruction with its type.
func (s *Stmt) rmwType() string {
	switch s.RMW {
	case "exch", "cas", "or":
		return fmt.Sprintf("%s.b%d", s.RMW, 8*s.Width)
	}
	return s.RMW + "." + typeOf(s.Width)
}
