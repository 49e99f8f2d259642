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
	most := cmp.Or(max(l.Workers, 0), runtime.GOMAXPROCS(0))
	if together {
		most = 1
	}
	for _, workers := range []int{most, 1} {
		r, done, short, err := p.runAlone(l, o, workers)
		if !short || err != nil {
			return r, done, err
		}
	}
	panic("ptxvm: internal error: one worker cannot run short without an error")
}

// runAlone is runApart with a number of workers. It reports short where they need more memory than there is, as one
// worker might not.
func (p *Program) runAlone(l *Launch, o order, workers int) (r *Result, done, short bool, err error) {
	g, err := p.newGrid(l, o)
	if err != nil {
		return nil, false, false, err
	}
	g.apart = !p.communicates
	for _, b := range g.memory.buffers {
		b.unwritten = b.input
	}
	before, ok := g.copies()
	if !ok {
		return nil, false, false, *g.failed.Load()
	}
	done = true
	all := g.execute(g.fit(workers))
	defer release(all)
	if g.wrong.Load() || g.apart && g.overlap(all) {
		g.restore(before)
		return nil, false, g.short.Load(), nil
	}
	if err := g.failed.Load(); err != nil {
		return nil, false, false, *err
	}
	if s := suspectsOf(all); s != nil {
		r, err := p.confirm(g, all, before, s)
		return r, true, false, err
	}
	return g.finish(all), true, false, nil
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

// overlap reports whether a worker wrote to a word that another one accessed, but for atomic operations on both sides.
func (g *grid) overlap(workers []*worker) bool {
	for i := range g.memory.buffers {
		for j := range workers[0].shadow.racing.pages[i] {
			var pages []*page
			for _, w := range workers {
				if p := &w.shadow.racing.pages[i][j]; p.writer != nil {
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
		there, written, plain, size := 0, false, false, 0
		for _, x := range pages {
			c := cell{x, uint32(i)}
			if c.all() == 0 {
				continue
			}
			there++
			written = written || c.writer() != 0
			for _, m := range c.kept() {
				if m == 0 {
					continue
				}
				written = written || m.strong() && p.writes(m)
				plain = plain || !m.strong() || p.narrow(m) || size != 0 && size != p.unit(m)
				size = p.unit(m)
			}
		}
		if there > 1 && written && plain {
			return true
		}
	}
	return false
}

// tooManyStamps is the error of a launch that synchronizes more often than stamps can count.
func (g *grid) tooManyStamps() error {
	return diag.Errorf(Budget, "make the shapes smaller, or switch the check for races off",
		"%s synchronizes more than %d times", g.prog.Kernel.Name, maxStamp)
}
