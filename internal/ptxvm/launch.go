package ptxvm

import (
	"fmt"
	"strings"

	"gpuemu/internal/diag"
	"gpuemu/internal/ptx"
)

// This file implements launches: grids of blocks, and what they leave behind.

// Dim is a size in three dimensions.
type Dim struct{ X, Y, Z int }

// Count is how many there are.
func (d Dim) Count() int { return d.X * d.Y * d.Z }

// Arg is an argument of a kernel: memory, or a value.
type Arg struct {
	Name   string
	Buffer []byte // memory; the parameter is its address
	Value  []byte // bytes of a value, where Buffer is nil
}

// Launch is how a kernel is started.
type Launch struct {
	Grid, Block   Dim
	DynamicShared int // bytes
	Args          []Arg
	MaxSteps      uint64 // instructions of all warps together; 0 for the usual limit
}

// Class is a kind of finding.
type Class string

// Kinds of findings.
const (
	OutOfBoundsRead   Class = "oob_read"
	OutOfBoundsWrite  Class = "oob_write"
	Misaligned        Class = "misaligned"
	BarrierDivergence Class = "barrier_divergence"
	BadMask           Class = "bad_mask"
	Deadlock          Class = "deadlock"
	Assertion         Class = "assert" // assert() of the kernel
	Trap              Class = "trap"   // the kernel stops itself
)

// Finding is something a kernel does that it should not.
type Finding struct {
	Class   Class
	Message string
	Instr   *ptx.Instr
	Block   Dim
	Thread  Dim
}

// Result is what a launch did.
type Result struct {
	Findings []Finding
	Steps    uint64 // instructions of warps
	Printed  []byte // what printf has written, at most printLimit bytes
}

// usualSteps is the limit of a launch that names none: some minutes.
const usualSteps = 4 << 30

// grid is a launch that runs.
type grid struct {
	prog    *Program
	launch  *Launch
	memory  memory
	params  []byte
	threads int // of a block
	result  Result
	limit   uint64
}

// cta is a block.
type cta struct {
	grid     *grid
	id       Dim
	warps    []*warp
	shared   []byte
	barriers [16]barrierState
	stopped  bool
}

// barrierState is what has arrived at a barrier since it was last complete.
type barrierState struct {
	arrived  int // threads
	expected int // threads; 0 for all of the block that are alive
	yes      int // threads whose predicate was true, and
	no       int // false, of bar.red
	waiting  []waiting
}

type waiting struct {
	warp *warp
	path int
	mask uint32 // lanes that wait
	in   *ins
}

// dynamicStart is where dynamic shared memory begins.
func (p *Program) dynamicStart() int { return alignUp(p.sharedStatic, 16) }

// Run executes a launch. Buffers of the arguments are changed in place.
func (p *Program) Run(l *Launch) (*Result, error) {
	g := &grid{prog: p, launch: l, threads: l.Block.Count(), limit: l.MaxSteps}
	if g.limit == 0 {
		g.limit = usualSteps
	}
	if err := g.prepare(); err != nil {
		return nil, err
	}
	c := &cta{grid: g, shared: make([]byte, p.dynamicStart()+l.DynamicShared)}
	for range (g.threads + warpSize - 1) / warpSize {
		c.warps = append(c.warps, &warp{})
	}
	for z := range l.Grid.Z {
		for y := range l.Grid.Y {
			for x := range l.Grid.X {
				c.id = Dim{x, y, z}
				if err := c.run(); err != nil {
					return nil, err
				}
				if c.stopped {
					return &g.result, nil
				}
			}
		}
	}
	return &g.result, nil
}

// prepare checks a launch and lays out its memory.
func (g *grid) prepare() error {
	l, p := g.launch, g.prog
	bad := func(hint, format string, args ...any) error {
		return diag.Errorf(BadLaunch, hint, format, args...).At(p.File.Position(p.Kernel.Pos))
	}
	if l.Grid.X < 1 || l.Grid.Y < 1 || l.Grid.Z < 1 || l.Block.X < 1 || l.Block.Y < 1 || l.Block.Z < 1 {
		return bad("all sizes are at least 1", "grid %v, block %v", l.Grid, l.Block)
	}
	if g.threads > 1024 {
		return bad("use smaller blocks", "a block has %d threads, at most 1024 are possible", g.threads)
	}
	if len(l.Args) != len(p.Params) {
		return bad("", "%d arguments are given, the kernel has %d parameters", len(l.Args), len(p.Params))
	}
	for i := range p.variables {
		v := &p.variables[i]
		data := append([]byte(nil), v.data...)
		g.memory.fix(&buffer{v.name, v.address, data, v.readOnly})
	}
	g.params = make([]byte, p.paramBytes)
	for i, a := range l.Args {
		param := p.Params[i]
		if a.Buffer != nil {
			if param.Size != 8 {
				return bad("", "parameter %s has %d bytes, an address has 8", param.Name, param.Size)
			}
			putBytes(g.params[param.Offset:], g.memory.add(a.Name, a.Buffer, false).base, 8)
			continue
		}
		if len(a.Value) != param.Size {
			return bad("", "argument %d has %d bytes, parameter %s has %d", i+1, len(a.Value), param.Name, param.Size)
		}
		copy(g.params[param.Offset:], a.Value)
	}
	return nil
}

// run executes a block: warps in turn, each until it waits.
func (c *cta) run() error {
	clear(c.shared)
	for i, w := range c.warps {
		w.reset(c, i)
	}
	c.barriers = [16]barrierState{}
	const quantum = 1 << 14 // instructions of a warp before the next one has its turn
	for {
		alive, moved := false, false
		for _, w := range c.warps {
			if len(w.ready) == 0 {
				alive = alive || w.alive != 0
				continue
			}
			moved = true
			before := w.steps
			w.run(quantum)
			c.grid.result.Steps += w.steps - before
			if c.stopped {
				return nil
			}
			alive = alive || w.alive != 0
		}
		if c.grid.result.Steps > c.grid.limit {
			return diag.Errorf(Budget, "allow more, or make the shapes smaller", "%s executed more than %d instructions",
				c.grid.prog.Kernel.Name, c.grid.limit)
		}
		if !alive {
			return nil
		}
		if !moved {
			c.deadlock()
			return nil
		}
	}
}

func (c *cta) deadlock() {
	for id := range c.barriers {
		for _, x := range c.barriers[id].waiting {
			x.warp.report(x.in, firstLane(x.mask), Deadlock, "waits at barrier %d for threads that do not come", id)
			return
		}
	}
	panic("ptxvm: internal error: nothing moves and nothing waits")
}

func firstLane(mask uint32) int {
	for lane := range warpSize {
		if mask>>lane&1 != 0 {
			return lane
		}
	}
	return 0
}

// arrive counts lanes at a barrier and lets them wait until it is complete, if they are to wait. It reports whether the
// path goes on at once.
func (w *warp) arrive(i int, in *ins, mask uint32) bool {
	if mask == 0 {
		return true
	}
	lane := firstLane(mask)
	id := w.get(in.a, lane)
	if id > 15 {
		w.report(in, lane, BarrierDivergence, "barrier %d does not exist", id)
		return false
	}
	if in.bar.aligned && mask != w.alive {
		w.report(in, lane, BarrierDivergence, "lanes %#08x of %#08x arrive, but all of a warp must arrive together", mask,
			w.alive)
		return false
	}
	b := &w.cta.barriers[id]
	count := countLanes(mask)
	if in.b != noRef {
		b.expected = int(w.get(in.b, lane))
		if mask == w.alive { // a warp counts as a whole, also one that is not full (PTX ISA 9.7.13.1)
			count = warpSize
		}
	}
	b.arrived += count
	if in.c != noRef {
		yes := countLanes((w.p[in.c.index()] ^ in.flipC) & mask)
		b.yes, b.no = b.yes+yes, b.no+countLanes(mask)-yes
	}
	if !in.bar.goesOn {
		b.waiting = append(b.waiting, waiting{w, i, mask, in})
		w.ready = w.ready[:len(w.ready)-1]
	}
	w.cta.settle(b)
	return false // paths of this warp may have become ready
}

// settle lets the threads at a barrier go on if it is complete.
func (c *cta) settle(b *barrierState) {
	expected := b.expected
	if expected == 0 {
		for _, w := range c.warps {
			expected += countLanes(w.alive)
		}
	}
	if b.arrived < expected {
		return
	}
	for _, x := range b.waiting {
		x.warp.ready = append(x.warp.ready, x.path)
		if x.in.d == noRef {
			continue
		}
		result := uint64(b.yes)
		switch x.in.combine {
		case "and":
			result = truth(b.no == 0)
		case "or":
			result = truth(b.yes != 0)
		}
		for m := x.mask; m != 0; m &= m - 1 {
			x.warp.set(x.in.d, firstLane(m), result)
		}
	}
	*b = barrierState{waiting: b.waiting[:0]}
}

// gone completes the barriers at which everybody who is left waits, after threads have finished.
func (c *cta) gone() {
	for id := range c.barriers {
		if b := &c.barriers[id]; b.arrived > 0 && b.expected == 0 {
			c.settle(b)
		}
	}
}

func countLanes(mask uint32) (n int) {
	for ; mask != 0; mask &= mask - 1 {
		n++
	}
	return n
}

// report adds a finding and stops the block.
func (w *warp) report(in *ins, lane int, class Class, format string, args ...any) {
	g := w.cta.grid
	t := w.index*warpSize + lane
	b := g.launch.Block
	g.result.Findings = append(g.result.Findings, Finding{class, fmt.Sprintf(format, args...), in.src, w.cta.id,
		Dim{t % b.X, t / b.X % b.Y, t / (b.X * b.Y)}})
	w.cta.stopped = true
}

// specialValues compute special registers for a thread.
var specialValues = map[string]func(w *warp, t int) int{
	"%tid.x":    func(w *warp, t int) int { return t % w.cta.grid.launch.Block.X },
	"%tid.y":    func(w *warp, t int) int { return t / w.cta.grid.launch.Block.X % w.cta.grid.launch.Block.Y },
	"%tid.z":    func(w *warp, t int) int { return t / (w.cta.grid.launch.Block.X * w.cta.grid.launch.Block.Y) },
	"%ntid.x":   func(w *warp, _ int) int { return w.cta.grid.launch.Block.X },
	"%ntid.y":   func(w *warp, _ int) int { return w.cta.grid.launch.Block.Y },
	"%ntid.z":   func(w *warp, _ int) int { return w.cta.grid.launch.Block.Z },
	"%ctaid.x":  func(w *warp, _ int) int { return w.cta.id.X },
	"%ctaid.y":  func(w *warp, _ int) int { return w.cta.id.Y },
	"%ctaid.z":  func(w *warp, _ int) int { return w.cta.id.Z },
	"%nctaid.x": func(w *warp, _ int) int { return w.cta.grid.launch.Grid.X },
	"%nctaid.y": func(w *warp, _ int) int { return w.cta.grid.launch.Grid.Y },
	"%nctaid.z": func(w *warp, _ int) int { return w.cta.grid.launch.Grid.Z },
	"%laneid":   func(_ *warp, t int) int { return t % warpSize },
	"%warpid":   func(w *warp, _ int) int { return w.index },
	"WARP_SZ":   func(*warp, int) int { return warpSize },
	"%nwarpid":  func(w *warp, _ int) int { return len(w.cta.warps) },
	"%smid":     func(*warp, int) int { return 0 },
	"%nsmid":    func(*warp, int) int { return 1 },
	"%gridid":   func(*warp, int) int { return 0 },

	"%lanemask_eq": func(_ *warp, t int) int { return 1 << (t % warpSize) },
	"%lanemask_lt": func(_ *warp, t int) int { return 1<<(t%warpSize) - 1 },
	"%lanemask_le": func(_ *warp, t int) int { return 2<<(t%warpSize) - 1 },
	"%lanemask_gt": func(_ *warp, t int) int { return int(allLanes) &^ (2<<(t%warpSize) - 1) },
	"%lanemask_ge": func(_ *warp, t int) int { return int(allLanes) &^ (1<<(t%warpSize) - 1) },

	"%dynamic_smem_size": func(w *warp, _ int) int { return w.cta.grid.launch.DynamicShared },
	"%total_smem_size":   func(w *warp, _ int) int { return len(w.cta.shared) },
}

// special fills the slot of a special register.
func (w *warp) special(slot ref, name string) {
	f := specialValues[strings.TrimSuffix(name, " wide")]
	for lane := range warpSize {
		w.set(slot, lane, uint64(f(w, w.index*warpSize+lane)))
	}
}
