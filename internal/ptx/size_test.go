package ptx

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"gpuemu/internal/diag"
)

// TestNodeSizes keeps the sizes by which memory is counted.
func TestNodeSizes(t *testing.T) {
	for _, tt := range []struct {
		node       reflect.Type
		size, plus int // plus is what stands for pointers to it, or for growth
	}{
		{reflect.TypeFor[Operand](), operandSize, 0}, {reflect.TypeFor[Instr](), instrSize, 24},
		{reflect.TypeFor[Register](), registerSize, 32}, {reflect.TypeFor[Init](), initSize / 2, 0},
		{reflect.TypeFor[Block](), nodeSize, 0}, {reflect.TypeFor[Label](), nodeSize, 24},
		{reflect.TypeFor[Loc](), nodeSize, 0}, {reflect.TypeFor[Variable](), variableSize, 0},
		{reflect.TypeFor[Name](), nameSize, 0}, {reflect.TypeFor[Function](), functionSize, 0},
	} {
		if got := int(tt.node.Size()) + tt.plus; got > tt.size {
			t.Errorf("%s has %d bytes with %d beside it, %d are counted", tt.node, got-tt.plus, tt.plus, tt.size)
		}
	}
}

// modules are the forms of text that cost most, with n repetitions.
func modules() map[string]func(n int) string {
	const head = ".version 8.0\n.target sm_80\n.address_size 64\n"
	kernel := func(body string) string { return head + ".visible .entry k()\n{\n" + body + "ret;\n}\n" }
	table := func(values string) string {
		return head + ".global .b8 x[] = {" + values + "0};\n" + kernel("")[len(head):]
	}
	numbered := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	const registers = ".reg .b32 a, %r<1000000>;\n.reg .pred p;\n"
	return map[string]func(n int) string{
		"numbers":      func(n int) string { return table(strings.Repeat("0,", n)) },
		"lists":        func(n int) string { return table(strings.Repeat("{0},", n)) },
		"nested lists": func(n int) string { return table(strings.Repeat("{{{0}}},", n)) },
		"empty lists":  func(n int) string { return table(strings.Repeat("{},", n)) },
		"instructions": func(n int) string { return kernel(strings.Repeat("ret;", n)) },
		"guards":       func(n int) string { return kernel(registers + strings.Repeat("@p ret;", n)) },
		"operands":     func(n int) string { return kernel(registers + strings.Repeat("add.s32 a,a,a;", n)) },
		"registers":    func(n int) string { return kernel(registers + numbered(n, "mov.b32 %%r%d,0;")) },
		"the last":     func(n int) string { return kernel(registers + strings.Repeat("mov.b32 %r999999,0;", n)) },
		"vectors":      func(n int) string { return kernel(registers + strings.Repeat("mov.b32 a,{a,a,a,a};", n)) },
		"long vector":  func(n int) string { return kernel("mov.b32 a,{" + strings.Repeat("_,", n) + "_};") },
		"blocks":       func(n int) string { return kernel(strings.Repeat("{}", n)) },
		"statements":   func(n int) string { return kernel(strings.Repeat(";", n)) },
		"labels":       func(n int) string { return kernel(numbered(n, "L%d:")) },
		"targets":      func(n int) string { return kernel("L:\nT: .branchtargets " + strings.Repeat("L,", n) + "L;\n") },
		"locations":    func(n int) string { return kernel(strings.Repeat(".loc 1 1 1\n", n)) },
		"directives":   func(n int) string { return kernel(strings.Repeat(".pragma \"a\";", n)) },
		"declarations": func(n int) string { return kernel(numbered(n, ".reg .b32 a%d;")) },
		"names":        func(n int) string { return kernel(".reg .b32 " + numbered(n, "a%d,") + "b;") },
		"dimensions": func(n int) string {
			return head + ".global .b8 x" + strings.Repeat("[1]", n) + ";\n" + kernel("")[len(head):]
		},
		"functions": func(n int) string { return head + numbered(n, ".func f%d{ret;}") + kernel("")[len(head):] },
		"parameters": func(n int) string {
			return head + ".visible .entry k(" + numbered(n, ".param .b8 p%d,") + ".param .b8 b){ret;}\n"
		},
		"calls":    func(n int) string { return kernel(strings.Repeat("call f,(_,_,_,_,_,_,_,_);", n)) },
		"sections": func(n int) string { return head + strings.Repeat(".section .a {}", n) + kernel("")[len(head):] },
		"lines":    func(n int) string { return head + strings.Repeat("\n", n) + kernel("")[len(head):] },
		"compiled": func(n int) string {
			return kernel(".reg .b64 %rd<1000000>;\n.reg .f32 %f<1000000>;\n" + registers +
				numbered(n, "\tfma.rn.f32 \t%%f%d, %%f1, %%f2, %%f3;\n\tmul.wide.s32 \t%%rd1, %%r1, 4;\n"))
		},
	}
}

// TestMemory: what a module leaves in memory is at most 20 times its text, whatever it is made of, or its parsing ends
// with an error; what is allocated meanwhile is little more. Small modules of any form are read.
func TestMemory(t *testing.T) {
	const size = treeFloor/treeFactor + 1<<19 // where the factor is what limits
	for name, form := range modules() {
		text := form(size << 10 / len(form(1<<10)))
		var before, after, live runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		f, err := Parse("k.ptx", text)
		runtime.ReadMemStats(&after)
		runtime.GC()
		runtime.ReadMemStats(&live)
		allowed := max(treeFactor*len(text), treeFloor)
		if kept := int(live.HeapAlloc) - int(before.HeapAlloc); kept > allowed {
			t.Errorf("%s: %d bytes are kept of %d bytes of text, %d times as many", name, kept, len(text), kept/len(text))
		}
		// Slices that grow are garbage when they have.
		if all := int(after.TotalAlloc - before.TotalAlloc); all > 4*allowed {
			t.Errorf("%s: %d bytes are allocated for %d bytes of text", name, all, len(text))
		}
		if len(text) < treeFloor/treeFactor {
			t.Errorf("%s has %d bytes of text only", name, len(text))
		}
		if err != nil && diag.CodeOf(err) != Limit || err != nil && (name == "compiled" || name == "numbers") {
			t.Errorf("%s: %v", name, err)
		}
		runtime.KeepAlive(f)
	}
	for name, form := range modules() {
		if _, err := Parse("k.ptx", form(1<<12)); err != nil && diag.CodeOf(err) == Limit {
			t.Errorf("%s, small: %v", name, err)
		}
	}
}
