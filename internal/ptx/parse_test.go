package ptx

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/diag"
)

func parseString(t testing.TB, src string) *File {
	t.Helper()
	f, err := Parse("test.ptx", src)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// tokens are the texts of all tokens, comments and white space left out.
func tokens(t testing.TB, src string) []string {
	t.Helper()
	l := lexer{name: "test.ptx", src: src}
	var list []string
	for {
		tok, err := l.next()
		if err != nil {
			t.Fatal(err)
		}
		if tok.kind == tokEOF {
			return list
		}
		list = append(list, src[tok.pos:tok.end])
	}
}

// same reports the first difference of two trees, positions and where blocks end aside; "" if there is none.
func same(a, b *File) string {
	return sameValue(reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem(), "file", map[[2]uintptr]bool{})
}

func sameValue(a, b reflect.Value, path string, seen map[[2]uintptr]bool) string {
	if a.Type() != b.Type() {
		return path + ": " + a.Type().String() + " and " + b.Type().String()
	}
	if a.Type() == reflect.TypeFor[Pos]() {
		return ""
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() || b.IsNil() {
			if a.IsNil() != b.IsNil() {
				return path + ": one of them is nil"
			}
			return ""
		}
		if a.Kind() == reflect.Pointer {
			key := [2]uintptr{a.Pointer(), b.Pointer()}
			if seen[key] {
				return ""
			}
			seen[key] = true
		}
		return sameValue(a.Elem(), b.Elem(), path, seen)
	case reflect.Struct:
		if a.Type() == reflect.TypeFor[Init]() {
			if x := a.Addr().Interface().(*Init); x.IsList() {
				return sameElements(x, b.Addr().Interface().(*Init), path, seen)
			}
		}
		for i := range a.NumField() {
			if name := a.Type().Field(i).Name; name != "src" && name != "once" && name != "lines" {
				if d := sameValue(a.Field(i), b.Field(i), path+"."+name, seen); d != "" {
					return d
				}
			}
		}
		return ""
	case reflect.Slice:
		if a.Len() != b.Len() || a.IsNil() != b.IsNil() {
			return path + ": lists differ"
		}
		for i := range a.Len() {
			if d := sameValue(a.Index(i), b.Index(i), path, seen); d != "" {
				return d
			}
		}
		return ""
	}
	if !a.Equal(b) {
		return path + ": " + a.String() + " and " + b.String()
	}
	return ""
}

// sameElements compares a list of initial values with another initial value, whatever forms they have.
func sameElements(a, b *Init, path string, seen map[[2]uintptr]bool) string {
	x, y := slices.Collect(a.Elements()), slices.Collect(b.Elements())
	if !b.IsList() || len(x) != len(y) || a.Len() != len(x) || b.Len() != len(y) {
		return fmt.Sprintf("%s: lists of %d and %d elements", path, len(x), len(y))
	}
	for i := range x {
		if d := sameValue(reflect.ValueOf(x[i]).Elem(), reflect.ValueOf(y[i]).Elem(), path, seen); d != "" {
			return d
		}
	}
	return ""
}

// fixtures are all PTX files that we have, by path.
func fixtures(t testing.TB) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, root := range []string{"testdata", "../../testdata/ptx"} {
		err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".ptx" {
				return err
			}
			text, err := os.ReadFile(path)
			files[path] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// TestRoundTrip: what is printed has the tokens of the source and gives the same tree.
func TestRoundTrip(t *testing.T) {
	kernels := 0
	for path, src := range fixtures(t) {
		f, err := Parse(path, src)
		if err != nil {
			t.Error(err)
			continue
		}
		kernels += len(f.Kernels())
		printed := f.String()
		again, err := Parse(path, printed)
		if err != nil {
			t.Errorf("%s: what is printed does not parse: %v", path, err)
			continue
		}
		if d := same(f, again); d != "" {
			t.Errorf("%s: parsing what is printed gives another tree: %s", path, d)
		}
		if !strings.Contains(path, "everything") { // it writes numbers and constant expressions in all ways
			sameTokens(t, path, tokens(t, src), tokens(t, printed))
		}
	}
	t.Logf("%d kernels", kernels)
}

func sameTokens(t *testing.T, path string, want, got []string) {
	t.Helper()
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			t.Errorf("%s: token %d of what is printed is %q, want %q, behind %q", path, i, got[i], want[i],
				want[max(0, i-6):i])
			return
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d tokens are printed of %d", path, len(got), len(want))
	}
}

// kernelOf puts code into a kernel.
func kernelOf(code string) string {
	return ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u32 n)\n{\n" +
		".reg .b32 %r<8>;\n.reg .pred %p<3>;\n.reg .b64 %rd<4>;\n" + code + "\n}\n"
}

func TestErrors(t *testing.T) {
	deep := strings.Repeat("{", 200)
	for _, c := range []struct{ src, want string }{
		{"", `e.ptx:1:1: this is not PTX: it begins with the end of the file, not with .version [ptx-not-ptx]`},
		{"__global__ void f() {}",
			`e.ptx:1:1: this is not PTX: it begins with "__global__", not with .version [ptx-not-ptx]`},
		{".version 8.0\n", `e.ptx:1:1: the module has no .target [ptx-syntax]`},
		{".version 8.0\n.target sm_80\n.wrong 3", `e.ptx:3:1: directive .wrong is not known here [ptx-unknown-directive]`},
		{".version 8.0\n.target sm_80\n#include <x>", `e.ptx:3:1: preprocessor lines are not read [ptx-syntax]`},
		{kernelOf("foo.f32 %r1, %r2;"), `e.ptx:9:1: instruction foo.f32 is not known [ptx-unknown-opcode]`},
		{kernelOf("\tadd.f32.weird %r1, %r2, %r3;"),
			`e.ptx:9:9: modifier .weird of add.f32.weird is not known [ptx-unknown-modifier]`},
		{kernelOf("add.s32 %r1, %r2;"), `e.ptx:9:1: add.s32 has 2 operands, not 3 [ptx-operand-count]`},
		{kernelOf("ld.global.f32 %r1;"), `e.ptx:9:1: ld.global.f32 has 1 operands, not 2 to 4 [ptx-operand-count]`},
		{kernelOf("add.s32 %r1, %r2, %r8;"), `e.ptx:9:19: register %r8 is not declared [ptx-undeclared]`},
		{kernelOf("add.s32 %r1, %r2, %r08;"), `e.ptx:9:19: register %r08 is not declared [ptx-undeclared]`},
		{kernelOf("bra nowhere;"), `e.ptx:9:5: nowhere is not declared [ptx-undeclared]`},
		{kernelOf("x: x: ret;"), `e.ptx:9:4: x is declared twice in one block [ptx-redeclared]`},
		{kernelOf("{ in: ret; } bra in;"), `e.ptx:9:18: in is not declared [ptx-undeclared]`},
		{kernelOf("mov.b32 %r1, 0f123;"), `e.ptx:9:14: 0f is followed by 3 hexadecimal digits, not 8 [ptx-literal]`},
		{kernelOf("mov.b32 %r1, 12ab;"), `e.ptx:9:14: a number is followed by 'a' [ptx-literal]`},
		{kernelOf("mov.b32 %r1, 18446744073709551616;"),
			`e.ptx:9:14: 18446744073709551616 does not fit in 64 bits [ptx-literal]`},
		{kernelOf("mov.b32 %r1, 1/0;"), `e.ptx:9:15: a constant is divided by zero [ptx-literal]`},
		{kernelOf("mov.b32 %r1 %r2;"), `e.ptx:9:13: "%r2" stands where a comma or a semicolon is expected [ptx-syntax]`},
		{kernelOf("@3 ret;"), `e.ptx:9:2: a predicate register is expected behind @ [ptx-syntax]`},
		{kernelOf(".weird x;"), `e.ptx:9:1: directive .weird is not known in code [ptx-unknown-directive]`},
		{kernelOf(deep), `e.ptx:9:100: nested more than 100 deep [ptx-limit]`},
		{strings.TrimSuffix(kernelOf("ret;"), "}\n"), `e.ptx:5:1: a block has no end [ptx-syntax]`},
		{kernelOf("ret;") + "/* open", `e.ptx:11:1: a comment has no end [ptx-syntax]`},
		{kernelOf("ret;") + ".section .debug_x {", `e.ptx:11:19: a section has no end [ptx-syntax]`},
		{kernelOf("ret;") + ".file 1 \"open\n", `e.ptx:11:9: a string has no end [ptx-literal]`},
		{kernelOf("st.global.u8 [%rd1], %r1; \x80"), `e.ptx:9:27: byte 0x80 cannot stand here [ptx-syntax]`},
		{kernelOf("st.global.u8 [], %r1;"), `e.ptx:9:14: an address is empty [ptx-syntax]`},
		{kernelOf(".shared .align 3 .b8 x[4];"), `e.ptx:9:16: alignment 3 is not a power of two [ptx-literal]`},
	} {
		f, err := Parse("e.ptx", c.src)
		if err == nil {
			t.Errorf("%q parses: %v", c.src, f)
		} else if err.Error() != c.want {
			t.Errorf("%q:\n got %s\nwant %s", c.src, err, c.want)
		}
	}
	_, err := Parse("e.ptx", kernelOf("add.s32 %r1, %r2, %r8;"))
	if got, want := diag.HintOf(err), "add a .reg directive for it in this scope"; got != want {
		t.Errorf("hint %q, want %q", got, want)
	}
}

func TestConstants(t *testing.T) {
	for text, want := range map[string]int64{
		"12": 12, "-3": -3, "0x1F": 31, "017": 15, "0b101": 5, "12U": 12, "1+2*3": 7, "(1+2)*3": 9, "1<<4|3": 19,
		"~0": -1, "!5": 0, "!0": 1, "-8>>1": -4, "-8U>>60": 15, "7 % 4": 3, "-7/2": -3, "2>1?10:20": 10, "0?10:20": 20,
		"1<2&&2<1": 0, "1||0": 1, "5^1": 4, "6&3": 2, "1.5>1": 1, "2.>1.": 1, "(.u64)-1/2": 0x7fffffffffffffff, "-2-3": -5,
		"0xFFFFFFFFFFFFFFFF": -1, "0xFFFFFFFFFFFFFFFF>>63": 1, "3==3": 1, "3!=3": 0, "3<=3": 1, "3>=4": 0,
	} {
		f, err := Parse("c.ptx", kernelOf("mov.b64 %rd1, "+text+";"))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		o := f.Kernels()[0].Code[0].Args[1]
		if o.Kind != IntArg || int64(o.Value) != want || o.Text != text {
			t.Errorf("%s is %d (%v, %q), want %d", text, int64(o.Value), o.Kind, o.Text, want)
		}
	}
	in := parseString(t, kernelOf("fma.rn.f32 %r1, 0f3F800000, 1.5, 0d4000000000000000;")).Kernels()[0].Code[0]
	for i, want := range []uint64{0x3f800000, 0x3ff8000000000000, 0x4000000000000000} {
		if o := in.Args[i+1]; o.Value != want || (o.Kind == F32Arg) != (i == 0) {
			t.Errorf("operand %d is %#x of kind %d, want %#x", i+1, o.Value, o.Kind, want)
		}
	}
}

// TestResolution: names of inner blocks hide those of outer ones, and registers are numbered by first use.
func TestResolution(t *testing.T) {
	fn := parseString(t, kernelOf(`mov.b32 %r3, %r1;
		{ .reg .b32 %r1; mov.b32 %r1, %r3; top: bra top; }
		top: mov.b32 %r1, n; @%p1 bra top; mov.u32 %r2, %tid.x;`)).Kernels()[0]
	var names []string
	for _, r := range fn.Registers {
		names = append(names, r.Name)
	}
	if got := strings.Join(names, " "); got != "%r3 %r1 %r1 %p1 %r2" {
		t.Errorf("registers %s", got)
	}
	if a, b := fn.Code[0].Args[1].Reg, fn.Code[1].Args[0].Reg; a == b {
		t.Error("the inner %r1 is the outer one")
	}
	if a, b := fn.Code[0].Args[1].Reg, fn.Code[3].Args[0].Reg; a != b {
		t.Error("the outer %r1 has two registers")
	}
	inner, outer := fn.Code[2].Args[0].Label, fn.Code[4].Args[0].Label
	if inner.Index != 2 || outer.Index != 3 {
		t.Errorf("labels lead to %d and %d", inner.Index, outer.Index)
	}
	if o := fn.Code[3].Args[1]; o.Kind != SymbolArg || o.Var != fn.Params[1] {
		t.Errorf("n is %+v", o)
	}
	if o := fn.Code[5].Args[1]; o.Kind != SpecialArg || o.Field != "x" {
		t.Errorf("%%tid.x is %+v", o)
	}
}

// TestAliases: a name that .alias declares is the function behind it, wherever it is used.
func TestAliases(t *testing.T) {
	f := parseString(t, `.version 8.0
.target sm_80
.visible .func h();
.visible .func j();
.func f() { ret; }
.func g() { ret; }
.func e();
.alias h, f;
.alias g, f;
.alias j, e;
.global .u64 t = h;
.visible .entry k() { call h; call g; call j; ret; }
`)
	code := f.Kernels()[0].Code
	for i, want := range []string{"f", "g", "j"} { // g has a body of its own, and e none
		if o := &code[i].Args[0]; o.Func == nil || o.Func.Name != want {
			t.Errorf("%s is %+v, want %s", code[i], o.Func, want)
		}
	}
	for _, item := range f.Items {
		if v, ok := item.(*Variable); ok && v.Names[0].Init.Value.Func.Name != "f" {
			t.Errorf("the table holds %s", v.Names[0].Init.Value.Func.Name)
		}
	}
	if text := f.String(); !strings.Contains(text, "call h;") || !strings.Contains(text, ".alias h, f;") {
		t.Errorf("names became others in print:\n%s", text)
	}
}

// TestExternal: what a host or another module finds by name.
func TestExternal(t *testing.T) {
	for declaration, want := range map[string]bool{
		".visible .global .u32 v;": true, ".extern .const .u32 v;": true, ".weak .global .u32 v;": true,
		".common .global .u32 v;": true, ".global .texref v;": true, ".global .samplerref v;": true, ".tex .u32 v;": true,
		".global .u32 v;": false, ".const .u32 v;": false, ".extern .shared .b8 v[];": false,
		".visible .shared::cta .u32 v;": false, ".reg .surfref v;": false,
	} {
		f := parseString(t, ".version 8.0\n.target sm_80\n"+declaration)
		if got := f.Items[0].(*Variable).External(); got != want {
			t.Errorf("%s is external: %v, want %v", declaration, got, want)
		}
	}
}

// TestByteOrderMark: a text that an editor marked as UTF-8 is read, and its places are those that editors show.
func TestByteOrderMark(t *testing.T) {
	f := parseString(t, "\ufeff.version 8.0 .target sm_80 .entry k() { ret; }")
	if got, want := f.Position(f.Kernels()[0].Code[0].Pos).String(), "test.ptx:1:41"; got != want {
		t.Errorf("ret stands at %s, want %s", got, want)
	}
	for text, want := range map[string]string{
		"\ufeff.version 8.0 nonsense":       "e.ptx:1:14: ",
		"\ufeff.version 8.0\n.target 7,":    "e.ptx:2:9: ",
		"\ufeff\ufeff.version 8.0":          "e.ptx:1:1: ", // one mark alone is a mark
		".version 8.0\n\ufeff.target sm_80": "e.ptx:2:1: ",
	} {
		if _, err := Parse("e.ptx", text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want an error at %s", text, err, want)
		}
	}
}

func TestPosition(t *testing.T) {
	f := parseString(t, kernelOf("  ret;"))
	in := f.Kernels()[0].Code[0]
	if got, want := f.Position(in.Pos).String(), "test.ptx:9:3"; got != want {
		t.Errorf("ret stands at %s, want %s", got, want)
	}
}
