package ptxvm

import (
	"strings"
	"testing"
)

// byTriton is a kernel as Triton would write it: with its name for shared memory.
func byTriton(text string) string {
	return strings.Replace(text, ".visible .entry", ".extern .shared .align 16 .b8 global_smem[];\n.visible .entry", 1)
}

// TestProgramOrder proves that a scalar that a program about tensors loads and then stores is no race, that tensors and
// the other order are, and that all of them are in CUDA C++.
func TestProgramOrder(t *testing.T) {
	const (
		scalar  = "ld.global.u32 %r10, [%rd1]; setp.ne.s32 %p1, %r10, 0;"
		first   = "setp.eq.u32 %p2, %r2, 0;"
		decided = "@%p1 bra L; st.global.u32 [%rd12], %r2; L:"
	)
	for _, c := range []struct {
		name, text     string
		threads        int
		triton, inCUDA bool // whether there is a race
	}{
		{"a count that the first thread sets", scalar + first +
			"@%p2 atom.global.acq_rel.gpu.exch.b32 %r11, [%rd1], 7;" + decided, 64, false, true},
		{"a count that the last warp sets", scalar + "setp.eq.u32 %p2, %r2, 32; @%p2 st.global.u32 [%rd1], 7;" +
			decided, 64, false, true},
		{"a count that is read again", "mov.u32 %r12, 0; L0: " + scalar + first + "@%p2 st.global.u32 [%rd1], 7;" +
			"bar.sync 0; add.s32 %r12, %r12, 1; setp.lt.s32 %p3, %r12, 3;" + strings.ReplaceAll(decided, "L", "L1") +
			"bar.sync 0; @%p3 bra L0;", 64, false, true},
		{"a count that is read again without a barrier", "mov.u32 %r12, 0; L0: " + scalar + first +
			"@%p2 st.global.u32 [%rd1], %r12; add.s32 %r12, %r12, 1; setp.lt.s32 %p3, %r12, 3;" +
			strings.ReplaceAll(decided, "L", "L1") + "@%p3 bra L0;", 64, true, true},
		{"a count that is read after it is set", first + "@%p2 st.global.u32 [%rd1], 7;" + scalar + decided, 64, true, true},
		{"elements in place, by lanes of a warp", "xor.b32 %r11, %r2, 1; mul.wide.u32 %rd20, %r11, 4;" +
			"" +
			"add.s64 %rd20, %rd1, %rd20; ld.global.u32 %r10, [%rd20]; add.s32 %r12, %r10, 5; st.global.u32 [%rd11], %r12;",
			32, false, true},
		{"elements in place, by warps", "xor.b32 %r11, %r2, 32; mul.wide.u32 %rd20, %r11, 4;" +
			"" +
			"add.s64 %rd20, %rd1, %rd20; ld.global.u32 %r10, [%rd20]; add.s32 %r12, %r10, 5; st.global.u32 [%rd11], %r12;",
			64, true, true},
		{"elements that are stored and read by lanes of a warp", "st.global.u32 [%rd11], 7; xor.b32 %r11, %r2, 1;" +
			"mul.wide.u32 %rd20, %r11, 4; add.s64 %rd20, %rd1, %rd20; ld.global.u32 %r10, [%rd20];" +
			"st.global.u32 [%rd12], %r10;", 32, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := kernelText(c.text)
			for _, of := range []struct {
				text string
				want bool
			}{{byTriton(text), c.triton}, {text, c.inCUDA}} {
				for i := range 2 {
					l := textLaunch(1, c.threads)
					l.DynamicShared = 16
					clear(l.Args[0].Buffer[:4])
					r, err := loadText(t, of.text).run(l, orderNumber(i, 0, 1))
					if err != nil {
						t.Fatal(err)
					}
					if got := len(r.Findings) > 0; got != of.want {
						t.Errorf("order %d: race = %v, want %v: %s", i, got, of.want, list(r))
					}
				}
			}
		})
	}
}

// TestAboutTensors proves that kernels of Triton are known by their shared memory or by their debug information.
func TestAboutTensors(t *testing.T) {
	plain := kernelText("")
	section := func(text string) string { return plain + ".section .debug_info\n{\n" + text + "\n}\n" }
	for _, c := range []struct {
		name, text string
		want       bool
	}{
		{"nothing", plain, false},
		{"shared memory", byTriton(plain), true},
		{"producer", section(".b32 10\n.b8 8 // size\n.b8 1\n.b8 116 // producer\n.b8 114,105\n.b8 116\n.b8 111\n" +
			".b8 110\n.b8 0"), true},
		{"another producer", section(".b8 99\n.b8 108\n.b8 97\n.b8 110\n.b8 103\n.b8 0"), false},
		{"a longer name", section(".b8 116\n.b8 114\n.b8 105\n.b8 116\n.b8 111\n.b8 110\n.b8 115\n.b8 0"), false},
	} {
		if got := loadText(t, c.text).tensors; got != c.want {
			t.Errorf("%s: about tensors = %v, want %v", c.name, got, c.want)
		}
	}
}

// TestTurns proves that all warps of a program about tensors have loaded a scalar before one of them stores it, in any
// order of the warps: each thread stores its index if the scalar is zero.
func TestTurns(t *testing.T) {
	const load = "ld.global.u32 %r10, [%rd1]; setp.ne.s32 %p1, %r10, 0; setp.eq.u32 %p2, %r2, "
	const store = "@%p1 bra L; st.global.u32 [%rd12], %r2; L:"
	for _, c := range []struct{ name, text string }{
		{"exchange by the first thread", load + "0; @%p2 atom.global.acq_rel.gpu.exch.b32 %r11, [%rd1], 7;" + store},
		{"store by the last warp", load + "32; @%p2 st.global.u32 [%rd1], 7;" + store},
		{"after a barrier and by an address of its own", "add.s64 %rd20, %rd1, 0; bar.sync 0;" +
			strings.ReplaceAll(load, "%rd1", "%rd20") + "0; @%p2 st.global.u32 [%rd20], 7;" + store},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i := range 5 {
				const threads = 64
				l := textLaunch(1, threads)
				l.DynamicShared = 16
				clear(l.Args[0].Buffer[:4])
				r, err := loadText(t, byTriton(kernelText(c.text))).run(l, orderNumber(i, 1, 1))
				if err != nil || len(r.Findings) > 0 {
					t.Fatalf("order %d: %v, %s", i, err, list(r))
				}
				want := make([]uint32, threads)
				for thread := range want {
					want[thread] = uint32(thread)
				}
				equal(t, c.name, l.Args[1].Buffer[:4*threads], pack(want...))
			}
		})
	}
}
