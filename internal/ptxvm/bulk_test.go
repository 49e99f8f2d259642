package ptxvm

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// TestBulkReduce combines four words in shared memory with four words of y, twice.
func TestBulkReduce(t *testing.T) {
	f := math.Float32bits
	for _, c := range []struct {
		op         string
		x, y, want [4]uint32
	}{
		{"add.u32", [4]uint32{1, 2, math.MaxUint32, 4}, [4]uint32{10, 20, 30, 40}, [4]uint32{12, 24, 28, 48}},
		{"add.s32", [4]uint32{1, 2, math.MaxUint32, 4}, [4]uint32{10, 20, 30, 40}, [4]uint32{12, 24, 28, 48}},
		{"add.u64", [4]uint32{math.MaxUint32, 0, 1, 1}, [4]uint32{1, 0, 0, 0}, [4]uint32{math.MaxUint32, 1, 2, 2}},
		{"add.f32", [4]uint32{f(0.5), f(1), 1, f(2)}, [4]uint32{f(1), f(1), 1, f(1)},
			[4]uint32{f(2), f(3), 3, f(5)}}, // subnormal numbers count
		{"add.f64", [4]uint32{0, 0x3ff00000, 0, 0x40000000}, [4]uint32{0, 0x3ff00000, 0, 0},
			[4]uint32{0, 0x40080000, 0, 0x40100000}}, // 1 + 1 + 1, 0 + 2 + 2
		{"add.noftz.f16", [4]uint32{0x3c003c00, 0x00010001, 0, 0x40003c00}, [4]uint32{0x3c004000, 0x00010001, 0, 0},
			[4]uint32{0x42004400, 0x00030003, 0, 0x44004000}},
		{"add.noftz.bf16", [4]uint32{0x3f803f80, 0, 0, 0}, [4]uint32{0x3f804000, 0, 0, 0},
			[4]uint32{0x40404080, 0, 0, 0}},
		{"min.u32", [4]uint32{1, 200, math.MaxUint32, 4}, [4]uint32{10, 20, 30, 40}, [4]uint32{1, 20, 30, 4}},
		{"max.s32", [4]uint32{1, 200, math.MaxUint32, 4}, [4]uint32{10, 20, 30, 40}, [4]uint32{10, 200, 30, 40}},
		{"max.u64", [4]uint32{0, 1, 7, 0}, [4]uint32{9, 0, 9, 0}, [4]uint32{0, 1, 9, 0}},
		{"min.s64", [4]uint32{0, 1 << 31, 7, 0}, [4]uint32{9, 0, 9, 0}, [4]uint32{0, 1 << 31, 7, 0}},
		{"inc.u32", [4]uint32{9, 3, 4, 0}, [4]uint32{3, 3, 3, 3}, [4]uint32{5, 1, 0, 0}},
		{"dec.u32", [4]uint32{9, 3, 2, 0}, [4]uint32{3, 0, 3, 3}, [4]uint32{1, 2, 1, 0}},
		{"and.b32", [4]uint32{12, 3, 2, 0}, [4]uint32{10, 1, 3, 3}, [4]uint32{8, 1, 2, 0}},
		{"or.b64", [4]uint32{12, 3, 2, 0}, [4]uint32{10, 1, 3, 3}, [4]uint32{14, 3, 3, 3}},
		{"xor.b32", [4]uint32{12, 3, 2, 0}, [4]uint32{10, 1, 3, 3}, [4]uint32{10, 1, 3, 3}},
	} {
		load := `
ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd1];
st.shared.v4.u32 [s], {%r2, %r3, %r4, %r5};
fence.proxy.async;`
		global := strings.Repeat("\ncp.reduce.async.bulk.global.shared::cta.bulk_group."+c.op+" [%rd2], [s], 16;", 2) +
			"\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;"
		y := pack(c.y[:]...)
		silent(t, runText(t, load+global, 1, pack(c.x[:]...), y))
		equal(t, c.op, y, pack(c.want[:]...))
		if strings.ContainsAny(c.op, "f6") { // floats, and 64 bits
			continue // only in global memory
		}
		shared := `
ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd2];
st.shared.v4.u32 [s+16], {%r2, %r3, %r4, %r5};
mbarrier.init.shared::cta.b64 [s+32], 1;
fence.proxy.async;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [s+32], 32;` + strings.Repeat(`
mov.u32 %r9, s;
add.u32 %r8, %r9, 16;
add.u32 %r10, %r9, 32;
cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.`+c.op+
			` [%r8], [%r9], 16, [%r10];`, 2) + `
again:
mbarrier.try_wait.parity.shared::cta.b64 %p1, [s+32], 0;
@!%p1 bra again;
ld.shared.v4.u32 {%r2, %r3, %r4, %r5}, [s+16];
st.global.v4.u32 [%rd2], {%r2, %r3, %r4, %r5};`
		y = pack(c.y[:]...)
		silent(t, runText(t, load+shared, 1, pack(c.x[:]...), y))
		equal(t, c.op+" in shared memory", y, pack(c.want[:]...))
	}
	r := runText(t, "st.shared.v4.u32 [s], {%r1, %r1, %r1, %r1};\n"+
		"cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd2], [s], 16;", 1, unused(), unused())
	if len(r.Findings) != 1 || r.Findings[0].Class != AsyncHazard {
		t.Errorf("without fence.proxy.async: %v", r.Findings)
	}
}

// TestAsyncStore stores registers that a barrier waits for, and reads one of them too early.
func TestAsyncStore(t *testing.T) {
	const early = "ld.shared.u32 %r7, [s];"
	for _, vec := range []string{"", ".v2", ".v4"} {
		for _, typ := range strings.Fields("b32 u32 s32 f32 b64 u64 s64 f64") {
			registers := map[bool]string{true: "%r2, %r3, %r4, %r5", false: "%rd5, %rd6"}[strings.HasSuffix(typ, "32")]
			list := strings.Split(registers, ", ")
			n := map[string]int{"": 1, ".v2": 2, ".v4": 4}[vec]
			if n > len(list) {
				continue
			}
			value := list[0]
			if n > 1 {
				value = "{" + strings.Join(list[:n], ", ") + "}"
			}
			bytes := n * 16 / len(list)
			form := map[bool]string{true: ".weak.shared::cta", false: ".shared::cluster"}[n == 2]
			body := fmt.Sprintf(`
mov.u32 %%r9, s;
add.u32 %%r10, %%r9, 64;
st.shared.v4.u32 [s], {%%r1, %%r1, %%r1, %%r1};
mbarrier.init.shared::cta.b64 [s+64], 1;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [s+64], %d;
mov.u32 %%r2, 11; mov.u32 %%r3, 12; mov.u32 %%r4, 13; mov.u32 %%r5, 14;
mov.u64 %%rd5, 0xc0000000b; mov.u64 %%rd6, 0xe0000000d;
st.async%s.mbarrier::complete_tx::bytes%s.%s [%%r9], %s, [%%r10];
%s
again:
mbarrier.try_wait.parity.shared::cta.b64 %%p1, [s+64], 0;
@!%%p1 bra again;
ld.shared.v4.u32 {%%r2, %%r3, %%r4, %%r5}, [s];
st.global.v4.u32 [%%rd2], {%%r2, %%r3, %%r4, %%r5};`, bytes, form, vec, typ, value, early)
			y := make([]byte, 16)
			silent(t, runText(t, strings.Replace(body, early, "", 1), 1, unused(), y))
			want := make([]byte, 16)
			copy(want, pack[uint32](11, 12, 13, 14)[:bytes])
			equal(t, typ+vec, y, want)
			r := runText(t, body, 1, unused(), y)
			if len(r.Findings) != 1 || r.Findings[0].Class != AsyncHazard {
				t.Errorf("%s%s: %s: %v", typ, vec, early, r.Findings)
			}
		}
	}
}

// TestUnfencedDestination: a bulk copy writes what threads have stored before. A barrier orders the two only with
// fence.proxy.async before it.
func TestUnfencedDestination(t *testing.T) {
	const name = "without fence.proxy.async"
	for between, found := range map[string]bool{"": true, "bar.sync 0;": true, "fence.proxy.async; bar.sync 0;": false} {
		r := run(t, loadText(t, kernelText(`
setp.ne.s32 %p1, %r2, 0;
@!%p1 mbarrier.init.shared.b64 [s+256], 1;
bar.sync 0;
mov.u32 %r20, s;
mad.lo.u32 %r20, %r2, 4, %r20;
st.shared.u32 [%r20], %r2;
`+between+`
@!%p1 mbarrier.arrive.expect_tx.shared.b64 %rd20, [s+256], 256;
@!%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%rd1], 256, [s+256];
again: mbarrier.try_wait.parity.shared.b64 %p2, [s+256], 0;
@!%p2 bra again;
ld.shared.u32 %r21, [%r20];
st.global.u32 [%rd12], %r21;`)), textLaunch(1, 64))
		got := slices.ContainsFunc(r.Findings, func(f Finding) bool { return strings.Contains(f.Message, name) })
		others := len(r.Findings) > 1 && between != "" // without a barrier the copy and the stores race, too
		if got != found || others || !found && len(r.Findings) > 0 {
			t.Errorf("%q: %s, want one %s: %v", between, list(r), name, found)
		}
	}
}
