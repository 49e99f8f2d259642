package litmus

import (
	"fmt"
	"slices"
	"strings"
)

// This file implements verdicts and outcomes.

// Verdict is what the axioms say of a program.
type Verdict uint8

// Verdicts.
const (
	Undecided Verdict = iota
	Silent            // no execution has a race
	Note              // lanes of one instruction store one value to one place, and nothing else races
	SameValue         // so do other instructions, warps or blocks: a race by the letter that no value shows
	Race              // some execution has a race
)

func (v Verdict) String() string {
	return [...]string{"undecided", "silent", "note", "race of equal values", "race"}[v]
}

// Decision is a verdict with its witness.
type Decision struct {
	Verdict Verdict
	// Always is set if every execution has a race. One that only some have is seen if threads run in the right order.
	Always bool
	// InTurn, of other races, is set if there is one when threads run one after the other as they are written.
	InTurn bool
	// Reordered is set if no order of threads that executes one instruction after the other shows a race: only hardware
	// that reorders instructions does.
	Reordered bool
	First     string // what races in one of the executions: the two statements
	Second    string
	Async     bool // one of them is an asynchronous copy
}

// executions calls visit for each candidate, with causality order, until it returns false.
func (p *Program) executions(all bool, visit func(c *candidate) bool) error {
	x, traces, err := p.expand(all)
	if err != nil {
		return err
	}
	chosen := make([]trace, len(traces))
	var choose func(i int) bool
	choose = func(i int) bool {
		if i < len(traces) {
			for _, t := range traces[i] {
				chosen[i] = t
				if !choose(i + 1) {
					return false
				}
			}
			return true
		}
		if !x.explained(chosen) {
			return true
		}
		c := newCandidate(x, slices.Clone(chosen))
		po := c.fixed
		return c.meetings(func(edges [][2]int) bool {
			c.fixed = po.clone()
			for _, e := range edges {
				c.fixed[e[0]].add(e[1])
			}
			c.fixed.close()
			return c.fixed.cyclic() || c.orders(func() bool { return visit(c) })
		})
	}
	choose(0)
	return nil
}

// Decide says whether the program has a race.
func (p *Program) Decide() (Decision, error) {
	var d Decision
	seen := map[Verdict]bool{}
	err := p.executions(false, func(c *candidate) bool {
		v, pair := c.racing()
		if seen[v] {
			return true
		}
		c.consistent(func(relation) bool {
			seen[v] = true
			if v == Race {
				a, b := &c.events[pair[0]], &c.events[pair[1]]
				d.First, d.Second, d.Async = a.stmt.Text, b.stmt.Text, a.async || b.async
			}
			return false
		})
		return !seen[Race] || !seen[Silent]
	})
	if err != nil {
		return d, err
	}
	for v := range seen {
		d.Verdict = max(d.Verdict, v)
	}
	if d.Verdict == Undecided {
		return d, fmt.Errorf("%s: no execution ends", p.Name)
	}
	d.Always = d.Verdict == Race && len(seen) == 1
	if d.Verdict == Race && !d.Always {
		return d, p.schedules(&d)
	}
	return d, nil
}

// schedules says what it takes to see a race that only some executions have.
func (p *Program) schedules(d *Decision) error {
	d.Reordered = true
	return p.executions(false, func(c *candidate) bool {
		if v, _ := c.racing(); v != Race {
			return true
		}
		c.consistent(func(co relation) bool {
			d.Reordered = d.Reordered && !c.interleaved(co)
			d.InTurn = d.InTurn || c.inTurn(co)
			return d.Reordered || !d.InTurn
		})
		return d.Reordered || !d.InTurn
	})
}

// Allowed reports whether an execution ends in a state of which all conditions hold: "r == 1" of a register that one
// thread has, "[x] == 2" of the last value of a variable of one element.
func (p *Program) Allowed(conditions []string) (bool, error) {
	found := false
	err := p.executions(true, func(c *candidate) bool {
		if !c.registersHold(conditions) {
			return true
		}
		c.consistent(func(co relation) bool {
			found = c.memoryHolds(conditions, co)
			return !found
		})
		return !found
	})
	return found, err
}

// registersHold checks the conditions on registers.
func (c *candidate) registersHold(conditions []string) bool {
	for _, text := range conditions {
		if strings.HasPrefix(text, "[") {
			continue
		}
		var reg, cmp string
		var n uint64
		if _, err := fmt.Sscan(text, &reg, &cmp, &n); err != nil {
			panic(fmt.Sprintf("litmus: condition %q: %v", text, err))
		}
		holds := false
		for _, t := range c.traces {
			if v, ok := t.regs[reg]; ok {
				holds = (&Cond{Cmp: cmp}).holds(v.n, n)
			}
		}
		if !holds {
			return false
		}
	}
	return true
}

// memoryHolds checks the conditions on last values: some write that no other comes after in coherence order has it.
func (c *candidate) memoryHolds(conditions []string, co relation) bool {
	for _, text := range conditions {
		if !strings.HasPrefix(text, "[") {
			continue
		}
		var name, cmp string
		var n uint64
		if _, err := fmt.Sscan(strings.NewReplacer("[", "", "]", "").Replace(text), &name, &cmp, &n); err != nil {
			panic(fmt.Sprintf("litmus: condition %q: %v", text, err))
		}
		holds, written := false, false
		for w := range c.events {
			e := &c.events[w]
			if !e.write || c.x.prog.Vars[e.stmt.Place.Var].Name != name {
				continue
			}
			written = true
			last := true
			for v := range co[w].all {
				last = last && !c.overlaps[w].has(v)
			}
			holds = holds || last && (&Cond{Cmp: cmp}).holds(e.put.n, n)
		}
		if !written || !holds {
			return false
		}
	}
	return true
}
