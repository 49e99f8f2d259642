package ptxvm

import "testing"

// TestPackedAtomics: an operation on a packed type is a pair of operations on its elements (PTX ISA, "Packed
// Data-types"), so it is strong for those of 16 bits, and not for those of the whole word.
func TestPackedAtomics(t *testing.T) {
	const pair = "red.global.add.noftz.f16x2 [%rd2], %r20;"
	for _, c := range []struct {
		first, second string
		racy          bool
	}{
		{pair, pair, false},
		{pair, "red.global.add.noftz.f16 [%rd2], %h1;", false},
		{pair, "red.global.add.noftz.f16 [%rd2+2], %h1;", false},
		{"red.global.add.noftz.f16 [%rd2+2], %h1;", pair, false},
		{pair, "red.global.add.noftz.bf16x2 [%rd2], %r20;", false},
		{pair, "ld.relaxed.gpu.global.b16 %h2, [%rd2]; st.global.b16 [%rd2+64], %h2;", false},
		{pair, "ld.global.b16 %h2, [%rd2]; st.global.b16 [%rd2+64], %h2;", true},
		{pair, "mov.b16 %h2, 0x4000; st.global.b16 [%rd2], %h2;", true},
		{pair, "red.global.add.u32 [%rd2], 3;", true},
		{"red.global.add.u32 [%rd2], 3;", pair, true},
		{pair, "atom.global.exch.b32 %r21, [%rd2], 5;", true},
		{pair, "ld.relaxed.gpu.global.u32 %r21, [%rd2]; st.global.u32 [%rd2+64], %r21;", true},
		{pair, "red.global.add.u32 [%rd2+4], 3;", false},
		{"st.global.u32 [%rd2+32], 7; atom.release.gpu.global.add.noftz.f16x2 %r21, [%rd2], %r20;",
			"WAIT: ld.acquire.gpu.global.b16 %h2, [%rd2+2]; setp.eq.b16 %p3, %h2, 0; @%p3 bra WAIT;" +
				"ld.global.u32 %r21, [%rd2+32]; st.global.u32 [%rd2+64], %r21;", false},
		{"st.global.u32 [%rd2+32], 7; atom.relaxed.gpu.global.add.noftz.f16x2 %r21, [%rd2], %r20;",
			"WAIT: ld.acquire.gpu.global.b16 %h2, [%rd2+2]; setp.eq.b16 %p3, %h2, 0; @%p3 bra WAIT;" +
				"ld.global.u32 %r21, [%rd2+32]; st.global.u32 [%rd2+64], %r21;", true},
	} {
		r := run(t, loadText(t, kernelText(`
mov.b32 %r20, 0x3c003c00; mov.b16 %h1, 0x3c00;
setp.ne.u32 %p1, %r2, 0; @%p1 bra ENDS;
setp.ne.u32 %p2, %r38, 0; @%p2 bra SECOND;
`+c.first+"bra ENDS;\nSECOND:\n"+c.second+"\nENDS:")), textLaunch(2, 32))
		racy := false
		for i := range r.Findings {
			racy = racy || r.Findings[i].Class == Race
		}
		if racy != c.racy || !racy && len(r.Findings) > 0 {
			t.Errorf("%s | %s: %v, want a race: %v", c.first, c.second, r.Findings, c.racy)
		}
	}
}
