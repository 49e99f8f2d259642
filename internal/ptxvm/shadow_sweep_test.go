package ptxvm

import "testing"

// TestRaceOfOneWord: all lanes read a word that a lane wrote. They are judged together, and counted one by one. The
// writer itself does not race.
func TestRaceOfOneWord(t *testing.T) {
	for _, tt := range []struct {
		name, value string
		count       int
	}{
		{"a lane of another warp wrote it", "32", 32},
		{"a lane of the warp wrote it", "5", 31 + 32},
	} {
		l := textLaunch(1, 64)
		r := run(t, loadText(t, kernelText(`
setp.eq.s32 %p1, %r2, `+tt.value+`;
@%p1 st.shared.u32 [s], %r2;
ld.shared.u32 %r10, [s];
st.global.u32 [%rd12], %r10;`)), l)
		races, count := 0, 0
		for i := range r.Findings {
			if r.Findings[i].Class == Race {
				races, count = races+1, count+r.Findings[i].Count
			}
		}
		if races != 1 || count != tt.count {
			t.Errorf("%s: %d races, %d times, want 1, %d times:\n%s", tt.name, races, count, tt.count, list(r))
		}
	}
}

// TestRaceOfOneWordAmongBlocks: the same lane of the same warp of another block is another thread.
func TestRaceOfOneWordAmongBlocks(t *testing.T) {
	l := textLaunch(2, 1)
	r := run(t, loadText(t, kernelText(`
setp.eq.s32 %p1, %r38, 0;
@%p1 st.global.u32 [%rd3], 5;
@!%p1 ld.global.u32 %r10, [%rd3];
@!%p1 st.global.u32 [%rd12], %r10;`)), l)
	if len(r.Findings) != 1 || r.Findings[0].Class != Race {
		t.Errorf("%s, want a race", list(r))
	}
}

// TestReplicasAreAskedOnce: lanes that race by one instruction ask for its operands one after the other, and need
// neither the lock nor the table of the program for it.
func TestReplicasAreAskedOnce(t *testing.T) {
	p := loadText(t, kernelText("st.global.u32 [%rd2], %r2;"))
	in, block := &p.code[len(p.code)-2], Dim{32, 1, 1}
	want := p.sameOperands(in, block)
	p.replica.mu.Lock() // whoever takes it again waits for ever
	defer p.replica.mu.Unlock()
	if got := p.sameOperands(in, block); got != want {
		t.Errorf("second answer %v, want %v", got, want)
	}
}
