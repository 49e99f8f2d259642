package sass

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuemu/internal/diag"
)

func testFile(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// function returns the function with that name in a listing of testdata.
func function(t *testing.T, file, name string) *Function {
	t.Helper()
	functions, err := Parse(file, testFile(t, file))
	if err != nil {
		t.Fatal(err)
	}
	for i := range functions {
		if functions[i].Name == name {
			return &functions[i]
		}
	}
	t.Fatalf("%s has no function %s", file, name)
	return nil
}

// TestMix compares the opcodes of every listing with those that nvdisasm -json names for the same code.
func TestMix(t *testing.T) {
	var want map[string]struct {
		Instructions, Predicated int
		Opcodes                  map[string]int
	}
	if err := json.Unmarshal(testFile(t, "mix.json"), &want); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		file, arch string
		functions  string
	}{
		{"tensor.nvdisasm.sass", "sm_90a", "hopper memory tensor_cores"},
		{"hopper.cuobjdump.sass", "sm_90a", "hopper"},
		{"lines.nvdisasm.sass", "sm_90", "lines"},
		{"lines-all.nvdisasm.sass", "sm_90", "lines"},
		{"lines-registers.nvdisasm.sass", "sm_90", "lines"},
		{"blackwell.nvdisasm.sass", "sm_100a", "blackwell"},
	} {
		for _, crlf := range []bool{false, true} {
			text := string(testFile(t, tt.file))
			if crlf {
				text = strings.ReplaceAll(text, "\n", "\r\n")
			}
			functions, err := Parse(tt.file, []byte(text))
			if err != nil {
				t.Errorf("Parse(%s), CRLF %v: %v", tt.file, crlf, err)
				continue
			}
			names := map[string]bool{}
			for i := range functions {
				f := &functions[i]
				names[f.Name] = true
				w := want[f.Name]
				opcodes, predicated := map[string]int{}, 0
				for _, in := range f.Code() {
					word := in.Opcode
					if in.Modifiers != "" {
						word += "." + in.Modifiers
					}
					opcodes[word]++
					if in.Predicate != "" {
						predicated++
					}
				}
				if f.Arch != tt.arch || len(f.Code()) != w.Instructions || predicated != w.Predicated {
					t.Errorf("%s: %s for %s has %d instructions, %d predicated, want %s, %d and %d", tt.file, f.Name, f.Arch,
						len(f.Code()), predicated, tt.arch, w.Instructions, w.Predicated)
				}
				if !maps.Equal(opcodes, w.Opcodes) {
					t.Errorf("%s: %s has opcodes %v, want %v", tt.file, f.Name, opcodes, w.Opcodes)
				}
			}
			for name := range strings.FieldsSeq(tt.functions) {
				if !names[name] || len(names) != len(strings.Fields(tt.functions)) {
					t.Errorf("%s has functions %v, want %s", tt.file, names, tt.functions)
				}
			}
		}
	}
}

func TestTensor(t *testing.T) {
	for _, tt := range []struct {
		file, name string
		want       map[string]int
	}{
		{"tensor.nvdisasm.sass", "tensor_cores", map[string]int{"HMMA": 1, "IMMA": 1, "DMMA": 1}},
		{"tensor.nvdisasm.sass", "hopper", map[string]int{"HGMMA": 1}},
		{"tensor.nvdisasm.sass", "memory", map[string]int{}},
		{"blackwell.nvdisasm.sass", "blackwell", map[string]int{"UTCHMMA": 1, "UTCIMMA": 1, "UTCQMMA": 1, "UTCOMMA": 1}},
	} {
		if got := function(t, tt.file, tt.name).TensorMix(); !maps.Equal(got, tt.want) {
			t.Errorf("%s: tensor-core instructions %v, want %v", tt.name, got, tt.want)
		}
	}
	for _, tt := range []struct {
		in   Instr
		want bool
	}{
		{Instr{Opcode: "HFMA2", Modifiers: "MMA"}, false}, {Instr{Opcode: "QGMMA"}, true}, {Instr{Opcode: "FFMA"}, false},
	} {
		if got := tt.in.Tensor(); got != tt.want {
			t.Errorf("%s.%s is a tensor-core instruction: %v, want %v", tt.in.Opcode, tt.in.Modifiers, got, tt.want)
		}
	}
	never := Function{Instrs: []Instr{{Opcode: "HMMA", Predicate: "!PT"}, {Opcode: "HMMA", Predicate: "!P0"}}}
	if got := never.TensorMix(); got["HMMA"] != 1 {
		t.Errorf("an instruction that is never executed counts: %v", got)
	}
}

// TestAccesses: what testdata/tensor.cu and blackwell.ptx say, as read from the listings by eye.
func TestAccesses(t *testing.T) {
	got := function(t, "tensor.nvdisasm.sass", "tensor_cores").Accesses()
	for access, want := range map[Access]int{
		{Global, CopyIn, 16}: 1, {Shared, Load, 16}: 1, {Global, Load, 8}: 3, {Global, Store, 4}: 4,
	} {
		if got[access] != want {
			t.Errorf("tensor_cores: %d of %v, want %d, in %v", got[access], access, want, got)
		}
	}
	got = function(t, "tensor.nvdisasm.sass", "memory").Accesses()
	for access, want := range map[Access]int{
		{Global, Load, 16}: 1, {Global, Store, 16}: 1, {Global, Load, 1}: 1, {Global, Store, 1}: 1,
		{Global, Reduction, 4}: 1, {Global, Atomic, 4}: 1, {Shared, Atomic, 4}: 1,
	} {
		if got[access] != want {
			t.Errorf("memory: %d of %v, want %d, in %v", got[access], access, want, got)
		}
	}
	want := map[Access]int{
		{Global, CopyIn, 0}: 1, {Global, CopyOut, 0}: 2, {Shared, Store, 0}: 1, {Global, Reduction, 0}: 2,
		{Shared, Store, 4}: 1, {Shared, Reduction, 4}: 1, {Generic, Load, 4}: 1, {Generic, Store, 4}: 1,
		{Generic, Atomic, 4}: 2, {Global, Atomic, 8}: 1, {Global, Atomic, 4}: 1,
		{Shared, Atomic, 4}: 1, {Shared, Atomic, 8}: 1, {Global, Reduction, 4}: 2,
		{Shared, Store, 8}: 1, {Global, Load, 32}: 1, {Global, Store, 32}: 1,
		{TensorMemory, Load, 0}: 1, {TensorMemory, Store, 0}: 2, {Surface, Load, 0}: 1, {Surface, Store, 0}: 1,
		{Texture, Load, 0}: 1, {Shared, Load, 8}: 1, {Global, Store, 2}: 1, {Global, Store, 8}: 3, {Global, Store, 4}: 4,
		{Global, Load, 4}: 2,
	}
	got = function(t, "blackwell.nvdisasm.sass", "blackwell").Accesses()
	maps.DeleteFunc(got, func(a Access, _ int) bool { return a.Space == Constant })
	if !maps.Equal(got, want) {
		t.Errorf("blackwell: accesses %v\nwant %v", got, want)
	}
}

func TestMemory(t *testing.T) {
	for _, tt := range []struct {
		instr string
		want  Access
		ok    bool
	}{
		{"LDG.E.64.CONSTANT R2, [R2] ;", Access{Global, Load, 8}, true},
		{"LDG.E.U16 R2, [R2] ;", Access{Global, Load, 2}, true},
		{"LDS.U.128 R2, [R2] ;", Access{Shared, Load, 16}, true},
		{"LDSM.16.M88 R2, [R2] ;", Access{Shared, Load, 4}, true},
		{"LDSM.16.MT88.2 R2, [R2] ;", Access{Shared, Load, 8}, true},
		{"ULDC.64 UR4, c[0x0][0x118] ;", Access{Constant, Load, 8}, true},
		{"RED.E.ADD.F64.RN.STRONG.GPU [R2], R4 ;", Access{Global, Reduction, 8}, true},
		{"UBLKCP.S.G [UR6], [UR4], UR8 ;", Access{Global, CopyIn, 0}, true},
		{"UBLKCP.G.S [UR4], [UR6], UR8 ;", Access{Global, CopyOut, 0}, true},
		{"UBLKCP.S.S [UR10], [UR7], UR8 ;", Access{Shared, Store, 0}, true},
		{"@!PT LDS RZ, [RZ] ;", Access{}, false},
		{"LDGDEPBAR ;", Access{}, false},
		{"FADD R0, R0, R1 ;", Access{}, false},
	} {
		functions, err := Parse("k.sass", []byte("Function : k\n/*0000*/ "+tt.instr))
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := functions[0].Instrs[0].Memory(); got != tt.want || ok != tt.ok {
			t.Errorf("%s accesses %v, %v, want %v, %v", tt.instr, got, ok, tt.want, tt.ok)
		}
	}
}

func TestSource(t *testing.T) {
	f := function(t, "lines.nvdisasm.sass", "lines")
	for _, tt := range []struct {
		address uint64
		line    int
	}{{0, 10}, {0x40, 11}, {0x80, 12}, {0x90, 7}, {0xa0, 12}, {0xb0, 13}} {
		in := f.Instrs[tt.address/16]
		if in.Address != tt.address || in.Source != (Source{"/src/lines.cu", tt.line}) {
			t.Errorf("instruction at %#x comes from %v, want line %d of /src/lines.cu", in.Address, in.Source, tt.line)
		}
	}
	if in := function(t, "lines-all.nvdisasm.sass", "lines").Instrs[0]; in.Source != (Source{}) {
		t.Errorf("source %v of a listing without", in.Source)
	}
}

// TestPascal: pairs in braces, control words, addresses with gaps.
func TestPascal(t *testing.T) {
	f := function(t, "pascal.cuobjdump.sass", "barriers")
	if f.Arch != "sm_60" {
		t.Errorf("architecture %q, want sm_60", f.Arch)
	}
	mix := f.Mix()
	if mix["MOV32I"] != 2 || mix["BAR"] != 2 || mix["STG"] != 2 || mix["EXIT"] != 1 {
		t.Errorf("mix %v, want two each of MOV32I, BAR and STG, and one EXIT", mix)
	}
	for _, in := range f.Instrs {
		if in.Opcode == "BAR" && in.Operands != "0x3, 0x40" && in.Operands != "0x7, 0x40" || in.Address%32 == 0 {
			t.Errorf("instruction %+v", in)
		}
	}
}

func TestInstr(t *testing.T) {
	text := "\tcode for sm_80\n\t\tFunction : k\n" +
		"        /*0010*/              @!UP0 LDG.E.128.CONSTANT R4, [R2.64+0x10] ;  /* 0x0 */\n" +
		"/*0020*/     /*0x22c04282c2804307*/ \tMOV R1, c [0x1] [0x100];\n" +
		".L_x_1:\nnvdisasm warning : odd\n$k$helper: // |  |\n/*0030*/ RET ;\n" +
		"/*0040*/ NOP;\n\t\t..........\nproducer = nobody\n" +
		"Function : l\n//## File \"l.cu\", line 3\n/*0000*/ CALL.REL.NOINC `(k) ;\n" +
		".section .nv.info,\"\",@\"SHT_CUDA_INFO\"\nwhat data sections hold\n" +
		".section .text.m,\"ax\",@progbits\n/*0000*/ EXIT ;\n"
	functions, err := Parse("k.sass", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	k := &functions[0]
	want := Instr{Address: 16, Predicate: "!UP0", Opcode: "LDG", Modifiers: "E.128.CONSTANT",
		Operands: "R4, [R2.64+0x10]", Line: 3}
	if len(functions) != 3 || k.Arch != "sm_80" || k.Line != 2 || len(k.Instrs) != 4 || k.Instrs[0] != want {
		t.Errorf("got %d functions, the first %+v, want one with %+v", len(functions), k, want)
	}
	if mov := k.Instrs[1]; mov.Opcode != "MOV" || mov.Operands != "R1, c [0x1] [0x100]" || mov.Predicate != "" {
		t.Errorf("encoding in front: %+v", mov)
	}
	if !k.Instrs[0].Has("128") || k.Instrs[0].Has("12") || len(k.Code()) != 3 || k.Mix()["RET"] != 1 {
		t.Errorf("modifiers or code of %+v", k)
	}
	if l, m := functions[1].Instrs[0], functions[2].Instrs[0]; l.Source != (Source{"l.cu", 3}) || m.Source != (Source{}) {
		t.Errorf("sources %v and %v, want line 3 of l.cu for the first alone", l.Source, m.Source)
	}
	if k.Calls() || !functions[1].Calls() {
		t.Errorf("k calls: %v, l calls: %v, want false and true", k.Calls(), functions[1].Calls())
	}
}

func TestLocal(t *testing.T) {
	use := function(t, "tensor.nvdisasm.sass", "memory").Local()
	if use.Stores == 0 || use.Loads != 1 || use.LoadBytes != 4 || use.StoreBytes != 4*use.Stores || use.Calls {
		t.Errorf("memory uses local memory like this: %+v", use)
	}
	n := func(v int) *int { return &v }
	some, calling := LocalUse{Loads: 3, Stores: 2}, LocalUse{Loads: 3, Calls: true}
	for _, tt := range []struct {
		use             LocalUse
		frame, declared *int
		want            Cause
	}{
		{LocalUse{}, nil, nil, CauseNone},
		{some, n(64), nil, CauseUnknown},
		{some, nil, n(0), CauseSpills},
		{some, n(64), n(0), CauseSpills},
		{calling, n(64), n(0), CauseUnknown},
		{some, nil, n(64), CauseUnknown},
		{some, n(64), n(64), CauseArrays},
		{some, n(64), n(60), CauseArrays},
		{some, n(64), n(52), CauseUnknown}, // padding, or two registers
		{some, n(64), n(48), CauseSomeSpills},
		{some, n(64), n(256), CauseUnknown}, // the assembler put an array into registers
	} {
		if got := tt.use.Cause(tt.frame, tt.declared); got != tt.want {
			t.Errorf("%+v: cause %v, want %v", tt, got, tt.want)
		}
	}
}

func TestStrings(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{Global.String(), "global"}, {TensorMemory.String(), "tensor"}, {Space(0).String(), "unset"},
		{Space(99).String(), "unset"},
		{Load.String(), "load"}, {CopyOut.String(), "copy out"}, {Kind(99).String(), "unset"},
		{CauseSomeSpills.String(), "spills, maybe beside arrays"}, {Cause(99).String(), "unknown"},
		{archOfFlags(`@"EF_CUDA_64BIT_ADDRESS EF_CUDA_SM80 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM70)"`), "sm_80"},
		{archOfFlags(`@"EF_CUDA_ACCELERATORS EF_CUDA_SM90"`), "sm_90a"}, {archOfFlags(`@"EF_CUDA_64BIT_ADDRESS"`), ""},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func TestFaults(t *testing.T) {
	const start = "code for sm_80\nFunction : k\n"
	for _, tt := range []struct {
		name, text string
		code       diag.Code
		want, hint string
	}{
		{"empty", "", NotListing, "k.sass: no function in it", "cuobjdump -sass"},
		{"text", "hello\nworld\n", NotListing, "k.sass: no function in it", "nvdisasm -c"},
		{"binary", "\x7fELF\x02", NotListing, "this is a binary", "cuobjdump -sass"},
		{"graph", "digraph f {\n}\n", NotListing, "control-flow graph", "nvdisasm -c"},
		{"json", "[{\"ELF\":{}}]", NotListing, "this is JSON", "nvdisasm -c"},
		{"ptx", ".version 8.0\n.visible .entry k()\n{ ret; }\n", NotListing, "this is PTX", "read it as PTX"},
		{"name", "Function :\n", Syntax, "k.sass:1: a function has no name", "as the tool printed it"},
		{"prose", start + "what is this\n", Syntax, `k.sass:3: a line inside function "k" is neither`, "as the tool"},
		{"tool", start + "nvdisasm fatal   : no memory\n", Syntax, "k.sass:3: the tool failed", "see why the tool failed"},
		{"comment", start + "/*0000\n", Syntax, "k.sass:3: a comment does not end", "as the tool printed it"},
		{"address", start + "/*zz*/ NOP;\n", Syntax, `"zz" is no address`, "as the tool printed it"},
		{"cut off", start + "/*0000*/ LDG.E R0, [R2", Syntax, "does not end with a semicolon", "as the tool printed it"},
		{"opcode", start + "/*0000*/ @P0 ldg R0 ;\n", Syntax, `"ldg" is no opcode`, "as the tool printed it"},
		{"nothing", start + "/*0000*/ ;\n", Syntax, `"" is no opcode`, "as the tool printed it"},
		{"long line", start + strings.Repeat("x", maxLine+1), TooLarge, "k.sass:3: the line has 131073 bytes", "nvdisasm"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse("k.sass", []byte(tt.text))
			if err == nil {
				t.Fatal("Parse accepts it")
			}
			checkUserError(t, err)
			if diag.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.want) ||
				!strings.Contains(diag.HintOf(err), tt.hint) {
				t.Errorf("Parse: %v (hint: %s)\nwant code %s, %q, hint %q", err, diag.HintOf(err), tt.code, tt.want, tt.hint)
			}
		})
	}
}

// TestTooLarge: the text is never looked at, so that its memory is never touched.
func TestTooLarge(t *testing.T) {
	_, err := Parse("k.sass", make([]byte, maxText+1))
	if diag.CodeOf(err) != TooLarge || !strings.Contains(err.Error(), "the listing has") {
		t.Errorf("Parse of more than %d bytes: %v, want code %s", maxText, err, TooLarge)
	}
}

// checkUserError: whatever is refused is refused with the file, a code and a hint, in few words.
func checkUserError(t testing.TB, err error) {
	t.Helper()
	var e *diag.Error
	if !errors.As(err, &e) || e.Code == "" || e.Hint == "" || e.Pos.File == "" || len(err.Error()) > 2000 {
		t.Fatalf("error without file, code or hint, or too long: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("\tcode for sm_80\n\t\tFunction : k\n\t.headerflags\t@\"EF_CUDA_SM80\"\n" +
		"        /*0000*/   @!P0 LDG.E R2, [R2.64] ;  /* 0x0000000402027981 */\n  /* 0x000ea2000c1e1900 */\n\t\t......\n"))
	f.Add([]byte("\t.section\t.text.k,\"ax\",@progbits\nk:\n.text.k:\n" +
		"\t//## File \"a.cu\", line 3 inlined at \"b.cu\", line 4\n" +
		"/*0010*/  {  MOV32I R4, 0x24924925 ;\r\n/*0018*/ S2R R7, SR_TID.X }\n.L_x_0:\n/*0020*/ BRA `(.L_x_0);\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		functions, err := Parse("k.sass", text)
		if err != nil {
			checkUserError(t, err)
			return
		}
		lines := strings.Count(string(text), "\n") + 1
		for i := range functions {
			fn := &functions[i]
			if fn.Name == "" || fn.Line < 1 || fn.Line > lines {
				t.Fatalf("function %q at line %d of %d", fn.Name, fn.Line, lines)
			}
			total := 0
			for _, n := range fn.Mix() {
				total += n
			}
			if total != len(fn.Code()) || fn.Local().Loads > len(fn.Instrs) {
				t.Fatalf("function %q: %d instructions, mix of %d", fn.Name, len(fn.Code()), total)
			}
			for _, in := range fn.Instrs {
				if in.Opcode == "" || in.Line < 1 || in.Line > lines || in.Source.Line < 0 {
					t.Fatalf("instruction %+v", in)
				}
			}
		}
	})
}

func BenchmarkParse(b *testing.B) {
	text := testFile(b, "tensor.nvdisasm.sass")
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := Parse("k.sass", text); err != nil {
			b.Fatal(err)
		}
	}
}
