package ptxvm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/ptx"
	"gpuemu/internal/testkit"
	"gpuemu/internal/testkit/recorded"
)

// This file implements tests of single rows of the table: a kernel executes one instruction on many operands.

// rowCase is an instruction, what it reads and writes, and its result by other means.
type rowCase struct {
	head string   // of the module, in front of the kernel
	text string   // with $d, $q for a second result, and $a, $b, $c, $e for operands
	dst  string   // type of the result: b16, b32, b64, pred, or pair for two predicates (p + 2q)
	src  []string // types of operands; they decide which values are tried
	want func(x []uint64) uint64
	near func(x []uint64, got uint64) bool // instead of want, where several results are right

	warp func(x [][]uint64, lane int) uint64 // instead of want, where the operands of all lanes count
	most int                                 // random operands, 0 for any number
	full bool                                // it reads other lanes, so all of them must be there

	part, parts int // which of how many cases of an instruction it is; they share what is tried where that is much
}

// bitsType is the type of a register for values of a type.
func bitsType(typ string) string {
	if typ == "pred" {
		return typ
	}
	return fmt.Sprintf("b%d", 8*typeBytes(typ))
}

// kernel is the text of the kernel of a case. Each operand has 8 bytes of the input, each result 8 of the output.
func (c *rowCase) kernel() string {
	var s strings.Builder
	s.WriteString(".version 8.6\n.target sm_90a\n.address_size 64\n")
	s.WriteString(c.head + "\n.visible .entry k(.param .u64 in, .param .u64 out)\n{\n")
	s.WriteString(".reg .b32 %i<8>;\n.reg .b64 %l<8>;\n.reg .pred %u<8>;\n.reg .b16 %t16_<4>;\n.reg .b32 %t32_<4>;\n")
	s.WriteString(".reg .b64 %t64_<4>;\n")
	names := []string{"%a", "%b", "%c", "%e"}
	for i, typ := range c.src {
		fmt.Fprintf(&s, ".reg .%s %s;\n", bitsType(typ), names[i])
	}
	dst := c.dst
	if dst == "pair" {
		s.WriteString(".reg .pred %q;\n")
		dst = "pred"
	}
	fmt.Fprintf(&s, ".reg .%s %%d;\n", dst)
	s.WriteString("mov.u32 %i0, %ctaid.x;\nmov.u32 %i1, %ntid.x;\nmov.u32 %i2, %tid.x;\nmad.lo.s32 %i3, %i0, %i1, %i2;\n")
	fmt.Fprintf(&s, "ld.param.u64 %%l0, [in];\nmad.wide.u32 %%l1, %%i3, %d, %%l0;\n", 8*len(c.src))
	for i, typ := range c.src {
		if typ == "pred" {
			fmt.Fprintf(&s, "ld.global.b32 %%i4, [%%l1+%d];\nsetp.ne.b32 %s, %%i4, 0;\n", 8*i, names[i])
		} else {
			fmt.Fprintf(&s, "ld.global.%s %s, [%%l1+%d];\n", bitsType(typ), names[i], 8*i)
		}
	}
	s.WriteString("ld.param.u64 %l2, [out];\nmad.wide.u32 %l3, %i3, 8, %l2;\n")
	s.WriteString(strings.ReplaceAll(c.text, "$", "%") + "\n")
	switch c.dst {
	case "pred":
		s.WriteString("selp.b32 %i5, 1, 0, %d;\nst.global.b32 [%l3], %i5;\n")
	case "pair":
		s.WriteString("selp.b32 %i5, 1, 0, %d;\nselp.b32 %i6, 2, 0, %q;\nor.b32 %i5, %i5, %i6;\nst.global.b32 [%l3], %i5;\n")
	default:
		fmt.Fprintf(&s, "st.global.%s [%%l3], %%d;\n", c.dst)
	}
	s.WriteString("ret;\n}\n")
	return s.String()
}

func (c *rowCase) load(t testing.TB) *Program {
	t.Helper()
	f, err := ptx.Parse("row.ptx", c.kernel())
	if err != nil {
		t.Fatalf("%s: %v", c.text, err)
	}
	p, err := Load(f, "")
	if err != nil {
		t.Fatalf("%s: %v", c.text, err)
	}
	return p
}

// edges are values of a type where something may change.
func edges(typ string) []uint64 {
	switch typ {
	case "pred":
		return []uint64{0, 1}
	case "u16", "s16", "b16":
		return []uint64{0, 1, 2, 3, 15, 16, 17, 0x7f, 0x80, 0xff, 0x100, 0x7ffe, 0x7fff, 0x8000, 0x8001, 0xfffe, 0xffff}
	case "u32", "s32", "b32":
		return []uint64{0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 32, 33, 63, 64, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0xffff,
			0x10000, 0x7fffff, 0x800000, 0xffffff, 0x1000000, 0x7ffffffe, 0x7fffffff, 0x80000000, 0x80000001, 0xff800000,
			0xffff8000, 0xffffff80, 0xffffffe0, 0xfffffffe, 0xffffffff}
	case "u64", "s64", "b64":
		return []uint64{0, 1, 2, 3, 31, 32, 63, 64, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, 1<<63 - 2, 1<<63 - 1,
			1 << 63, 1<<63 + 1, 0xffffffff00000000, 0xffffffff80000000, 1<<64 - 2, 1<<64 - 1}
	case "f16", "f16x2":
		return spread(typ == "f16x2", []uint64{0, 1, 2, 0x1ff, 0x3ff, 0x400, 0x401, 0x3555, 0x3800, 0x3bff, 0x3c00, 0x3c01,
			0x4000, 0x4248, 0x5140, 0x7bfe, 0x7bff, 0x7c00, 0x7c01, 0x7e00, 0x7ff7, 0x7fff})
	case "bf16", "bf16x2":
		return spread(typ == "bf16x2", []uint64{0, 1, 2, 0x3f, 0x7f, 0x80, 0x81, 0x3eaa, 0x3f00, 0x3f7f, 0x3f80, 0x3f81,
			0x4000, 0x4049, 0x4e80, 0x7f7e, 0x7f7f, 0x7f80, 0x7f81, 0x7fc0, 0x7ff7, 0x7fff})
	case "f32":
		return signs(1<<31, []uint64{0, 1, 2, 0x400000, 0x7fffff, 0x800000, 0x800001, 0x33800000, 0x34000000, 0x3eaaaaab,
			0x3f000000, 0x3f7fffff, 0x3f800000, 0x3f800001, 0x3fc00000, 0x40000000, 0x40490fdb, 0x4b000000, 0x4b800000,
			0x4effffff, 0x4f000000, 0x4f800000, 0x5f000000, 0x7e800000, 0x7f000000, 0x7f7ffffe, 0x7f7fffff, 0x7f800000,
			0x7f800001, 0x7fc00000, 0x7fffffff})
	case "f64":
		return signs(1<<63, []uint64{0, 1, 1<<52 - 1, 1 << 52, 1<<52 + 1, 0x3690000000000000, 0x36a0000000000000,
			0x380fffffffffffff, 0x3810000000000000, 0x3cb0000000000000, 0x3fe0000000000000, 0x3fefffffffffffff,
			0x3ff0000000000000, 0x3ff0000000000001, 0x3ff0000010000000, 0x3ff8000000000000, 0x4000000000000000,
			0x400921fb54442d18, 0x41dfffffffc00000, 0x41e0000000000000, 0x43e0000000000000, 0x43f0000000000000,
			0x47efffffe0000000, 0x47effffff0000000, 0x47f0000000000000, 0x7fefffffffffffff, 0x7ff0000000000000,
			0x7ff0000000000001, 0x7ff8000000000000, 0x7fffffffffffffff})
	}
	panic("no edge values of " + typ)
}

// signs adds the negative ones.
func signs(bit uint64, list []uint64) []uint64 {
	for _, v := range list[:len(list):len(list)] {
		list = append(list, v|bit)
	}
	return list
}

// spread adds the negative ones, and makes pairs of values.
func spread(pairs bool, list []uint64) []uint64 {
	list = signs(1<<15, list)
	if pairs {
		n := len(list)
		for i := range n {
			list[i] |= list[(i*7+3)%n] & 0xffff << 16
		}
	}
	return list
}

// random is a value of a type: most often any bits, else close to an edge or small.
func random(r *rand.Rand, typ string) uint64 {
	v := r.Uint64()
	list := edges(typ)
	switch r.IntN(8) {
	case 0, 1:
		v = list[r.IntN(len(list))]
	case 2:
		v = list[r.IntN(len(list))] + uint64(r.IntN(5)) - 2
	case 3:
		v = uint64(r.IntN(300))
	}
	if typ == "pred" {
		return v & 1
	}
	return cut(v, typ)
}

// each calls f with operands of a case: those that are to be tried all, then n random ones. One operand of 16 bits or
// less has all values if n is large, two of 16 bits have all values of each with the edges of the other; larger ones
// have the edges of up to two operands with each other. If n is large, the cases of an instruction share the values of
// two operands of 16 bits and the random ones.
func (c *rowCase) each(n int, f func(x []uint64)) {
	r := rand.New(rand.NewPCG(1, uint64(len(c.text))))
	all := func(i int) []uint64 {
		if n < manyInputs || c.src[i] == "pred" || typeBytes(c.src[i]) > 2 {
			return edges(c.src[i])
		}
		list := make([]uint64, 1<<16)
		for v := range list {
			list[v] = uint64(v)
		}
		return list
	}
	switch len(c.src) {
	case 1:
		for _, a := range all(0) {
			f([]uint64{a})
		}
		if n >= manyInputs && len(all(0)) == 1<<16 {
			return
		}
	case 2:
		first, list := all(0), edges(c.src[1])
		for i, a := range first {
			for j, b := range list {
				left := n < manyInputs && (i+j)%gridStep != 0 && len(list) >= 32
				if !left && (len(first) < 1<<16 || c.mine(i+j)) {
					f([]uint64{a, b})
				}
			}
		}
		if list := all(1); len(list) == 1<<16 {
			for i, a := range edges(c.src[0]) {
				for j, b := range list {
					if c.mine(i + j) {
						f([]uint64{a, b})
					}
				}
			}
		}
	}
	if n >= manyInputs {
		n = max(n/c.parts, manyInputs)
	}
	for range n {
		x := make([]uint64, len(c.src))
		for i, typ := range c.src {
			x[i] = random(r, typ)
		}
		f(x)
	}
}

// mine tells whether the case is the one of its instruction that tries the i-th of many.
func (c *rowCase) mine(i int) bool { return i%c.parts == c.part }

// share tells cases which of their instruction they are: of those with the same opcode and types of operands and
// result.
func share(cases []rowCase) {
	like := map[string][]*rowCase{}
	for i := range cases {
		c := &cases[i]
		op, _, _ := strings.Cut(strings.NewReplacer(" ", ".", ";", ".").Replace(c.text), ".")
		key := fmt.Sprint(op, c.src, c.dst)
		like[key] = append(like[key], c)
	}
	for _, list := range like {
		for i, c := range list {
			c.part, c.parts = i, len(list)
		}
	}
}

// manyInputs is from when on small operands are tried with all values, and grids of edges are whole; before that, every
// gridStep-th point is taken of large ones.
const (
	manyInputs = 100_000
	gridStep   = 3
)

// rowBatch is how many operands a launch has: whole warps of 32 and of 31 threads.
const rowBatch = 32 * 31 * 8

// batches calls f with operands in groups of rowBatch; the last one is filled up with some that were there before.
func (c *rowCase) batches(n int, f func(inputs [][]uint64)) {
	var list [][]uint64
	c.each(n, func(x []uint64) {
		if list = append(list, x); len(list) == rowBatch {
			f(list)
			list = list[:0]
		}
	})
	for i := 0; len(list)%(32*31) != 0; i++ {
		list = append(list, list[i])
	}
	if len(list) > 0 {
		f(list)
	}
}

// run executes the case with blocks of a size.
func (c *rowCase) run(t testing.TB, p *Program, inputs [][]uint64, block int, checked bool) []uint64 {
	t.Helper()
	var in []byte
	for _, x := range inputs {
		for _, v := range x {
			in = binary.LittleEndian.AppendUint64(in, v)
		}
	}
	out := make([]byte, 8*len(inputs))
	checks := NoChecks
	if checked {
		checks = 0
	}
	r, err := p.Run(&Launch{Grid: Dim{len(inputs) / block, 1, 1}, Block: Dim{block, 1, 1}, Checks: checks, Workers: 1,
		Args: []Arg{{Name: "in", Buffer: in}, {Name: "out", Buffer: out}}})
	if err != nil || len(r.Findings) > 0 {
		t.Fatalf("%s: %v %v", c.text, err, r.Findings)
	}
	got := make([]uint64, len(inputs))
	for i := range got {
		got[i] = binary.LittleEndian.Uint64(out[8*i:])
	}
	return got
}

// rowInputs is how many random operands each case is tried with; GPUEMU_SOAK asks for more.
const rowInputs = 500

// TestRows tries every case with full warps, which take the fast ways, and with warps of 31 threads, which are also
// checked. Where GPUEMU_SOAK asks for many operands they take turns, and nothing is checked but the results.
func TestRows(t *testing.T) {
	testkit.ValuesOnly(t)
	n := recorded.Soak(rowInputs)
	var count total
	t.Cleanup(func() {
		t.Logf("%d cases of rows, %d tuples of operands equal the reference", count.forms, count.tuples)
	})
	slots := make(chan bool, runtime.GOMAXPROCS(0))
	for _, c := range rowCases() {
		t.Run(c.text, func(t *testing.T) {
			t.Parallel()
			slots <- true
			defer func() { <-slots }()
			p, batch, tuples, n := c.load(t), 0, 0, n
			if c.most > 0 {
				n = min(n, c.most)
			}
			c.batches(n, func(inputs [][]uint64) {
				tuples += len(inputs)
				want := c.wants(inputs)
				for i, block := range []int{32, 31} {
					if c.full {
						block = 32
					}
					if n < manyInputs || batch%2 == i {
						c.compare(t, c.run(t, p, inputs, block, i == 1 && n < manyInputs), inputs, want, block)
					}
				}
				batch++
			})
			count.add(tuples)
		})
	}
}

// wants are the results of operands one by one, where they are known.
func (c *rowCase) wants(inputs [][]uint64) []uint64 {
	list := make([]uint64, len(inputs))
	for i, x := range inputs {
		if c.want != nil {
			list[i] = c.want(x)
		}
	}
	return list
}

// compare compares results of blocks of a size with what they should be.
func (c *rowCase) compare(t *testing.T, got []uint64, inputs [][]uint64, want []uint64, block int) {
	t.Helper()
	for i, x := range inputs {
		w := want[i]
		if c.warp != nil {
			w = c.warp(inputs[i/block*block:][:block], i%block)
		}
		if c.near != nil && !c.near(x, got[i]) || c.near == nil && got[i] != w {
			t.Fatalf("%s of %#x in blocks of %d: %#x, want %#x", c.text, x, block, got[i], w)
		}
	}
}

// cover is the choices of the modifiers of rows that instructions have, by row.
type cover map[*row]map[string]bool

// add takes an instruction that has a row.
func (c cover) add(in *ptx.Instr) {
	r, _ := find(in)
	if r == nil {
		return
	}
	if c[r] == nil {
		c[r] = map[string]bool{}
	}
	c[r][in.Op] = true
	n := 0
	for i, g := range r.groups {
		if n < len(in.Mods) && slices.Contains(g.names, in.Mods[n]) {
			c[r][fmt.Sprint(i, " ", in.Mods[n])] = true
			n++
		} else {
			c[r][fmt.Sprint(i, " none")] = true
		}
	}
}

// missing are the choices of a row that no instruction has.
func (c cover) missing(r *row) (list []string) {
	for _, op := range r.ops {
		if !c[r][op] {
			list = append(list, op)
		}
	}
	for j, g := range r.groups {
		for _, name := range g.names {
			if !c[r][fmt.Sprint(j, " ", name)] {
				list = append(list, "."+name)
			}
		}
		if g.optional && !c[r][fmt.Sprint(j, " none")] {
			list = append(list, "without ."+strings.Join(g.names, "|."))
		}
	}
	return list
}

// code are the instructions that a case is about: those of its text and of its functions.
func (c *rowCase) code(t *testing.T) (list []*ptx.Instr) {
	kernel := c.kernel()
	f, err := ptx.Parse("row.ptx", kernel)
	if err != nil {
		t.Fatalf("%s: %v", c.text, err)
	}
	text := strings.ReplaceAll(c.text, "$", "%")
	first := strings.Index(kernel, text)
	for _, fn := range f.Functions {
		for _, in := range fn.Code {
			if !fn.Entry || int(in.Pos) >= first && int(in.Pos) < first+len(text) {
				list = append(list, in)
			}
		}
	}
	return list
}

// TestEveryRow proves that every row of the table, and every choice of its modifiers, has a case of a test that knows
// the result: one of rowCases, a recorded product of matrices, or the test that testedBy names.
func TestEveryRow(t *testing.T) {
	seen := cover{}
	for _, c := range rowCases() {
		for _, in := range c.code(t) {
			seen.add(in)
		}
	}
	var sources []byte
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, text...)
	}
	for _, table := range tables {
		for i := range table.rows {
			r := &table.rows[i]
			name := testedBy[r.ops[0]]
			if name == "" && len(r.groups) > 0 {
				name = testedBy[r.ops[0]+"."+r.groups[0].names[0]]
			}
			if name != "" {
				if !bytes.Contains(sources, []byte("\nfunc "+name+"(")) {
					t.Errorf("%s: there is no %s", r.syntax, name)
				}
				continue
			}
			if list := seen.missing(r); len(list) > 0 {
				t.Errorf("%s: no case with %s", r.syntax, strings.Join(list, ", "))
			}
		}
	}
}

// testedBy are opcodes, or opcodes with their first modifier, whose tests are not made of single instructions, because
// it takes several of them to see what one does: the test that is about them.
var testedBy = map[string]string{"cp": "TestAsyncCopy", "mbarrier": "TestMemoryBarrier", "ldmatrix": "TestMatrixLayout",
	"stmatrix": "TestMatrixLayout", "movmatrix": "TestMatrixLayout", "trap": "TestPlantedDefects",
	"mma": "TestRecordedProducts", "wmma": "TestRecordedMatrices", "wgmma": "TestRecordedMatrices",
	"st.async": "TestAsyncStore"}
