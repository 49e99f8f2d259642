package ptxvm

import (
	"strings"
	"testing"

	"gpuemu/internal/diag"
)

// TestValidParts: a row of 3 words and one of padding, twice; the kernel goes through words of x and stores them in y.
func TestValidParts(t *testing.T) {
	p := loadText(t, kernelText("ld.global.u32 %r10, [%rd11];\nst.global.u32 [%rd12], %r10;"))
	rows := [][2]int{{16, 12}, {0, 12}}
	for _, tt := range []struct {
		name    string
		threads int
		x, y    [][2]int
		class   Class
		says    string
	}{
		{"all of it", 8, nil, nil, "", ""},
		{"a row", 3, rows, rows[1:], "", ""},
		{"padding is read", 4, rows, nil, OutOfBoundsRead, "reads 4 bytes at byte 12 of x, behind the valid part from 0"},
		{"padding is written", 4, nil, rows, OutOfBoundsWrite, "4 bytes at byte 12 of y, behind the valid part from 0 to 12"},
		{"before the first", 1, [][2]int{{4, 4}}, nil, OutOfBoundsRead, "before the first valid part"},
		{"across the end", 1, [][2]int{{0, 2}}, nil, OutOfBoundsRead, "across the end of the valid part from 0 to 2"},
		{"parts that touch are one", 1, [][2]int{{0, 2}, {2, 2}}, nil, "", ""},
	} {
		l := textLaunch(1, tt.threads)
		l.Args[0].Valid, l.Args[1].Valid = tt.x, tt.y
		r := run(t, p, l)
		switch {
		case tt.class == "" && len(r.Findings) > 0:
			t.Errorf("%s: %s", tt.name, list(r))
		case tt.class != "" && (len(r.Findings) != 1 || r.Findings[0].Class != tt.class ||
			!strings.Contains(r.Findings[0].Message, tt.says)):
			t.Errorf("%s: %s, want %s that says %q", tt.name, list(r), tt.class, tt.says)
		}
	}
	l := textLaunch(1, 3)
	l.Args[1].Valid, l.Args[1].Role, l.Args[1].Buffer = rows[1:], Out, words(4)
	if r := run(t, p, l); len(r.Findings) > 0 {
		t.Errorf("padding that is not written: %s", list(r))
	}
	l.Args[1].Valid, l.Args[1].Buffer = rows, words(8)
	if r := run(t, p, l); len(r.Findings) != 1 || !strings.HasPrefix(r.Findings[0].Message, "3 of 8 elements of y") {
		t.Errorf("a row that is not written: %s", list(r))
	}
	l = textLaunch(1, 4)
	l.Args[0].Valid, l.Checks = rows, NoChecks
	if r := run(t, p, l); len(r.Findings) > 0 || l.Args[1].Buffer[12] != 4 {
		t.Errorf("without checks: %s %v", list(r), l.Args[1].Buffer[:16])
	}
	for _, part := range [][2]int{{-1, 2}, {0, -1}, {0, 257}, {257, 0}, {1 << 62, 1 << 62}} {
		l := textLaunch(1, 1)
		l.Args[0].Valid = [][2]int{part}
		if _, err := p.Run(l); diag.CodeOf(err) != BadLaunch {
			t.Errorf("%v: %v, want %s", part, err, BadLaunch)
		}
	}
}

// TestFindingDetails: lanes, operands and the other side of a race.
func TestFindingDetails(t *testing.T) {
	p := loadText(t, kernelText(".loc 1 7 3\nst.shared.u32 [%r6], %r2;\nxor.b32 %r10, %r6, 128;\n.loc 1 8 3\n"+
		"ld.shared.u32 %r10, [%r10];\nst.shared.u32 [%r6+256], %r10;\nst.global.u32 [%rd12+256], %r3;"))
	r := run(t, p, textLaunch(1, 64))
	if len(r.Findings) != 2 {
		t.Fatal(list(r))
	}
	out, race := &r.Findings[0], &r.Findings[1]
	if out.Warp != 0 || out.Lane != 0 || len(out.Operands) != 2 || out.Operands[0].Register != "%rd12" ||
		out.Operands[0].Value+256 != out.Address || out.Operands[1] != (Operand{"%r3", 0}) {
		t.Errorf("%s: warp %d, lane %d, operands %v", out, out.Warp, out.Lane, out.Operands)
	}
	x := race.Former
	if race.Warp != 1 || x == nil || x.Write || x.Thread.X/32 != 0 || x.Source[0].Line != 8 || x.Instr.Op != "ld" {
		t.Errorf("%s: warp %d, the other side is %+v", race, race.Warp, x)
	}
	for _, o := range race.Operands {
		if o.Register == "%r10" {
			t.Errorf("%s: operand %v was overwritten", race, o)
		}
	}
}

// TestSharedGaps: variables in shared memory lie apart, whether lanes go up or down, and with dynamic memory behind.
func TestSharedGaps(t *testing.T) {
	const module = ".shared .align 4 .b8 t[128];\n.extern .shared .align 4 .b8 d[];\n"
	for _, tt := range []struct{ name, body, says string }{
		{"up", "mov.u32 %r2, s; shl.b32 %r3, %r1, 2; add.s32 %r2, %r2, %r3; st.shared.u32 [%r2+3972], %r1;",
			"writes 4 bytes at 0x1000, 4 bytes behind the end of shared memory (s), which has 4096 bytes"},
		{"down", "mov.u32 %r2, t; shl.b32 %r3, %r1, 2; sub.s32 %r2, %r2, %r3; st.shared.u32 [%r2+120], %r1;",
			"4 bytes before shared memory (t), which has 128 bytes"},
		{"before dynamic memory", "mov.u32 %r2, d; shl.b32 %r3, %r1, 2; sub.s32 %r2, %r2, %r3; st.shared.u32 [%r2+120], 1;",
			"4 bytes before shared memory (dynamic shared memory), which has 128 bytes"},
		{"inside", "mov.u32 %r2, t; shl.b32 %r3, %r1, 2; add.s32 %r2, %r2, %r3; st.shared.u32 [%r2], %r1;", ""},
	} {
		p, err := loadModule(t, module, tt.body)
		if err != nil {
			t.Fatal(err)
		}
		for _, checks := range []Checks{AllChecks, CheckBounds} {
			r := run(t, p, &Launch{Grid: line(1), Block: line(32), DynamicShared: 128, Checks: checks,
				Args: []Arg{{Name: "x", Buffer: unused()}, {Name: "y", Buffer: unused()}}})
			if tt.says == "" && len(r.Findings) > 0 || tt.says != "" && (len(r.Findings) != 1 ||
				r.Findings[0].Count != 1 || !strings.Contains(r.Findings[0].Message, tt.says)) {
				t.Errorf("%s: %s, want one that says %q", tt.name, list(r), tt.says)
			}
		}
	}
}
