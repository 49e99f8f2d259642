package ptxvm

import (
	"math/rand/v2"
	"testing"
)

// knownBy is what a clock is to know, kept the simple way: the stamp by thread.
type knownBy map[uint64]uint32

func (k knownBy) and(other knownBy) knownBy {
	both := knownBy{}
	for _, m := range []knownBy{k, other} {
		for key, stamp := range m {
			both[key] = max(both[key], stamp)
		}
	}
	return both
}

// releasedBy is what a thread publishes that knows what known says.
func releasedBy(block uint32, warp, lane int, stamp uint32, known *clock) clock {
	c := clock{block: block, warp: warp, lanes: 1 << lane, stamp: stamp, by: former{
		mark: mark(stamp)<<stampAt | mark(warp)<<warpAt | mark(lane)<<laneAt, block: block}}
	if known != nil {
		c.from = append(c.from, known)
	}
	return c
}

// TestClocks lets threads publish and acquire at random, in turn on one word, and among several words, and compares
// what their clocks know with plain tables.
func TestClocks(t *testing.T) {
	for _, words := range []int{1, 3, 40} {
		random := rand.New(rand.NewPCG(15, uint64(words)))
		r := &racing{grid: &grid{budget: &budget{limit: 1 << 40}}}
		const threads = 48
		own, want := make([]*clock, threads), make([]knownBy, threads)
		at, wantAt := make([]*clock, words), make([]knownBy, words)
		for turn := range 4000 {
			r.tick()
			i, word := random.IntN(threads), random.IntN(words)
			block, warp, lane := uint32(i/16+1), i/8%2, i%8
			switch {
			case turn%3 == 0:
				own[i], want[i] = r.join(own[i], at[word]), want[i].and(wantAt[word])
			default:
				at[word] = r.join(at[word], r.newClock(releasedBy(block, warp, lane, r.stamp, own[i])))
				wantAt[word] = wantAt[word].and(want[i]).and(knownBy{threadKey(block, warp, lane): r.stamp})
			}
			for range 8 {
				j, x := random.IntN(threads), random.IntN(threads)
				key := threadKey(uint32(x/16+1), x/8%2, x%8)
				for _, stamp := range []uint32{1, max(want[j][key], 1), want[j][key] + 1} {
					f := former{mark: mark(stamp)<<stampAt | mark(x/8%2)<<warpAt | mark(x%8)<<laneAt, block: uint32(x/16 + 1)}
					if got, is := own[j].knows(&f), stamp <= want[j][key]; got != is {
						t.Fatalf("%d words, turn %d: knows(thread %d, stamp %d) = %v, want %v", words, turn, x, stamp, got, is)
					}
				}
			}
		}
	}
}

// TestClocksOfOneWord has a thousand threads that all release and acquire one word: their clocks share tables, and
// grow by what is new alone.
func TestClocksOfOneWord(t *testing.T) {
	r := &racing{grid: &grid{budget: &budget{limit: 1 << 40}}}
	const threads = 1024
	var own [threads]*clock
	var at *clock
	tables := map[*clockTable]bool{}
	for turn := range 8 * threads {
		r.tick()
		i := turn % threads
		own[i] = r.join(own[i], at)
		c := releasedBy(uint32(i/256+1), i/32%8, i%32, r.stamp, own[i])
		if at = r.join(at, r.newClock(c)); at.table != nil {
			tables[at.table] = true
		}
	}
	entries := 0
	for table := range tables {
		for _, h := range table.lanes {
			entries += len(h)
		}
	}
	if len(tables) != 1 || entries > 8*threads {
		t.Errorf("%d threads have %d tables with %d entries, want 1 with at most %d", threads, len(tables), entries,
			8*threads)
	}
}

// TestClocksOfTwoWords has threads that all release and acquire two words in turn: what the one publishes is part of
// what the other does, so each join is one of the two clocks. Without that, each copies what all threads before did.
func TestClocksOfTwoWords(t *testing.T) {
	r := &racing{grid: &grid{budget: &budget{limit: 1 << 40}}}
	const threads, turns = 1024, 8
	var own [threads]*clock
	var words [2]*clock
	for turn := range turns * threads {
		i := turn % threads
		for word := range words {
			r.tick()
			own[i] = r.join(own[i], words[word])
			c := releasedBy(uint32(i/256+1), i/32%8, i%32, r.stamp, own[i])
			words[word] = r.join(words[word], r.newClock(c))
		}
	}
	if releases := 2 * turns * threads; r.clocks != releases {
		t.Errorf("%d releases made %d clocks, want one each: joins are clocks that there were", releases, r.clocks)
	}
}
