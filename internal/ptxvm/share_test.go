package ptxvm

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/diag"
)

// copyWord copies a word from a to b, with the alignment of 16 bytes that its first instruction needs.
const copyWord = `.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b)
{
	.reg .b32 %r<5>;
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [a];
	ld.param.u64 %rd2, [b];
	ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];
	st.global.u32 [%rd2], %r2;
	ret;
}
`

// TestSharedBuffers: arguments point into one buffer, at offsets, with the alignment that is asked for.
func TestSharedBuffers(t *testing.T) {
	p := loadText(t, copyWord)
	launch := func(args ...Arg) (*Launch, *Result, error) {
		l := &Launch{Grid: line(1), Block: line(1), Args: args, Schedules: 2}
		r, err := p.Run(l)
		return l, r, err
	}
	data := func() []byte { return floatBytes(make([]float32, 8)) }
	for _, tt := range []struct {
		name   string
		offset int
		mod    int
		b      int
		finds  string
	}{
		{"at the beginning", 0, 0, 16, ""},
		{"behind the end", 0, 0, 32, "writes 4 bytes at 0x80000000020, 4 bytes behind the end of x"},
		{"before the beginning", 0, 0, -4, "4 bytes before x"},
		{"an offset that is not aligned", 4, 0, 24, "not a multiple of 16"},
		{"an offset that is", 8, 8, 24, ""},
		{"a buffer that is not", 0, 8, 16, "not a multiple of 16"},
	} {
		x := data()
		binary.LittleEndian.PutUint32(x[tt.offset+4:], 7)
		l, r, err := launch(Arg{Name: "x", Buffer: x, Offset: tt.offset, Residue: tt.mod}, Arg{Of: 1, Offset: tt.b})
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		var found []string
		for _, f := range r.Findings {
			found = append(found, f.Message)
		}
		if tt.finds == "" && len(found) > 0 || !strings.Contains(strings.Join(found, "; "), tt.finds) {
			t.Errorf("%s: found %q, want %q", tt.name, found, tt.finds)
		}
		if tt.finds == "" && binary.LittleEndian.Uint32(l.Args[0].Buffer[tt.b:]) != 7 {
			t.Errorf("%s: %x, want 7 at %d", tt.name, l.Args[0].Buffer, tt.b)
		}
	}
	for _, args := range [][]Arg{
		{{Of: 1}, {Buffer: data()}}, {{Of: 2}, {Buffer: data()}}, {{Buffer: data()}, {Of: -1}}, {{Buffer: data()}, {Of: 3}},
		{{Value: make([]byte, 8)}, {Of: 1}}, {{Buffer: data()}, {Of: 1, Buffer: data()}},
		{{Buffer: data(), Residue: 256}, {Of: 1}}, {{Buffer: data(), Residue: -1}, {Of: 1}},
	} {
		if _, _, err := launch(args...); diag.CodeOf(err) != BadLaunch {
			t.Errorf("%+v: %v, want %s", args, err, BadLaunch)
		}
	}
}

// TestOrdersOfManyBlocks: orders are lists of blocks; one that has no room is refused.
func TestOrdersOfManyBlocks(t *testing.T) {
	p := loadText(t, copyWord)
	l := &Launch{Grid: Dim{1<<31 - 1, 65535, 65535}, Block: line(1), Schedules: 3,
		Args: []Arg{{Buffer: words(4)}, {Buffer: words(1)}}}
	if _, err := p.Run(l); diag.CodeOf(err) != MemoryLimit {
		t.Errorf("%v, want %s", err, MemoryLimit)
	}
}

// TestInputModified: a write to an input is a finding with its place, whoever writes, whatever it writes, whatever is
// checked, for any number of workers; memory that some other argument may write to is no input.
func TestInputModified(t *testing.T) {
	const all = "st.global.u32 [%rd1+8], 7;"
	for _, tt := range []struct {
		name, body string
		args       []Arg // roles, and what they point into
		checks     Checks
		says       string // "" for no finding
		count      int
	}{
		{"a store of all lanes", all, []Arg{{Role: In}, {Role: Out}}, AllChecks,
			"writes 4 bytes at byte 8 of x, which is an input", 128},
		{"a store of what is there", "st.global.u32 [%rd1], 0;", []Arg{{Role: In}, {Role: Out}}, AllChecks,
			"writes 4 bytes at byte 0 of x", 128},
		{"a store of one lane", "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 3; @%p1 st.global.v2.u32 [%rd1], {7, 7};",
			[]Arg{{Role: In}, {Role: Out}}, AllChecks, "writes 8 bytes at byte 0 of x", 4},
		{"an atomic operation", "atom.global.add.u32 %r1, [%rd1+4], 0;", []Arg{{Role: In}, {Role: Out}}, AllChecks,
			"writes 4 bytes at byte 4 of x", 128},
		{"nothing is looked for", all, []Arg{{Role: In}, {Role: Out}}, NoChecks, "writes 4 bytes at byte 8 of x", 128},
		{"it is not to be written only", all, []Arg{{Role: InOut}, {Role: Out}}, AllChecks, "", 0},
		{"the other argument may write there", all, []Arg{{Role: In}, {Role: InOut, Of: 1}}, AllChecks, "", 0},
		{"the other argument reads there, too", all, []Arg{{Role: In}, {Role: In, Of: 1}}, AllChecks,
			"writes 4 bytes at byte 8 of x", 128},
	} {
		p, err := loadModule(t, "", tt.body)
		if err != nil {
			t.Fatal(err)
		}
		for _, workers := range []int{1, 3} {
			l := &Launch{Grid: line(4), Block: line(32), Checks: tt.checks, Workers: workers}
			for i, a := range tt.args {
				if a.Name = string("xy"[i]); a.Of == 0 {
					a.Buffer = make([]byte, 64)
				}
				l.Args = append(l.Args, a)
			}
			r, err := p.Run(l)
			if err != nil {
				t.Fatal(err)
			}
			found := slices.DeleteFunc(r.Findings, func(f Finding) bool { return f.Class != InputModified })
			if len(found) > 1 || (len(found) > 0) != (tt.says != "") {
				t.Errorf("%s: %d workers: found %v, want %q", tt.name, workers, found, tt.says)
			} else if tt.says != "" && (!strings.HasPrefix(found[0].Message, tt.says) || found[0].Count != tt.count ||
				found[0].Buffer != "x" || found[0].Instr == nil) {
				t.Errorf("%s: %d workers: found %+v, want %q, %d times", tt.name, workers, found[0], tt.says, tt.count)
			}
			if got := binary.LittleEndian.Uint32(l.Args[0].Buffer[8:]); tt.body == all && got != 7 {
				t.Errorf("%s: %d is stored, want 7", tt.name, got)
			}
		}
	}
}

// TestWritten: a result says which buffers were written to, whoever writes and whatever is checked.
func TestWritten(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		x, y       bool
	}{
		{"nothing", "ld.global.u32 %r1, [%rd1];", false, false},
		{"a store of all lanes", "st.global.u32 [%rd2], 7;", false, true},
		{"a store of no lane", "setp.ne.u32 %p1, 0, 0; @%p1 st.global.u32 [%rd2], 7;", false, false},
		{"a store of one lane", "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 3; @%p1 st.global.u32 [%rd1], 7;", true, false},
		{"bytes of a word that are not aligned", "st.global.u8 [%rd1+3], 7;", true, false},
		{"a store that misses", "st.global.u32 [%rd2+4096], 7;", false, false},
		{"an atomic operation", "atom.global.add.u32 %r1, [%rd1], 0;", true, false},
		{"a copy", "cp.async.bulk.global.shared::cta.bulk_group [%rd2], [s], 16;", false, true},
		{"both", "st.global.u32 [%rd2], 7; st.global.u32 [%rd1], 7;", true, true},
	} {
		p, err := loadModule(t, "", tt.body)
		if err != nil {
			t.Fatal(err)
		}
		for _, checks := range []Checks{NoChecks, AllChecks} {
			for _, schedules := range []int{1, 3} {
				x, y := make([]byte, 256), make([]byte, 256)
				r, err := p.Run(&Launch{Grid: line(2), Block: line(32), Checks: checks, Schedules: schedules,
					Args: []Arg{{Name: "x", Buffer: x}, {Name: "y", Buffer: y}}})
				if err != nil {
					t.Fatal(err)
				}
				if len(r.Written) != 2 || r.Written[0] != tt.x || r.Written[1] != tt.y {
					t.Errorf("%s, checks %v, %d orders: written is %v, want [%v %v]", tt.name, checks, schedules,
						r.Written, tt.x, tt.y)
				}
			}
		}
	}
}
