package ptxvm

import (
	"bytes"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/ptx"
)

// This file implements tests of wmma, and of values that were never set and go through matrices.

// stored puts a matrix into memory, row by row or column by column, with 16 bytes between them.
func stored(m numbers, typ string, byRow bool) []byte {
	size := elementBits(typ)
	lines, length := len(m), len(m[0])
	if !byRow {
		lines, length = length, lines
	}
	pitch := length + 128/size
	out := make([]byte, lines*pitch*size/8)
	for r := range m {
		for c := range m[r] {
			line, along := r, c
			if !byRow {
				line, along = c, r
			}
			at := (line*pitch + along) * size
			if d, ok := wgmmaTypes[typ]; ok || typ == "f64" {
				if typ == "f64" {
					d = dtype.Float64
				}
				copy(out[at/8:], encoded(d, m[r][c:c+1]))
			} else { // smaller than a byte
				out[at/8] |= byte(int(m[r][c])&(1<<size-1)) << (at % 8)
			}
		}
	}
	return out
}

// TestWmmaLayouts runs the kernels of the record on small whole numbers.
func TestWmmaLayouts(t *testing.T) {
	record := readMatrixRecord(t)
	name := regexp.MustCompile(`^wmma_m(\d+)n(\d+)k(\d+)_(\w+?)_(\w+?)_(\w+?)_(row|col)_(row|col)_(\d)(.*)$`)
	ran := 0
	for i := range record.Cases {
		c := &record.Cases[i]
		parts := name.FindStringSubmatch(c.Name)
		if parts == nil {
			continue
		}
		ran++
		size := func(i int) int {
			n, err := strconv.Atoi(parts[i])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		m, n, k := size(1), size(2), size(3)
		typeD, typeA, typeC, plain := parts[4], parts[5], parts[6], parts[9] == "1"
		r := rand.New(rand.NewPCG(uint64(i), 5))
		a, b, d := randomNumbers(r, m, k, typeA), randomNumbers(r, k, n, typeA), randomNumbers(r, m, n, typeC)
		if typeA == "b1" {
			for _, x := range []numbers{a, b} {
				for _, row := range x {
					for j := range row {
						row[j] = float64(int(row[j]) & 1)
					}
				}
			}
		}
		x := stored(a, typeA, parts[7] == "row")
		x = append(x, stored(b, typeA, parts[8] == "row")...)
		x = append(x, stored(d, typeC, plain)...)
		f, err := ptx.Parse("wmma.ptx", record.Modules[c.Module])
		if err != nil {
			t.Fatal(err)
		}
		p, err := Load(f, c.Name)
		if err != nil {
			t.Fatal(err)
		}
		y := make([]byte, 4*c.Out)
		silent(t, run(t, p, &Launch{Grid: line(1), Block: line(32), MaxSteps: 1 << 22,
			Args: []Arg{{Name: "x", Buffer: x, Role: In}, {Name: "y", Buffer: y}}}))
		for i := range d {
			for j := range d[i] {
				for x := range k {
					if strings.Contains(parts[10], "xor") {
						d[i][j] += float64(bits.OnesCount8(uint8(a[i][x]) ^ uint8(b[x][j])))
					} else {
						d[i][j] += a[i][x] * b[x][j]
					}
				}
			}
		}
		if !bytes.Equal(y, stored(d, typeD, plain)) {
			t.Errorf("%s: wrong result", c.Name)
		}
	}
	if ran < 100 {
		t.Errorf("only %d cases", ran)
	}
}

// TestUndefinedElements loads matrices with elements that were never set. Only what depends on them is undefined: each
// register is stored by itself, and the lanes that are reported are those that a shadow of one bit an element has.
func TestUndefinedElements(t *testing.T) {
	const lanes = "mov.b32 %r10, 0; mov.b32 %r11, 0; mov.b32 %r12, 0; mov.b32 %r13, 0; mov.u32 %r3, s; " +
		"shl.b32 %r4, %r1, 4; add.s32 %r4, %r3, %r4; "
	// all of the first KiB of shared memory is set but element 5 of row 2 of the first matrix
	const fill = lanes + "setp.ne.u32 %p1, %r1, 2; @%p1 st.shared.v4.b32 [%r4], {%r10, %r10, %r10, %r10}; " +
		"@!%p1 st.shared.v2.b32 [%r4], {%r10, %r10}; @!%p1 st.shared.b16 [%r4+8], 0; @!%p1 st.shared.b32 [%r4+12], 0; " +
		"bar.warp.sync -1; "
	const fragments = "mov.b32 %r20, 0; mov.b32 %r21, 0; setp.ne.u32 %p1, %r1, 13; @%p1 mov.b32 %r22, 0; " +
		"mov.b32 %r23, 0; mov.b32 %r24, 0; mov.b32 %r25, 0; mov.b32 %r26, 0; mov.b32 %r27, 0; "
	const product = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r10, %r11, %r12, %r13}, "
	const a, c = "{%r20, %r21, %r22, %r23}, ", "{%r26, %r26, %r26, %r26};"
	load := "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}, [s], 16; "
	for _, x := range []struct {
		name, body string
		reg        string
		want       uint32 // lanes
	}{
		{"ldmatrix", fill + "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r10, %r11}, [%r4];", "%r10", 1 << 10},
		{"other matrix", fill + "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r10, %r11}, [%r4];", "%r11", 0},
		{"transposed", fill + "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r10}, [%r4];", "%r10", 1 << 21},
		{"movmatrix", fill + "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r4]; " +
			"movmatrix.sync.aligned.m8n8.trans.b16 %r11, %r10;", "%r11", 1<<17 | 1<<21},
		{"stmatrix", fill + "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r11}, [%r4]; " +
			"stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%r4], {%r11}; bar.warp.sync -1; ld.shared.b32 %r10, [%r4+4];",
			"%r10", 1<<4 | 1<<5},
		{"row of A", fragments + product + a + "{%r24, %r25}, " + c, "%r10", 0xf << 12},
		{"lower row", fragments + product + a + "{%r24, %r25}, " + c, "%r12", 0},
		{"column of B", fragments + product + "{%r20, %r20, %r20, %r20}, {%r22, %r24}, " + c, "%r11", 0x22222222},
		{"other column", fragments + product + "{%r20, %r20, %r20, %r20}, {%r22, %r24}, " + c, "%r10", 0},
		{"C", fragments + product + "{%r20, %r20, %r20, %r20}, {%r24, %r24}, {%r26, %r22, %r26, %r26};", "%r11", 1 << 13},
		{"C elsewhere", fragments + product + "{%r20, %r20, %r20, %r20}, {%r24, %r24}, {%r26, %r22, %r26, %r26};",
			"%r10", 0},
		{"wmma.load", fill + load, "%r10", 1 << 10},
	} {
		t.Run(x.name, func(t *testing.T) {
			got := uint32(0)
			for lane := range 32 {
				body := fmt.Sprintf("%s setp.eq.u32 %%p2, %%r1, %d; @%%p2 st.global.b32 [%%rd2], %s;", x.body, lane, x.reg)
				r := runText(t, body, 32, unused(), unused())
				if len(r.Findings) > 0 && r.Findings[0].Class == Uninitialised {
					got |= 1 << lane
				} else {
					silent(t, r)
				}
			}
			if got != x.want {
				t.Errorf("lanes %#08x are undefined, want %#08x", got, x.want)
			}
		})
	}
}

// TestLanesOfMatrices: the elements of a matrix are those of other lanes than a loop gives them in which each lane has
// every 32nd element. Without bar.warp.sync between the two they race.
func TestLanesOfMatrices(t *testing.T) {
	const sum = "mov.u32 %r20, 0; mov.u32 %r21, %r4;\n" +
		"next: ACCESS add.u32 %r21, %r21, 128; add.u32 %r20, %r20, 1; setp.lt.u32 %p1, %r20, 8; @%p1 bra next;\n"
	const registers = "{%f1,%f1,%f1,%f1,%f1,%f1,%f1,%f1}"
	for _, tt := range []struct{ name, body string }{
		{"store", "wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [m], " + registers + ";\n SYNC\n" +
			strings.Replace(sum, "ACCESS", "ld.shared.f32 %f2, [%r21]; add.f32 %f1, %f1, %f2;", 1)},
		{"load", strings.Replace(sum, "ACCESS", "st.shared.f32 [%r21], %f1;", 1) + "SYNC\n" +
			"wmma.load.c.sync.aligned.row.m16n16k16.shared.f32 {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}, [m];"},
	} {
		for _, sync := range []bool{false, true} {
			body := ".shared .align 32 .b8 m[1024]; mov.u32 %r3, m; mad.lo.u32 %r4, %r2, 4, %r3; cvt.rn.f32.u32 %f1, %r2;\n" +
				strings.Replace(tt.body, "SYNC", map[bool]string{true: "bar.warp.sync -1;"}[sync], 1) +
				"\nst.global.f32 [%rd12], %f1;"
			r := run(t, loadText(t, kernelText(body)), textLaunch(1, 32))
			if raced := len(r.Findings) == 1 && r.Findings[0].Class == Race; raced == sync || sync && len(r.Findings) > 0 {
				t.Errorf("%s, bar.warp.sync %v: %s", tt.name, sync, list(r))
			}
		}
	}
}
