package ptxvm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	atomics "sync/atomic"

	"gpuemu/internal/diag"
)

// This file implements grids: blocks that workers execute, at the same time where that cannot be seen.

// grid is a launch that runs.
type grid struct {
	prog   *Program
	launch *Launch
	checks Checks
	memory memory
	params []byte

	sharedParts []sharedPart // variables of the kernel, and dynamic memory

	budget  *budget
	threads int // of a block
	limit   uint64
	order   order
	taken   atomics.Int64  // blocks that have begun
	steps   atomics.Uint64 // of all workers
	shared  sync.Mutex     // held by atomic operations on global memory while several workers run
	printed []byte         // by printf; kernels that print communicate
	several bool           // there are several workers
	workers int
	crowd   crowd // of them
	failed  atomics.Pointer[error]
	follows *suspects    // memory whose loads are followed; nil for none
	apart   bool         // blocks are taken not to touch what others write
	wrong   atomics.Bool // they do: what was computed means nothing
	short   atomics.Bool // several workers need more memory than there is: the same
	fault   string       // with its stack; guarded by shared
	enough  bool         // what a second execution was to find out is known
}

// worker executes blocks.
type worker struct {
	grid      *grid
	index     int    // of the workers
	dealt     int    // blocks it was dealt, where a test deals them
	free      []*cta // blocks that have ended, for the next ones
	findings  findings
	steps     uint64  // of its warps
	next, end int     // blocks that it has taken and not begun
	shadow    *shadow // nil where no check needs one
	stopped   bool    // a block did not come to its end
	alone     bool    // no other worker executes anything
	watch     *watch  // nil where nobody counts
	ways      []ways  // of its warps, at guarded instructions; nil where nobody asks
}

// cta is a block.
type cta struct {
	grid     *grid
	worker   *worker
	id       Dim
	number   int // in the grid, x first
	warps    []*warp
	turns    []int // the order in which warps have their turns
	shared   []byte
	barriers [clusterBarrier + 1]barrierState
	cluster  clusterState
	bulk     []delivery // copies that barriers in shared memory wait for
	groups   []warpgroup
	stopped  bool
	shadow   *blockShadow // nil where no check needs one
}

// A warp that waits for another one in a loop must let it go on, and so must a block. Instructions of a warp before
// the next one has its turn, and turns of all warps before the next block has its own; blocks have turns only where
// they may wait for each other.
const (
	warpQuantum         = 1 << 12
	communicatingWarp   = 1 << 10
	communicatingRounds = 4
)

// Run executes a launch. Buffers of the arguments are changed in place. The result is the same for any number of
// workers unless blocks write what others read or write without atomic operations, which is what the check for races is
// for; with it, it always is.
func (p *Program) Run(l *Launch) (*Result, error) {
	if f := p.beyond(l); f != nil {
		return &Result{Findings: []Finding{*f}, Written: make([]bool, len(l.Args))}, nil
	}
	if l.Schedules > 1 {
		return p.compareSchedules(l)
	}
	return p.run(l, order{})
}

// run executes a launch in one order.
func (p *Program) run(l *Launch, o order) (*Result, error) {
	if r, done, err := p.runApart(l, o); done || err != nil {
		return r, err
	}
	return p.runTogether(l, o, nil)
}

// runTogether executes a launch with all states of races in one place, and follows the loads of some memory.
func (p *Program) runTogether(l *Launch, o order, follows *suspects) (*Result, error) {
	g, err := p.newGrid(l, o)
	if err != nil {
		return nil, err
	}
	g.follows = follows
	var before [][]byte
	if follows == nil && g.checks.has(CheckRace) {
		var ok bool
		if before, ok = g.copies(); !ok {
			return nil, *g.failed.Load()
		}
	}
	n := cmp.Or(max(l.Workers, 0), runtime.GOMAXPROCS(0))
	if p.communicates || o.fixed || g.checks.has(CheckRace) || l.Trace != nil || raceDetector && !l.apart {
		n = 1
	}
	workers := g.execute(g.fit(n))
	if !o.first { // else the result may still ask who wrote what
		defer release(workers)
	}
	if err := g.failed.Load(); err != nil {
		return nil, *err
	}
	if g.enough {
		return nil, nil
	}
	if s := suspectsOf(workers); s != nil {
		return p.confirm(g, workers, before, s)
	}
	return g.finish(workers), nil
}

func (p *Program) newGrid(l *Launch, o order) (*grid, error) {
	g := &grid{prog: p, launch: l, checks: l.Checks, threads: l.Block.Count(), order: o,
		limit: cmp.Or(l.MaxSteps, usualSteps), budget: &budget{limit: cmp.Or(l.MaxMemory, UsualMemory)}}
	return g, g.prepare()
}

// fit is how many workers there are of some that are wanted: no more than blocks, and than there is memory for.
func (g *grid) fit(workers int) int {
	one := max(g.blockBytes()+g.workerBytes(), 1)
	return int(max(min(int64(workers), int64(g.launch.Grid.Count()), g.budget.left()/one), 1))
}

// workerBytes is an upper bound of what a worker records about global memory on its own, where no other worker needs it
// in its place: bits of bytes, without the check for races.
func (g *grid) workerBytes() (n int64) {
	if g.apart || !g.checks.has(CheckUninit) {
		return 0
	}
	for _, b := range g.memory.buffers {
		n += int64(len(b.data))/8 + bitPageBytes
	}
	return n
}

// execute lets workers execute all blocks.
func (g *grid) execute(n int) []*worker {
	g.several, g.workers = n > 1, n
	g.crowd.busy.Add(n)
	workers := make([]*worker, n)
	var wait sync.WaitGroup
	for i := range workers {
		workers[i] = &worker{grid: g, index: i, findings: newFindings(), shadow: g.newShadow(), watch: g.newWatch()}
		if g.writesOutputs() {
			workers[i].ways = make([]ways, len(g.prog.code))
		}
		wait.Go(func() {
			defer g.catch()
			workers[i].work()
		})
	}
	wait.Wait()
	if g.fault != "" {
		panic(g.fault)
	}
	return workers
}

// writesOutputs reports whether the launch has outputs whose elements are to be written, all of them.
func (g *grid) writesOutputs() bool {
	out := func(b *buffer) bool { return b.arg != nil && b.arg.Role == Out }
	return g.checks.has(CheckUninit) && slices.ContainsFunc(g.memory.buffers, out)
}

// release gives back what others can use when the workers of a launch have ended, and their findings are told.
func release(workers []*worker) {
	for _, w := range workers {
		w.shadow.release()
	}
}

// finish puts together what workers found.
func (g *grid) finish(workers []*worker) *Result {
	all := workers[0]
	for _, w := range workers[1:] {
		all.findings.merge(&w.findings)
		all.shadow.merge(w.shadow)
		all.stopped = all.stopped || w.stopped
		for i, seen := range w.ways {
			all.ways[i] |= seen
		}
	}
	all.races()
	all.unwritten()
	r := &Result{Steps: g.steps.Load(), Printed: g.printed, Counters: countersOf(g.prog, workers)}
	r.Findings, r.Dropped = all.findings.sorted()
	r.Written = make([]bool, len(g.launch.Args))
	for _, b := range g.memory.buffers {
		for i := range g.launch.Args {
			r.Written[i] = r.Written[i] || b.arg == &g.launch.Args[i] && b.touched.Load()
		}
	}
	if !g.order.first {
		return r
	}
	r.kept = g.budget.used[forChecks].Load()
	r.lastWriter = func(arg, offset int) *ins {
		for _, b := range g.memory.buffers {
			if all.shadow != nil && b.arg == &g.launch.Args[arg] {
				return all.shadow.racing.lastWriter(g.prog, b, offset)
			}
		}
		return nil
	}
	return r
}

// catch keeps a fault of ours for the goroutine that called Run, which may recover from it: one in a goroutine of its
// own would end the process.
func (g *grid) catch() {
	if e := recover(); e != nil {
		g.shared.Lock()
		defer g.shared.Unlock()
		g.fault = fmt.Sprintf("%v\n%s", e, debug.Stack())
		g.fail(errors.New("fault"))
	}
}

func (g *grid) fail(err error) { g.failed.CompareAndSwap(nil, &err) }

// take names the next block of a worker, if there is one. Workers take several blocks that follow each other at a time:
// those mostly touch memory side by side, and what checks record of it is then in one worker's pages.
func (w *worker) take() (number int, ok bool) {
	g := w.grid
	n := g.launch.Grid.Count()
	if w.next == w.end {
		if g.launch.dealt {
			w.next = w.index + w.dealt*g.workers
			w.end, w.dealt = w.next+1, w.dealt+1
		} else {
			some := 1
			if g.several {
				some = min(max(n/(g.workers*takes), 1), mostAtOnce)
			}
			w.end = int(g.taken.Add(int64(some)))
			w.next = w.end - some
		}
	}
	i := w.next
	w.next++
	if i >= n || g.failed.Load() != nil || g.wrong.Load() || g.enough {
		w.end = w.next
		return 0, false
	}
	return g.order.block(i, n), true
}

// How many blocks a worker takes at a time: enough that pages of memory are its own, and so few that all workers end
// together.
const (
	mostAtOnce = 64
	takes      = 32 // of a worker, at least
)

// work executes blocks until none is left. Where blocks may wait for each other, one that does not come to its end in
// its turn stays while further ones begin.
func (w *worker) work() {
	defer w.leave()
	rounds, quantum, most := 1, warpQuantum, 1 // between turns somebody looks whether a block goes round for ever
	if w.grid.prog.communicates {
		rounds, quantum, most = communicatingRounds, communicatingWarp, w.grid.resident()
	}
	var active []*cta
	var turns circle
	for {
		begun := false
		if len(active) < most {
			var number int
			if number, begun = w.take(); begun {
				c := w.begin(number)
				if c == nil {
					return
				}
				active = append(active, c)
			}
		}
		if !begun && len(active) == 0 {
			return
		}
		kept := active[:0]
		for _, c := range active {
			if c.run(rounds, quantum) {
				w.stopped = w.stopped || c.stopped
				w.free = append(w.free, c)
			} else {
				kept = append(kept, c)
			}
		}
		moved := begun || len(kept) < len(active)
		active = kept
		if w.grid.failed.Load() != nil || w.grid.wrong.Load() {
			return
		}
		if moved {
			turns.restart(w, active)
		} else if turns.closed(w, active) {
			switch {
			case depart(active):
				turns.freed, rounds, quantum = true, 1, freedQuantum
				turns.restart(w, active)
			case !w.reportStuck(active):
				turns.off = true
			case w.grid.prog.communicates: // blocks that have not begun would wait for room
				return
			default:
				w.free, active = append(w.free, active...), active[:0]
			}
		}
	}
}

// resident is how many blocks may run at a time: half of the memory that is left is theirs, the rest is for what they
// do.
func (g *grid) resident() int {
	return int(max(g.budget.left()/2/max(g.blockBytes(), 1), 1))
}

// begin makes a block ready to run. It returns nil where there is no memory for it.
func (w *worker) begin(number int) *cta {
	g := w.grid
	var c *cta
	if n := len(w.free); n > 0 {
		c, w.free = w.free[n-1], w.free[:n-1]
		clear(c.shared)
	} else {
		if !g.reserve(g.blockBytes(), forBlocks) {
			return nil
		}
		c = &cta{grid: g, worker: w, shared: make([]byte, g.sharedBytes())}
		for range (g.threads + warpSize - 1) / warpSize {
			c.warps = append(c.warps, &warp{})
		}
		c.turns = make([]int, len(c.warps))
		c.shadow = w.shadow.newBlock(c)
	}
	size := g.launch.Grid
	c.number, c.id, c.stopped = number, Dim{number % size.X, number / size.X % size.Y, number / (size.X * size.Y)}, false
	for i, x := range c.warps {
		x.reset(c, i)
	}
	g.order.warps(number, c.turns)
	for i := range c.barriers {
		c.barriers[i] = barrierState{waiting: c.barriers[i].waiting[:0]}
	}
	c.bulk, c.cluster = c.bulk[:0], clusterState{}
	if g.prog.products {
		c.groups = make([]warpgroup, (len(c.warps)+groupWarps-1)/groupWarps)
	}
	c.shadow.reset()
	return c
}

// run executes a block, warps in turn, each until it waits or has executed a quantum of instructions. It reports
// whether the block has come to its end; rounds is how often each warp has its turn at most.
func (c *cta) run(rounds, quantum int) bool {
	g := c.grid
	c.shadow.turn()
	for range rounds {
		alive, moved := false, false
		steps := uint64(0)
		for _, i := range c.turns {
			w := c.warps[i]
			if len(w.ready) > 0 {
				moved = true
				before := w.steps
				w.run(quantum)
				steps += w.steps - before
			}
			alive = alive || w.alive != 0
			if c.stopped {
				break
			}
		}
		c.worker.steps += steps
		if total := g.steps.Add(steps); total > g.limit {
			g.fail(diag.Errorf(Budget, "allow more, or make the shapes smaller", "%s executed more than %d instructions",
				g.prog.Kernel.Name, g.limit))
		}
		if ctx := g.launch.Context; ctx != nil && ctx.Err() != nil {
			g.fail(context.Cause(ctx))
		}
		if !alive || c.stopped || g.failed.Load() != nil {
			return true
		}
		if !moved {
			c.deadlock()
			return true
		}
	}
	return false
}
