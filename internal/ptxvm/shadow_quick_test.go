package ptxvm

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"gpuemu/internal/rng"
)

// accesses are lines that reach memory in ways that are sound, racy, undefined or outside, for bodies of kernelText.
// %r8 is a byte of shared memory that %d decides; %rd20 is one of z.
var accesses = []string{
	"st.shared.u32 [%r6], %r2;",
	"ld.shared.u32 %r20, [%r6];",
	"ld.shared.u32 %r21, [%r5];",
	"xor.b32 %r8, %r4, %d; add.s32 %r8, %r5, %r8; ld.shared.u32 %r22, [%r8];",
	"xor.b32 %r8, %r4, %d; add.s32 %r8, %r5, %r8; st.shared.u32 [%r8], %r22;",
	"and.b32 %r8, %r4, 60; add.s32 %r8, %r5, %r8; ld.shared.u32 %r23, [%r8];",
	"and.b32 %r8, %r4, %d; add.s32 %r8, %r5, %r8; st.shared.u32 [%r8], %r2;",
	"and.b32 %r8, %r4, 124; shl.b32 %r8, %r8, 2; add.s32 %r8, %r5, %r8; ld.shared.v4.u32 {%r24, %r25, %r26, %r27}, [%r8];",
	"and.b32 %r8, %r4, 124; shl.b32 %r8, %r8, 2; add.s32 %r8, %r5, %r8; st.shared.v4.u32 [%r8], {%r2, %r2, %r2, %r3};",
	"shr.u32 %r8, %r4, 1; add.s32 %r8, %r5, %r8; st.shared.b16 [%r8], %r2;",
	"shr.u32 %r8, %r4, 1; add.s32 %r8, %r5, %r8; ld.shared.u16 %r28, [%r8];",
	"shl.b32 %r8, %r4, 1; and.b32 %r8, %r8, 504; add.s32 %r8, %r5, %r8; st.shared.u64 [%r8], %rd4;",
	"bar.sync 0;", "bar.sync 0;", "bar.sync 0;", "bar.sync 0;", "bar.sync 0;", "bar.sync 0;", "bar.sync 0;",
	"setp.lt.u32 %p1, %r2, %d; @%p1 st.shared.u32 [%r6], %r3;",
	"setp.lt.u32 %p1, %r2, %d; @%p1 ld.shared.u32 %r20, [%r5+%d];",
	"setp.lt.u32 %p2, %r2, %d; @%p2 bra %L; st.shared.u32 [%r6+4], %r2; ld.shared.u32 %r21, [%r6+64]; %L:",
	"setp.lt.u32 %p2, %r2, %d; @%p2 bra %L; st.shared.u32 [%r6+4], %r2; bra %LE; %L: ld.shared.u32 %r21, [%r6+64]; %LE:",
	"bar.warp.sync -1;", "membar.cta;", "membar.gl;",
	"ld.global.u32 %r20, [%rd11];", "ld.global.u32 %r21, [%rd1];", "ld.global.u32 %r21, [%rd12];",
	"st.global.u32 [%rd12], %r20;", "st.global.u32 [%rd12], %r2;",
	"st.global.u32 [%rd12+%d], %r22;", "ld.global.u32 %r22, [%rd12+%d];",
	"st.global.u32 [%rd3], %r1;", "ld.global.u32 %r23, [%rd3+%d];",
	"red.shared.add.u32 [%r5], %r2;", "red.global.add.u32 [%rd13], %r2;", "red.global.add.u32 [%rd3], 1;",
	"add.s32 %r2, %r2, %r20; sub.s32 %r2, %r2, %r20;", "add.s32 %r20, %r22, 1;", "mad.lo.s32 %r22, %r2, 3, %r21;",
}

// tiles are lines of programs in which three warps read the same words, and some of them write there or wait for one
// another: %r8 is one of 32 words for the lanes of any warp, %r9 begins where it does and goes on in other steps.
var tiles = []string{
	"ld.shared.u32 %r20, [%r8];", "ld.shared.u32 %r21, [%r8];", "ld.shared.u32 %r22, [%r9];",
	"setp.%c.u32 %p1, %r2, %w; @%p1 ld.shared.u32 %r23, [%r8];",
	"setp.%c.u32 %p1, %r2, %w; @%p1 ld.shared.u32 %r23, [%r9];",
	"setp.%c.u32 %p1, %r2, %w; @%p1 st.shared.u32 [%r8], %r3;",
	"setp.%c.u32 %p1, %r2, %w; @%p1 st.shared.u32 [%r9], %r30;",
	"setp.%c.u32 %p1, %r2, %w; @%p1 red.shared.add.u32 [%r8], 1;",
	"setp.%c.u32 %p1, %r2, %w; @%p1 ld.shared.u16 %r24, [%r8+2];",
	"setp.lt.u32 %p1, %r2, 64; @!%p1 bra %L; bar.sync 1, 64; %L:",
	"setp.ge.u32 %p1, %r2, 32; @!%p1 bra %L; bar.sync 2, 64; %L:",
	"bar.sync 0;", "bar.sync 0;", "bar.sync 0;", "bar.sync 0;", "membar.cta;",
}

// tileProgram is one in which all words are set and ordered at first, but for some.
func tileProgram(seed uint64) string {
	s := rng.New(seed).Derive("tiles")
	var b strings.Builder
	b.WriteString("and.b32 %r8, %r4, 124; shr.u32 %r9, %r2, 5; mad.lo.s32 %r9, %r9, %r8, %r8;\n" +
		"add.s32 %r8, %r5, %r8; add.s32 %r9, %r5, %r9;\n")
	if s.Intn(8) > 0 {
		b.WriteString("st.shared.u32 [%r6], %r2; setp.ge.u32 %p1, %r2, 64; @%p1 st.shared.u32 [%r6+128], %r2; bar.sync 0;\n")
	}
	for i := range 3 + s.Intn(8) {
		line := strings.ReplaceAll(tiles[s.Intn(len(tiles))], "%c", []string{"lt", "ge"}[s.Intn(2)])
		line = strings.ReplaceAll(line, "%w", fmt.Sprint(32+32*s.Intn(2)))
		fmt.Fprintf(&b, ".loc 1 %d 1\n%s\n", i+1, strings.ReplaceAll(line, "%L", fmt.Sprint("L", i)))
	}
	return kernelText(b.String())
}

func accessProgram(seed uint64) string {
	s := rng.New(seed).Derive("accesses")
	var b strings.Builder
	for i := range 4 + s.Intn(10) {
		line := accesses[s.Intn(len(accesses))]
		for strings.Contains(line, "%d") {
			line = strings.Replace(line, "%d", fmt.Sprint(4*s.Intn(20)), 1)
		}
		fmt.Fprintf(&b, ".loc 1 %d 1\n%s\n", i+1, strings.ReplaceAll(line, "%L", fmt.Sprint("L", i)))
	}
	return kernelText(b.String())
}

func accessLaunch() *Launch {
	l := textLaunch(3, 96)
	for i := range l.Args[:3] {
		l.Args[i].Buffer = words(3 * 96)
	}
	l.Args[1].Uninitialised, l.Args[2].Role = true, InOut
	return l
}

// TestQuickChecks proves that quick checks find what the slow ones find, in the same words: those that count look at
// each lane.
func TestQuickChecks(t *testing.T) {
	t.Run("accesses", func(t *testing.T) { compareQuick(t, accessProgram, 1500) })
	t.Run("tiles", func(t *testing.T) { compareQuick(t, tileProgram, 2000) })
}

func compareQuick(t *testing.T, program func(seed uint64) string, programs int) {
	found := 0
	if testing.Short() {
		programs /= 10
	}
	for seed := range uint64(programs) {
		text := program(seed)
		p := loadText(t, text)
		quick, slow := accessLaunch(), accessLaunch()
		if seed%3 == 0 { // nothing else keeps a check from being quick
			quick.Checks, slow.Checks = CheckRace, CheckRace
		}
		slow.Counters = true
		got, says := outcome(t, p, quick)
		want, said := outcome(t, p, slow)
		if !reflect.DeepEqual(got, want) || says != said {
			t.Fatalf("seed %d: quick checks leave something else:\n%s\nslow ones:\n%s\n%s", seed, says, said, text)
		}
		if strings.Contains(says, ": race:") {
			found++
		}
	}
	if found < programs/10 || found > programs*9/10 {
		t.Errorf("%d of %d programs race", found, programs)
	}
}
