package ptxvm

import (
	"fmt"
	"strings"
	"testing"
)

// This file implements tests of copies that go on while a kernel does, and of matrices.

// TestAsyncCopy loads shared memory before and after the wait: before it, the old bytes are there.
func TestAsyncCopy(t *testing.T) {
	x := sequence(256, func(i int) byte { return byte(i + 1) })
	y := make([]byte, 5*4*16)
	body := `
shl.b32 %r2, %r1, 4;
cvt.u64.u32 %rd3, %r2;
add.s64 %rd4, %rd1, %rd3;
mov.u32 %r3, s;
add.s32 %r3, %r3, %r2;
st.shared.u32 [%r3], -1;
cp.async.cg.shared.global [%r3], [%rd4], 16;
cp.async.commit_group;
add.s32 %r4, %r3, 1024;
st.shared.u32 [%r4], -1;
cp.async.ca.shared.global [%r4], [%rd4], 8, %r1;
cp.async.commit_group;
setp.eq.u32 %p1, %r1, 2;
cp.async.ca.shared.global [%r4+512], [%rd4], 4, %p1;
cp.async.commit_group;
ld.shared.u32 %r10, [%r3];
cp.async.wait_group 2;
ld.shared.u32 %r11, [%r3+4];
ld.shared.u32 %r12, [%r4];
cp.async.wait_group 1;
ld.shared.u32 %r13, [%r4];
cp.async.wait_all;
ld.shared.u32 %r14, [%r4+512];
mad.lo.s32 %r2, %r1, 20, 0;
cvt.u64.u32 %rd3, %r2;
add.s64 %rd5, %rd2, %rd3;
st.global.u32 [%rd5], %r10;
st.global.u32 [%rd5+4], %r11;
st.global.u32 [%rd5+8], %r12;
st.global.u32 [%rd5+12], %r13;
st.global.u32 [%rd5+16], %r14;`
	r := runText(t, body, 16, x, y)
	if len(r.Findings) != 2 || r.Findings[0].Class != AsyncHazard || r.Findings[1].Class != AsyncHazard {
		t.Errorf("two loads come too early, found: %v", r.Findings)
	}
	for i := range 16 {
		at := func(n int) uint32 { return uint32(getBytes(x[16*i+n:], 4)) }
		read := uint32(0xffffffff)
		if i < 4 {
			read = 1<<(8*i) - 1
		}
		last := at(0)
		if i == 2 {
			last = 0
		}
		equal(t, fmt.Sprintf("thread %d", i), y[20*i:][:20], pack(uint32(0xffffffff), at(4), 0xffffffff, at(0)&read, last))
	}
}

func TestAsyncCopyChecks(t *testing.T) {
	for _, c := range []struct {
		body string
		want Class
	}{
		{"cp.async.cg.shared.global [s], [%rd1+16], 16;", OutOfBoundsRead},
		{"cp.async.cg.shared.global [s+8], [%rd1], 16;", Misaligned},
		{"cp.async.ca.shared.global [s], [%rd1+2], 4;", Misaligned},
		{"cp.async.ca.shared.global [s+4096], [%rd1], 4; cp.async.wait_all;", OutOfBoundsWrite},
		{"cp.async.bulk.global.shared::cta.bulk_group [%rd2], [s], 24;", Misaligned},
		{"mbarrier.arrive.shared.b64 %rd3, [s];", BarrierDivergence},
		{"mbarrier.init.shared.b64 [s], 1; mbarrier.arrive.shared.b64 %rd3, [s], 2;", BarrierDivergence},
		{"mbarrier.init.shared.b64 [s], 0;", BarrierDivergence},
	} {
		r := runText(t, c.body, 1, make([]byte, 16), make([]byte, 16))
		if len(r.Findings) == 0 || r.Findings[0].Class != c.want {
			t.Errorf("%s: %v, want %s", c.body, r.Findings, c.want)
		}
	}
	silent(t, runText(t, "cp.async.cg.shared.global [s], [%rd1+16], 16, 0; cp.async.wait_all;", 1, make([]byte, 16),
		make([]byte, 16)))
}

// TestMatrixLayout sends numbered elements through every form: element r, c of matrix m is 64m + 8r + c.
func TestMatrixLayout(t *testing.T) {
	numbers := sequence(256, func(i int) uint16 { return uint16(i) })
	for _, count := range []int{1, 2, 4} {
		for _, trans := range []string{"", ".trans"} {
			regs := "{" + strings.Join([]string{"%r10", "%r11", "%r12", "%r13"}[:count], ", ") + "}"
			load := fmt.Sprintf("ldmatrix.sync.aligned.m8n8.x%d%s.shared.b16 %s, [%%r3];", count, trans, regs)
			store := fmt.Sprintf("stmatrix.sync.aligned.m8n8.x%d%s.shared.b16 [%%r4], %s;", count, trans, regs)
			body := `
mad.lo.s32 %r2, %r1, 16, 0;
cvt.u64.u32 %rd3, %r2;
add.s64 %rd4, %rd1, %rd3;
mov.u32 %r3, s;
add.s32 %r3, %r3, %r2;
add.s32 %r4, %r3, 1024;
ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd4];
st.shared.v4.u32 [%r3], {%r10, %r11, %r12, %r13};
st.shared.v4.u32 [%r4], {%r10, %r11, %r12, %r13};
bar.sync 0;
` + load + `
add.s64 %rd5, %rd2, %rd3;
st.global.v4.u32 [%rd5], {%r10, %r11, %r12, %r13};
` + store + `
bar.sync 0;
ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r4];
st.global.v4.u32 [%rd5+512], {%r10, %r11, %r12, %r13};`
			y := make([]byte, 1024)
			silent(t, runText(t, body, 32, pack(numbers...), y))
			for lane := range 32 {
				for m := range count {
					r, c := lane/4, lane%4*2
					want := pack(uint16(64*m+8*r+c), uint16(64*m+8*r+c+1))
					if trans != "" {
						want = pack(uint16(64*m+8*c+r), uint16(64*m+8*(c+1)+r))
					}
					equal(t, fmt.Sprintf("%s lane %d matrix %d", load, lane, m), y[16*lane+4*m:][:4], want)
				}
			}
			equal(t, store, y[512:], pack(numbers...))
		}
	}
	y := make([]byte, 128)
	silent(t, runText(t, `
mul.wide.u32 %rd3, %r1, 4;
add.s64 %rd4, %rd1, %rd3;
ld.global.u32 %r2, [%rd4];
movmatrix.sync.aligned.m8n8.trans.b16 %r3, %r2;
add.s64 %rd5, %rd2, %rd3;
st.global.u32 [%rd5], %r3;`, 32, pack(numbers...), y))
	equal(t, "movmatrix", y, pack(sequence(64, func(i int) uint16 { return uint16(i%8*8 + i/8) })...))
}

// TestMemoryBarrier counts arrivals and bytes over several phases.
func TestMemoryBarrier(t *testing.T) {
	y := make([]byte, 4*8)
	silent(t, runText(t, `
mbarrier.init.shared::cta.b64 [s], 2;
mbarrier.arrive.shared::cta.b64 %rd3, [s];
mbarrier.pending_count.b64 %r2, %rd3;
st.global.u32 [%rd2], %r2;
mbarrier.test_wait.shared::cta.b64 %p1, [s], %rd3;
selp.u32 %r2, 1, 0, %p1;
st.global.u32 [%rd2+4], %r2;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [s], 8;
mbarrier.try_wait.parity.shared::cta.b64 %p1, [s], 0;
selp.u32 %r2, 1, 0, %p1;
st.global.u32 [%rd2+8], %r2;
mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [s], 8;
mbarrier.try_wait.parity.shared::cta.b64 %p1, [s], 0;
selp.u32 %r2, 1, 0, %p1;
st.global.u32 [%rd2+12], %r2;
mbarrier.test_wait.shared::cta.b64 %p1, [s], %rd3;
selp.u32 %r2, 1, 0, %p1;
st.global.u32 [%rd2+16], %r2;
mbarrier.arrive_drop.shared::cta.b64 %rd4, [s];
mbarrier.arrive.shared::cta.b64 %rd4, [s];
mbarrier.pending_count.b64 %r2, %rd4;
st.global.u32 [%rd2+20], %r2;
mbarrier.arrive.shared::cta.b64 %rd4, [s];
mbarrier.pending_count.b64 %r2, %rd4;
st.global.u32 [%rd2+24], %r2;
mbarrier.test_wait.parity.shared::cta.b64 %p1, [s], 0;
selp.u32 %r2, 1, 0, %p1;
st.global.u32 [%rd2+28], %r2;`, 1, unused(), y))
	equal(t, "phases", y, pack[uint32](2, 0, 0, 1, 1, 1, 1, 1))
}
