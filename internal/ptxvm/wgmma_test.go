package ptxvm

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/ptx"
)

// This file implements tests of wgmma with matrices of small whole numbers, whose sums are exact in every format, and
// of its checks.

var wgmmaTypes = map[string]dtype.DType{"f16": dtype.Float16, "bf16": dtype.BFloat16, "tf32": dtype.Float32,
	"f32": dtype.Float32, "e4m3": dtype.Float8E4M3FN, "e5m2": dtype.Float8E5M2, "s8": dtype.Int8, "u8": dtype.Uint8,
	"s32": dtype.Int32}

// numbers is a matrix, row by row.
type numbers [][]float64

func randomNumbers(r *rand.Rand, rows, cols int, typ string) numbers {
	m := make(numbers, rows)
	for i := range m {
		m[i] = make([]float64, cols)
		for j := range m[i] {
			m[i][j] = float64(r.IntN(7) - 3)
			if strings.HasPrefix(typ, "u") {
				m[i][j] += 3
			}
		}
	}
	return m
}

// tiled puts a matrix into shared memory, as the figures of PTX ISA 9.7.15.5.1 draw it: tiles of eight lines, whose
// pieces of 16 bytes change places from line to line. A line is along k, or along the rows of the matrix.
func tiled(image []byte, start int, m numbers, typ string, mode int, across bool) {
	size := wgmmaTypes[typ].Size()
	width := []int{16, 128, 64, 32}[mode]
	for r := range m {
		for k := range m[r] {
			line, along := r, k*size
			if across {
				line, along = k, r*size
			}
			at := line % 8 * width
			switch {
			case mode == 0 && across:
				at += along/16*256 + line/8*128 // rows are 256 bytes apart, and k 128
			case mode == 0:
				at += line/8*256 + along/16*128
			case across:
				at += along/width*16*width + line/8*8*width
			default:
				at += line / 8 * 8 * width
			}
			if mode != 0 {
				at += along%width/16*16 ^ line%8/(128/width)*16
			}
			copy(image[start+at+along%16:], encoded(wgmmaTypes[typ], m[r][k:k+1]))
		}
	}
}

// TestWgmmaLayouts runs the kernels of the record on numbers that a wrong place of any element would change.
func TestWgmmaLayouts(t *testing.T) {
	record := readMatrixRecord(t)
	name := regexp.MustCompile(`^(ss|rs)_(f32|f16|s32)_(\w+?)_(\w+?)_(\d)_(\d)(\d?)$`)
	shape := regexp.MustCompile(`m64n(\d+)k(\d+)`)
	ran := 0
	for i := range record.Cases {
		c := &record.Cases[i]
		parts := name.FindStringSubmatch(c.Name)
		if parts == nil || testing.Short() && i%4 != 0 {
			continue
		}
		ran++
		text := record.Modules[c.Module]
		_, after, _ := strings.Cut(text, ".entry "+c.Name+"(")
		sizes := shape.FindStringSubmatch(after)
		n, _ := strconv.Atoi(sizes[1])
		k, _ := strconv.Atoi(sizes[2])
		inRegisters, typeD, typeA, typeB := parts[1] == "rs", parts[2], parts[3], parts[4]
		mode := int(parts[5][0] - '0')
		transA, transB := parts[6] == "1", parts[7] == "1"
		if inRegisters {
			transA, transB = false, parts[6] == "1"
		}
		r := rand.New(rand.NewPCG(uint64(i), 3))
		a, b, d := randomNumbers(r, 64, k, typeA), randomNumbers(r, n, k, typeB), randomNumbers(r, 64, n, typeD)
		x := make([]byte, 49152)
		tiled(x, 16384, b, typeB, mode, transB)
		x = append(x, accumulators(d, typeD)...)
		if inRegisters {
			x = append(x, registersOfA(a, typeA)...)
		} else {
			tiled(x, 0, a, typeA, mode, transA)
		}
		f, err := ptx.Parse("wgmma.ptx", text)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Load(f, c.Name)
		if err != nil {
			t.Fatal(err)
		}
		y := make([]byte, 4*c.Out)
		silent(t, run(t, p, &Launch{Grid: line(1), Block: line(128), MaxSteps: 1 << 22,
			Args: []Arg{{Name: "x", Buffer: x, Role: In}, {Name: "y", Buffer: y, Role: Out}}}))
		for i := range d {
			for j := range d[i] {
				for x := range k {
					d[i][j] += a[i][x] * b[j][x]
				}
			}
		}
		if !bytes.Equal(y, accumulators(d, typeD)) {
			t.Errorf("%s: wrong result", c.Name)
		}
	}
	if ran < 20 {
		t.Errorf("only %d cases", ran)
	}
}

// accumulators are the registers of D, thread by thread: figure of wgmma .m64nNk16 for D.
func accumulators(d numbers, typ string) (out []byte) {
	for thread := range 128 {
		for col := 0; col < len(d[0]); col += 8 {
			for _, down := range []int{0, 8} {
				row := thread/32*16 + thread%32/4 + down
				at := col + thread%4*2
				out = append(out, encoded(wgmmaTypes[typ], d[row][at:at+2])...)
			}
		}
	}
	return out
}

// registersOfA are four registers a thread, of 4 bytes each: rows 8 apart, then the other half of k.
func registersOfA(a numbers, typ string) (out []byte) {
	size := wgmmaTypes[typ].Size()
	for thread := range 128 {
		for reg := range 4 {
			row := thread/32*16 + thread%32/4 + reg%2*8
			at := (reg/2*16 + thread%4*4) / size
			out = append(out, encoded(wgmmaTypes[typ], a[row][at:at+4/size])...)
		}
	}
	return out
}

// goodProduct is a whole kernel body; tests change lines of it. A lies in registers, B at the start of shared memory.
const goodProduct = `
shl.b32 %r2, %r1, 1;
mov.u32 %r3, s;
add.s32 %r3, %r3, %r2;
mov.b16 %h1, 0x3c00;
st.shared.b16 [%r3], %h1;
st.shared.b16 [%r3+1024], %h1;
fence.proxy.async;
bar.sync 0;
mov.b32 %r10, 0;
mov.b32 %r11, 0;
mov.b32 %r12, 0;
mov.b32 %r13, 0;
mov.b32 %r20, 0x3c003c00;
mov.b32 %r21, %r20;
mov.b32 %r22, %r20;
mov.b32 %r23, %r20;
mov.u64 %rd5, 0x0000001000080000;
setp.ne.u32 %p1, 1, 0;
wgmma.fence.sync.aligned;
` + productLine + `
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
mul.wide.u32 %rd3, %r1, 16;
add.s64 %rd4, %rd2, %rd3;
st.global.v4.b32 [%rd4], {%r10, %r11, %r12, %r13};`

const productLine = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r10, %r11, %r12, %r13}, " +
	"{%r20, %r21, %r22, %r23}, %rd5, %p1, 1, 1, 0;"

const again = "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"

func TestWgmmaChecks(t *testing.T) {
	y := make([]byte, 128*16)
	silent(t, runText(t, goodProduct, 128, unused(), y))
	equal(t, "ones", y, bytes.Repeat([]byte{0, 0, 0x80, 0x41}, 512)) // sums of sixteen ones
	for _, c := range []struct {
		old, text string
		threads   int
		want      Class
		message   string
	}{
		{"wgmma.wait_group.sync.aligned 0;", "", 128, AsyncHazard, "reads a register of wgmma.mma_async"},
		{"wgmma.wait_group.sync.aligned 0;", "wgmma.wait_group.sync.aligned 1;", 128, AsyncHazard, "reads a register"},
		{"wgmma.commit_group.sync.aligned;", "", 128, AsyncHazard, "reads a register"},
		{"wgmma.commit_group.sync.aligned;", "wgmma.commit_group.sync.aligned; mov.b32 %r21, 0;", 128, AsyncHazard,
			"writes a register"},
		{"wgmma.commit_group.sync.aligned;", "wgmma.commit_group.sync.aligned; st.shared.b16 [%r3], %h1;", 128,
			AsyncHazard, "which a product may not have read yet"},
		{"wgmma.commit_group.sync.aligned;", "wgmma.commit_group.sync.aligned; " +
			"cp.async.ca.shared.global [s], [%rd1], 4; cp.async.wait_all;", 128, AsyncHazard, "may not have read yet"},
		{"fence.proxy.async;", "", 128, AsyncHazard, "without fence.proxy.async"},
		{"fence.proxy.async;", "fence.proxy.async.global;", 128, AsyncHazard, "without fence.proxy.async"},
		{"fence.proxy.async;\nbar.sync 0;", "fence.proxy.async; st.shared.b16 [%r3], 7; bar.sync 0;", 128, AsyncHazard,
			"without fence.proxy.async"},
		{"wgmma.fence.sync.aligned;", "", 128, AsyncHazard, "no wgmma.fence comes before"},
		{"wait_group.sync.aligned 0;", "wait_group.sync.aligned 0; mov.b32 %r10, 0; " + productLine + again, 128,
			AsyncHazard, "written after an earlier product used it"},
		{"wait_group.sync.aligned 0;", "wait_group.sync.aligned 0; mov.b32 %r23, 0; " + productLine + again, 128,
			AsyncHazard, "written after an earlier product used it"},
		{"%rd5, %p1, 1, 1, 0;", "%rd5, %p1, 1, 1, 0; " + strings.ReplaceAll(strings.ReplaceAll(productLine,
			"m64n8k16.f32", "m64n8k16.f16"), "%r10, %r11, %r12, %r13", "%r10, %r11"), 128, AsyncHazard,
			"uses a register of wgmma.mma_async"},
		{"%rd5, %p1, 1, 1, 0;", "%rd5, %p1, 1, 1, 0; " + strings.Replace(productLine, "%r20, %r21", "%r10, %r21", 1), 128,
			AsyncHazard, "uses a register of wgmma.mma_async"},
		{"", "", 96, BarrierDivergence, "the block ends after 3 of warps 0 to 3"},
		{"", "", 120, BadMask, "lanes 0x00ffffff"},
		{"wgmma.fence", "setp.lt.u32 %p2, %r1, 32; @%p2 exit; wgmma.fence", 128, BarrierDivergence, "warp 0 of the"},
		{"wgmma.fence", "setp.ge.u32 %p2, %r1, 96; @%p2 exit; wgmma.fence", 128, BarrierDivergence, "warp 3 of the"},
		{"wgmma.mma_async", "setp.ne.u32 %p2, %r1, 40; @%p2 wgmma.mma_async", 128, BadMask, "do not come here"},
		{"wgmma.mma_async", "setp.lt.u32 %p2, %r1, 64; @%p2 wgmma.mma_async", 128, BarrierDivergence,
			"must execute the same"},
		{"wgmma.fence", "cvt.u64.u32 %rd6, %r1; and.b64 %rd6, %rd6, 32; add.s64 %rd5, %rd5, %rd6; wgmma.fence", 128,
			BarrierDivergence, "different descriptors"},
		{"wgmma.fence", "cvt.u64.u32 %rd6, %r1; and.b64 %rd6, %rd6, 1; add.s64 %rd5, %rd5, %rd6; wgmma.fence", 128,
			BarrierDivergence, "lanes 0 and 1"},
		{"0x0000001000080000", "0x0000001000080400", 128, OutOfBoundsRead, "shared memory"},
		{"mov.u64 %rd5", "mov.u64 %rd6", 128, Uninitialised, "never set"},
		{"st.shared.b16 [%r3], %h1;", "setp.ne.u32 %p3, %r1, 9; @%p3 st.shared.b16 [%r3], %h1;", 128, Uninitialised,
			"never set"},
		{"mov.b32 %r12, 0;", "", 128, Uninitialised, "never set"},
		{"bar.sync 0;", "", 128, Race, "no synchronization"},
	} {
		body := goodProduct
		if c.old != "" {
			body = strings.Replace(goodProduct, c.old, c.text, 1)
		}
		r := runText(t, body, c.threads, unused(), make([]byte, 128*16))
		found := slices.ContainsFunc(r.Findings, func(f Finding) bool {
			return f.Class == c.want && strings.Contains(f.Message, c.message)
		})
		if !found {
			t.Errorf("%q instead of %q: %v, want %s: %s", c.text, c.old, r.Findings, c.want, c.message)
		}
	}
}

// TestWgmmaAgain is what may be done without waiting: the same accumulators again, and a fence of the reader.
func TestWgmmaAgain(t *testing.T) {
	y := make([]byte, 128*16)
	body := strings.Replace(goodProduct, productLine, productLine+"\n"+productLine, 1)
	body = strings.Replace(body, "fence.proxy.async;\nbar.sync 0;", "bar.sync 0;\nfence.proxy.async;", 1)
	silent(t, runText(t, body, 128, unused(), y))
	equal(t, "twice", y, bytes.Repeat([]byte{0, 0, 0, 0x42}, 512))
	body = strings.Replace(goodProduct, "setp.ne.u32 %p1, 1, 0;", "setp.ne.u32 %p1, 0, 0;", 1)
	body = strings.Replace(body, "mov.b32 %r12, 0;", "", 1) // the old value does not count
	silent(t, runText(t, body, 128, unused(), y))
	equal(t, "fresh", y, bytes.Repeat([]byte{0, 0, 0x80, 0x41}, 512))
	// what compilers make of registers that are set before the fence
	body = strings.Replace(goodProduct, "mov.b32 %r10, 0;", "", 1)
	body = strings.Replace(body, "wgmma.fence.sync.aligned;", "wgmma.fence.sync.aligned; mov.b32 %r10, 0;", 1)
	silent(t, runText(t, body, 128, unused(), y))
	for _, fence := range []string{"wgmma.fence.sync.aligned; mov.b32 %r10, 0;",
		"mov.b32 %r10, 0; wgmma.fence.sync.aligned;"} {
		silent(t, runText(t, strings.Replace(body, "wait_group.sync.aligned 0;", "wait_group.sync.aligned 0; "+fence+
			productLine+again, 1), 128, unused(), y))
	}
}

// TestWgmmaUndefinedColumn leaves an element of B without a value: only its column is undefined.
func TestWgmmaUndefinedColumn(t *testing.T) {
	body := strings.ReplaceAll(goodProduct, "st.shared.b16 [%r3], %h1;",
		"setp.ne.u32 %p3, %r1, 9; @%p3 st.shared.b16 [%r3], %h1;") // element 1 of column 1
	body, _, _ = strings.Cut(body, "st.global")
	for col, defined := range []bool{true, false, true, true, true, true, true, true} {
		store := fmt.Sprintf("and.b32 %%r5, %%r1, 3; setp.eq.u32 %%p4, %%r5, %d; @%%p4 st.global.b32 [%%rd4], %%r1%d;",
			col/2, col%2)
		r := runText(t, body+store, 128, unused(), make([]byte, 128*16))
		if got := len(r.Findings) == 0; got != defined {
			t.Errorf("column %d: %v", col, r.Findings)
		}
	}
}

// TestWgmmaUndefinedAcross is the same with B along its columns: elements of a column are in different pieces.
func TestWgmmaUndefinedAcross(t *testing.T) {
	body := strings.ReplaceAll(goodProduct, "st.shared.b16 [%r3], %h1;",
		"setp.ne.u32 %p3, %r1, 9; @%p3 st.shared.b16 [%r3], %h1;") // column 1 of k = 1
	body = strings.Replace(body, "%p1, 1, 1, 0;", "%p1, 1, 1, 1;", 1)
	body = strings.Replace(body, "0x0000001000080000", "0x0000000800100000", 1)
	body = strings.Replace(body, "[%r3+1024]", "[%r3+256]", 1)
	body, _, _ = strings.Cut(body, "st.global")
	for col := range 8 {
		store := fmt.Sprintf("and.b32 %%r5, %%r1, 3; setp.eq.u32 %%p4, %%r5, %d; @%%p4 st.global.b32 [%%rd4], %%r1%d;",
			col/2, col%2)
		r := runText(t, body+store, 128, unused(), make([]byte, 128*16))
		if got := len(r.Findings) == 0; got != (col != 1) {
			t.Errorf("column %d: %v", col, r.Findings)
		}
	}
}

// TestWgmmaHostile has descriptors and sizes of blocks that make no sense: there are findings, and nothing else.
func TestWgmmaHostile(t *testing.T) {
	record := readMatrixRecord(t)
	constant := regexp.MustCompile(`or\.b64 (%rd[89]), %rd5, 0x[0-9a-f]+;`)
	r := rand.New(rand.NewPCG(7, 7))
	for i := 0; i < len(record.Cases); i += 1 + r.IntN(30) {
		c := &record.Cases[i]
		text := constant.ReplaceAllStringFunc(record.Modules[c.Module], func(s string) string {
			return constant.ReplaceAllString(s, fmt.Sprintf("or.b64 $1, %%rd5, %#x;", r.Uint64()))
		})
		f, err := ptx.Parse("wgmma.ptx", text)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Load(f, c.Name)
		if err != nil {
			t.Fatal(err)
		}
		run(t, p, &Launch{Grid: line(1), Block: line(1 + r.IntN(300)), MaxSteps: 1 << 22, Args: []Arg{
			{Name: "x", Buffer: make([]byte, 1<<18), Role: In}, {Name: "y", Buffer: make([]byte, 4*c.Out)}}})
	}
}
