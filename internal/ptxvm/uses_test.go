package ptxvm

import (
	"fmt"
	"testing"
)

// copyKernel lets both warps of a block load the words of x, one of which stores them again, changed: as Triton
// compiles a kernel in place whose tensor has fewer elements than the block has threads. Then the second warp does
// something; it has what it has loaded in %r10.
const copyKernel = "and.b32 %%r11, %%r2, 31; mul.wide.u32 %%rd20, %%r11, 4; add.s64 %%rd20, %%rd1, %%rd20;" +
	"setp.lt.u32 %%p1, %%r2, 32; setp.ge.u32 %%p2, %%r2, 32; ld.global.u32 %%r10, [%%rd20]; add.s32 %%r12, %%r10, 1000;" +
	"@%%p1 st.global.u32 [%%rd20], %%r12; @%%p1 bra DONE; %s DONE: ret;"

// TestUsesOfRaces proves that a race with a load counts where the value that was loaded is used, and nowhere else, in
// either order of the two warps.
func TestUsesOfRaces(t *testing.T) {
	for _, c := range []struct {
		name, text string
		race       bool
	}{
		{"nothing", "", false},
		{"a number is computed", "mul.lo.s32 %r13, %r10, %r10; mad.lo.s32 %r13, %r13, %r10, %r2;", false},
		{"a store whose guard is false", "@%p1 st.global.u32 [%rd13], %r12;", false},
		{"a store whose guard is false for this argument", "setp.gt.u32 %p3, %r11, %r1; @%p3 st.global.u32 [%rd13], %r12;",
			true},
		{"a store whose guard is false for all arguments", "setp.gt.u32 %p3, %r11, %r1; and.pred %p4, %p3, %p1;" +
			"@%p4 st.global.u32 [%rd13], %r12;", false},
		{"a store whose guard may be true for other arguments", "setp.gt.u32 %p3, %r11, %r1; and.pred %p4, %p3, %p2;" +
			"@%p4 st.global.u32 [%rd13], %r12;", true},
		{"a store", "st.global.u32 [%rd13], %r10;", true},
		{"a store of what was computed", "mul.lo.s32 %r13, %r2, %r12; add.s32 %r13, %r13, 1; st.global.u32 [%rd13], %r13;",
			true},
		{"a store of something else", "st.global.u32 [%rd13], %r2;", false},
		{"a store after the register has another value", "mov.u32 %r10, 7; st.global.u32 [%rd13], %r10;", false},
		{"a store of a value that some lanes have another one for",
			"setp.lt.u32 %p3, %r11, 31; @%p3 mov.u32 %r10, 7; st.global.u32 [%rd13], %r10;", true},
		{"a store to shared memory", "st.shared.u32 [%r6], %r10;", true},
		{"a store to local memory", "mov.u64 %rd21, a; st.local.u32 [%rd21], %r10;", true},
		{"an atomic operation", "red.global.add.u32 [%rd3], %r10;", true},
		{"an address", "and.b32 %r13, %r10, 15; mul.wide.u32 %rd21, %r13, 4; add.s64 %rd21, %rd2, %rd21;" +
			"ld.global.u32 %r14, [%rd21];", true},
		{"a branch", "setp.eq.s32 %p3, %r10, 5; @%p3 bra DONE; st.global.u32 [%rd13], %r2;", true},
		{"a branch over a number that nothing becomes of", "setp.eq.s32 %p3, %r10, 5; @%p3 bra L; mov.u32 %r13, 1; L:",
			false},
		{"a branch over a number that is stored where it is jumped over",
			"mov.u32 %r13, 2; setp.ne.s32 %p3, %r10, 5000; @%p3 bra L; mov.u32 %r13, 1; L: st.global.u32 [%rd13], %r13;", true},
		{"a branch over a number that is stored where it is not",
			"mov.u32 %r13, 2; setp.eq.s32 %p3, %r10, 5000; @%p3 bra L; mov.u32 %r13, 1; L: st.global.u32 [%rd13], %r13;", true},
		{"two ways to a number that nothing becomes of", "setp.eq.s32 %p3, %r10, 5; @%p3 bra L; mov.u32 %r13, 1;" +
			"bra.uni M; L: mov.u32 %r13, 2; mul.lo.s32 %r13, %r13, %r10; M:", false},
		{"two ways to a number that is stored, jump", "setp.eq.s32 %p3, %r10, 5000; @!%p3 bra L; mov.u32 %r13, 1;" +
			"bra.uni M; L: mov.u32 %r13, 2; M: st.global.u32 [%rd13], %r13;", true},
		{"two ways to a number that is stored, no jump", "setp.eq.s32 %p3, %r10, 5000; @%p3 bra L; mov.u32 %r13, 1;" +
			"bra.uni M; L: mov.u32 %r13, 2; M: st.global.u32 [%rd13], %r13;", true},
		{"a number that one of two ways leaves, and is stored", "mov.u32 %r13, 1; setp.eq.s32 %p3, %r10, 5000;" +
			"@!%p3 bra L; mov.u32 %r13, 3; bra.uni M; L: mov.u32 %r14, 2; M: st.global.u32 [%rd13], %r13;", true},
		{"a number that the other way leaves, and is stored", "mov.u32 %r13, 1; setp.eq.s32 %p3, %r10, 5000;" +
			"@%p3 bra L; mov.u32 %r14, 3; bra.uni M; L: mov.u32 %r13, 2; M: st.global.u32 [%rd13], %r13;", true},
		{"two ways of which one stores", "setp.eq.s32 %p3, %r10, 5000; @%p3 bra L; mov.u32 %r13, 1;" +
			"bra.uni M; L: st.global.u32 [%rd13], %r2; M:", true},
		{"a way back", "bra.uni B; A: mul.lo.s32 %r13, %r13, 2; bra.uni DONE; B: setp.eq.s32 %p3, %r10, 5;" +
			"mov.u32 %r13, 1; @%p3 bra A; mov.u32 %r13, 2; bra.uni A;", false},
		{"a way back to a store", "bra.uni B; A: st.global.u32 [%rd13], %r13; bra.uni DONE; B:" +
			"setp.eq.s32 %p3, %r10, 5; mov.u32 %r13, 1; @%p3 bra A; mov.u32 %r13, 2; bra.uni A;", true},
		{"a loop", "mov.u32 %r13, %r10; L: sub.s32 %r13, %r13, 2000; setp.gt.s32 %p3, %r13, 0; @%p3 bra L;", true},
		{"a guard", "setp.eq.s32 %p3, %r10, 5; @%p3 st.global.u32 [%rd13], %r2;", true},
		{"a guard of a number that nothing becomes of", "setp.eq.s32 %p3, %r10, 5; @%p3 mov.u32 %r13, 1;", false},
		{"a guard of a number that is stored", "mov.u32 %r13, 2; setp.ne.s32 %p3, %r10, 5000; @%p3 mov.u32 %r13, 1;" +
			"st.global.u32 [%rd13], %r13;", true},
		{"a guard that leaves a number that is stored", "mov.u32 %r13, 2; setp.eq.s32 %p3, %r10, 5000;" +
			"@%p3 mov.u32 %r13, 1; st.global.u32 [%rd13], %r13;", true},
		{"a condition that decides nothing", "setp.eq.s32 %p3, %r10, 5; or.pred %p4, %p3, %p2;" +
			"@%p4 st.global.u32 [%rd13], %r2;", false},
		{"a condition that decides", "setp.eq.s32 %p3, %r10, 5; or.pred %p4, %p3, %p1; @%p4 st.global.u32 [%rd13], %r2;",
			true},
		{"a choice of something else", "selp.b32 %r13, %r2, %r10, %p2; st.global.u32 [%rd13], %r13;", false},
		{"a choice", "selp.b32 %r13, %r10, %r2, %p2; st.global.u32 [%rd13], %r13;", true},
		{"a value that chooses", "setp.eq.s32 %p3, %r10, 5; selp.b32 %r13, 1, 2, %p3; st.global.u32 [%rd13], %r13;",
			true},
		{"another lane that does nothing", "shfl.sync.bfly.b32 %r13, %r10, 1, 31, -1; add.s32 %r13, %r13, %r10;",
			false},
		{"another lane that stores it", "mov.u32 %r13, %r2; setp.lt.u32 %p3, %r11, 1; selp.b32 %r14, %r2, %r10, %p3;" +
			"shfl.sync.bfly.b32 %r13, %r14, 1, 31, -1; @%p3 st.global.u32 [%rd13], %r13;", true},
		{"a lane that another value comes to", "setp.lt.u32 %p3, %r11, 1; selp.b32 %r14, %r10, %r2, %p3;" +
			"shfl.sync.bfly.b32 %r13, %r14, 1, 31, -1; @%p3 st.global.u32 [%rd13], %r13;", false},
		{"the number of a lane", "and.b32 %r14, %r10, 31; shfl.sync.idx.b32 %r13, %r2, %r14, 31, -1;", true},
		{"a vote", "setp.eq.s32 %p3, %r10, 5; vote.sync.any.pred %p4, %p3, -1;", true},
		{"a barrier", "and.b32 %r13, %r10, 1; setp.ne.s32 %p3, %r13, 5; barrier.sync %r13, 32;", true},
		{"words of a vector", "and.b32 %r13, %r11, 30; mul.wide.u32 %rd21, %r13, 4; add.s64 %rd21, %rd1, %rd21;" +
			"ld.global.v2.u32 {%r14, %r15}, [%rd21]; st.global.u32 [%rd13], %r15;", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i := range 2 { // forward and reverse: the load comes after the store, or before it
				p := loadText(t, kernelText(fmt.Sprintf(copyKernel, c.text)))
				r, err := p.run(textLaunch(1, 64), orderNumber(i, 0, 1))
				if err != nil {
					t.Fatal(err)
				}
				if found := len(r.Findings) == 1 && r.Findings[0].Class == Race; found != c.race || len(r.Findings) > 1 {
					t.Errorf("order %d: found %s, want a race: %v", i, list(r), c.race)
				}
			}
		})
	}
}

// TestUsesInLoops proves that a race is found by the one turn of a long loop whose value is used, and that a loop whose
// values nobody uses is silent.
func TestUsesInLoops(t *testing.T) {
	for _, c := range []struct {
		name, use string
		race      bool
	}{
		{"no turn", "", false},
		{"each turn", "st.global.u32 [%rd13], %r10;", true},
		{"one turn", "setp.eq.u32 %p3, %r20, 777; @%p3 mov.u32 %r21, %r10;", true},
		{"the last turn", "setp.eq.u32 %p3, %r20, 999; @%p3 mov.u32 %r21, %r10;", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			use := "mov.u32 %r20, 0; mov.u32 %r21, 0; LOOP: ld.global.u32 %r10, [%rd20];" + c.use +
				"add.u32 %r20, %r20, 1; setp.lt.u32 %p4, %r20, 1000; @%p4 bra LOOP; st.global.u32 [%rd13], %r21;"
			for i := range 2 {
				p := loadText(t, kernelText(fmt.Sprintf(copyKernel, use)))
				r, err := p.run(textLaunch(1, 64), orderNumber(i, 0, 1))
				if err != nil {
					t.Fatal(err)
				}
				if found := len(r.Findings) > 0; found != c.race {
					t.Errorf("order %d: found %s, want a race: %v", i, list(r), c.race)
				}
			}
		})
	}
}
