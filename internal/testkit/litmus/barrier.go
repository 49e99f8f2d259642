package litmus

import (
	"fmt"
	"slices"
)

// This file implements barriers: who meets whom. The phases of a barrier depend on the order in which warps come to it,
// so all orders are played through, without regard to memory: what memory forbids leaves a circle in base causality.

// meetings calls visit with the edges of each way in which warps and lanes can meet, until it returns false. Ways in
// which a thread waits for ever are none.
func (c *candidate) meetings(visit func(edges [][2]int) bool) bool {
	lanes, ok := c.warpMeetings()
	if !ok {
		return true
	}
	plays := [][][2]int{nil}
	blocks := make([][]int, c.x.prog.Blocks()) // warps with code
	for i := range c.x.prog.Warps {
		b := c.x.prog.Warps[i].Block
		blocks[b] = append(blocks[b], i)
	}
	for _, warps := range blocks {
		var next [][][2]int
		ways := c.blockMeetings(warps)
		for _, p := range plays {
			for _, w := range ways {
				next = append(next, slices.Concat(p, w))
			}
		}
		plays = next
	}
	for _, p := range plays {
		if !visit(slices.Concat(lanes, p)) {
			return false
		}
	}
	return true
}

// warpMeetings pairs the bar.warp.sync of lanes: the first of a mask with the first of every lane in it, and so on.
func (c *candidate) warpMeetings() (edges [][2]int, ok bool) {
	type key struct {
		warp int
		mask uint32
	}
	arrivals := map[key]map[int][]int{} // by lane, in order
	for i := range c.events {
		e := &c.events[i]
		if e.kind != arrive || e.stmt.Op != OpWarpSync {
			continue
		}
		t := c.x.threads[e.thread]
		k := key{t.warp, e.stmt.Mask}
		if arrivals[k] == nil {
			arrivals[k] = map[int][]int{}
		}
		arrivals[k][t.lane] = append(arrivals[k][t.lane], i)
	}
	for k, lanes := range arrivals {
		count := -1
		for lane := range c.x.prog.Warps[k.warp].Lanes {
			if k.mask>>lane&1 == 0 {
				continue
			}
			if n := len(lanes[lane]); count < 0 {
				count = n
			} else if n != count {
				return nil, false
			}
		}
		for _, from := range lanes {
			for _, to := range lanes {
				for i := range from {
					edges = append(edges, [2]int{from[i], to[i] + 1}) // a wait follows its arrival
				}
			}
		}
	}
	return edges, true
}

// visitor is one barrier of the code of one warp, with the events of its lanes.
type visitor struct {
	stmt    *Stmt
	arrives []int
}

// play is a block on its way through its barriers.
type play struct {
	c      *candidate
	warps  []int
	lists  [][]visitor
	at     []int            // by warp: barriers passed or waited at
	stuck  []int            // by warp: the barrier it waits at, or -1
	phases map[int][][2]int // by barrier: who is there, as warp and place in its list
	edges  [][2]int
	seen   map[string]bool
	found  [][][2]int
}

// blockMeetings gives the edges of all ways through the barriers of a block.
func (c *candidate) blockMeetings(warps []int) [][][2]int {
	p := &play{c: c, warps: warps, phases: map[int][][2]int{}, seen: map[string]bool{}}
	for _, w := range warps {
		list, ok := c.barriersOf(w)
		if !ok {
			return nil
		}
		p.lists, p.at, p.stuck = append(p.lists, list), append(p.at, 0), append(p.stuck, -1)
	}
	p.next()
	return p.found
}

// barriersOf lists the barriers of a warp; its lanes have to come to the same ones.
func (c *candidate) barriersOf(warp int) ([]visitor, bool) {
	var list []visitor
	first := true
	for t, th := range c.x.threads {
		if th.warp != warp {
			continue
		}
		n := 0
		for i := range c.events {
			e := &c.events[i]
			if e.thread != t || e.kind != arrive || e.stmt.Op == OpWarpSync {
				continue
			}
			if first {
				list = append(list, visitor{stmt: e.stmt})
			}
			if n >= len(list) || list[n].stmt != e.stmt {
				return nil, false
			}
			list[n].arrives = append(list[n].arrives, i)
			n++
		}
		if n != len(list) {
			return nil, false
		}
		first = false
	}
	return list, true
}

// next lets each warp that can go on do so.
func (p *play) next() {
	done := true
	for w := range p.warps {
		if p.stuck[w] >= 0 {
			done = false
			continue
		}
		if p.at[w] < len(p.lists[w]) {
			done = false
			p.advance(w)
		}
	}
	if !done {
		return
	}
	for _, who := range p.phases {
		if len(who) > 0 {
			return // a barrier that some have arrived at and that is never complete
		}
	}
	sorted := slices.Clone(p.edges)
	slices.SortFunc(sorted, func(a, b [2]int) int { return (a[0]-b[0])*setLimit + a[1] - b[1] })
	if key := fmt.Sprint(sorted); !p.seen[key] {
		p.seen[key] = true
		p.found = append(p.found, sorted)
	}
}

// advance lets one warp arrive at its next barrier, goes on from there, and takes it back.
func (p *play) advance(w int) {
	v := p.lists[w][p.at[w]]
	id := v.stmt.N
	at, stuck := slices.Clone(p.at), slices.Clone(p.stuck)
	phase, edges := p.phases[id], p.edges
	p.phases[id] = append(slices.Clone(phase), [2]int{w, p.at[w]})
	p.at[w]++
	if v.stmt.Op == OpBarSync {
		p.stuck[w] = id
	}
	need := v.stmt.Count / 32
	if need == 0 {
		need = len(p.warps)
	}
	if len(p.phases[id]) == need {
		p.edges = slices.Concat(edges, p.complete(p.phases[id]))
		for _, who := range p.phases[id] {
			if p.stuck[who[0]] == id {
				p.stuck[who[0]] = -1
			}
		}
		p.phases[id] = nil
	}
	p.next()
	p.at, p.stuck, p.phases[id], p.edges = at, stuck, phase, edges
}

// complete gives the edges of a phase: from all that arrive to all that wait.
func (p *play) complete(phase [][2]int) [][2]int {
	var edges [][2]int
	for _, from := range phase {
		for _, to := range phase {
			waits := p.lists[to[0]][to[1]]
			if waits.stmt.Op != OpBarSync {
				continue
			}
			for _, a := range p.lists[from[0]][from[1]].arrives {
				for _, b := range waits.arrives {
					edges = append(edges, [2]int{a, b + 1})
				}
			}
		}
	}
	return edges
}
