package ptxvm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"gpuemu/internal/ptx"
)

// This file implements random programs: instructions of the table with operands that mostly fit, in random control
// flow.

// programmer writes one program.
type programmer struct {
	r      *rand.Rand
	s      strings.Builder
	labels int
	all    []*row
	pool   []string // statements that are accepted; empty while it is being made
}

// allRows are the rows of all tables, in their order.
func allRows() (list []*row) {
	for _, t := range tables {
		for i := range t.rows {
			list = append(list, &t.rows[i])
		}
	}
	return list
}

// moduleHead is what a random module begins with, and kernelHead its kernel.
const (
	moduleHead = `.version 8.6
.target sm_90a
.address_size 64
.global .align 16 .b8 g[256];
.const .align 16 .b32 c[8] = {1, 2, 3, 4, 5, 6, 7, 8};
.extern .shared .align 16 .b8 dyn[];
`
	kernelHead = `.visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n, .param .align 16 .b8 s[16])
{
.reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<8>; .reg .b64 %d<4>;
.shared .align 128 .b8 sh[1024]; .local .align 16 .b8 lo[64];
mov.u32 %r0, %tid.x; ld.param.u64 %d0, [a]; ld.param.u64 %d1, [b]; mad.wide.u32 %d2, %r0, 4, %d0;
mov.u32 %r1, %ctaid.x; ld.param.u32 %r2, [n]; setp.lt.u32 %p0, %r0, 7; cvta.shared.u64 %d3, sh;
`
)

// randomProgram is the text of a module with the kernel "k", which has four parameters: two buffers, a number and 16
// bytes.
func randomProgram(r *rand.Rand, pool []string) string {
	p := &programmer{r: r, labels: 1 + r.IntN(6), all: allRows(), pool: pool}
	p.s.WriteString(moduleHead + `.func (.param .b32 r) f(.param .b32 v)
{
.reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<8>; .reg .b64 %d<4>;
.shared .align 128 .b8 sh[1024]; .local .align 16 .b8 lo[64];
ld.param.b32 %r0, [v]; mov.u64 %d0, g; mov.u64 %d1, 64;
`)
	p.body(4, 2)
	p.s.WriteString("st.param.b32 [r], %r1;\nret;\n}\n" + kernelHead)
	p.body(3+r.IntN(40), p.labels)
	p.s.WriteString("ret;\n}\n")
	return p.s.String()
}

// statements are some that are accepted, each by itself, and the others with a chance of one in ten.
func statements(r *rand.Rand, n int) (pool []string) {
	p := &programmer{r: r, all: allRows()}
	for range n {
		p.s.Reset()
		p.s.WriteString(moduleHead + kernelHead)
		start := p.s.Len()
		p.instruction()
		text := p.s.String()[start:]
		p.s.WriteString("ret;\n}\n")
		f, err := ptx.Parse("statement.ptx", p.s.String())
		if err == nil {
			_, err = Load(f, "k")
		}
		if err == nil || r.IntN(200) == 0 {
			pool = append(pool, text)
		}
	}
	return pool
}

// body writes statements, and labels between them. Control may go anywhere.
func (p *programmer) body(n, labels int) {
	places := make([]int, labels)
	for i := range places {
		places[i] = p.r.IntN(n + 1)
	}
	names := make([]string, labels)
	for i := range names {
		names[i] = fmt.Sprintf("L%d", i)
	}
	fmt.Fprintf(&p.s, "ts: .branchtargets %s;\n", strings.Join(names, ", "))
	for i := range n + 1 {
		for l, at := range places {
			if at == i {
				fmt.Fprintf(&p.s, "L%d:\n", l)
			}
		}
		if i < n {
			p.statement(labels)
		}
	}
}

// statement writes one instruction.
func (p *programmer) statement(labels int) {
	if p.r.IntN(4) == 0 {
		fmt.Fprintf(&p.s, "@%s%%p%d ", p.pick("", "!"), p.r.IntN(4))
	}
	switch p.r.IntN(16) {
	case 0:
		fmt.Fprintf(&p.s, "bra%s L%d;\n", p.pick("", ".uni"), p.r.IntN(labels))
		return
	case 1:
		p.s.WriteString(p.pick("bar.sync 0;", "bar.sync 1, 64;", "barrier.sync 0;", "bar.warp.sync -1;", "bar.arrive 2, 64;",
			"bar.red.popc.u32 %r3, 0, %p1;", "call (%r3), f, (%r2);", "brx.idx %r2, ts;", "exit;",
			"{ .param .b32 q0; .param .b32 q1; st.param.b32 [q1], %r2; call (q0), f, (q1); ld.param.b32 %r3, [q0]; }") + "\n")
		return
	}
	if len(p.pool) > 0 {
		p.s.WriteString(p.pool[p.r.IntN(len(p.pool))])
		return
	}
	p.instruction()
}

// instruction writes one of any row, without a guard.
func (p *programmer) instruction() {
	row := p.all[p.r.IntN(len(p.all))]
	op := row.ops[p.r.IntN(len(row.ops))]
	var mods []string
	for _, g := range row.groups {
		if !g.optional || p.r.IntN(3) == 0 {
			mods = append(mods, g.names[p.r.IntN(len(g.names))])
		}
	}
	operands := p.operands(op, mods)
	if p.r.IntN(20) == 0 { // some that do not fit
		operands = p.spoil(operands)
	}
	fmt.Fprintf(&p.s, "%s %s;\n", strings.Join(append([]string{op}, mods...), "."), strings.Join(operands, ", "))
}

func (p *programmer) pick(list ...string) string { return list[p.r.IntN(len(list))] }

// spoil removes, repeats or replaces an operand.
func (p *programmer) spoil(list []string) []string {
	other := p.pick("%r1", "%d1", "%h1", "%p1", "7", "-1", "0f3f800000", "_", "[%d0]", "[g+4]", "{%r1, %r2}", "sh",
		"%tid.x", "L0", "f", "%r1|%p1", "!%p2", "ts", "[a]", "[%d0, {%r1, %r2}]")
	i := p.r.IntN(len(list) + 1)
	switch p.r.IntN(3) {
	case 0:
		return slices.Insert(slices.Clone(list), i, other)
	case 1:
		if i < len(list) {
			return slices.Delete(slices.Clone(list), i, i+1)
		}
	}
	list = append(slices.Clone(list), "")
	list[i] = other
	if i < len(list)-1 {
		list = list[:len(list)-1]
	}
	return list
}

// value is an operand of a type; written ones are registers.
func (p *programmer) value(typ string, written bool) string {
	n := p.r.IntN(4)
	if typ == "pred" {
		return fmt.Sprintf("%%p%d", n)
	}
	if !written && p.r.IntN(5) == 0 {
		return p.pick("0", "1", "-1", "31", "0x7fffffff", "64", "3")
	}
	if !written && p.r.IntN(12) == 0 && typeBytes(typ) == 4 {
		return p.pick("%tid.x", "%laneid", "%ntid.x", "%clock", "%lanemask_lt")
	}
	return fmt.Sprintf("%%%s%d", map[int]string{1: "h", 2: "h", 4: "r", 8: "d"}[typeBytes(typ)], n)
}

// address is an operand that names memory: often somewhere useful, sometimes anywhere.
func (p *programmer) address(shared bool) string {
	offset := p.r.IntN(9) * 4
	switch p.r.IntN(8) {
	case 0:
		return p.pick("[%d1]", "[%d3]", "[%r2]", "[16]", "[lo]", "[c+4]", "[n]", "[dyn]", "[-8]")
	case 1, 2:
		if !shared {
			return fmt.Sprintf("[g+%d]", offset)
		}
	case 3:
		return fmt.Sprintf("[%%d%d+%d]", p.r.IntN(4), offset)
	}
	if shared {
		return fmt.Sprintf("[sh+%d]", offset*4)
	}
	return fmt.Sprintf("[%%d2+%d]", offset)
}

// vector is n operands in braces, or one without.
func (p *programmer) vector(typ string, n int, written bool) string {
	if n == 1 {
		return p.value(typ, written)
	}
	var list []string
	for range n {
		list = append(list, p.value(typ, written))
	}
	return "{" + strings.Join(list, ", ") + "}"
}

// operands are those of an instruction. What is not listed has a result and operands of its type.
func (p *programmer) operands(op string, mods []string) []string {
	has := func(mod string) bool { return slices.Contains(mods, mod) }
	f := formOf(op, mods)
	typ := f.typ
	if has("pred") || typ == "" {
		typ = map[bool]string{true: "pred", false: "b32"}[has("pred")]
	}
	shared := strings.HasPrefix(f.space, "shared")
	d := func(t string) string { return p.value(t, true) }
	s := func(t string) string { return p.value(t, false) }
	mask := p.pick("-1", "-1", "0xffff", "%r1", "1")
	switch op {
	case "bra", "ret", "exit", "trap", "fence", "membar", "griddepcontrol":
		return nil
	case "brx":
		return []string{s("b32"), "ts"}
	case "call":
		return []string{"(" + d("b32") + ")", "f", "(" + s("b32") + ")"}
	case "bar", "barrier":
		switch {
		case has("warp"):
			return []string{mask}
		case has("red"):
			return []string{d(typ), "0", s("pred")}
		case has("arrive"):
			return []string{"1", "64"}
		}
		return []string{p.pick("0", "1", "%r1")}
	case "setp", "testp", "isspacep":
		list := []string{d("pred"), s(typ), s(typ)}
		if op == "isspacep" {
			return []string{d("pred"), s("b64")}
		}
		if op == "testp" {
			return list[:2]
		}
		if has("and") || has("or") || has("xor") {
			list = append(list, s("pred"))
		}
		return list
	case "ld", "ldu":
		return p.hinted(has, p.vector(typ, f.count, true), p.address(shared))
	case "st":
		return p.hinted(has, p.address(shared), p.vector(typ, f.count, false))
	case "atom", "red":
		list := []string{p.vector(typ, f.count, true), p.address(shared), p.vector(typ, f.count, false)}
		if has("cas") {
			list = append(list, s(typ))
		}
		if op == "red" {
			list = list[1:]
		}
		return p.hinted(has, list...)
	case "shfl":
		return []string{d("b32") + p.pick("", "|%p2"), s("b32"), s("b32"), p.pick("31", "0x1f", "%r2"), mask}
	case "vote":
		return []string{d(typ), s("pred"), mask}
	case "match", "redux":
		return []string{d("b32"), s(typ), mask}
	case "elect":
		return []string{d("b32") + "|%p1", mask}
	case "activemask", "pmevent", "nanosleep", "setmaxnreg":
		return []string{d("b32")}
	case "prefetch", "prefetchu":
		return []string{p.address(false)}
	}
	return p.wideOperands(op, mods, typ)
}

// hinted adds a cache policy where there is a hint.
func (p *programmer) hinted(has func(string) bool, list ...string) []string {
	if has("L2::cache_hint") {
		return append(list, "%d3")
	}
	return list
}

// wideOperands are those of the other instructions.
func (p *programmer) wideOperands(op string, mods []string, typ string) []string {
	has := func(mod string) bool { return slices.Contains(mods, mod) }
	d := func(t string) string { return p.value(t, true) }
	s := func(t string) string { return p.value(t, false) }
	switch op {
	case "cp":
		switch {
		case has("mbarrier"):
			return []string{"[sh+512]"}
		case has("commit_group") || has("wait_all"):
			return nil
		case has("wait_group"):
			return []string{p.pick("0", "1")}
		case has("prefetch"):
			return []string{p.address(false), "64"}
		case has("bulk") && has("mbarrier::complete_tx::bytes"):
			return p.hinted(has, p.address(true), p.address(false), p.pick("16", "%r1"), "[sh+512]")
		case has("bulk"):
			return p.hinted(has, p.address(false), p.address(true), p.pick("16", "%r1"))
		}
		return p.hinted(has, p.address(true), p.address(false), p.pick("16", "4", "8"))
	case "mbarrier":
		at := "[sh+512]"
		switch {
		case has("init"):
			return []string{at, p.pick("1", "32", "%r1")}
		case has("inval"):
			return []string{at}
		case has("pending_count"):
			return []string{d("b32"), s("b64")}
		case has("test_wait") || has("try_wait"):
			return []string{d("pred"), at, s(map[bool]string{true: "b32", false: "b64"}[has("parity")])}
		case has("arrive") || has("arrive_drop"):
			return []string{p.pick("_", d("b64")), at, p.pick("1", "16", "%r1")}
		}
		return []string{at, p.pick("16", "%r1")}
	case "ldmatrix", "stmatrix":
		n := 1
		for _, m := range mods {
			if len(m) == 2 && m[0] == 'x' {
				n = int(m[1] - '0')
			}
		}
		list := []string{"{" + strings.Trim(p.vector("b32", n, op == "ldmatrix"), "{}") + "}", p.address(true)}
		if op == "stmatrix" {
			slices.Reverse(list)
		}
		return list
	case "mma", "wmma", "wgmma":
		return p.matrixOperands(op, has)
	case "createpolicy":
		return []string{d("b64")}
	case "lop3":
		list := []string{d(typ), s(typ), s(typ), s(typ), "0xe8"}
		if has("and") || has("or") {
			list = append([]string{d(typ) + "|%p1"}, append(list[1:], s("pred"))...)
		}
		return list
	case "selp":
		return []string{d(typ), s(typ), s(typ), s("pred")}
	}
	n := map[string]int{"mad": 3, "fma": 3, "madc": 3, "mad24": 3, "sad": 3, "dp4a": 3, "dp2a": 3, "shf": 3,
		"prmt": 3, "bfe": 3, "slct": 3, "fns": 3, "bfi": 4, "not": 1, "cnot": 1, "neg": 1, "abs": 1, "popc": 1,
		"clz": 1, "brev": 1, "bfind": 1, "sqrt": 1, "rcp": 1, "rsqrt": 1, "sin": 1, "cos": 1, "lg2": 1, "ex2": 1,
		"tanh": 1, "mov": 1, "cvt": 1, "cvta": 1, "movmatrix": 1}[op]
	if n == 0 {
		n = 2
	}
	list := []string{d(typ)}
	if has("wide") {
		list[0] = d(map[string]string{"u16": "b32", "s16": "b32", "u32": "b64", "s32": "b64"}[typ])
	}
	for i := range n {
		t := typ
		if i == 1 && (op == "shl" || op == "shr") || i > 0 && op == "bfe" || i > 1 && op == "bfi" {
			t = "b32"
		}
		list = append(list, s(t))
	}
	return list
}

// matrixOperands are fragments of any size.
func (p *programmer) matrixOperands(op string, has func(string) bool) []string {
	fragment := func(written bool) string {
		return "{" + strings.Trim(p.vector("b32", []int{1, 2, 4, 8}[p.r.IntN(4)], written), "{}") + "}"
	}
	switch {
	case has("fence") || has("commit_group"):
		return nil
	case has("wait_group"):
		return []string{p.pick("0", "1")}
	case op == "wgmma":
		return []string{fragment(true), p.pick("%d3", fragment(false)), "%d3", "%p1", "1", "1", "0", "0"}
	case has("load"):
		return []string{fragment(true), p.address(false), p.pick("16", "8", "%r1")}
	case has("store"):
		return []string{p.address(false), fragment(false), p.pick("16", "8", "%r1")}
	}
	return []string{fragment(true), fragment(false), fragment(false), fragment(false)}
}
