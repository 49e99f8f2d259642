package ptxvm

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"gpuemu/internal/dtype"
)

// butterfly adds %f1 of all lanes whose index differs in some bits, as Triton and LLVM write it.
func butterfly(masks ...int) string {
	var b strings.Builder
	for _, m := range masks {
		fmt.Fprintf(&b, "mov.b32 %%r20, %%f1; shfl.sync.bfly.b32 %%r21, %%r20, %d, 31, -1; mov.b32 %%f2, %%r21; "+
			"add.f32 %%f1, %%f1, %%f2;\n", m)
	}
	return b.String()
}

// contracted is the first step of such a sum of %f0 · %f0, with the product of the own side in the addition.
func contracted(mask int) string {
	return fmt.Sprintf("mul.f32 %%f1, %%f0, %%f0; mov.b32 %%r20, %%f1; shfl.sync.bfly.b32 %%r21, %%r20, %d, 31, -1; "+
		"mov.b32 %%f2, %%r21; fma.rn.f32 %%f1, %%f0, %%f0, %%f2;\n", mask)
}

const (
	loadOwn     = "ld.global.f32 %f0, [%rd11];\n"
	storeOne    = "\nst.global.f32 [%rd2], %f1;"
	storeShared = "mov.b32 %r20, %f1; st.shared.b32 [%r5], %r20;"
)

// TestReplicas proves that threads that hold one element may store it with different rounding, and that other threads
// may not store different values.
func TestReplicas(t *testing.T) {
	// What 64 elements give in two replicated pairs of warps, through shared memory, as Triton 3.9 compiles tl.sum(v * v).
	through := "and.b32 %r10, %r2, 63; mul.wide.u32 %rd20, %r10, 4; add.s64 %rd20, %rd1, %rd20;" +
		"ld.global.f32 %f0, [%rd20];" +
		contracted(16) + butterfly(8, 4, 2, 1) + "shr.u32 %r11, %r2, 3; and.b32 %r11, %r11, 4; add.s32 %r11, %r5, %r11;" +
		"mov.b32 %r20, %f1; st.shared.b32 [%r11], %r20; bar.sync 0;" +
		"and.b32 %r12, %r4, 4; add.s32 %r12, %r5, %r12; ld.shared.f32 %f1, [%r12];"
	// Means of lanes are combined by (n, mean) pairs, which no single instruction does symmetrically.
	welford := func(mask int) string {
		return fmt.Sprintf("mov.b32 %%r20, %%f1; shfl.sync.bfly.b32 %%r21, %%r20, %d, 31, -1; mov.b32 %%f2, %%r21;"+
			"mov.b32 %%r22, %%f3; shfl.sync.bfly.b32 %%r23, %%r22, %[1]d, 31, -1; mov.b32 %%f4, %%r23;"+
			"add.f32 %%f5, %%f3, %%f4; div.full.f32 %%f6, %%f4, %%f5; sub.f32 %%f7, %%f2, %%f1;"+
			"fma.rn.f32 %%f1, %%f7, %%f6, %%f1; mov.f32 %%f3, %%f5;\n", mask)
	}
	// ownWarp stores a sum of each warp at a place of its own, which code leaves in %r11.
	ownWarp := func(place string) string {
		return loadOwn + contracted(16) + butterfly(8, 4, 2, 1) + place +
			"add.s32 %r11, %r5, %r11; mov.b32 %r20, %f1; st.shared.b32 [%r11], %r20;"
	}
	tests := []struct {
		name    string
		threads int
		body    string
		race    bool
	}{
		{"contracted sum of a warp", 32, loadOwn + contracted(16) + butterfly(8, 4, 2, 1) + storeOne, false},
		{"contracted sum in shared memory", 32, loadOwn + contracted(16) + butterfly(8, 4, 2, 1) + storeShared, false},
		{"contracted sum of 64 elements in four warps", 128, through + butterfly(1) + storeOne, false},
		{"means of means", 32, "mad.lo.s32 %r10, %r3, %r3, 1; cvt.rn.f32.u32 %f1, %r10;" +
			"sin.approx.f32 %f1, %f1; mov.f32 %f3, 0f3F800000;" + welford(16) + welford(8) +
			welford(4) + welford(2) + welford(1) + storeOne, false},
		{"sum of a loop", 32, "mov.u32 %r10, 0; mov.f32 %f3, 0f00000000; L: " + loadOwn + contracted(16) +
			butterfly(8, 4, 2, 1) + "fma.rn.f32 %f3, %f1, 0f3EAAAAAB, %f3; add.s32 %r10, %r10, 1;" +
			"setp.lt.u32 %p1, %r10, %r1; @%p1 bra L; mov.f32 %f1, %f3;" + storeOne, false},

		{"two sums that are packed for their last step", 32, loadOwn + contracted(16) + butterfly(8, 4, 2) +
			"mov.b32 %r20, %f1; shfl.sync.bfly.b32 %r21, %r20, 1, 31, -1; cvt.u64.u32 %rd20, %r20; cvt.u64.u32 %rd21, %r21;" +
			"shl.b64 %rd21, %rd21, 32; or.b64 %rd20, %rd20, %rd21; mov.b64 {%r22, %r23}, %rd20; mov.b32 %f1, %r22;" +
			"mov.b32 %f2, %r23; add.f32 %f1, %f1, %f2;" + storeOne, false},
		{"rows of a matrix", 32, loadOwn + contracted(16) + butterfly(8) + "mov.b32 %r20, %f1; and.b32 %r10, %r2, 1;" +
			"shl.b32 %r10, %r10, 4; add.s32 %r10, %r5, %r10; stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r10], {%r20};", false},

		// Triton 3.9 swizzles addresses by bfe.s32, of which the sign is the mask of a bit of the thread's index.
		{"a place by a signed field", 64, ownWarp("bfe.s32 %r11, %r2, 5, 1; and.b32 %r11, %r11, 4;"), false},
		{"a place by a permutation of bytes", 64, ownWarp("prmt.b32 %r11, %r2, 0, 0x4440; shr.u32 %r11, %r11, 5;" +
			"shl.b32 %r11, %r11, 2;"), false},
		{"a place by a table of three bits", 64, ownWarp("lop3.b32 %r11, %r2, 32, 0, 0xc0; shr.u32 %r11, %r11, 3;"), false},
		{"a place by a field that is put in", 64, ownWarp("shr.u32 %r10, %r2, 5; bfi.b32 %r11, %r10, 0, 2, 1;"), false},
		{"a place by a funnel", 64, ownWarp("shf.r.wrap.b32 %r11, %r2, 0, 5; shl.b32 %r11, %r11, 2;"), false},
		{"a sum and the sign of a field", 32, loadOwn + contracted(16) + butterfly(8, 4, 2, 1) +
			"bfe.s32 %r10, %r2, 4, 1; cvt.rn.f32.s32 %f0, %r10; fma.rn.f32 %f1, %f0, 0f3E000000, %f1;" + storeOne, true},

		{"rows of a matrix that differ", 32, loadOwn + contracted(16) + butterfly(8) + "mov.b32 %r20, %f1;" +
			"and.b32 %r10, %r2, 2; shl.b32 %r10, %r10, 4; add.s32 %r10, %r5, %r10;" +
			"stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r10], {%r20};", true},
		{"columns of a matrix", 32, loadOwn + contracted(16) + butterfly(8) + "mov.b32 %r20, %f1; and.b32 %r10, %r2, 1;" +
			"shl.b32 %r10, %r10, 4; add.s32 %r10, %r5, %r10;" +
			"stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%r10], {%r20};", true},
		{"halves of another order", 32, loadOwn + contracted(16) + butterfly(8, 4, 2) + "mov.b32 %r20, %f1;" +
			"shfl.sync.bfly.b32 %r21, %r20, 1, 31, -1; mov.b64 %rd20, {%r20, %r21}; mov.b64 {%r22, %r23}, %rd20;" +
			"mov.b32 %f1, %r22; mov.b32 %f2, %r23; sub.f32 %f1, %f1, %f2;" + storeOne, true},
		{"a value of each lane", 32, loadOwn + "mov.f32 %f1, %f0;" + storeOne, true},
		{"a value of each lane in shared memory", 32, loadOwn + "mov.f32 %f1, %f0;" + storeShared, true},
		{"a sum of half the warp", 32, loadOwn + contracted(8) + butterfly(4, 2, 1) + storeOne, true},
		{"a sum without neighbors", 32, loadOwn + contracted(16) + butterfly(8, 4, 2) + storeOne, true},
		{"each warp's sum by its first lane", 128, loadOwn + contracted(16) + butterfly(8, 4, 2, 1) +
			"and.b32 %r10, %r2, 31; setp.eq.u32 %p1, %r10, 0; @%p1 st.global.f32 [%rd2], %f1;", true},
		{"each warp's sum by all lanes", 64, loadOwn + contracted(16) + butterfly(8, 4, 2, 1) + storeOne, true},
		{"a difference", 32, loadOwn + "mov.b32 %r20, %f0; shfl.sync.bfly.b32 %r21, %r20, 1, 31, -1; mov.b32 %f2, %r21;" +
			"sub.f32 %f1, %f0, %f2;" + butterfly(16, 8, 4, 2) + storeOne, true},
		{"a sum and a value of each lane", 32, loadOwn + contracted(16) + butterfly(8, 4, 2, 1) + "add.f32 %f1, %f1, %f0;" +
			storeOne, true},
		{"a sum and a bit of the lane", 32, loadOwn + contracted(16) + butterfly(8, 4, 2, 1) +
			"cvt.rn.f32.u32 %f0, %r2; fma.rn.f32 %f1, %f0, 0f34000000, %f1;" + storeOne, true},
		{"a small value of each lane", 32, loadOwn + "min.f32 %f1, %f0, 0f3F000000;" + storeOne, true},
		{"two ways", 32, loadOwn + contracted(16) + butterfly(8, 4, 2, 1) + "setp.lt.u32 %p1, %r2, 16; @%p1 bra L;" +
			"add.f32 %f1, %f1, 0f3F800000; L: " + storeOne, true},
		{"two ways by a guard", 32, loadOwn + contracted(16) + butterfly(8, 4, 2, 1) + "setp.lt.u32 %p1, %r2, 16;" +
			"@%p1 add.f32 %f1, %f1, 0f3F800000;" + storeOne, true},
		{"a chosen value", 32, loadOwn + contracted(16) + butterfly(8, 4, 2, 1) + "setp.lt.u32 %p1, %r2, 16;" +
			"selp.f32 %f1, %f1, 0f3F800000, %p1;" + storeOne, true},
		{"from another lane's place", 32, "xor.b32 %r10, %r2, 5; mul.wide.u32 %rd20, %r10, 4; add.s64 %rd20, %rd1, %rd20;" +
			"ld.global.f32 %f1, [%rd20];" + storeOne, true},
		{"what an atomic operation gives", 32, "atom.global.add.u32 %r20, [%rd3], 1; mov.b32 %f1, %r20;" + storeOne, true},
		{"partners in another order", 32, loadOwn + "mov.b32 %r20, %f0; shfl.sync.up.b32 %r21, %r20, 1, 0, -1;" +
			"mov.b32 %f2, %r21; add.f32 %f1, %f0, %f2;" + butterfly(16, 8, 4, 2) + storeOne, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := loadText(t, kernelText(test.body))
			if got, list := replicaRace(t, p, test.threads); got != test.race || !test.race && list != "" {
				t.Errorf("race = %v, want %v: %v", got, test.race, list)
			}
			for i := range p.code { // nothing is a replica: what threads store does differ
				p.replica.known[replicaKey{p.code[i].index, Dim{test.threads, 1, 1}}] = sameOperands{}
			}
			p.replica.last.Store(nil)
			if got, list := replicaRace(t, p, test.threads); !got {
				t.Errorf("findings without replicas: %v, want a race", list)
			}
		})
	}
}

// replicaRace reports whether there is a race in a launch on numbers whose sums are rounded, and all findings.
func replicaRace(t *testing.T, p *Program, threads int) (race bool, findings string) {
	values := make([]float64, 128)
	for i := range values { // of two products the sum is rounded, and further ones would hide that
		if values[i] = 0x1p-40 * float64(i); i%32 == 0 || i%32 == 16 {
			values[i] = math.Sin(float64(5*i*i + 1))
		}
	}
	l := textLaunch(1, threads)
	l.Args[0].Buffer = encoded(dtype.Float32, values)
	l.Args[3].Value = word(3)
	r := run(t, p, l)
	for i := range r.Findings {
		race = race || r.Findings[i].Class == Race
	}
	return race, list(r)
}

// TestReplicasOfMany proves that a slice that is too large is given up, and that the answer is no.
func TestReplicasOfMany(t *testing.T) {
	body := loadOwn + contracted(16) + butterfly(8, 4, 2, 1) +
		strings.Repeat("add.f32 %f1, %f1, 0f3F800000;\n", sliceLimit) + storeOne
	p := loadText(t, kernelText(body))
	for i := range p.code {
		if in := &p.code[i]; in.facts.rule == stores && p.replicas(in, Dim{32, 1, 1}, 0, 1) {
			t.Errorf("%s: replicas, want no answer", in.src.Mnemonic())
		}
	}
}
