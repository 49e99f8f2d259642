package artifact

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/ptx"
	"gpuemu/internal/testkit"
)

// load reads a file of testdata beside this test.
func load(t *testing.T, name string) *File {
	t.Helper()
	f, err := Load(context.Background(), filepath.Join("testdata", name), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// one returns the only record of a kernel.
func one(t *testing.T, f *File, kernel string) *Metrics {
	t.Helper()
	list, err := f.Kernel(kernel)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 {
		t.Fatalf("%s has %d records of %s, want 1", f.Name, len(list), kernel)
	}
	return &list[0]
}

func figure(n int, o Origin) *Figure { return &Figure{n, o} }

// check compares a piece of a record with what was counted by hand.
func check[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		g, _ := json.Marshal(got)
		w, _ := json.Marshal(want)
		t.Errorf("%s is %s, want %s", what, g, w)
	}
}

func TestKnownFigures(t *testing.T) {
	f := load(t, "known.ptx")
	check(t, "the format", f.Format, FormatPTX)
	m := one(t, f, "first")
	src := m.Sources[0]
	check(t, "the source", []any{src.Kind, src.File, src.Version, src.Compiler},
		[]any{PTX, filepath.Join("testdata", "known.ptx"), "8.4", "Cuda compilation tools, release 13.0, V13.0.88"})
	check(t, "the place", src.Place, Place{Line: 26, SourceFile: "kernels/first.cu", SourceLine: 10})
	check(t, "the digest", src.Digest, f.Digest)
	check(t, "the text", f.Texts[f.Digest] != "", true)
	check(t, "the architecture", m.Arch, "sm_90a")

	check(t, "local", m.Local, figure(12+20, Declared)) // depot and the scratch of what it calls
	check(t, "stack", m.Stack, figure(12+20, Estimated))
	check(t, "shared", m.SharedStatic, figure(33*4+4+8, Declared)) // tile, a gap of 4, word; unused is not named
	check(t, "dynamic shared", *m.SharedDynamic, true)
	check(t, "constant", m.Constant, []Bank{{Bytes: Figure{17, Declared}}})
	check(t, "max threads", m.MaxThreads, &Extent{128, 2, 1, Declared})
	check(t, "threads of it", m.MaxThreads.Threads(), 256)
	check(t, "req threads", m.ReqThreads, &Extent{64, 1, 1, Declared})
	for what, unknown := range map[string]*Figure{"spill stores": m.SpillStores, "spill loads": m.SpillLoads,
		"spills": m.Spills(), "barriers": m.Barriers} {
		if unknown != nil {
			t.Errorf("%s are %v, want unknown: PTX does not have them", what, unknown)
		}
	}
	// At ldmatrix: rd2 and rd3 take 4, r1, r9 and r10 3, f5 to f9 5, fd1 2, h1 1, r2 to r5 4.
	check(t, "registers", m.Registers, figure(19, Estimated))
	zero, eight, sixteen, twentyFour := 0, 8, 16, 24
	check(t, "params", m.Params, []Param{
		{Name: "first_in", Type: "u64", Space: "global", Align: 16, Offset: &zero, Size: 8},
		{Name: "first_flag", Type: "u8", Offset: &eight, Size: 1},
		{Name: "first_out", Type: "u64", Offset: &sixteen, Size: 8},
		{Name: "first_pair", Type: "b8[12]", Offset: &twentyFour, Size: 12},
	})
}

func TestKnownCode(t *testing.T) {
	f := load(t, "known.ptx")
	c := one(t, f, "first").PTXCode
	// 33 of the kernel and 5 of what it calls: ld.param, mov, st.local, st.param, ret.
	check(t, "total", c.Total, 38)
	check(t, "predicated", c.Predicated, 3)
	check(t, "classes", c.Classes, map[Class]int{Memory: 12, Move: 5, FP32: 2, FP64: 1, Half: 1, Barrier: 3, Tensor: 2,
		Warp: 1, Int: 4, Branch: 4, Call: 1, Convert: 1, Atomic: 1})
	check(t, "opcodes", c.Opcodes, map[string]int{"ld": 5, "st": 6, "cp": 3, "cvta": 1, "mov": 4, "fma": 2, "mul": 1,
		"add": 3, "bar": 1, "ldmatrix": 1, "mma": 1, "shfl": 1, "setp": 2, "bra": 2, "call": 1, "cvt": 1, "red": 1, "ret": 2})
	check(t, "memory", c.Memory, []Access{
		{"atomic", "global", 32, 1}, {"copy", "shared.global", 128, 1}, {"load", "global", 128, 1}, {"load", "param", 32, 2},
		{"load", "param", 64, 2}, {"load", "shared", 128, 1}, {"store", "global", 64, 1}, {"store", "local", 32, 2},
		{"store", "param", 32, 2}, {"store", "shared", 32, 1}})
	check(t, "patterns", c.Patterns, []string{"ld.global.v4", "ld.global.nc", "st.global.v2", "st.local", "cp.async",
		"mma.*", "ldmatrix", "shfl.sync", "red.*", "bar.sync", "*.f64", "call"})
	check(t, "the shape", []int{*c.Blocks, *c.Loops, *c.DeepestLoop}, []int{5, 2, 2})

	i := slices.IndexFunc(c.Mnemonics, func(m Mnemonic) bool { return m.Name == "fma.rn.f32" })
	check(t, "fma", c.Mnemonics[i], Mnemonic{"fma.rn.f32", 2, []Place{
		{Line: 54, SourceFile: "kernels/first.cuh", SourceLine: 77},
		{Line: 55, SourceFile: "kernels/first.cuh", SourceLine: 77}}})
	check(t, "the empty kernel", *one(t, f, "second").PTXCode.Blocks, 1)
	check(t, "its shared memory", one(t, f, "second").SharedStatic, figure(0, Declared))
	check(t, "its dynamic shared memory", *one(t, f, "second").SharedDynamic, false)
}

// TestClasses has the instructions whose class is not plain from their opcode.
func TestClasses(t *testing.T) {
	for _, tt := range []struct {
		text   string
		class  Class
		access *Access
	}{
		{"setp.lt.f32 %p1, %f1, %f1", FP32, nil},
		{"set.lt.u32.f64 %r1, %d1, %d1", FP64, nil},
		{"and.pred %p1, %p1, %p1", Int, nil},
		{"mul.wide.s16 %r1, %h1, %h1", Int, nil},
		{"fma.rn.bf16x2 %r1, %r1, %r1, %r1", Half, nil},
		{"add.rn.f32x2 %d1, %d1, %d1", FP32, nil},
		{"dp4a.s32.s32 %r1, %r1, %r1, %r1", Int, nil},
		{"ex2.approx.ftz.f32 %f1, %f1", FP32, nil},
		{"selp.f32 %f1, %f1, %f1, %p1", Move, nil},
		{"trap", Other, nil},
		{"wgmma.fence.sync.aligned", Barrier, nil},
		{"cp.async.mbarrier.arrive.noinc.shared.b64 [%r1]", Barrier, nil},
		{"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d1], 32, [%r1]", Memory,
			&Access{"copy", "shared.global", 0, 0}},
		{"ld.f16 %h1, [%d1]", Memory, &Access{"load", "generic", 16, 0}},
		{"ld.shared::cluster.v2.f64 {%d1, %d1}, [%r1]", Memory, &Access{"load", "shared", 128, 0}},
		{"st.global.L1::no_allocate.v4.b64 [%d1], {%d1, %d1, %d1, %d1}", Memory, &Access{"store", "global", 256, 0}},
		{"atom.global.gpu.acq_rel.cas.b64 %d1, [%d1], %d1, %d1", Atomic, &Access{"atomic", "global", 64, 0}},
		{"stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r1], {%r1, %r1}", Tensor, &Access{"store", "shared", 64, 0}},
		{"prefetch.global.L2 [%d1]", Memory, nil},
	} {
		text := ".version 9.0\n.target sm_100a\n.visible .entry k() {\n.reg .pred %p<2>;\n.reg .b32 %r<2>;\n" +
			".reg .f32 %f<2>;\n.reg .b64 %d<2>;\n.reg .b16 %h<2>;\n" + tt.text + ";\n}\n"
		file, err := ptx.Parse("k.ptx", text)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		class, access := classifyPTX(file.Functions[0].Code[0])
		check(t, "class of "+tt.text, class, tt.class)
		check(t, "memory of "+tt.text, access, tt.access)
	}
}

// TestEveryOpcodeHasClass: an opcode that is new in the table of package ptx is not counted as arithmetic unseen.
func TestEveryOpcodeHasClass(t *testing.T) {
	arithmetic := strings.Fields(`abs add addc and bfe bfi bfind bmsk brev clz cnot copysign cos div dp2a dp4a ex2 fma fns
		lg2 lop3 mad mad24 madc max min mul mul24 neg not or popc prmt rcp rem rsqrt sad set setp shf shl shr sin sqrt sub
		subc szext tanh testp vabsdiff vabsdiff2 vabsdiff4 vadd vadd2 vadd4 vavrg2 vavrg4 vmad vmax vmax2 vmax4 vmin vmin2
		vmin4 vset vset2 vset4 vshl vshr vsub vsub2 vsub4 xor`)
	for _, op := range ptx.Opcodes() {
		if _, ok := ptxClasses[op]; ok == slices.Contains(arithmetic, op) {
			t.Errorf("opcode %s: has a class of its own: %v, is arithmetic: %v", op, ok, !ok)
		}
	}
}

// TestCountsAgreeWithText counts the instructions of all fixtures in another way: statements between braces.
func TestCountsAgreeWithText(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(testkit.Root(t), "testdata", "ptx", "*", "*.ptx"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	kernels := 0
	for _, path := range paths {
		f, err := Load(context.Background(), path, Options{})
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range f.Kernels {
			m := &f.Kernels[i]
			kernels++
			if want := statements(t, string(text), m.Kernel); m.PTXCode.Total != want {
				t.Errorf("%s: %s has %d instructions, its text %d", path, m.Kernel, m.PTXCode.Total, want)
			}
			sum := 0
			for _, n := range m.PTXCode.Classes {
				sum += n
			}
			check(t, path+": the sum of classes", sum, m.PTXCode.Total)
		}
	}
	if kernels < 60 {
		t.Errorf("%d kernels, want at least 60", kernels)
	}
}

var comments = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/|\.loc\s[^\n]*`) // and debug lines

// defined is a function with a body in a text without comments: its name is in the first or second group.
var defined = regexp.MustCompile(`\.entry\s+([\w$]+)\s*\(|\.func\s+(?:\([^)]*\)\s*)?([\w$]+)\s*(?:\([^)]*\))?[^;{]*\{`)

// statements counts the statements that are no declarations in the body of a kernel and in those of the functions whose
// names stand in it, and so on. A call of what a register holds stands for all functions.
func statements(t *testing.T, text, kernel string) int {
	t.Helper()
	text = comments.ReplaceAllString(text, "")
	bodies := map[string]string{}
	entries := map[string]bool{}
	for _, at := range defined.FindAllStringSubmatchIndex(text, -1) {
		name := ""
		if at[2] >= 0 {
			name = text[at[2]:at[3]]
			entries[name] = true
		} else {
			name = text[at[4]:at[5]]
		}
		_, body, _ := strings.Cut(text[at[0]:], "{")
		bodies[name] = body[:bodyEnd(body)]
	}
	n, todo, seen := 0, []string{kernel}, map[string]bool{kernel: true}
	for len(todo) > 0 {
		body := bodies[todo[0]]
		todo = todo[1:]
		n += count(body)
		pointer := regexp.MustCompile(`\bcall[^;]*?%rd?\d+\s*[,;]`).MatchString(body)
		for name := range bodies {
			named := regexp.MustCompile(`(^|[^\w$])` + regexp.QuoteMeta(name) + `($|[^\w$])`).MatchString(body)
			if !seen[name] && !entries[name] && (named || pointer) {
				seen[name] = true
				todo = append(todo, name)
			}
		}
	}
	return n
}

// bodyEnd is where the brace that closes a body stands.
func bodyEnd(body string) int {
	depth := 1
	for i, c := range body {
		switch c {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return len(body)
}

// count counts the statements of a body.
func count(body string) int {
	n := 0
	word := ""
	vector := 0 // braces of operands: they do not begin a statement
	for _, c := range body {
		switch {
		case c == '{' && strings.TrimSpace(word) != "":
			vector++
			word += "{"
		case c == '}' && vector > 0:
			vector--
			word += "}"
		case c == '{' || c == '}':
		case c == ':' && !strings.ContainsAny(strings.TrimSpace(word), " \t\n.") && vector == 0:
			word = "" // a label
		case c == ';':
			if isInstruction(word) {
				n++
			}
			word = ""
		default:
			word += string(c)
		}
	}
	return n
}

// isInstruction reports whether a statement is none of the directives that end with a semicolon.
func isInstruction(word string) bool {
	word = strings.TrimSpace(word)
	return word != "" && word[0] != '.'
}

func TestDigestOfCode(t *testing.T) {
	text := string(must(os.ReadFile(filepath.Join("testdata", "known.ptx"))))
	code := func(text string) string {
		t.Helper()
		f, err := Read("k.ptx", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return one(t, f, "first").Sources[0].Code
	}
	want := code(text)
	for _, tt := range []struct {
		name, from, to string
		same           bool
	}{
		{"another register name", "%f", "%q", true},
		{"another label", "inner", "Lx", true},
		{"another line", ".loc 1 12 5", ".loc 1 99 5", true},
		{"a comment", "bar.sync 0;", "bar.sync 0; // here", true},
		{"another variable name", "tile", "t1le", true},
		{"another parameter name", "first_in", "entry_in", true},
		{"another function name", "scale", "rescale", true},
		{"a constant", "setp.lt.s32 %p1, %r10, 10", "setp.lt.s32 %p1, %r10, 11", false},
		{"an offset", "[tile+4]", "[tile+8]", false},
		{"a modifier", "red.global.add.f32", "red.global.max.f32", false},
		{"a guard", "@%p1 st.global", "@!%p1 st.global", false},
		{"another target", "bra inner", "bra outer", false},
		{"swapped operands", "%f1, %f2, %f3;", "%f1, %f3, %f2;", false},
		{"the called function", "st.local.b32 [scratch], %r1", "st.local.b32 [scratch+4], %r1", false},
		{"the size of a variable", "tile[33]", "tile[34]", false},
		{"the launch bounds", ".maxntid 128, 2", ".maxntid 128, 4", false},
		{"the special register", "%tid.x", "%tid.y", false},
		{"something outside the kernel", "table[4] = {1, 2, 3, 4}", "table[4] = {1, 2, 3, 5}", true},
	} {
		changed := strings.ReplaceAll(text, tt.from, tt.to)
		if changed == text {
			t.Fatalf("%s: %q does not occur", tt.name, tt.from)
		}
		if same := code(changed) == want; same != tt.same {
			t.Errorf("%s: the code is the same: %v, want %v", tt.name, same, tt.same)
		}
	}
}

// TestDigestOfNames: what others know by name is another one under another name; an alias is the function behind it.
func TestDigestOfNames(t *testing.T) {
	code := func(declarations, body string) string {
		t.Helper()
		f, err := Read("k.ptx", []byte(".version 8.0\n.target sm_80\n.address_size 64\n"+declarations+
			"\n.visible .entry k() { .reg .b32 %r<9>;\n"+body+"\nret; }\n"))
		if err != nil {
			t.Fatal(err)
		}
		return one(t, f, "k").Sources[0].Code
	}
	const functions = `.func f() { .reg .b32 %q; mov.b32 %q, 1; ret; }
.func g() { .reg .b32 %q; mov.b32 %q, 2; ret; }
.visible .func h();
`
	read, call := "ld.global.u32 %r1, [a]; st.global.u32 [a], %r1;", "call.uni h;"
	for _, tt := range []struct {
		name, declarations, body, others string // declarations of the other version
		same                             bool
	}{
		{"visible", ".visible .global .u32 a, b;", read, "b", false},
		{"extern", ".extern .global .u32 a, b;", read, "b", false},
		{"internal", ".global .u32 a, b;", read, "b", true},
		{"alias", functions + ".alias h, f;", call, functions + ".alias h, g;", false},
		{"alias of the same under another name", functions + ".alias h, f;", call,
			strings.NewReplacer(" f(", " x(").Replace(functions) + ".alias h, x;", true},
	} {
		declarations, body := tt.others, tt.body
		if tt.others == "b" {
			declarations, body = tt.declarations, strings.ReplaceAll(tt.body, "[a]", "[b]")
		}
		if same := code(tt.declarations, tt.body) == code(declarations, body); same != tt.same {
			t.Errorf("%s: the code is the same: %v, want %v", tt.name, same, tt.same)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestKernelByName(t *testing.T) {
	f := load(t, "known.ptx")
	for _, tt := range []struct{ name, says, hint string }{
		{"", "the file has 2 kernels", "name one (entry): first, second"},
		{"frist", `there is no kernel "frist"`, "did you mean first?"},
		{"zzzzzzz", `there is no kernel "zzzzzzz"`, "the file has first, second"},
	} {
		_, err := f.Kernel(tt.name)
		var e *diag.Error
		if !errors.As(err, &e) || e.Code != NoKernel || e.Msg != tt.says || e.Hint != tt.hint {
			t.Errorf("Kernel(%q) = %v (%s), want %q, %q", tt.name, err, diag.HintOf(err), tt.says, tt.hint)
		}
	}
	var names []string
	for _, m := range f.Kernels {
		names = append(names, m.Kernel)
	}
	if !slices.IsSorted(names) {
		t.Errorf("kernels are in the order %v", names)
	}
}

// TestCallsInLevels: with two calls per function and level there are 2^60 ways, and they are not walked one by one.
func TestCallsInLevels(t *testing.T) {
	var b strings.Builder
	b.WriteString(".version 8.4\n.target sm_90\n.address_size 64\n")
	const levels = 60
	for i := levels; i >= 0; i-- {
		for _, side := range []string{"a", "b"} {
			fmt.Fprintf(&b, ".func f%d%s() {\n.local .b8 x[4];\n", i, side)
			if i < levels {
				fmt.Fprintf(&b, "call f%da;\ncall f%db;\n", i+1, i+1)
			}
			b.WriteString("ret;\n}\n")
		}
	}
	b.WriteString(".visible .entry k() {\ncall f0a;\nret;\n}\n")
	f, err := Read("k.ptx", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	check(t, "local memory", one(t, f, "k").Local, figure(4*(levels+1), Declared))
}

// TestTooMuchCalled: where calls cannot be followed, what depends on them is absent, and the record says so.
func TestTooMuchCalled(t *testing.T) {
	file, err := ptx.Parse("k.ptx", string(must(os.ReadFile(filepath.Join("testdata", "known.ptx")))))
	if err != nil {
		t.Fatal(err)
	}
	m := newModule(file)
	m.work = 35 // the kernel has 33 instructions, what it calls has 5
	r := m.kernel(file.Kernels()[0])
	if r.SharedStatic != nil || r.SharedDynamic != nil || r.Sources[0].Code != "" || len(r.Notes) != 1 ||
		r.Registers == nil || r.PTXCode.Total != 33 || r.PTXCode.Partial == "" {
		t.Errorf("%+v, want no shared memory, no digest, the kernel's own code and a note", r)
	}
	check(t, "local memory", r.Local, figure(12+20, Declared))
	m = newModule(file)
	m.work, m.staticLocal = 35, true
	if r := m.kernel(file.Kernels()[0]); r.Local != nil || r.Stack != nil || len(r.Notes) != 2 {
		t.Errorf("with local memory of the module: %+v, want none and two notes", r)
	}
}

// TestUnboundedCalls: recursion and calls through pointers have no known local memory.
func TestUnboundedCalls(t *testing.T) {
	path := filepath.Join(testkit.Root(t), "testdata", "ptx", "clang19", "calls.ptx")
	f := must(Load(context.Background(), path, Options{}))
	for kernel, known := range map[string]bool{"call_scalar": true, "call_recursive": false, "call_indirect": false} {
		m := one(t, f, kernel)
		if (m.Local != nil) != known || (m.Stack != nil) != known || (len(m.Notes) == 0) != known {
			t.Errorf("%s: local %v, stack %v, notes %q; want known: %v", kernel, m.Local, m.Stack, m.Notes, known)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	text := must(os.ReadFile(filepath.Join("..", "..", "testdata", "ptx", "clang22", "matmul.ptx")))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := Read("matmul.ptx", text); err != nil {
			b.Fatal(err)
		}
	}
}
