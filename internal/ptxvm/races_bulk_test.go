package ptxvm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// This file implements tests of races between asynchronous copies and other accesses. Warp 0 is the producer, warps 1
// and 2 read. Every racy kernel stands beside a sound twin.

// copyBarriers are four barriers behind the tiles: two that are full and two that are empty, for some arrivals each.
func copyBarriers(full, empty string) string {
	return `
setp.ne.u32 %p1, %r2, 0;
@%p1 bra READY;
mbarrier.init.shared.b64 [s+384], ` + full + `;
mbarrier.init.shared.b64 [s+392], ` + full + `;
mbarrier.init.shared.b64 [s+400], ` + empty + `;
mbarrier.init.shared.b64 [s+408], ` + empty + `;
st.shared.u32 [s+480], 0;
fence.mbarrier_init.release.cluster;
READY:
bar.sync 0;
shr.u32 %r7, %r2, 5;
and.b32 %r8, %r2, 31;
setp.eq.u32 %p1, %r7, 1;
setp.eq.u32 %p3, %r7, 2;
setp.ne.u32 %p2, %r8, 0;
shl.b32 %r9, %r8, 2;
add.u32 %r9, %r9, %r5;
mul.wide.u32 %rd21, %r8, 4;
add.s64 %rd25, %rd2, %rd21;
and.b32 %r12, %r2, 63;
mul.wide.u32 %rd22, %r12, 4;
add.s64 %rd22, %rd2, %rd22;
`
}

// What producers and readers do. Labels are made unique where a text is used more than once.
const (
	fillTile = `
@!%p2 mbarrier.arrive.expect_tx.shared.b64 _, [s+384], 128;
@!%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%rd1], 128, [s+384];`
	fillMore  = "@!%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%rd1], 128, [s+384];\n"
	waitFull  = "FULL#: mbarrier.try_wait.parity.shared.b64 %p4, [s+384], 0; @!%p4 bra FULL#;\n"
	waitAgain = "AGAIN#: mbarrier.try_wait.parity.shared.b64 %p4, [s+384], 1; @!%p4 bra AGAIN#;\n"
	waitEmpty = "EMPTY#: mbarrier.try_wait.parity.shared.b64 %p4, [s+400], 0; @!%p4 bra EMPTY#;\n"
	readTile  = "ld.shared.u32 %r10, [%r9]; st.global.u32 [%rd22], %r10;\n"
	emptied   = "mbarrier.arrive.shared.b64 _, [s+400];\n"
	later     = "mov.u32 %r20, 0;\nLATE#: add.u32 %r20, %r20, 1; setp.lt.u32 %p6, %r20, 4000; @%p6 bra LATE#;\n"
	storeTile = `
@!%p2 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [s], 128;
cp.async.bulk.commit_group;
`
	readGroup = "cp.async.bulk.wait_group.read 0;\n"
	waitGroup = "cp.async.bulk.wait_group 0;\n"
	syncBlock = "bar.sync 0;\n"
	storeWord = "st.shared.u32 [%r9], 7;\n"
)

// tell sets a flag that orders nothing, and await waits for it.
func tell(n int) string { return fmt.Sprintf("st.relaxed.cta.shared.u32 [s+480], %d;\n", n) }

func await(n int) string {
	return fmt.Sprintf("UNTIL#: ld.relaxed.cta.shared.u32 %%r11, [s+480]; setp.ne.u32 %%p5, %%r11, %d;\n"+
		"@%%p5 bra UNTIL#;\n", n)
}

// roles is what the three warps do. Lane 0 of the producer asks for copies.
func roles(producer, first, second string) string {
	return `
@%p1 bra FIRST;
@%p3 bra SECOND;` + strings.ReplaceAll(producer, "#", "P") + "bra ENDS;\nFIRST:\n" +
		strings.ReplaceAll(first, "#", "A") + "bra ENDS;\nSECOND:\n" + strings.ReplaceAll(second, "#", "B") + "ENDS:\n"
}

// copyRace is a kernel with an asynchronous copy.
type copyRace struct {
	name, body string
	want       []Class // one of them; nil for none at all
}

var (
	aRace        = []Class{Race}
	hazard       = []Class{AsyncHazard}
	hazardOrRace = []Class{AsyncHazard, Race} // it depends on which warp comes first
)

func (c *copyRace) check(t *testing.T) {
	t.Helper()
	for _, blocks := range []int{1, 2} {
		l := textLaunch(blocks, 96)
		if blocks > 1 && strings.Contains(c.body, "[%rd2]") {
			continue // both would store there
		}
		r := run(t, loadText(t, kernelText(c.body)), l)
		if len(c.want) == 0 && len(r.Findings) > 0 && blocks == 1 {
			t.Errorf("%s: %s, want nothing", c.name, list(r))
		}
		wanted := func(f Finding) bool { return slices.Contains(c.want, f.Class) }
		if len(c.want) > 0 && !slices.ContainsFunc(r.Findings, wanted) {
			t.Errorf("%s: %v, want one of %v", c.name, r.Findings, c.want)
		}
	}
}

// TestBulkLoadRaces: what a bulk copy writes to shared memory, and what it overwrites.
func TestBulkLoadRaces(t *testing.T) {
	one, all := copyBarriers("1", "1"), copyBarriers("1", "32")
	for _, c := range []copyRace{
		{"both wait", one + roles(fillTile, waitFull+readTile, later+waitFull+readTile), nil},
		{"one does not wait", one + roles(fillTile, waitFull+readTile, later+readTile), aRace},
		{"one does not wait, early", one + roles(fillTile, later+waitFull+readTile, readTile), hazardOrRace},
		{"the producer does not wait", one + roles(fillTile+later+readTile, waitFull+readTile, ""), aRace},
		{"the producer waits", one + roles(fillTile+later+waitFull+readTile, waitFull+readTile, ""), nil},
		{"a stale phase was waited for", one + roles(fillTile, later+waitFull+readTile, waitAgain+readTile), hazardOrRace},
		{"a relaxed wait", one + roles(fillTile, waitFull+readTile,
			later+strings.ReplaceAll(waitFull, "parity.", "parity.relaxed.cta.")+readTile), aRace},
		{"a relaxed wait and a fence", one + roles(fillTile, waitFull+readTile,
			later+strings.ReplaceAll(waitFull, "parity.", "parity.relaxed.cta.")+"fence.acq_rel.cta;"+readTile), nil},
		{"one lane waits", one + roles(fillTile, "@%p2 bra ON; "+waitFull+"ON:\n"+readTile, ""), hazardOrRace},
		{"one lane waits, and the warp for it",
			one + roles(fillTile, "@%p2 bra ON; "+waitFull+"ON: bar.warp.sync -1;\n"+readTile, ""), nil},
		{"one warp waits, and the block for it",
			one + strings.ReplaceAll(roles(fillTile, waitFull, ""), "ENDS:", "ENDS: bar.sync 0;") + readTile, nil},
		{"another warp reads what the one has waited for", one + roles(fillTile, waitFull+
			"st.relaxed.cta.shared.u32 [s+480], 1;", "WAIT: ld.relaxed.cta.shared.u32 %r11, [s+480]; "+
			"setp.eq.u32 %p5, %r11, 0; @%p5 bra WAIT;"+readTile), aRace},
		{"it releases what it has waited for", one + roles(fillTile, waitFull+
			"st.release.cta.shared.u32 [s+480], 1;", "WAIT: ld.acquire.cta.shared.u32 %r11, [s+480]; "+
			"setp.eq.u32 %p5, %r11, 0; @%p5 bra WAIT;"+readTile), nil},
		{"refilled before it is empty", one + roles(fillTile+later+waitFull+fillTile, waitFull+readTile, ""), aRace},
		{"refilled when it is empty", all + roles(fillTile+waitEmpty+fillTile, waitFull+readTile+emptied, ""), nil},
		{"refilled when one lane has read", one + roles(fillTile+waitEmpty+fillTile,
			waitFull+readTile+"@%p2 bra OVER; "+emptied+"OVER:\n", ""), aRace},
		{"refilled when one lane knows of all", one + roles(fillTile+waitEmpty+fillTile,
			waitFull+readTile+"bar.warp.sync -1; @%p2 bra OVER; "+emptied+"OVER:\n", ""), nil},
		{"refilled after the release, before the read", all + roles(fillTile+waitEmpty+later+fillTile,
			waitFull+emptied+readTile, ""), aRace},
		{"written before the copy", one + roles("", storeWord+"fence.proxy.async; bar.warp.sync -1;"+
			fillTile+waitFull, ""), nil},
		{"written by another warp", one + roles(later+fillTile+waitFull, storeWord+"fence.proxy.async;", ""), aRace},
		{"written while the copy is under way", one + roles(fillTile+later+waitFull, storeWord, ""), hazard},
		{"written after it was waited for", one + roles(fillTile+waitFull, later+storeWord, ""), aRace},
		{"written after waiting", one + roles(fillTile+waitFull, later+waitFull+storeWord, ""), nil},
		{"asking does not end a copy that others have to arrive for", copyBarriers("2", "1") + roles(fillTile+
			tell(1)+await(2)+"@!%p2 mbarrier.arrive.shared.b64 _, [s+384];", waitFull+readTile,
			await(1)+later+readTile+tell(2)), hazard},
		{"what the one who waited first did before", one + roles(fillTile, "@!%p2 st.shared.u32 [s+256], 5;\n"+waitFull,
			later+waitFull+"ld.shared.u32 %r10, [s+256]; st.global.u32 [%rd22], %r10;\n"), aRace},
		{"two copies to one place", one + roles(fillTile+fillMore+waitFull, "", ""), hazard},
	} {
		c.check(t)
	}
}

// TestBulkSources: what copies read, in shared and global memory.
func TestBulkSources(t *testing.T) {
	one := copyBarriers("1", "1")
	const (
		storeGlobal = "add.s64 %rd23, %rd1, %rd21; st.global.u32 [%rd23], 7;\n"
		changeWord  = "st.shared.u32 [%r9], 9;\n"
		tiles       = storeWord + "fence.proxy.async; bar.sync 0;\n"
	)
	// Two barriers of the block: one after the copy was begun, one at the end.
	for _, c := range []copyRace{
		{"read, then overwritten", one + tiles + roles(storeTile+readGroup+syncBlock, syncBlock+changeWord, syncBlock),
			nil},
		{"overwritten while it is read", one + tiles + roles(storeTile+syncBlock+later+readGroup, syncBlock+changeWord,
			syncBlock), hazard},
		{"overwritten after others waited", one + tiles + roles(storeTile+syncBlock+readGroup, syncBlock+later+changeWord,
			syncBlock), aRace},
		{"read, then overwritten in global memory", one + roles(fillTile+waitFull+syncBlock, syncBlock+storeGlobal,
			syncBlock), nil},
		{"overwritten in global memory", one + roles(fillTile+syncBlock+later+waitFull, syncBlock+storeGlobal,
			syncBlock), hazard},
		{"overwritten in global memory after others waited", one + roles(fillTile+syncBlock+waitFull,
			syncBlock+later+storeGlobal, syncBlock), aRace},
		{"overwritten in global memory by the producer", one + roles(fillTile+"st.global.u32 [%rd1+64], 7;"+waitFull, "",
			""), hazard},
		{"overwritten beside in global memory", one + roles(fillTile+"st.global.u32 [%rd1+128], 7;"+waitFull, "", ""), nil},
	} {
		c.check(t)
	}
}

// TestBulkStoreRaces: what a bulk copy writes to global memory.
func TestBulkStoreRaces(t *testing.T) {
	one := copyBarriers("1", "1") + storeWord + "fence.proxy.async; bar.sync 0;\n"
	const read = "ld.global.u32 %r10, [%rd25]; mul.wide.u32 %rd23, %r2, 4; add.s64 %rd24, %rd3, %rd23; " +
		"st.global.u32 [%rd24], %r10;\n"
	for _, c := range []copyRace{
		{"waited for, then read", one + roles(storeTile+waitGroup+syncBlock, syncBlock+read, syncBlock), nil},
		{"read while it is written", one + roles(storeTile+syncBlock+later+waitGroup, syncBlock+read, syncBlock), hazard},
		{"only the source was waited for", one + roles(storeTile+readGroup+syncBlock+later+waitGroup, syncBlock+read,
			syncBlock), hazard},
		{"only the source was waited for, by the producer", one + roles(storeTile+readGroup+read+waitGroup, "", ""),
			hazard},
		{"read after others waited", one + roles(storeTile+syncBlock+waitGroup, syncBlock+later+read, syncBlock), aRace},
		{"read before", one + roles(syncBlock+storeTile+waitGroup, read+syncBlock, syncBlock), nil},
		{"read before, without a barrier", one + roles(later+storeTile+waitGroup, read, ""), aRace},
		{"written while it is written", one + roles(storeTile+"st.global.u32 [%rd2+4], 5;"+waitGroup, "", ""), hazard},
		{"written after it was written", one + roles(storeTile+waitGroup+"st.global.u32 [%rd2+4], 5;", "", ""), nil},
		{"never waited for", one + roles(storeTile, "", ""), nil},
	} {
		c.check(t)
	}
}
