package ptxvm

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"gpuemu/internal/dtype"
)

// This file implements tests of loads, stores, atomic operations and addresses.

// TestLoadExtension loads bytes and words into registers that are wider.
func TestLoadExtension(t *testing.T) {
	x := []byte{0x81, 0x92, 0xa3, 0xb4, 0xc5, 0xd6, 0xe7, 0xf8}
	for _, c := range []struct {
		load string
		want uint64
	}{
		{"ld.global.u8 %r2, [%rd1];", 0x81},
		{"ld.global.b8 %r2, [%rd1];", 0x81},
		{"ld.global.s8 %r2, [%rd1];", 0xffffff81},
		{"ld.global.s8 %h2, [%rd1]; mov.u32 %r2, 7; cvt.u32.u16 %r2, %h2;", 0xff81},
		{"ld.global.s16 %h2, [%rd1]; cvt.s32.s16 %r2, %h2;", 0xffff9281},
		{"ld.global.u16 %r2, [%rd1+2];", 0xb4a3},
		{"ld.global.s16 %rd3, [%rd1+2]; shr.u64 %rd3, %rd3, 32; cvt.u32.u64 %r2, %rd3;", 0xffffffff},
		{"ld.global.s32 %rd3, [%rd1+4]; shr.u64 %rd3, %rd3, 32; cvt.u32.u64 %r2, %rd3;", 0xffffffff},
		{"ld.global.u32 %rd3, [%rd1+4]; shr.u64 %rd3, %rd3, 16; cvt.u32.u64 %r2, %rd3;", 0xf8e7},
		{"ld.global.v2.s8 {%r3, %r2}, [%rd1];", 0xffffff92},
		{"ld.global.v4.u16 {%r3, _, _, %r2}, [%rd1];", 0xf8e7},
		{"add.s64 %rd3, %rd1, 8; ld.global.nc.L1::no_allocate.u32 %r2, [%rd3+-8];", 0xb4a39281},
		{"ld.relaxed.gpu.global.u32 %r2, [%rd1];", 0xb4a39281},
		{"mov.u32 %r3, 0x11; st.local.u8 [l+3], %r3; st.local.u8 [l+2], 0x22; ld.local.u16 %r2, [l+2];", 0x1122},
		{"mov.u64 %rd3, l; cvta.local.u64 %rd3, %rd3; st.u32 [%rd3+4], 77; ld.local.u32 %r2, [l+4];", 77},
		{"mov.u32 %r3, s; st.shared.v2.u32 [%r3+8], {1, 88}; mov.u64 %rd3, s; cvta.shared.u64 %rd3, %rd3; " +
			"ld.u32 %r2, [%rd3+12];", 88},
		{"ld.const.u32 %r2, [c+4];", 6},
		{"mov.u64 %rd3, c; cvta.const.u64 %rd3, %rd3; ld.u32 %r2, [%rd3];", 5},
		{"mov.u64 %rd3, x; cvta.param.u64 %rd3, %rd3; ld.u64 %rd4, [%rd3]; ld.global.u8 %r2, [%rd4+1];", 0x92},
	} {
		y := make([]byte, 4)
		r := runModule(t, ".const .u32 c[2] = {5, 6};", ".local .align 8 .b8 l[16];\n"+c.load+"\nst.global.u32 [%rd2], %r2;",
			1, x, y)
		silent(t, r)
		if got := binary.LittleEndian.Uint32(y); uint64(got) != c.want {
			t.Errorf("%s gives %#x, want %#x", c.load, got, c.want)
		}
	}
}

// TestVectorAlignment wants the alignment of the whole vector.
func TestVectorAlignment(t *testing.T) {
	for _, c := range []struct {
		body string
		want Class
	}{
		{"ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd1+4];", Misaligned},
		{"ld.global.v2.u64 {%rd3, %rd4}, [%rd1+8];", Misaligned},
		{"ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd1+16];", OutOfBoundsRead},
		{"st.shared.v2.u32 [s+4092], {%r1, %r1};", Misaligned},
		{"st.shared.v4.u8 [s+4096], {%r1, %r1, %r1, %r1};", OutOfBoundsWrite},
		{"atom.global.add.u64 %rd3, [%rd1+4], %rd1;", Misaligned},
		{"st.global.u32 [%rd1+16], %r1;", OutOfBoundsWrite},
		{"mov.u64 %rd3, 0; ld.u32 %r2, [%rd3];", OutOfBoundsRead},
	} {
		r := runText(t, c.body, 1, unused(), unused())
		if len(r.Findings) != 1 || r.Findings[0].Class != c.want {
			t.Errorf("%s: %v, want %s", c.body, r.Findings, c.want)
		}
	}
}

// TestAtomics executes every operation by four lanes on one word, and compares what they saw and what they left.
func TestAtomics(t *testing.T) {
	half := func(v ...float64) (bits uint64) {
		for i, x := range v {
			bits |= dtype.Float16.Bits(x) << (16 * i)
		}
		return bits
	}
	brain := func(v ...float64) (bits uint64) {
		for i, x := range v {
			bits |= dtype.BFloat16.Bits(x) << (16 * i)
		}
		return bits
	}
	f32 := func(v float32) uint64 { return uint64(math.Float32bits(v)) }
	for _, c := range []struct {
		op          string
		start, b, c uint64
		want        [5]uint64 // what four lanes see, and what they leave
	}{
		{"add.u32", 10, 3, 0, [5]uint64{10, 13, 16, 19, 22}},
		{"add.s32", 0xffffffff, 1, 0, [5]uint64{0xffffffff, 0, 1, 2, 3}},
		{"add.u64", 1 << 40, 1 << 39, 0, [5]uint64{2 << 39, 3 << 39, 4 << 39, 5 << 39, 6 << 39}},
		{"add.f32", f32(0.5), f32(0.25), 0, [5]uint64{f32(0.5), f32(0.75), f32(1), f32(1.25), f32(1.5)}},
		{"add.f64", math.Float64bits(1), math.Float64bits(0.5), 0, [5]uint64{math.Float64bits(1),
			math.Float64bits(1.5), math.Float64bits(2), math.Float64bits(2.5), math.Float64bits(3)}},
		{"add.noftz.f16", half(2048), half(1), 0, [5]uint64{half(2048), half(2048), half(2048), half(2048), half(2048)}},
		{"add.noftz.f16x2", half(1, -1), half(0.5, 2), 0, [5]uint64{half(1, -1), half(1.5, 1), half(2, 3), half(2.5, 5),
			half(3, 7)}},
		{"add.noftz.bf16", brain(256), brain(3), 0, [5]uint64{brain(256), brain(260), brain(264), brain(268), brain(272)}},
		{"add.noftz.bf16x2", brain(1, 0), brain(1, -1), 0, [5]uint64{brain(1, 0), brain(2, -1), brain(3, -2),
			brain(4, -3), brain(5, -4)}},
		{"min.s32", 5, 0xfffffffe, 0, [5]uint64{5, 0xfffffffe, 0xfffffffe, 0xfffffffe, 0xfffffffe}},
		{"min.u32", 5, 0xfffffffe, 0, [5]uint64{5, 5, 5, 5, 5}},
		{"max.s64", 5, 1 << 63, 0, [5]uint64{5, 5, 5, 5, 5}},
		{"max.u64", 5, 1 << 63, 0, [5]uint64{5, 1 << 63, 1 << 63, 1 << 63, 1 << 63}},
		{"inc.u32", 1, 2, 0, [5]uint64{1, 2, 0, 1, 2}},
		{"dec.u32", 1, 2, 0, [5]uint64{1, 0, 2, 1, 0}},
		{"and.b32", 7, 5, 0, [5]uint64{7, 5, 5, 5, 5}},
		{"or.b64", 1, 1 << 50, 0, [5]uint64{1, 1<<50 | 1, 1<<50 | 1, 1<<50 | 1, 1<<50 | 1}},
		{"xor.b32", 7, 5, 0, [5]uint64{7, 2, 7, 2, 7}},
		{"exch.b32", 7, 5, 0, [5]uint64{7, 5, 5, 5, 5}},
		{"exch.b64", 7, 5, 0, [5]uint64{7, 5, 5, 5, 5}},
		{"cas.b16", 7, 7, 9, [5]uint64{7, 9, 9, 9, 9}},
		{"cas.b32", 7, 6, 9, [5]uint64{7, 7, 7, 7, 7}},
		{"cas.b64", 7, 7, 9, [5]uint64{7, 9, 9, 9, 9}},
	} {
		size := typeBytes(c.op[strings.LastIndex(c.op, ".")+1:])
		reg := map[int]string{2: "%h", 4: "%r", 8: "%rd"}[size]
		for _, sp := range []string{"global", "shared", ""} {
			x := pack(c.start, c.b, c.c, uint64(0))
			y := make([]byte, 40)
			address := map[string]string{"global": "[%rd1]", "shared": "[s]", "": "[%rd1]"}[sp]
			prefix := strings.TrimSuffix("."+sp, ".")
			third := ""
			if strings.HasPrefix(c.op, "cas") {
				third = ", " + reg + "12"
			}
			bits := 8 * size
			body := fmt.Sprintf(`
ld.global.b%[1]d %[2]s10, [%%rd1];
ld.global.b%[1]d %[2]s11, [%%rd1+8];
ld.global.b%[1]d %[2]s12, [%%rd1+16];
st.shared.b%[1]d [s], %[2]s10;
bar.warp.sync 15;
atom%[3]s.%[4]s %[2]s13, %[5]s, %[2]s11%[6]s;
mul.wide.u32 %%rd3, %%r1, 8;
add.s64 %%rd3, %%rd2, %%rd3;
st.global.b%[1]d [%%rd3], %[2]s13;
bar.warp.sync 15;
ld%[3]s.b%[1]d %[2]s14, %[5]s;
st.global.b%[1]d [%%rd2+32], %[2]s14;`, bits, reg, prefix, c.op, address, third)
			r := runText(t, body, 4, x, y)
			silent(t, r)
			equal(t, "atom"+prefix+"."+c.op, y, pack(c.want[:]...))
			if strings.HasPrefix(c.op, "cas") || strings.HasPrefix(c.op, "exch") {
				continue
			}
			y = make([]byte, 8)
			x = pack(c.start, c.b, c.c, uint64(0))
			silent(t, runText(t, fmt.Sprintf(`
ld.global.b%[1]d %[2]s10, [%%rd1];
ld.global.b%[1]d %[2]s11, [%%rd1+8];
st.shared.b%[1]d [s], %[2]s10;
bar.warp.sync 15;
red%[3]s.%[4]s %[5]s, %[2]s11;
bar.warp.sync 15;
ld%[3]s.b%[1]d %[2]s14, %[5]s;
st.global.b%[1]d [%%rd2], %[2]s14;`, bits, reg, prefix, c.op, address), 4, x, y))
			equal(t, "red"+prefix+"."+c.op, y, pack(c.want[4]))
		}
	}
}

// TestAtomicSubnormal adds subnormal numbers: they become zero in global memory and stay in shared memory.
func TestAtomicSubnormal(t *testing.T) {
	y := make([]byte, 8)
	silent(t, runText(t, `
st.shared.u32 [s], 1;
atom.shared.add.f32 %r2, [s], 0f00000002;
ld.shared.u32 %r3, [s];
st.global.u32 [%rd2], %r3;
st.global.u32 [%rd2+4], 1;
red.global.add.f32 [%rd2+4], 0f80000002;`, 1, unused(), y))
	equal(t, "sums", y, pack[uint32](3, 0))
}

// TestVectorAtomics adds several elements at once.
func TestVectorAtomics(t *testing.T) {
	x := pack[float32](1, 2, 3, 4)
	y := make([]byte, 16)
	silent(t, runText(t, `
mov.b32 %r2, 0f3f800000;
atom.global.v4.f32.add {%r10, %r11, %r12, %r13}, [%rd1], {%r2, %r2, %r2, %r2};
st.global.v4.u32 [%rd2], {%r10, %r11, %r12, %r13};
red.global.v2.f32.add [%rd1+8], {%r2, %r2};`, 1, x, y))
	equal(t, "before", y, pack[float32](1, 2, 3, 4))
	equal(t, "after", x, pack[float32](2, 3, 5, 6))
	// In the order that the PTX ISA has, and as Triton writes it.
	silent(t, runText(t, `
mov.b32 %r2, 0f3f800000;
mov.b32 %r3, 0x3c003c00;
atom.global.gpu.acq_rel.add.v4.f32 {%r10, %r11, %r12, %r13}, [%rd1], {%r2, %r2, %r2, %r2};
st.global.v4.u32 [%rd2], {%r10, %r11, %r12, %r13};
red.relaxed.gpu.global.add.v2.f32 [%rd1], {%r2, %r2};
red.relaxed.gpu.global.add.noftz.v2.f16x2 [%rd1+8], {%r3, %r3};`, 1, x, y))
	equal(t, "before", y, pack[float32](2, 3, 5, 6))
	half := pack[uint16](0x3c00, 0x42c0, 0x3c00, 0x42e0) // the halves of the floats 6 and 7, 0x40c0 and 0x40e0, and 1
	equal(t, "after", x, append(pack[float32](4, 5), half...))
}

// TestAddresses tells spaces apart, and reads addresses that are initial values.
func TestAddresses(t *testing.T) {
	module := `
.global .align 8 .u32 words[4] = {10, 11, 12, 13};
.global .align 8 .u64 pointer = words + 8;
.global .align 8 .u64 generically = generic(words) + 4;
.global .align 8 .u8 bytes[8] = {0xFF(words), 0xFF00(words), 0xFF0000(words), 0xFF000000(words), 0xFF00000000(words),
	0xFF0000000000(words), 0xFF000000000000(words), 0xFF00000000000000(words)};
.const .align 8 .u32 fixed[2] = {1, 2};`
	y := make([]byte, 4*9)
	body := `
.local .align 8 .b8 l[16];
ld.global.u64 %rd3, [pointer];
ld.global.u32 %r2, [%rd3];
st.global.u32 [%rd2], %r2;
ld.global.u64 %rd3, [generically];
ld.u32 %r2, [%rd3];
st.global.u32 [%rd2+4], %r2;
ld.global.u64 %rd3, [bytes];
ld.global.u32 %r2, [%rd3+12];
st.global.u32 [%rd2+8], %r2;
mov.u64 %rd10, s;
cvta.shared.u64 %rd10, %rd10;
mov.u64 %rd11, l;
cvta.local.u64 %rd11, %rd11;
mov.u64 %rd12, fixed;
cvta.const.u64 %rd12, %rd12;
mov.u64 %rd13, x;
cvta.param.u64 %rd13, %rd13;
cvta.to.shared.u64 %rd14, %rd10;
mov.u64 %rd15, s;
setp.eq.u64 %p9, %rd14, %rd15;
selp.u32 %r9, 1, 0, %p9;
st.global.u32 [%rd2+32], %r9;`
	for i, sp := range []string{"global", "shared", "local", "const", "param"} {
		body += "\nmov.u32 %r9, 0;"
		for bit, reg := range []string{"%rd1", "%rd10", "%rd11", "%rd12", "%rd13"} {
			body += fmt.Sprintf("\nisspacep.%s %%p1, %s;\n@%%p1 or.b32 %%r9, %%r9, %d;", sp, reg, 1<<bit)
		}
		if i < 5 {
			body += fmt.Sprintf("\nst.global.u32 [%%rd2+%d], %%r9;", 12+4*i)
		}
	}
	silent(t, runModule(t, module, body, 1, unused(), y))
	equal(t, "values", y, pack[uint32](12, 11, 13, 1, 2, 4, 8, 16, 1))
}

// TestFarFromTheBuffer has indices that are wrong by much: none of 32 bits comes to another buffer.
func TestFarFromTheBuffer(t *testing.T) {
	for _, index := range []string{"0x4040", "1000000", "0x7fffffff", "-0x80000000", "-0x4040"} {
		y := make([]byte, 1<<16)
		r := runModule(t, "", "mov.s32 %r2, "+index+"; mul.wide.s32 %rd9, %r2, 8; add.s64 %rd9, %rd1, %rd9;"+
			"ld.global.u64 %rd8, [%rd9]; st.global.u64 [%rd2], %rd8;", 1, y, y)
		if len(r.Findings) == 0 || r.Findings[0].Class != OutOfBoundsRead {
			t.Errorf("index %s: %v", index, r.Findings)
		}
	}
}
