package ptxvm

import (
	"fmt"
	"strings"
	"testing"
)

// This file implements a pipeline of bulk copies as producers and consumers write them: stages with a barrier that is
// full and one that is empty, whose phases change with every round.

// bulkPipeline is the text of a kernel with a producer and two consumer warps that add up tiles of x, stage after
// stage. wait is what the producer does before it fills a stage again, and arrive what consumers do after they have
// read it.
type bulkPipeline struct {
	stages, tiles int
	arrivals      int // at barriers that are empty
	wait, arrive  string
	between       string // in front of the reads of a consumer, after it has waited
}

const (
	pipelineWait = "NOTYET: mbarrier.try_wait.parity.shared.b64 %p4, [%r13+64], %r14; @!%p4 bra NOTYET;"
	pipelineFull = "NOTFULL: mbarrier.try_wait.parity.shared.b64 %p4, [%r13], %r14; @!%p4 bra NOTFULL;"
)

func (k *bulkPipeline) text() string {
	var init strings.Builder
	for i := range k.stages {
		fmt.Fprintf(&init, "mbarrier.init.shared.b64 [s+%d], 1; mbarrier.init.shared.b64 [s+%d], %d;\n", 384+8*i, 448+8*i,
			k.arrivals)
	}
	next := fmt.Sprintf(`
add.u32 %%r11, %%r11, 128; add.u32 %%r13, %%r13, 8; add.u32 %%r15, %%r15, 1;
setp.lt.u32 %%p5, %%r15, %d; @%%p5 bra SAME#;
mov.u32 %%r15, 0; mov.u32 %%r11, %%r5; add.u32 %%r13, %%r5, 384; xor.b32 %%r14, %%r14, 1;
SAME#:
add.u32 %%r16, %%r16, 1; setp.lt.u32 %%p5, %%r16, %d;
`, k.stages, k.tiles)
	return kernelText(`
setp.ne.u32 %p1, %r2, 0;
@%p1 bra READY;
` + init.String() + `fence.mbarrier_init.release.cluster;
READY:
bar.sync 0;
and.b32 %r8, %r2, 31;
setp.ne.u32 %p2, %r8, 0;
mov.u32 %r11, %r5; add.u32 %r13, %r5, 384; mov.u32 %r15, 0; mov.u32 %r16, 0;
setp.ge.u32 %p1, %r2, 32;
@%p1 bra CONSUMER;
@%p2 bra ENDS;
mov.u32 %r14, 1;
mov.b64 %rd20, %rd1;
PRODUCE:
` + k.wait + `
mbarrier.arrive.expect_tx.shared.b64 _, [%r13], 128;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r11], [%rd20], 128, [%r13];
add.s64 %rd20, %rd20, 128;
` + strings.ReplaceAll(next, "#", "P") + `
@%p5 bra PRODUCE;
bra ENDS;
CONSUMER:
mov.u32 %r14, 0; mov.u32 %r18, 0;
CONSUME:
` + pipelineFull + k.between + `
shl.b32 %r9, %r8, 2; add.u32 %r9, %r9, %r11;
ld.shared.u32 %r17, [%r9]; add.u32 %r18, %r18, %r17;
` + k.arrive + strings.ReplaceAll(next, "#", "C") + `
@%p5 bra CONSUME;
add.s64 %rd22, %rd12, -128;
st.global.u32 [%rd22], %r18;
ENDS:`)
}

// launch has tiles whose words are all different.
func (k *bulkPipeline) launch() (*Launch, []byte) {
	x := words(32 * k.tiles)
	for i := range 32 * k.tiles {
		putBytes(x[4*i:], uint64(i*i), 4)
	}
	y := make([]byte, 256)
	return &Launch{Grid: line(1), Block: line(96), MaxSteps: 1 << 24, Args: []Arg{{Name: "x", Buffer: x},
		{Name: "y", Buffer: y}, {Name: "z", Buffer: words(64)}, {Value: word(64)}}}, y
}

func TestBulkPipeline(t *testing.T) {
	const (
		every = "mbarrier.arrive.shared.b64 _, [%r13+64];"
		first = "@!%p2 mbarrier.arrive.shared.b64 _, [%r13+64];"
	)
	for _, c := range []struct {
		name string
		bulkPipeline
		racy bool
	}{
		{"two stages", bulkPipeline{2, 9, 64, pipelineWait, every, ""}, false},
		{"three stages", bulkPipeline{3, 9, 64, pipelineWait, every, ""}, false},
		{"one stage", bulkPipeline{1, 9, 64, pipelineWait, every, ""}, false},
		{"a lane arrives for its warp", bulkPipeline{2, 9, 2, pipelineWait, "bar.warp.sync -1;" + first, ""}, false},
		{"a lane waits for its warp", bulkPipeline{2, 9, 2, pipelineWait, "bar.warp.sync -1;" + first,
			"bar.warp.sync -1;"}, false},
		{"one warp is enough", bulkPipeline{2, 9, 32, pipelineWait, "setp.ge.u32 %p6, %r2, 64; @!%p6 " + every, ""}, true},
		{"a lane does not wait for its warp", bulkPipeline{2, 9, 2, pipelineWait, first, ""}, true},
		{"arrivals before the reads", bulkPipeline{2, 9, 64, pipelineWait, "", every}, true},
	} {
		l, y := c.launch()
		r := run(t, loadText(t, c.text()), l)
		found := false
		for i := range r.Findings {
			found = found || r.Findings[i].Class == Race || r.Findings[i].Class == AsyncHazard
		}
		if found != c.racy || !c.racy && len(r.Findings) > 0 {
			t.Errorf("%s: %v, want a race: %v", c.name, r.Findings, c.racy)
		}
		for lane := 0; lane < 64 && !c.racy; lane++ {
			want := uint32(0)
			for tile := range c.tiles {
				n := uint32(32*tile + lane%32)
				want += n * n
			}
			if got := uint32(getBytes(y[4*lane:], 4)); got != want {
				t.Fatalf("%s: lane %d has %d, want %d", c.name, lane, got, want)
			}
		}
	}
}
