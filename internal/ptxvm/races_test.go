package ptxvm

import (
	"fmt"
	"strings"
	"testing"

	"gpuemu/internal/ptx"
)

// This file implements a suite of generated races, after the idea of Indigo (Liu and others, "The Indigo Program-
// Verification Microbenchmark Suite of Irregular Parallel Code Patterns", 2022): two accesses of all threads, what lies
// between them, where they go. Whether there is a race follows from all pairs of accesses, and not from what the
// emulator keeps.

const (
	raceBlocks  = 2
	raceThreads = 64 // of a block
)

// raceKind is an access.
type raceKind struct {
	name          string
	text          string // ADDR and VALUE stand for registers
	write, strong bool
	size, stride  int // bytes of an access, and from slot to slot
}

var raceKinds = []raceKind{
	{"load", "ld.SPACE.u32 %r20, [ADDR];", false, false, 4, 4},
	{"store", "st.SPACE.u32 [ADDR], VALUE;", true, false, 4, 4},
	{"volatile load", "ld.volatile.SPACE.u32 %r20, [ADDR];", false, true, 4, 4},
	{"volatile store", "st.volatile.SPACE.u32 [ADDR], VALUE;", true, true, 4, 4},
	{"atomic", "red.SPACE.add.u32 [ADDR], VALUE;", true, true, 4, 4},
	{"byte store", "st.SPACE.u8 [ADDR], VALUE;", true, false, 1, 1},
	{"vector load", "ld.SPACE.v2.u32 {%r20, %r21}, [ADDR];", false, false, 8, 8},
}

// raceMap says which slot a thread of n accesses.
type raceMap struct {
	name string
	slot func(i, n int) int
	text string // from %r3 to %r30; n - 1 is in %r28
}

var raceMaps = []raceMap{
	{"own", func(i, _ int) int { return i }, "mov.u32 %r30, %r3;"},
	{"lane beside", func(i, _ int) int { return i ^ 1 }, "xor.b32 %r30, %r3, 1;"},
	{"warp beside", func(i, _ int) int { return i ^ 32 }, "xor.b32 %r30, %r3, 32;"},
	{"reverse", func(i, n int) int { return n - 1 - i }, "sub.s32 %r30, %r28, %r3;"},
	{"next", func(i, n int) int { return (i + 1) % n }, "add.s32 %r30, %r3, 1; and.b32 %r30, %r30, %r28;"},
	{"strided", func(i, n int) int { return 5 * i % n }, "mul.lo.s32 %r30, %r3, 5; and.b32 %r30, %r30, %r28;"},
	{"halved", func(i, _ int) int { return i / 2 }, "shr.u32 %r30, %r3, 1;"},
	{"one for all", func(int, int) int { return 0 }, "mov.u32 %r30, 0;"},
}

// raceSync is what lies between the accesses.
type raceSync struct {
	name  string
	text  string
	order int  // what it orders
	clash bool // it races by itself
}

// What a synchronisation orders.
const (
	ordersNothing = iota
	ordersWarp    // lanes of a warp
	ordersBlock
	ordersGrid
)

// meetAll lets all blocks wait for each other through a counter in global memory.
func meetAll(before, add, load string) string {
	return "bar.sync 0; setp.ne.s32 %p5, %r2, 0; @%p5 bra MET; " + before + add + ".add.u32 %r22, [%rd3], 1; POLL: " +
		load + ".u32 %r23, [%rd3]; setp.lt.u32 %p6, %r23, 2; @%p6 bra POLL; " + before + " MET: bar.sync 0;"
}

var raceSyncs = []raceSync{
	{"nothing", "", ordersNothing, false},
	{"fence", "membar.gl;", ordersNothing, false},
	{"barrier of warps", "bar.warp.sync -1;", ordersWarp, false},
	{"barrier of blocks", "bar.sync 0;", ordersBlock, false},
	{"fence, barrier of blocks", "membar.gl; bar.sync 0;", ordersBlock, false},
	{"barrier of the grid", meetAll("membar.gl; ", "atom.global", "ld.volatile.global"), ordersGrid, false},
	{"barrier of the grid by release", meetAll("", "atom.acq_rel.gpu.global", "ld.acquire.gpu.global"), ordersGrid, false},
	{"barrier of the grid without fences", meetAll("", "atom.global", "ld.volatile.global"), ordersBlock, false},
	{"barrier of the grid with a fence for blocks", meetAll("membar.cta; ", "atom.global", "ld.volatile.global"),
		ordersBlock, false},
	{"barrier of the grid of block scope", meetAll("membar.gl; ", "atom.acq_rel.cta.global", "ld.volatile.global"),
		ordersGrid, true},
}

// raceFork is whether threads make both accesses, or some the first and some the second.
type raceFork struct {
	name string
	bit  int // of the index of the thread that chooses the first access; 0: all make both
	meet bool
}

var raceForks = []raceFork{
	{"all threads", 0, false},
	{"lanes of a warp part", 1, false},
	{"lanes of a warp part and meet", 1, true},
	{"warps part", 32, false},
}

// raceProgram is a program of the suite.
type raceProgram struct {
	shared        bool
	first, second raceKind
	to            raceMap // of the second access; the first goes to the thread's own slot
	sync          raceSync
	fork          raceFork
}

// racePrograms makes all of them. Two reads never race, and what orders blocks says nothing new of shared memory.
func racePrograms() (list []raceProgram) {
	for _, shared := range []bool{true, false} {
		for _, first := range raceKinds {
			for _, second := range raceKinds {
				for _, to := range raceMaps {
					if !first.write && !second.write {
						continue
					}
					for _, fork := range raceForks[1:] {
						list = append(list, raceProgram{shared, first, second, to, raceSyncs[0], fork})
					}
					for i, sync := range raceSyncs {
						if shared && i > 3 {
							break
						}
						list = append(list, raceProgram{shared, first, second, to, sync, raceForks[0]})
					}
				}
			}
		}
	}
	return list
}

func (p *raceProgram) String() string {
	space := "global"
	if p.shared {
		space = "shared"
	}
	return fmt.Sprintf("%s memory, %s: %s, %s, %s to %s", space, p.fork.name, p.first.name, p.sync.name, p.second.name,
		p.to.name)
}

// text is the kernel. Values are those of no other access, so that every write changes memory; what is loaded is used
// in the end.
func (p *raceProgram) text() string {
	space, base, initial := "global", "cvt.u64.u32 %rd20, %r31; add.s64 %rd20, %rd1, %rd20;", ""
	index := "mov.u32 %r28, 127;"
	if p.shared {
		space, base = "shared", "add.s32 %r32, %r5, %r31;"
		index = "mov.u32 %r28, 63; mov.u32 %r3, %r2;"
		initial = "shl.b32 %r31, %r2, 3; add.s32 %r31, %r31, %r5; st.shared.v2.u32 [%r31], {0, 0}; bar.sync 0;"
	}
	access := func(k raceKind, to raceMap, value int) string {
		address := map[bool]string{true: "%r32", false: "%rd20"}[p.shared]
		text := strings.NewReplacer("SPACE", space, "ADDR", address, "VALUE", "%r33").Replace(k.text)
		return fmt.Sprintf("%s mul.lo.s32 %%r31, %%r30, %d; %s add.s32 %%r33, %%r3, %d; %s\n", to.text, k.stride, base, value,
			text)
	}
	first, second := access(p.first, raceMaps[0], 1), access(p.second, p.to, 101)
	body := first + p.sync.text + "\n" + second
	if p.fork.bit != 0 {
		meet := ""
		if p.fork.meet {
			meet = "bar.warp.sync -1;"
		}
		body = fmt.Sprintf("and.b32 %%r34, %%r2, %d; setp.ne.s32 %%p1, %%r34, 0; @%%p1 bra ELSE;\n%s%s bra JOIN;\n"+
			"ELSE: %s %s JOIN: add.s32 %%r35, %%r2, 1;\n", p.fork.bit, first, meet, meet, second)
	}
	return kernelText("mov.u32 %r20, 0; mov.u32 %r21, 0;" + index + initial + "\n" + body +
		"add.s32 %r20, %r20, %r21; st.global.u32 [%rd12], %r20;")
}

// raceAccess is an access of one thread.
type raceAccess struct {
	block, warp, thread int
	from, to            int // bytes
	kind                *raceKind
	second              bool
}

// accesses are those of all threads.
func (p *raceProgram) accesses() (list []raceAccess) {
	for b := range raceBlocks {
		for t := range raceThreads {
			i, n := b*raceThreads+t, raceBlocks*raceThreads
			if p.shared {
				i, n = t, raceThreads
			}
			for second, k := range []*raceKind{&p.first, &p.second} {
				if p.fork.bit != 0 && (t&p.fork.bit != 0) != (second == 1) {
					continue
				}
				slot := i
				if second == 1 {
					slot = p.to.slot(i, n)
				}
				list = append(list, raceAccess{b, t / 32, t, slot * k.stride, slot*k.stride + k.size, k, second == 1})
			}
		}
	}
	return list
}

// races reports whether two accesses race.
func (p *raceProgram) races(x, y *raceAccess) bool {
	switch {
	case x.block == y.block && x.thread == y.thread, p.shared && x.block != y.block,
		x.to <= y.from || y.to <= x.from, !x.kind.write && !y.kind.write, x.kind.strong && y.kind.strong:
		return false
	case x.second == y.second: // one instruction: no thread is ordered with another one
		return true
	case x.block == y.block && x.warp == y.warp:
		return p.sync.order < ordersWarp && !p.fork.meet
	case x.block == y.block:
		return p.sync.order <= ordersWarp
	}
	return p.sync.order != ordersGrid
}

// racy is the truth about a program.
func (p *raceProgram) racy() bool {
	list := p.accesses()
	for i := range list {
		for j := range list[:i] {
			if p.races(&list[i], &list[j]) {
				return true
			}
		}
	}
	return p.sync.clash
}

// raceScore counts programs: those that race and are found, and those that do not and are reported.
type raceScore struct{ racy, found, sound, alarms int }

func (s *raceScore) add(racy, found bool) {
	count := func(n *int, is bool) {
		if is {
			*n++
		}
	}
	count(&s.racy, racy)
	count(&s.found, racy && found)
	count(&s.sound, !racy)
	count(&s.alarms, !racy && found)
}

// reported runs a program, and reports whether a race is found. Nothing else may be.
func (p *raceProgram) reported() (bool, error) {
	f, err := ptx.Parse("k.ptx", p.text())
	if err != nil {
		return false, err
	}
	program, err := Load(f, "")
	if err != nil {
		return false, err
	}
	l := textLaunch(raceBlocks, raceThreads)
	for i := range 3 {
		l.Args[i].Buffer = make([]byte, 8*raceBlocks*raceThreads) // vectors have two words a thread
	}
	l.MaxSteps = 1 << 20
	r, err := program.Run(l)
	if err != nil {
		return false, err
	}
	for _, f := range r.Findings {
		if f.Class != Race {
			return false, fmt.Errorf("found: %s", &f)
		}
	}
	return len(r.Findings) > 0, nil
}

// raceSuite runs every n-th program and tells of each whether it races and whether that is found.
func raceSuite(t *testing.T, every int, tell func(p *raceProgram, racy, found bool)) {
	t.Helper()
	all := racePrograms()
	for i := 0; i < len(all); i += every {
		p := &all[i]
		found, err := p.reported()
		if err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		racy := p.racy()
		if found && !racy {
			t.Errorf("%s: a false alarm", p)
		}
		tell(p, racy, found)
	}
}

// TestRaceSuite runs a part of the suite; TestChecksEvidence runs all of it.
func TestRaceSuite(t *testing.T) {
	var sum raceScore
	raceSuite(t, 37, func(_ *raceProgram, racy, found bool) { sum.add(racy, found) })
	if sum.racy < 50 || sum.sound < 50 || 100*sum.found < 95*sum.racy {
		t.Errorf("of %d programs that race %d are found; %d do not", sum.racy, sum.found, sum.sound)
	}
}
