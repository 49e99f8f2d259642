package ptxvm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// planted is a kernel with a defect at line 99 of its source, and a twin without one.
type planted struct {
	name            string
	defect, sound   string // bodies for kernelText
	class           Class
	says            string // part of the message
	blocks, threads int    // 0 for 1 and 64
	fresh           bool   // y and z are not initialised, and y is to be written
	schedules       int
}

const here = "\n.loc 1 99 1\n"
const elsewhere = "\n.loc 1 1 1\n"

// storeOwn gives every thread its element of y.
const storeOwn = "\n.loc 1 2 1\nst.global.u32 [%rd12], %r2;\n"

var plantedKernels = []planted{
	{name: "shared memory read too far", class: OutOfBoundsRead, says: "shared memory",
		defect: here + "ld.shared.u32 %r10, [%r5+512];" + storeOwn, sound: here + "ld.shared.u32 %r10, [%r5+508];" +
			storeOwn},
	{name: "local memory written too far", class: OutOfBoundsWrite, says: "local memory",
		defect: "mov.u64 %rd20, a;" + here + "st.local.u32 [%rd20+64], %r2;",
		sound:  "mov.u64 %rd20, a;" + here + "st.local.u32 [%rd20+60], %r2;"},
	{name: "misaligned", class: Misaligned, says: "multiple of 8",
		defect: here + "ld.global.u64 %rd20, [%rd2+4];", sound: here + "ld.global.u64 %rd20, [%rd2+8];"},
	{name: "vector misaligned", class: Misaligned, says: "multiple of 16",
		defect: here + "ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd2+8];",
		sound:  here + "ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd2+16];"},
	{name: "shared value never set reaches y", class: Uninitialised, says: "byte 0 of y",
		defect: "ld.shared.u32 %r10, [%r6]; add.s32 %r11, %r10, 1;" + here + "st.global.u32 [%rd12], %r11;",
		sound:  "st.shared.u32 [%r6], %r2; ld.shared.u32 %r10, [%r6];" + here + "st.global.u32 [%rd12], %r10;"},
	{name: "half of a word never set", class: Uninitialised, says: "of y",
		defect: "mov.b32 %r10, 7; st.shared.b8 [%r6], %r10; st.shared.b8 [%r6+1], %r10; ld.shared.u32 %r11, [%r6];" +
			here +
			"st.global.u32 [%rd12], %r11;",
		sound: "mov.b32 %r10, 7; st.shared.u32 [%r6], %r10; st.shared.b8 [%r6+1], %r10; ld.shared.u32 %r11, [%r6];" +
			here +
			"st.global.u32 [%rd12], %r11;"},
	{name: "byte of a word never set", class: Uninitialised, says: "of y",
		defect: "and.b32 %r11, %r20, -256; or.b32 %r11, %r11, 5; mov.b32 %r12, %r11; and.b32 %r12, %r12, 65535;" + here +
			"st.global.u32 [%rd12], %r12;",
		sound: "and.b32 %r11, %r20, -65536; or.b32 %r11, %r11, 5; mov.b32 %r12, %r11; and.b32 %r12, %r12, 65535;" + here +
			"st.global.u32 [%rd12], %r12;"},
	{name: "byte of a word set in some lanes", class: Uninitialised, says: "of y",
		defect: "setp.lt.s32 %p1, %r2, 8; mov.b32 %r12, %r20; @%p1 mov.b32 %r12, 7; and.b32 %r12, %r12, 255;" + here +
			"st.global.u32 [%rd12], %r12;",
		sound: "setp.lt.s32 %p1, %r2, 8; and.b32 %r12, %r20, -256; @%p1 mov.b32 %r12, 7; and.b32 %r12, %r12, 255;" + here +
			"st.global.u32 [%rd12], %r12;"},
	{name: "word no longer set", class: Uninitialised, says: "of y",
		defect: "and.b32 %r12, %r20, -256; add.s32 %r12, %r20, 1; and.b32 %r12, %r12, 255;" + here +
			"st.global.u32 [%rd12], %r12;",
		sound: "add.s32 %r12, %r20, 1; and.b32 %r12, %r20, -256; and.b32 %r12, %r12, 255;" + here +
			"st.global.u32 [%rd12], %r12;"},
	{name: "register never set in an address", class: Uninitialised, says: "address",
		defect: here + "add.s64 %rd20, %rd2, %rd30; ld.global.u32 %r10, [%rd20];",
		sound:  here + "mov.u64 %rd30, 4; add.s64 %rd20, %rd2, %rd30; ld.global.u32 %r10, [%rd20];"},
	{name: "local value never set decides a branch", class: Uninitialised, says: "branch",
		defect: "mov.u64 %rd20, a; ld.local.u32 %r10, [%rd20]; setp.eq.s32 %p1, %r10, 0;" + here +
			"@%p1 bra L; add.s32 %r11, %r10, 1; L: " + storeOwn,
		sound: "mov.u64 %rd20, a; st.local.u32 [%rd20], %r2; ld.local.u32 %r10, [%rd20]; setp.eq.s32 %p1, %r10, 0;" +
			here +
			"@%p1 bra L; add.s32 %r11, %r10, 1; L: " + storeOwn},
	{name: "value never set is chosen", class: Uninitialised, says: "of y",
		defect: "setp.lt.s32 %p1, %r2, 8; selp.b32 %r10, %r20, %r2, %p1;" + here + "st.global.u32 [%rd12], %r10;",
		sound:  "setp.lt.s32 %p1, %r2, 800; selp.b32 %r10, %r2, %r20, %p1;" + here + "st.global.u32 [%rd12], %r10;"},
	{name: "value never set comes from another lane", class: Uninitialised, says: "of y",
		defect: "setp.lt.s32 %p1, %r2, 16; @%p1 mov.b32 %r10, 5; shfl.sync.bfly.b32 %r11, %r10, 16, 31, -1;" + here +
			"@%p1 st.global.u32 [%rd12], %r11;",
		sound: "setp.lt.s32 %p1, %r2, 16; @%p1 mov.b32 %r10, 5; shfl.sync.bfly.b32 %r11, %r10, 8, 31, -1;" + here +
			"@%p1 st.global.u32 [%rd12], %r11;"},
	{name: "false and a value never set", class: Uninitialised, says: "guard",
		defect: "setp.ge.s32 %p1, %r2, 0; and.pred %p3, %p1, %p2;" + here + "@%p3 st.global.u32 [%rd12], %r2;",
		sound:  "setp.lt.s32 %p1, %r2, 0; and.pred %p3, %p1, %p2;" + here + "@%p3 st.global.u32 [%rd12], %r2;"},
	{name: "buffer never set", class: Uninitialised, says: "of y", fresh: true,
		defect: "ld.global.u32 %r10, [%rd13];" + here + "st.global.u32 [%rd12], %r10;",
		sound:  "ld.global.u32 %r10, [%rd11];" + here + "st.global.u32 [%rd12], %r10;"},
	{name: "barrier of a number never set", class: Uninitialised, says: "operand of a barrier",
		defect: here + "bar.sync %r20;", sound: here + "mov.u32 %r20, 1; bar.sync %r20;"},
	{name: "last element not written", class: Unwritten, says: "1 of 64 elements of y", fresh: true,
		defect: "setp.lt.s32 %p1, %r2, 63; @%p1 st.global.u32 [%rd12], %r2;", sound: storeOwn},
	{name: "no barrier between store and load", class: Race,
		says: "writes what thread 32,0,0 of block 0,0,0 has read",
		defect: "st.shared.u32 [%r6], 1000; bar.sync 0; st.shared.u32 [%r6], %r2; xor.b32 %r10, %r4, 128;" +
			"add.s32 %r10, %r5, %r10;" + here + "ld.shared.u32 %r11, [%r10]; st.global.u32 [%rd13], %r11;",
		sound: "st.shared.u32 [%r6], %r2; xor.b32 %r10, %r4, 128; add.s32 %r10, %r5, %r10; bar.sync 0;" + here +
			"ld.shared.u32 %r11, [%r10]; st.global.u32 [%rd13], %r11;"},
	{name: "no barrier between load and store", class: Race,
		says: "reads what thread 32,0,0 of block 0,0,0 has written",
		defect: "st.shared.u32 [%r6], %r2; xor.b32 %r10, %r4, 128; add.s32 %r10, %r5, %r10; bar.sync 0;" +
			"ld.shared.u32 %r11, [%r10];" + here + "st.shared.u32 [%r6], %r11;",
		sound: "st.shared.u32 [%r6], %r2; xor.b32 %r10, %r4, 128; add.s32 %r10, %r5, %r10; bar.sync 0;" +
			"ld.shared.u32 %r11, [%r10]; bar.sync 0;" + here + "st.shared.u32 [%r6], %r11;"},
	{name: "warps store different values", class: Race, says: "writes what thread",
		defect: "shr.u32 %r10, %r2, 5;" + here + "st.shared.u32 [%r5], %r10;",
		sound:  "shr.u32 %r10, %r2, 7;" + here + "st.shared.u32 [%r5], %r10;"},
	{name: "lanes store different values", class: Race, says: "lanes 0 and 1 of a warp",
		defect: here + "st.shared.u32 [%r5], %r2;", sound: here + "st.shared.u32 [%r6], %r2;", threads: 32},
	{name: "bytes of one word", class: Race, says: "writes what thread",
		defect: "shr.u32 %r10, %r2, 5; add.s32 %r11, %r5, 1;" + here + "st.shared.b8 [%r11], %r10;",
		sound:  "shr.u32 %r10, %r2, 5; add.s32 %r11, %r5, %r10;" + here + "st.shared.b8 [%r11], %r10;"},
	{name: "halves of one word", class: Race, says: "writes what thread",
		defect: "shr.u32 %r10, %r2, 5; mov.u32 %r11, 4; st.shared.u32 [%r5+4], %r11; bar.sync 0;" +
			here + "st.shared.b16 [%r5+4], %r10;",
		sound: "shr.u32 %r10, %r2, 5; shl.b32 %r13, %r10, 1; add.s32 %r13, %r5, %r13; mov.u32 %r11, 4;" +
			"st.shared.u32 [%r5+4], %r11; bar.sync 0; ld.shared.u16 %r12, [%r13+4]; bar.warp.sync -1;" + here +
			"st.shared.b16 [%r13+4], %r10;"},
	{name: "named barriers of two warps", class: Race, says: "reads what thread", threads: 96,
		defect: "setp.ge.s32 %p1, %r2, 64; @%p1 bra L; st.shared.u32 [%r6], %r2; bar.sync 1, 64; bra M;" + here +
			"L: ld.shared.u32 %r10, [%r5]; red.global.add.u32 [%rd3], %r10; M: ",
		sound: "setp.ge.s32 %p1, %r2, 64; @%p1 bra L; st.shared.u32 [%r6], %r2; bar.arrive 1, 96; bra M;" + here +
			"L: bar.sync 1, 96; ld.shared.u32 %r10, [%r5]; red.global.add.u32 [%rd3], %r10; M: "},
	{name: "plain and atomic", class: Race, says: "shared memory",
		defect: "st.shared.u32 [%r6], 0; xor.b32 %r10, %r4, 128; add.s32 %r10, %r5, %r10;" + here +
			"atom.shared.add.u32 %r11, [%r10], 1;",
		sound: "st.shared.u32 [%r6], 0; xor.b32 %r10, %r4, 128; add.s32 %r10, %r5, %r10; bar.sync 0;" + here +
			"atom.shared.add.u32 %r11, [%r10], 1;"},
	{name: "blocks write one element", class: Race, says: "of block 0,0,0", blocks: 2, threads: 32,
		defect: here + "st.global.u32 [%rd2], %r38;", sound: here + "red.global.add.u32 [%rd2], %r38;"},
	{name: "blocks read what others write", class: Race, says: "read at", blocks: 2, threads: 32,
		defect: "ld.global.u32 %r10, [%rd2+252]; st.global.u32 [%rd13], %r10;" + here + "st.global.u32 [%rd12], %r3;",
		sound:  "ld.global.u32 %r10, [%rd1+252]; st.global.u32 [%rd13], %r10;" + here + "st.global.u32 [%rd12], %r3;"},
	{name: "barrier for half a warp", class: BarrierDivergence, says: "lanes 0xffff0000",
		defect: "setp.ge.s32 %p1, %r2, 16; @%p1 bra L;" + here + "bar.sync 0;" +
			elsewhere + "L: add.s32 %r10, %r2, 1;",
		sound: "setp.ge.s32 %p1, %r2, 32; @%p1 bra L;" + here + "bar.sync 1, 32;" +
			elsewhere + "L: add.s32 %r10, %r2, 1;"},
	{name: "two barriers for one warp", class: BarrierDivergence, says: "wait at k.cu:98",
		defect: "setp.ge.s32 %p1, %r2, 16; @%p1 bra L;\n.loc 1 98 1\nbar.sync 0; bra M;" +
			here + "L: bar.sync 0; M: " + storeOwn,
		sound: "setp.ge.s32 %p1, %r2, 32; @%p1 bra L;\n.loc 1 98 1\nbar.sync 0; bra M;" +
			here + "L: bar.sync 0; M: " + storeOwn},
	{name: "threads that have ended are not waited for", class: BarrierDivergence, says: "lanes",
		defect: "setp.ge.s32 %p1, %r2, 40; @%p1 bra L;" + here + "bar.sync 0; bra M;" +
			elsewhere + "L: st.shared.u32 [%r6], 1; M:",
		sound: "setp.ge.s32 %p1, %r2, 40; @%p1 bra L;" + here + "bar.sync 0;" + elsewhere + "L:"},
	{name: "barrier for more threads than there are", class: Deadlock,
		says:   "warp 1 wait at barrier 2 (k.cu:99), where 64 of 96",
		defect: here + "bar.sync 2, 96;", sound: here + "bar.sync 2, 64;"},
	{name: "wrong member mask", class: BadMask, says: "member mask",
		defect: here + "shfl.sync.bfly.b32 %r10, %r2, 1, 31, 0xffff;",
		sound:  here + "shfl.sync.bfly.b32 %r10, %r2, 1, 31, -1;"},
	{name: "copy not waited for", class: AsyncHazard, says: "reads byte 0 of shared memory", threads: 32,
		defect: "cp.async.ca.shared.global [%r6], [%rd11], 4; cp.async.commit_group;" + here +
			"ld.shared.u32 %r10, [%r6]; cp.async.wait_group 0;",
		sound: "cp.async.ca.shared.global [%r6], [%rd11], 4; cp.async.commit_group; cp.async.wait_group 0;" + here +
			"ld.shared.u32 %r10, [%r6]; st.global.u32 [%rd12], %r10;"},
	{name: "one group too few waited for", class: AsyncHazard, says: "reads byte 256 of shared memory", threads: 32,
		defect: "cp.async.ca.shared.global [%r6], [%rd11], 4; cp.async.commit_group;" +
			"cp.async.ca.shared.global [%r6+256], [%rd11], 4; cp.async.commit_group; cp.async.wait_group 1;" + here +
			"ld.shared.u32 %r10, [%r6+256];",
		sound: "cp.async.ca.shared.global [%r6], [%rd11], 4; cp.async.commit_group;" +
			"cp.async.ca.shared.global [%r6+256], [%rd11], 4; cp.async.commit_group; cp.async.wait_group 1;" + here +
			"ld.shared.u32 %r10, [%r6];"},
	{name: "copy overwritten without a barrier", class: Race, says: "k.cu:99",
		defect: here + "cp.async.ca.shared.global [%r6], [%rd11], 4;" + elsewhere + "cp.async.wait_all;" +
			"xor.b32 %r10, %r4, 128; add.s32 %r10, %r5, %r10; bar.warp.sync -1; bar.sync 1, 64; bar.sync 2, 64;" +
			"ld.shared.u32 %r11, [%r10]; st.global.u32 [%rd13], %r11;" +
			here + "cp.async.ca.shared.global [%r6], [%rd12], 4;" + elsewhere + "cp.async.wait_all;",
		sound: "cp.async.ca.shared.global [%r6], [%rd11], 4;" + here + "cp.async.wait_all; bar.sync 0;" + elsewhere +
			"xor.b32 %r10, %r4, 128; add.s32 %r10, %r5, %r10; ld.shared.u32 %r11, [%r10]; bar.sync 0;" +
			"cp.async.ca.shared.global [%r6], [%rd12], 4; cp.async.wait_all;"},
	{name: "order of float additions", class: Nondeterministic,
		says: "y differs", blocks: 2, threads: 32, schedules: 4,
		defect: "cvt.rn.f32.s32 %f1, %r3; add.f32 %f1, %f1, 0f3DCCCCCD; red.global.add.f32 [%rd2], %f1;",
		sound:  "red.global.add.u32 [%rd2], %r3;"},
	{name: "byte of a word set in no thread", class: Uninitialised, says: "of y",
		defect: "setp.gt.s32 %p1, %r2, 800; @%p1 mov.b32 %r20, 1;" + packed, sound: packed},
	{name: "half of a word set in no thread", class: Uninitialised, says: "of y",
		defect: "setp.gt.s32 %p1, %r2, 800; @%p1 mov.b16 %h2, 1;" + paired, sound: paired},
	{name: "byte of a word computed from one set in no thread", class: Uninitialised, says: "of y",
		defect: "setp.gt.s32 %p1, %r2, 800; @%p1 mov.b32 %r20, 1;" + computed, sound: computed},
	{name: "half of a pair converted from a float set in no thread", class: Uninitialised, says: "of y",
		defect: "setp.gt.s32 %p1, %r2, 800; @%p1 mov.f32 %f2, 0f3F800000;" + converted, sound: converted},
	{name: "blocks race behind an atomic operation in shared memory", class: Race, says: "of block 0,0,0 has written",
		blocks: 2,
		defect: countShared + "add.s32 %r11, %r3, 1000;" + here + "st.global.u32 [%rd3], %r11; L: ret;",
		sound:  countShared + here + "red.global.add.u32 [%rd3], 1; L: ret;"},
	{name: "last block writes what all have read", class: Race, says: "of block 0,0,0 has read", blocks: 2,
		defect: fmt.Sprintf(lastWrites, ""), sound: fmt.Sprintf(lastWrites, "membar.gl;")},
	{name: "other number of threads at a barrier", class: BarrierDivergence, says: "where others wait for 64 (k.cu:1)",
		defect: fmt.Sprintf(arriveLate, 32), sound: fmt.Sprintf(arriveLate, 64)},
	{name: "number of threads that is not one of warps", class: BarrierDivergence, says: "48 threads",
		defect: here + "bar.sync 1, 48;", sound: here + "bar.sync 1, 64;"},
}

// packed, paired, computed and converted make a word of a value and of a register that is set nowhere, or not where it
// is used, and take the value out again. Compilers write the former where they do not care; computed is how Triton 3.6
// converts one or two float16 to float8_e5m2, four at a time.
const (
	packed = "prmt.b32 %r10, %r2, %r20, 0x3340; bfi.b32 %r10, %r20, %r10, 16, 8; prmt.b32 %r11, %r10, 0, 0x7770;" + here +
		"st.global.u32 [%rd12], %r11;"
	computed = "and.b32 %r10, %r2, 0xfffefffe; and.b32 %r11, %r20, 0xfffefffe; add.u32 %r10, %r10, 0x00800080;" +
		"add.u32 %r11, %r11, 0x00800080; prmt.b32 %r10, %r10, %r11, 0x7531; and.b32 %r10, %r10, 65535;" + here +
		"st.global.u32 [%rd12], %r10;"
	converted = "cvt.rn.f32.s32 %f1, %r2; cvt.rn.f16x2.f32 %r10, %f2, %f1; and.b32 %r11, %r10, 65535;" + here +
		"st.global.u32 [%rd12], %r11;"
	paired = "cvt.u16.u32 %h1, %r2; mov.b32 %r10, {%h1, %h2}; and.b32 %r11, %r10, 65535;" + here +
		"st.global.u32 [%rd12], %r11;"
)

// countShared counts threads in shared memory, and goes on with the first one.
const countShared = "st.shared.u32 [%r5], 0; bar.sync 0; atom.shared.add.u32 %r10, [%r5], 1; bar.sync 0;" +
	"setp.ne.s32 %p1, %r2, 0; @%p1 bra L;"

// lastWrites lets the block that takes the second ticket write what both have read.
const lastWrites = "setp.ne.s32 %%p1, %%r2, 0; @%%p1 bra L; ld.global.u32 %%r10, [%%rd3+8]; " +
	"red.global.add.u32 [%%rd2], %%r10; %s" +
	"atom.global.add.u32 %%r11, [%%rd3], 1; and.b32 %%r11, %%r11, 1; setp.ne.s32 %%p2, %%r11, 0; @%%p2 bra L;" +
	"membar.gl; add.s32 %%r10, %%r10, 1000;" + here + "st.global.u32 [%%rd3+8], %%r10; L: ret;"

// arriveLate lets the first warp wait for the second one.
const arriveLate = "setp.ge.s32 %%p1, %%r2, 32; @%%p1 bra A;" + elsewhere + "bar.sync 1, 64; bra L; A:" + here +
	"bar.arrive 1, %d; L: ret;"

func (k *planted) run(t *testing.T, body string) *Result {
	t.Helper()
	l := textLaunch(max(k.blocks, 1), max(k.threads, 64))
	if k.threads > 0 {
		l.Block.X = k.threads
	}
	l.Schedules = k.schedules
	if k.fresh {
		l.Args[1].Role, l.Args[1].Uninitialised, l.Args[2].Uninitialised = Out, true, true
	}
	return run(t, loadText(t, kernelText(body)), l)
}

func TestPlantedDefects(t *testing.T) {
	for i := range plantedKernels {
		k := &plantedKernels[i]
		t.Run(k.name, func(t *testing.T) {
			r := k.run(t, k.defect)
			if len(r.Findings) != 1 {
				t.Fatalf("%d findings: %s", len(r.Findings), list(r))
			}
			f := &r.Findings[0]
			if f.Class != k.class || !strings.Contains(f.Message, k.says) {
				t.Errorf("found %s, want %s that says %q", f, k.class, k.says)
			}
			there := len(f.Source) == 1 && f.Source[0].Line == 99 || strings.Contains(f.Message, "k.cu:99")
			if f.Instr != nil && !there {
				t.Errorf("the place is %v", f.Source)
			}
			if r := k.run(t, k.sound); len(r.Findings) != 0 {
				t.Errorf("the sound twin has findings: %s", list(r))
			}
		})
	}
}

func list(r *Result) string {
	var b strings.Builder
	for i := range r.Findings {
		fmt.Fprintln(&b, &r.Findings[i])
	}
	return b.String()
}

// TestAllClasses proves that every class has a planted defect.
func TestAllClasses(t *testing.T) {
	for _, class := range []Class{OutOfBoundsRead, OutOfBoundsWrite, Misaligned, Uninitialised, Unwritten, Race,
		BarrierDivergence, BadMask, Deadlock, AsyncHazard, Nondeterministic} {
		if !slices.ContainsFunc(plantedKernels, func(k planted) bool { return k.class == class }) {
			t.Errorf("no kernel has a defect of class %s", class)
		}
	}
}
