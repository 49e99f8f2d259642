package pattern

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/ptx"
	"gpuemu/internal/testkit"
)

func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		pattern  string
		dialect  Dialect
		mnemonic string
		want     bool
	}{
		{"ld.global.v4", PTX, "ld.global.v4.f32", true},
		{"ld.global.v4", PTX, "ld.global.nc.v4.f32", true},
		{"ld.global.v4", PTX, "ld.global.L1::evict_last.L2::128B.v4.u32", true},
		{"ld.global.v4", PTX, "ld.global.v2.f32", false},
		{"ld.global.v4", PTX, "ld.v4.global.f32", false}, // the order counts
		{"ld.global.v4", PTX, "ldu.global.v4.f32", false},
		{"ld.global.v4", PTX, "ld.global", false},
		{"ld.global", PTX, "ld.global.f32", true},
		{"ld.global", PTX, "ld", false},
		{"ld", PTX, "ld", true},
		{"ld.*.v4", PTX, "ld.shared.v4.f32", true},
		{"ld.*.v4", PTX, "ld.v4.f32", true}, // a lone * stands for nothing, too
		{"ld.v*", PTX, "ld.global.v2.f32", true},
		{"ld.v*", PTX, "ld.volatile.global.f32", true},
		{"ld.v*.f32", PTX, "ld.global.f32", false},
		{"mma.*", PTX, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", true},
		{"mma.*", PTX, "wmma.mma.sync", false},
		{"*mma.*", PTX, "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", true},
		{"mma.m*k16.f32", PTX, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", true},
		{"mma.m*k16.f32", PTX, "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", false},
		{"*.f64", PTX, "fma.rn.f64", true},
		{"*.f64", PTX, "fma.rn.f32", false},
		{"cvt.f32.f32", PTX, "cvt.f32.f16", false},
		{"cvt.f32.f32", PTX, "cvt.sat.f32.f32", true},
		{"st.shared::cluster", PTX, "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32", true},
		{"st.shared*", PTX, "st.shared::cta.u32", true},
		{"st.shared", PTX, "st.shared::cta.u32", true}, // the same memory by its other name
		{"ld.shared", PTX, "ld.shared::cta.v4.u32", true},
		{"ld.shared::cta", PTX, "ld.shared.u32", true},
		{"ld.shared::cluster", PTX, "ld.shared.u32", false},
		{"ld.shared::cta", PTX, "ld.shared::cluster.u32", false},
		{"cp.async.bulk.shared", PTX, "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes", true},
		{"cp.mbarrier", PTX, "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes", false},
		{"ld.param", PTX, "ld.param::entry.u64", true},
		{"ld.param::func", PTX, "ld.param.u64", false},
		{"bar.sync", PTX, "barrier.cta.sync.aligned", true},
		{"bar.sync", PTX, "barrier.sync", true},
		{"bar.sync", PTX, "bar.cta.sync", true},
		{"bar.sync", PTX, "bar.warp.sync", true},
		{"bar.warp", PTX, "barrier.sync", false},
		{"bar.*", PTX, "barrier.cluster.arrive.aligned", false},
		{"barrier.cluster", PTX, "barrier.cluster.arrive.aligned", true},
		{"barrier.cta.sync.aligned", PTX, "bar.sync", true},
		{"barrier.sync.aligned", PTX, "barrier.sync", false},
		{"barrier.red.popc.aligned.u32", PTX, "bar.red.popc.u32", true},
		{"bar.arrive", PTX, "bar.sync", false},
		{"membar.cta", PTX, "bar.sync", false},
		{"HMMA.*", SASS, "HMMA.16816.F32", true},
		{"HMMA.*", SASS, "HMMA", true},
		{"hmma.f32", SASS, "HMMA.16816.F32", true},
		{"HMMA.F16", SASS, "HMMA.16816.F32", false},
		{"LDG.E.128", SASS, "LDG.E.128.CONSTANT", true},
		{"LDG.128", SASS, "LDG.E.128", true},
		{"LDG.128", PTX, "ldg.128", false},
		{"bar.sync", PTX, "bar.sync", true},
		{"bar.sync", SASS, "BAR.SYNC.DEFER_BLOCKING", false},
		{"BAR.SYNC", SASS, "BAR.SYNC.DEFER_BLOCKING", true},
		{"*.FTZ", SASS, "FADD.FTZ", true},
		{"*", PTX, "ret", true},
		{"*", SASS, "NOP", true},
	} {
		p, err := Parse(tt.pattern)
		if err != nil {
			t.Errorf("Parse(%q): %v", tt.pattern, err)
			continue
		}
		if got := p.Match(tt.dialect, tt.mnemonic); got != tt.want {
			t.Errorf("%q matches %q: %v, want %v", tt.pattern, tt.mnemonic, got, tt.want)
		}
		if p.String() != tt.pattern {
			t.Errorf("String() = %q, want %q", p, tt.pattern)
		}
	}
	if (Pattern{}).Match(PTX, "") || (Pattern{}).Match(SASS, "NOP") {
		t.Error("the zero Pattern matches")
	}
}

func TestOf(t *testing.T) {
	for _, tt := range []struct {
		pattern   string
		ptx, sass bool
	}{
		{"ld.global", true, false}, {"LDG", false, true}, {"ldg", false, true}, {"*.ftz", true, true},
		{"ret", true, false}, {"RET", false, true}, {"*.EF", false, true},
	} {
		p, err := Parse(tt.pattern)
		if err != nil {
			t.Errorf("Parse(%q): %v", tt.pattern, err)
		} else if p.Of(PTX) != tt.ptx || p.Of(SASS) != tt.sass {
			t.Errorf("%q is of PTX: %v, of SASS: %v; want %v, %v", tt.pattern, p.Of(PTX), p.Of(SASS), tt.ptx, tt.sass)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, tt := range []struct {
		pattern string
		code    diag.Code
		says    string
		hint    string
	}{
		{"", Syntax, `"" is no pattern of instructions`, "ld.global.v4"},
		{"ld global", Syntax, `"ld global" is no pattern`, "ld.global.v4"},
		{"@%p ld", Syntax, "is no pattern", ""},
		{"ld..v4", Syntax, `"ld..v4" has nothing between two dots`, ""},
		{".ld", Syntax, "nothing between two dots", ""},
		{strings.Repeat("x", maxLength+1), Syntax, "is no pattern", ""},
		{"ldd.global", UnknownOpcode, `pattern "ldd.global" can match nothing: no instruction is called "ldd"`,
			"did you mean add or ld or ldu?"},
		{"HMAA.*", UnknownOpcode, `no instruction is called "HMAA"`, "did you mean HMMA"},
		{"zzzz", UnknownOpcode, `"zzzz"`, "patterns begin with an opcode of PTX or SASS, or with *"},
		{"q*z", UnknownOpcode, `no instruction is called "q*z"`, ""},
		{"f32.f32", UnknownOpcode, `no instruction is called "f32"`, ""},
		{"ld.globall", UnknownModifier,
			`pattern "ld.globall" can match nothing: no instruction of PTX has the modifier "globall"`, "did you mean global"},
		{"ld.GLOBAL", UnknownModifier, `the modifier "GLOBAL"`, "did you mean global"},
		{"ld.v4.global", Impossible, `pattern "ld.v4.global" can match nothing: global stands before v4 in PTX`,
			"write ld.global.v4"},
		{"ld.f32.v2.volatile.shared", Impossible, "v2 stands before f32", "write ld.shared.v2.volatile.f32"},
		{"mma.global", Impossible, `"mma.global" can match nothing: no mma of PTX has a memory among its modifiers`,
			"ldmatrix"},
		{"ld.f64.sync", Impossible, "no ld of PTX has sync", "shfl"},
		{"add.v4", Impossible, "no add of PTX has a vector", "suld"},
		{"fm*.global", Impossible, "no fm* of PTX has a memory", ""},
		{"ld.zzzzzz", UnknownModifier, `"zzzzzz"`, "modifiers are those of the PTX ISA"},
	} {
		_, err := Parse(tt.pattern)
		if diag.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.says) ||
			!strings.Contains(diag.HintOf(err), tt.hint) {
			t.Errorf("Parse(%.40q) = %v (%s), want %s with %q and a hint with %q", tt.pattern, err, diag.HintOf(err), tt.code,
				tt.says, tt.hint)
		}
	}
}

// TestFixturesAreMatched: every instruction of the fixtures is a pattern, and matches itself.
func TestFixturesAreMatched(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(testkit.Root(t), "testdata", "ptx", "*", "*.ptx"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	seen := map[string]bool{}
	for _, path := range paths {
		file, err := ptx.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, fn := range file.Functions {
			for _, in := range fn.Code {
				mnemonic := in.Mnemonic()
				if seen[mnemonic] {
					continue
				}
				seen[mnemonic] = true
				if p, err := Parse(mnemonic); err != nil || !p.Match(PTX, mnemonic) {
					t.Errorf("%s: %s: %v, or it does not match", path, mnemonic, err)
				}
			}
		}
	}
	if len(seen) < 500 {
		t.Errorf("%d different instructions, want at least 500", len(seen))
	}
}

func TestJSON(t *testing.T) {
	var list []Pattern
	if err := json.Unmarshal([]byte(`["ld.global.v4", "HMMA.*"]`), &list); err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || !list[0].Match(PTX, "ld.global.v4.f32") || !list[1].Match(SASS, "HMMA.16816.F32") {
		t.Errorf("the patterns read from JSON are %v and do not match", list)
	}
	out, err := json.Marshal(list)
	if want := `["ld.global.v4","HMMA.*"]`; err != nil || string(out) != want {
		t.Errorf("Marshal = %s, %v, want %s", out, err, want)
	}
	for _, bad := range []string{`["nope.x"]`, `[7]`} {
		if err := json.Unmarshal([]byte(bad), &list); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

// FuzzParse: a pattern without * that is accepted matches itself, and no text makes Parse or Match fail.
func FuzzParse(f *testing.F) {
	f.Add("ld.global.v4", "ld.global.nc.v4.f32")
	f.Add("*mma.m*k16", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
	f.Add("HMMA.*.*a*", "HMMA.16816.F32")
	f.Add("a**b***", "..")
	f.Fuzz(func(t *testing.T, text, mnemonic string) {
		p, err := Parse(text)
		if err != nil {
			if diag.CodeOf(err) == "" {
				t.Errorf("Parse(%q) = %v without a code", text, err)
			}
			return
		}
		p.Match(PTX, mnemonic)
		p.Match(SASS, mnemonic)
		if !p.Of(PTX) && !p.Of(SASS) {
			t.Errorf("Parse(%q) is of no dialect", text)
		}
		if strings.Contains(text, "*") {
			return
		}
		for _, d := range []Dialect{PTX, SASS} {
			if p.Of(d) && !p.Match(d, text) {
				t.Errorf("%q does not match itself", text)
			}
		}
	})
}
