package ptxvm

import (
	"context"
	"strings"

	"gpuemu/internal/diag"
)

// This file implements launches: grids of blocks, and what they leave behind.

// Dim is a size in three dimensions.
type Dim struct{ X, Y, Z int }

// Count is how many there are.
func (d Dim) Count() int { return d.X * d.Y * d.Z }

// Arg is an argument of a kernel: memory, or a value.
type Arg struct {
	Name          string
	Buffer        []byte // memory; the parameter is its address
	Value         []byte // bytes of a value, where Buffer is nil
	Role          Role
	Uninitialised bool // what the buffer has at first means nothing
	Element       int  // bytes of an element, for messages; 0 where it is not known
	// Valid are the parts of the buffer that a kernel may access, each an offset and a length in bytes; nil for all of
	// it. What is between them is padding: nobody reads it, and nobody has to write it.
	Valid   [][2]int
	Of      int // number from 1 of an argument before this one, into whose buffer this one points; 0 for none
	Offset  int // bytes from the beginning of the buffer to what the parameter points at
	Residue int // address of the buffer modulo 256: alignment is then that of where its bytes come from
}

// Role is what a kernel does with a buffer.
type Role string

// Roles of buffers. All elements of an Out buffer are to be written.
const (
	In    Role = "in"
	Out   Role = "out"
	InOut Role = "inout"
)

// Launch is how a kernel is started.
type Launch struct {
	Grid, Block   Dim
	DynamicShared int // bytes
	Args          []Arg
	Checks        Checks          // what is looked for; 0 for everything
	Workers       int             // how many blocks run at the same time; 0 for one per processor
	MaxSteps      uint64          // instructions of all warps together; 0 for the usual limit
	MaxMemory     int64           // bytes that the launch may use, its buffers among them; 0 for the usual limit
	Schedules     int             // how many orders of blocks and warps are compared; 0 and 1 for none
	Seed          uint64          // of the orders beyond forward and reverse
	Context       context.Context // ends the launch when it is done; nil for never
	Counters      bool            // count what happens
	Trace         func(Step)      // told of every instruction, one after the other; nil for nobody

	elsewhere int64 // bytes that other executions of the launch keep meanwhile

	// apart: blocks run at the same time also under Go's race detector, which tells the races of kernels as ours.
	apart bool
	// dealt: worker i of n executes blocks i, i+n, …, so that a test decides who executes which block.
	dealt bool
}

// Result is what a launch did.
type Result struct {
	Findings []Finding
	Dropped  int       // findings beyond the limit of the list
	Steps    uint64    // instructions of warps
	Printed  []byte    // what printf has written, at most printLimit bytes
	Counters *Counters // nil where they were not asked for; those of the first order where there are several
	Written  []bool    // by argument: its buffer was written to, in the first order where there are several

	lastWriter func(arg, offset int) *ins // of a byte of a buffer, as far as it is known; of the first of several orders
	kept       int64                      // bytes that lastWriter keeps
}

// Limits of a launch that names none: some minutes, and the bytes that a small machine has.
const (
	usualSteps  = 4 << 30
	UsualMemory = 4 << 30
)

// dynamicStart is where dynamic shared memory begins.
func (p *Program) dynamicStart() int {
	n := len(p.sharedParts)
	if n == 0 {
		return 0
	}
	end := int(p.sharedParts[n-1].to)
	if p.sharedDynamic {
		end += sharedGap
	}
	return alignUp(end, max(p.dynamicAlign, 16))
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
	if why := p.fits(l.Block); why != "" {
		return bad("", "a block of %v threads: %s", l.Block, why)
	}
	if len(l.Args) != len(p.Params) {
		return bad("", "%d arguments are given, the kernel has %d parameters", len(l.Args), len(p.Params))
	}
	if err := g.afford(); err != nil {
		return err
	}
	for i := range p.variables {
		v := &p.variables[i]
		data := make([]byte, v.size)
		copy(data, v.data)
		g.memory.fix(&buffer{name: v.name, base: v.address, data: data, readOnly: v.readOnly})
	}
	g.sharedParts = p.sharedParts
	if n := p.dynamicStart(); l.DynamicShared > 0 {
		g.sharedParts = append(g.sharedParts[:len(g.sharedParts):len(g.sharedParts)],
			sharedPart{"dynamic shared memory", extent{uint64(n), uint64(n + l.DynamicShared)}})
	}
	g.params = make([]byte, p.paramBytes)
	bases := make([]uint64, len(l.Args)) // of buffers; 0 where the argument has none
	for i, a := range l.Args {
		param := p.Params[i]
		if a.Buffer != nil || a.Of != 0 {
			switch {
			case param.Size != 8:
				return bad("", "parameter %s has %d bytes, an address has 8", param.Name, param.Size)
			case a.Of < 0 || a.Of > i || a.Of > 0 && (bases[a.Of-1] == 0 || a.Buffer != nil):
				return bad("", "argument %d points into the buffer of argument %d, which has none before it", i+1, a.Of)
			case a.Residue < 0 || a.Residue >= bufferAlign:
				return bad("", "argument %d is at address %d modulo %d", i+1, a.Residue, bufferAlign)
			case a.Of > 0:
				putBytes(g.params[param.Offset:], bases[a.Of-1]+uint64(a.Offset), 8)
				continue
			}
			b := g.memory.add(&l.Args[i])
			var inside bool
			if b.valid, inside = a.extents(); !inside {
				return bad("give offsets and lengths inside it", "argument %d has valid parts outside of its %d bytes", i+1,
					len(a.Buffer))
			}
			bases[i] = b.base
			putBytes(g.params[param.Offset:], bases[i]+uint64(a.Offset), 8)
			continue
		}
		if len(a.Value) != param.Size {
			return bad("", "argument %d has %d bytes, parameter %s has %d", i+1, len(a.Value), param.Name, param.Size)
		}
		copy(g.params[param.Offset:], a.Value)
	}
	g.inputs()
	return nil
}

// afford reserves the memory of the launch that its blocks share, and sees that there is enough for one of them.
func (g *grid) afford() error {
	need := func(n int64, what purpose) error {
		if !g.budget.reserve(n, what) {
			return g.tooMuch(n, what)
		}
		return nil
	}
	tensors, variables := int64(0), int64(0)
	for i := range g.launch.Args {
		tensors += int64(len(g.launch.Args[i].Buffer))
	}
	for i := range g.prog.variables {
		variables += int64(g.prog.variables[i].size)
	}
	err := need(tensors, forTensors)
	if err == nil {
		err = need(g.launch.elsewhere, forCopies)
	}
	if err == nil {
		err = need(variables, forVariables)
	}
	if err == nil {
		err = need(g.prog.bytes, forProgram)
	}
	one := g.blockBytes()
	if err == nil {
		err = need(one, forBlocks)
	}
	if err == nil {
		g.budget.release(one, forBlocks) // they reserve it when they begin
	}
	return err
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
