package ptxvm

import (
	"cmp"
	"runtime"

	"gpuemu/internal/diag"
)

// This file implements the check for races with several workers.
//
// What the check says must not depend on who executes which block when. So blocks are first taken to be apart: none
// writes what another one reads or writes, but for atomic operations, and nobody writes to an input. Then their order
// cannot be seen, every block has its races for itself, and each worker keeps states of its own. If the states show in
// the end, or a worker sees before, that blocks are not apart, everything is forgotten: memory becomes what it was, and
// the launch is executed block after block, with all states in one place. Where blocks communicate there is one worker
// anyway, and only inputs are taken to stay as they are.

// runApart executes a launch that way. It reports false if that cannot be done or blocks are not apart.
func (p *Program) runApart(l *Launch, o order) (r *Result, done bool, err error) {
	together := p.communicates
	if !l.Checks.has(CheckRace) || o.fixed || l.Trace != nil || raceDetector && !l.apart && !together {
		return nil, false, nil
	}
	g, err := p.newGrid(l, o)
	if err != nil {
		return nil, false, err
	}
	g.apart = !together
	for _, b := range g.memory.buffers {
		b.unwritten = b.input
	}
	n := min(cmp.Or(max(l.Workers, 0), runtime.GOMAXPROCS(0)), l.Grid.Count())
	if together {
		n = 1
	}
	for n > 0 && g.bytes(n)+g.apartBytes(n) > cmp.Or(l.MaxMemory, usualMemory) {
		n--
	}
	if n == 0 {
		return nil, false, nil
	}
	before := g.copies()
	workers := g.execute(n)
	defer release(workers)
	if g.wrong.Load() || g.apart && g.overlap(workers) {
		g.restore(before)
		return nil, false, nil
	}
	if err := g.failed.Load(); err != nil {
		return nil, false, *err
	}
	if s := suspectsOf(workers); s != nil {
		g.restore(before)
		r, err := p.runFollowing(l, o, s)
		return r, true, err
	}
	return g.finish(workers), true, nil
}

// inputs marks the buffers that nobody is to write: of In arguments, with no other one that points into them and may be
// written to.
func (g *grid) inputs() {
	args := g.launch.Args
	written := make([]bool, len(args))
	for i := range args {
		if at := args[i].Of; at > 0 && args[i].Role != In {
			written[at-1] = true
		}
	}
	for _, b := range g.memory.buffers {
		for i := range args {
			if b.arg == &args[i] {
				b.input = args[i].Role == In && !written[i]
			}
		}
	}
}

// apartBytes is the memory of copies and states for some workers.
func (g *grid) apartBytes(workers int) (n int64) {
	for _, b := range g.memory.buffers {
		if !b.unwritten && !b.readOnly {
			n += int64(len(b.data)) + int64(workers)*int64(len(b.data)/4+pageWords)*stateBytes
		}
	}
	return n
}

// overlap reports whether a worker wrote to a word that another one accessed, but for atomic operations on both sides.
func (g *grid) overlap(workers []*worker) bool {
	for i := range g.memory.buffers {
		for j := range workers[0].shadow.racing.pages[i] {
			var pages []*page
			for _, w := range workers {
				if p := w.shadow.racing.pages[i][j]; p != nil {
					pages = append(pages, p)
				}
			}
			if len(pages) > 1 && g.prog.overlapping(pages) {
				return true
			}
		}
	}
	return false
}

func (p *Program) overlapping(pages []*page) bool {
	for i := range pageWords {
		there, written, plain := 0, false, false
		for _, x := range pages {
			c := &x[i]
			if c.empty() {
				continue
			}
			there++
			written = written || c.writer != 0
			for _, m := range [...]mark{c.writer, c.reader, c.other} {
				if m == 0 {
					continue
				}
				written = written || m.strong() && p.writes(m)
				plain = plain || !m.strong() || p.narrow(m)
			}
		}
		if there > 1 && written && plain {
			return true
		}
	}
	return false
}

// afford ends a launch whose states of races need more memory than is allowed.
func (g *grid) afford(states int64) {
	if limit := cmp.Or(g.launch.MaxMemory, usualMemory); !g.apart && g.bytes(1)+states > limit {
		g.fail(g.tooMuch(g.bytes(1)+states, limit))
	}
}

// tooManyStamps is the error of a launch that synchronizes more often than stamps can count.
func (g *grid) tooManyStamps() error {
	return diag.Errorf(Budget, "make the shapes smaller, or switch the check for races off",
		"%s synchronizes more than %d times", g.prog.Kernel.Name, maxStamp)
}
