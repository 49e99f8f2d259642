package artifact

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/pattern"
)

func limit(n int) *int { return &n }

func patterns(t *testing.T, texts ...string) []pattern.Pattern {
	t.Helper()
	var list []pattern.Pattern
	for _, text := range texts {
		p, err := pattern.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	return list
}

// brief is a violation in one line: kind, severity, place.
func brief(v Violation) string {
	return fmt.Sprintf("%s %s %s:%d %s:%d", v.Kind, v.Severity, v.File, v.Line, v.SourceFile, v.SourceLine)
}

// exact is a record of a cubin.
func exact(registers, spills, local, stack, shared int) *Metrics {
	return &Metrics{Kernel: "k", Arch: "sm_90", Sources: []Source{{Kind: Cubin, File: "k.cubin", Digest: "d"}},
		Registers: figure(registers, FromCubin), SpillStores: figure(spills, FromCubin), SpillLoads: figure(0, FromCubin),
		Local: figure(local, FromCubin), Stack: figure(stack, FromCubin), SharedStatic: figure(shared, FromCubin)}
}

func TestLimits(t *testing.T) {
	all := Policy{MaxRegisters: limit(64), MaxSpills: limit(0), MaxLocalMemory: limit(0), MaxShared: limit(100),
		MaxStack: limit(8)}
	for _, tt := range []struct {
		name   string
		m      *Metrics
		policy Policy
		want   []string // messages
	}{
		{"at the limits", exact(64, 0, 0, 8, 100), all, nil},
		{"beyond them", exact(65, 4, 16, 9, 101), all, []string{
			"k: 65 registers per thread, at most 64 are allowed",
			"k: 4 bytes of spill stores and loads, at most 0 are allowed",
			"k: 16 bytes of local memory per thread, at most 0 are allowed",
			"k: 9 bytes of stack per thread, at most 8 are allowed",
			"k: 101 bytes of static shared memory, at most 100 are allowed"}},
		{"no limits", exact(255, 100, 100, 100, 1<<20), Policy{}, nil},
		{"the defaults", exact(65, 4, 16, 9, 1<<20), DefaultPolicy(), []string{
			"k: 65 registers per thread, at most 64 are allowed",
			"k: 4 bytes of spill stores and loads, at most 0 are allowed",
			"k: 16 bytes of local memory per thread, at most 0 are allowed"}},
	} {
		r := Lint(tt.m, tt.policy)
		var got []string
		for _, v := range r.Violations {
			got = append(got, v.Message)
			if v.Severity != Fault || v.Actual == nil || v.Limit == nil || v.Actual.Value <= *v.Limit || v.File != "k.cubin" {
				t.Errorf("%s: %+v, want an error with its figures", tt.name, v)
			}
		}
		if !slices.Equal(got, tt.want) || r.Passed() != (tt.want == nil) {
			t.Errorf("%s: %q, passed: %v; want %q", tt.name, got, r.Passed(), tt.want)
		}
	}
}

// TestNotes: what PTX alone does not know fails nothing, unless that is asked for.
func TestNotes(t *testing.T) {
	m := one(t, load(t, "known.ptx"), "first")
	p := Policy{MaxRegisters: limit(10), MaxSpills: limit(0), MaxStack: limit(8)}
	r := Lint(m, p)
	var got []string
	for _, v := range r.Violations {
		got = append(got, fmt.Sprintf("%s: %s", v.Severity, v.Message))
		if v.Hint == "" {
			t.Errorf("%s has no hint", v.Message)
		}
	}
	want := []string{
		"note: first: about 19 registers per thread (estimated from PTX), at most 10 are allowed",
		"note: first: bytes of spill stores and loads are not known from ptx, at most 0 are allowed",
		"note: first: about 32 bytes of stack per thread (estimated from PTX), at most 8 are allowed"}
	if !slices.Equal(got, want) || !r.Passed() {
		t.Errorf("Lint = %q, passed: %v; want %q, and passed", got, r.Passed(), want)
	}
	p.Strict = true
	if r := Lint(m, p); r.Passed() || len(r.Violations) != 3 || r.Violations[0].Severity != Fault {
		t.Errorf("strict: %+v, want three errors", r.Violations)
	}
	p = Policy{MaxRegisters: limit(19), Strict: true}
	if r := Lint(m, p); len(r.Violations) != 0 {
		t.Errorf("an estimate within its limit: %+v", r.Violations)
	}
}

func TestDeclaredLimits(t *testing.T) {
	m := one(t, load(t, "known.ptx"), "first")
	r := Lint(m, Policy{MaxLocalMemory: limit(31), MaxShared: limit(143), MaxInstructions: limit(32)})
	var got []string
	for _, v := range r.Violations {
		got = append(got, brief(v), v.Message)
	}
	at := " error testdata/known.ptx:26 kernels/first.cu:10"
	want := []string{
		string(ExcessiveLocalMemory) + at, "first: 32 bytes of local memory per thread in PTX, at most 31 are allowed",
		string(ExcessiveShared) + at, "first: 144 bytes of static shared memory in PTX, at most 143 are allowed",
		string(ExcessiveInstructions) + at, "first: 38 instructions in PTX, at most 32 are allowed"}
	if !slices.Equal(got, want) {
		t.Errorf("Lint = %q, want %q", got, want)
	}
	// With a listing its instructions count.
	both := merged(t)
	r = Lint(both, Policy{MaxInstructions: limit(14)})
	if len(r.Violations) != 1 || r.Violations[0].Actual.Origin != FromSASS || r.Violations[0].Actual.Value != 15 ||
		r.Violations[0].File != "testdata/known.sass" || r.Violations[0].Line != 2 {
		t.Errorf("with a listing: %+v", r.Violations)
	}
}

// TestPlaceOfCubinFigure: a cubin has no lines, so that a figure of it is shown at the kernel in the PTX beside it.
func TestPlaceOfCubinFigure(t *testing.T) {
	text, machine := *one(t, load(t, "known.ptx"), "first"), *exact(100, 0, 0, 0, 0)
	machine.Kernel = "first"
	r := Lint(&Merge([]Metrics{text, machine})[0], Policy{MaxRegisters: limit(64)})
	if len(r.Violations) != 1 || brief(r.Violations[0]) !=
		"excessive_registers error testdata/known.ptx:26 kernels/first.cu:10" || r.Violations[0].Actual.Origin != FromCubin {
		t.Errorf("%+v, want one error at the .entry", r.Violations)
	}
}

// merged is the record of the PTX and the listing in testdata.
func merged(t *testing.T) *Metrics {
	t.Helper()
	records, err := Together(load(t, "known.ptx"), load(t, "known.sass"))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(records, func(m Metrics) bool { return m.Kernel == "first" })
	return &records[i]
}

func TestPatterns(t *testing.T) {
	ptxOnly, sassOnly := one(t, load(t, "known.ptx"), "first"), one(t, load(t, "known.sass"), "first")
	const entry, listing = "testdata/known.ptx:26 kernels/first.cu:10", "testdata/known.sass:2 :0"
	for _, tt := range []struct {
		name                string
		m                   *Metrics
		required, forbidden string
		want                []string
		says                string
	}{
		{"all there", ptxOnly, "ld.global.v4 mma.*", "ld.shared.v4 wmma", nil, ""},
		{"missing", ptxOnly, "ld.shared.v4", "", []string{"missing_required_pattern error " + entry},
			`first: no instruction matches the required pattern "ld.shared.v4"`},
		{"found once", ptxOnly, "", "*.nc.v4", []string{
			"forbidden_pattern_found error testdata/known.ptx:52 kernels/first.cu:12"},
			`first: ld.global.nc.v4.f32 matches the forbidden pattern "*.nc.v4"`},
		{"found twice, inlined", ptxOnly, "", "fma", []string{
			"forbidden_pattern_found error testdata/known.ptx:54 kernels/first.cuh:77"},
			`first: fma.rn.f32 matches the forbidden pattern "fma" (2 times; this is the first)`},
		{"found as two mnemonics", ptxOnly, "", "st.b32", []string{
			"forbidden_pattern_found error testdata/known.ptx:81 kernels/first.cu:20",
			"forbidden_pattern_found error testdata/known.ptx:84 kernels/first.cu:20",
			"forbidden_pattern_found error testdata/known.ptx:76 kernels/first.cuh:77"}, ""},
		{"of machine code, with PTX alone", ptxOnly, "HMMA.*", "LDL", []string{
			"missing_required_pattern note " + entry, "forbidden_pattern_found note " + entry},
			`first: the pattern "HMMA.*" cannot be looked for in ptx`},
		{"of PTX, with a listing alone", sassOnly, "mma.*", "", []string{"missing_required_pattern note " + listing},
			`first: the pattern "mma.*" cannot be looked for in sass`},
		{"of both, with a listing alone", sassOnly, "*.F32", "*.64", []string{
			"forbidden_pattern_found error testdata/known.sass:12 :0", "forbidden_pattern_found error testdata/known.sass:6 :0"},
			`first: STL.64 matches the forbidden pattern "*.64"`},
		{"of each, with both", merged(t), "mma.* HMMA.*", "LDL", []string{
			"forbidden_pattern_found error testdata/known.sass:14 :0"}, ""},
	} {
		p := Policy{Required: patterns(t, strings.Fields(tt.required)...),
			Forbidden: patterns(t, strings.Fields(tt.forbidden)...)}
		r := Lint(tt.m, p)
		var got []string
		for _, v := range r.Violations {
			got = append(got, brief(v))
			if v.Pattern == "" || v.Limit != nil {
				t.Errorf("%s: %+v, want a pattern and no limit", tt.name, v)
			}
		}
		slices.Sort(got)
		slices.Sort(tt.want)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		if tt.says != "" && !slices.ContainsFunc(r.Violations, func(v Violation) bool { return v.Message == tt.says }) {
			t.Errorf("%s: no violation says %q: %+v", tt.name, tt.says, r.Violations)
		}
		p.Strict = true
		if strict := Lint(tt.m, p); strict.Passed() != (len(r.Violations) == 0) {
			t.Errorf("%s: strict passes: %v", tt.name, strict.Passed())
		}
	}
}

func TestViolationKinds(t *testing.T) {
	m := one(t, load(t, "known.ptx"), "first")
	zero := limit(0)
	r := Lint(m, Policy{zero, zero, zero, zero, zero, zero, patterns(t, "wmma"), patterns(t, "mma"), true})
	var got []ViolationKind
	for _, v := range r.Violations {
		got = append(got, v.Kind)
	}
	want := slices.Clone(ViolationKinds())
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("a kernel that breaks every rule has %v, want %v", got, want)
	}
}
