package ptxvm

import (
	"encoding/binary"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// This file implements cases of rows that access memory: loads, stores and atomic operations. Each thread has a cell of
// 32 bytes, its four operands of 64 bits, in the space that is accessed.

// usual are the modifiers that a case has where it is about another one. Optional ones are left out.
var usual = []string{"b32", "u32", "f32", "f16x2", "gpu", "global", "relaxed", "add", "v2", "sync", "aligned"}

// choices are modifiers of a row, such that each choice of each group is among them.
func choices(r *row) (list [][]string) {
	plain := func(g group) string {
		if g.optional {
			return ""
		}
		for _, name := range usual {
			if slices.Contains(g.names, name) {
				return name
			}
		}
		return g.names[0]
	}
	seen := map[string]bool{}
	for i, g := range r.groups {
		names := g.names
		if g.optional {
			names = append([]string{""}, names...)
		}
		for _, name := range names {
			var mods []string
			for j, other := range r.groups {
				choice := name
				if j != i {
					choice = plain(other)
				}
				if choice != "" {
					mods = append(mods, choice)
				}
			}
			if key := strings.Join(mods, "."); !seen[key] {
				seen[key] = true
				list = append(list, mods)
			}
		}
	}
	if len(r.groups) == 0 {
		list = [][]string{nil}
	}
	return list
}

// accessForm is what modifiers say of an access.
type accessForm struct {
	name  string // opcode and modifiers
	mods  []string
	space string
	typ   string
	count int
}

func formOf(op string, mods []string) accessForm {
	f := accessForm{name: strings.Join(append([]string{op}, mods...), "."), mods: mods, count: 1}
	for _, m := range mods {
		base, _, _ := strings.Cut(m, "::")
		switch {
		case slices.Contains([]string{"global", "shared", "local", "const", "param"}, base):
			f.space = m
		case m == "v2" || m == "v4" || m == "v8":
			f.count = int(m[1] - '0')
		case typeBytes(m) > 0:
			f.typ = m
		}
	}
	return f
}

func (f *accessForm) has(mod string) bool { return slices.Contains(f.mods, mod) }

// hint is the operand for a cache policy.
func (f *accessForm) hint() string {
	if f.has("L2::cache_hint") {
		return ", $l4"
	}
	return ""
}

// cell is the text that brings the operands into the space, and the address of a thread's cell there.
func (f *accessForm) cell() (text, address string) {
	text = "createpolicy.fractional.L2::evict_last.b64 $l4; "
	declared := map[string]string{"shared": ".shared .align 32 .b8 there[1024];",
		"local": ".local .align 32 .b8 there[32];"}
	base, _, _ := strings.Cut(f.space, "::")
	if declared[base] == "" {
		return text, "$l1"
	}
	text = declared[base] + text + "mov.u64 $l5, there; "
	if base == "shared" {
		text += "mad.wide.u32 $l5, $i2, 32, $l5; "
	}
	for i, name := range []string{"$a", "$b", "$c", "$e"} {
		text += fmt.Sprintf("st.%s.b64 [$l5+%d], %s; ", base, 8*i, name)
	}
	return text, "$l5"
}

// cellBytes are the operands as they lie in memory.
func cellBytes(x []uint64) []byte {
	var b []byte
	for _, v := range x {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// element is element i of a type in memory, as a register of 64 bits has it.
func element(b []byte, typ string, i int) uint64 {
	size := typeBytes(typ)
	var word [8]byte
	copy(word[:], b[i*size:][:size])
	return low(numOf(binary.LittleEndian.Uint64(word[:]), uint(8*size), typ[0] == 's'), 64)
}

// loadCase loads into registers of 64 bits, which are wider than most types, and shows the last element.
func loadCase(op string, mods []string) rowCase {
	f := formOf(op, mods)
	c := rowCase{dst: "b64", src: times(4, "b64")}
	switch f.space {
	case "const":
		c.head = ".const .align 32 .b64 table[4] = {0x1122334455667788, 0x99aabbccddeeff00, 3, 0x8000000000000001};"
		c.text = fmt.Sprintf("%s $d, [table];", f.name)
		c.want = func([]uint64) uint64 { return element(cellBytes([]uint64{0x1122334455667788}), f.typ, 0) }
		return c
	case "param", "param::entry":
		c.text = fmt.Sprintf("%s $d, [in];", f.name)
		c.want = func([]uint64) uint64 { return element(cellBytes([]uint64{heapBase}), f.typ, 0) }
		return c
	case "param::func":
		c.head = fmt.Sprintf(".func (.param .b64 r) pick(.param .b64 v) { .reg .b64 %%x; %s %%x, [v]; "+
			"st.param.b64 [r], %%x; ret; }", f.name)
		c.text = "{ .param .b64 r0; .param .b64 v0; st.param.b64 [v0], $a; call (r0), pick, (v0); ld.param.b64 $d, [r0]; }"
		c.want = func(x []uint64) uint64 { return element(cellBytes(x), f.typ, 0) }
		return c
	}
	text, at := f.cell()
	c.text = fmt.Sprintf("%s%s $d, [%s]%s;", text, f.name, at, f.hint())
	if f.count > 1 {
		c.text = fmt.Sprintf("%s%s {%s$d}, [%s]%s;", text, f.name, strings.Repeat("_, ", f.count-1), at, f.hint())
	}
	c.want = func(x []uint64) uint64 { return element(cellBytes(x), f.typ, f.count-1) }
	return c
}

// storeCase stores $b, and $c as the last element of a vector, and shows the 8 bytes around that.
func storeCase(op string, mods []string) rowCase {
	f := formOf(op, mods)
	c := rowCase{dst: "b64", src: times(4, "b64")}
	if strings.HasPrefix(f.space, "param") {
		c.head = fmt.Sprintf(".func (.param .b64 r) pick(.param .b64 v) { .reg .b64 %%x; st.param.b64 [r], 0; "+
			"ld.param.b64 %%x, [v]; %s [r], %%x; ret; }", f.name)
		c.text = "{ .param .b64 r0; .param .b64 v0; st.param.b64 [v0], $a; call (r0), pick, (v0); ld.param.b64 $d, [r0]; }"
		c.want = func(x []uint64) uint64 { return x[0] << (64 - 8*typeBytes(f.typ)) >> (64 - 8*typeBytes(f.typ)) }
		return c
	}
	text, at := f.cell()
	values := "$c"
	if f.count > 1 {
		values = "{" + strings.Repeat("$b, ", f.count-1) + "$c}"
	}
	size := typeBytes(f.typ)
	around := (f.count - 1) * size / 8 * 8
	plain := f.space
	if plain != "" {
		plain = "." + plain
	}
	c.text = fmt.Sprintf("%s%s [%s], %s%s; ld%s.b64 $d, [%s+%d];", text, f.name, at, values, f.hint(), plain, at, around)
	c.want = func(x []uint64) uint64 {
		b, reg := cellBytes(x), make([]byte, 8)
		for i := range f.count {
			v := x[1]
			if i == f.count-1 {
				v = x[2]
			}
			binary.LittleEndian.PutUint64(reg, v)
			copy(b[i*size:], reg[:size])
		}
		return binary.LittleEndian.Uint64(b[around:])
	}
	return c
}

// atomicWant is the new value of memory, by definition.
func atomicWant(op, typ string, flush bool, old, b, c uint64) uint64 {
	size := uint(8 * typeBytes(typ))
	x, y := numOf(old, size, typ[0] == 's'), numOf(b, size, typ[0] == 's')
	elem, pair := strings.CutSuffix(typ, "x2")
	if f, ok := floatFormats[elem]; ok {
		m := modifiers("rn")
		if flush {
			m = "rn.ftz"
		}
		if pair {
			return f.compute("add", []uint64{old >> 16, b >> 16}, m)<<16 |
				f.compute("add", []uint64{old & 0xffff, b & 0xffff}, m)
		}
		return f.compute("add", []uint64{old, b}, m)
	}
	one := big.NewInt(1)
	switch op {
	case "add":
		x.Add(x, y)
	case "min", "max":
		if x.Cmp(y) > 0 == (op == "min") {
			x = y
		}
	case "inc":
		if x.Cmp(y) >= 0 {
			return 0
		}
		x.Add(x, one)
	case "dec":
		if x.Sign() == 0 || x.Cmp(y) > 0 {
			return b
		}
		x.Sub(x, one)
	case "and":
		x.And(x, y)
	case "or":
		x.Or(x, y)
	case "xor":
		x.Xor(x, y)
	case "exch":
		x = y
	case "cas":
		if x.Cmp(y) != 0 {
			return old
		}
		return c
	}
	return low(x, size)
}

// atomicCases combine the cell with $b, and for cas with $c. One shows what was there before, the other what is there
// now; the last element of vectors stands for all.
func atomicCases(op string, mods []string) []rowCase {
	f := formOf(op, mods)
	what := ""
	for _, m := range mods {
		if slices.Contains(strings.Fields("add min max inc dec and or xor exch cas"), m) {
			what = m
		}
	}
	size := typeBytes(f.typ)
	reg := map[int]string{2: "b16", 4: "b32", 8: "b64"}[size]
	text, at := f.cell()
	for i := range 2 { // $b and $c in registers of the size of the type
		text += fmt.Sprintf(".reg .%s $v%d; ld.%s $v%d, [%s+%d]; ", reg, i, spaced(f.space, reg), i, at, 8*(i+1))
	}
	values, results := "$v0", "$d"
	if f.count > 1 {
		values = "{" + strings.Repeat("$v1, ", f.count-1) + "$v0}"
		results = "{" + strings.Repeat("_, ", f.count-1) + "$d}"
	}
	if what == "cas" {
		values += ", $v1"
	}
	last := (f.count - 1) * size
	c := rowCase{dst: reg, src: times(4, "b64")}
	old := func(x []uint64) uint64 { return element(cellBytes(x), "b"+reg[1:], f.count-1) }
	after := c
	after.want = func(x []uint64) uint64 {
		b := cellBytes(x)
		flush := f.typ == "f32" && !strings.HasPrefix(f.space, "shared")
		return atomicWant(what, f.typ, flush, old(x), element(b[8:], "b"+reg[1:], 0), element(b[16:], "b"+reg[1:], 0))
	}
	if format, ok := floatFormats[f.typ]; ok && f.typ == "f64" { // which NaN depends on the operands
		want := after.want
		after.want, after.near = nil, func(x []uint64, got uint64) bool {
			return got == want(x) || format.isNaN(got) && format.isNaN(want(x))
		}
	}
	show := fmt.Sprintf("ld.%s $d, [%s+%d];", spaced(f.space, reg), at, last)
	if op == "red" {
		after.text = fmt.Sprintf("%s%s [%s], %s%s; %s", text, f.name, at, values, f.hint(), show)
		return []rowCase{after}
	}
	after.text = fmt.Sprintf("%s%s %s, [%s], %s%s; %s", text, f.name, results, at, values, f.hint(), show)
	c.text = fmt.Sprintf("%s%s %s, [%s], %s%s;", text, f.name, results, at, values, f.hint())
	c.want = old
	return []rowCase{after, c}
}

// spaced is a type behind the name of a space, if there is one.
func spaced(space, typ string) string {
	if space == "" {
		return typ
	}
	return space + "." + typ
}

// memoryCases are those of loads, stores and atomic operations, and of what does nothing to memory here.
func memoryCases() []rowCase {
	var list []rowCase
	for _, rows := range [][]row{memoryRows, atomicRows} {
		for i := range rows {
			r := &rows[i]
			for _, op := range r.ops {
				for _, mods := range choices(r) {
					switch op {
					case "ld", "ldu":
						list = append(list, loadCase(op, mods))
					case "st":
						list = append(list, storeCase(op, mods))
					case "atom", "red":
						list = append(list, atomicCases(op, mods)...)
					}
				}
			}
		}
	}
	return list
}
