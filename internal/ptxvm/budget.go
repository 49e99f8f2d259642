package ptxvm

import (
	"cmp"
	"fmt"
	"runtime"
	"strings"
	atomics "sync/atomic"

	"gpuemu/internal/diag"
)

// This file implements the memory budget of a launch: whatever grows with sizes that a kernel or a launch names is
// reserved before it is allocated, and a launch that would need more than it may use ends with an error that says so.

// purpose is what memory of a launch is for.
type purpose uint8

const (
	forTensors   purpose = iota // buffers of arguments
	forVariables                // .global and .const memory of the module
	forProgram                  // instructions
	forBlocks                   // registers, shared and local memory of blocks that run
	forChecks                   // what checks record about registers and memory
	forCopies                   // tensors as they were, to run the launch again
	purposes     = iota
)

var purposeNames = [purposes]string{"tensors", "variables of the module", "the program", "blocks",
	"checks", "copies of tensors"}

// budget is the memory that a launch may use and does use, in bytes. Workers share it.
type budget struct {
	limit int64
	total atomics.Int64
	peak  atomics.Int64
	used  [purposes]atomics.Int64
}

// reserve takes n bytes. It reports false, and takes nothing, where fewer are left.
func (b *budget) reserve(n int64, what purpose) bool {
	for {
		total := b.total.Load()
		if n > b.limit-total {
			return false
		}
		if b.total.CompareAndSwap(total, total+n) {
			b.used[what].Add(n)
			for peak := b.peak.Load(); total+n > peak && !b.peak.CompareAndSwap(peak, total+n); {
				peak = b.peak.Load()
			}
			return true
		}
	}
}

// release gives back bytes that were reserved.
func (b *budget) release(n int64, what purpose) {
	b.total.Add(-n)
	b.used[what].Add(-n)
}

// reserve takes n bytes of the budget of a launch. Where they are not there it reports false, and the launch ends: the
// caller must not allocate them, and has to do with something that it throws away until its worker stops.
func (g *grid) reserve(n int64, what purpose) bool {
	if g.budget.reserve(n, what) {
		return true
	}
	if g.apart && g.several { // one worker needs less
		g.short.Store(true)
		g.wrong.Store(true)
		return false
	}
	g.fail(g.tooMuch(n, what))
	return false
}

// tooMuch is the error about n bytes that the budget does not have.
func (g *grid) tooMuch(n int64, what purpose) error {
	var parts []string
	total := int64(0)
	for i := range g.budget.used {
		part := g.budget.used[i].Load()
		if purpose(i) == what {
			part += n
		}
		if total += part; part > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", purposeNames[i], byteText(part)))
		}
	}
	at := g.prog.File.Position(g.prog.Kernel.Pos)
	return diag.Errorf(MemoryLimit, MemoryHint(total), "%s needs at least %s of memory (%s); the limit is %s",
		g.prog.Kernel.Name, byteText(total), strings.Join(parts, ", "), byteText(g.budget.limit)).At(at)
}

// MemoryHint says how to allow a launch more memory than it needs at least.
func MemoryHint(need int64) string {
	gib := (need+need/4)>>30 + 1 // it is not known how much more is needed
	return fmt.Sprintf("use smaller shapes, or raise the limit: --memory %[1]dGiB, memory = \"%[1]dGiB\" in gpuemu.toml "+
		"or a launch file, memory=\"%[1]dGiB\" in Python", gib)
}

// byteText is a number of bytes for people: exact below a MiB.
func byteText(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d bytes", n)
}

// left is how many bytes are not reserved.
func (b *budget) left() int64 { return b.limit - b.total.Load() }

// Bound is the most memory that a launch is likely to need, in bytes, and no more than it may use: what has to be free
// before it begins, so that launches at the same time do not use up a machine together.
func (p *Program) Bound(l *Launch) int64 {
	limit := cmp.Or(l.MaxMemory, UsualMemory)
	g := &grid{prog: p, launch: l, checks: l.Checks, threads: min(max(l.Block.Count(), 1), 1024)}
	workers := cmp.Or(max(l.Workers, 0), runtime.GOMAXPROCS(0))
	if blocks := l.Grid.Count(); blocks > 0 {
		workers = min(workers, blocks)
	}
	tensors, variables := int64(0), int64(0)
	for i := range l.Args {
		tensors += int64(len(l.Args[i].Buffer))
	}
	for i := range p.variables {
		variables += int64(p.variables[i].size)
	}
	need := p.bytes + 2*tensors + variables + int64(workers)*g.blockBytes() // tensors twice: as they were, too
	if l.Schedules > 1 {
		need += 2 * tensors
	}
	if g.checks.has(CheckRace) {
		need += raceBytes(tensors)
	}
	if g.checks.has(CheckUninit) {
		need += tensors / 8
	}
	return min(need, limit)
}

// blockBytes is the memory of one block that runs: of its threads, its shared memory, and what checks record of them.
func (g *grid) blockBytes() int64 {
	p := g.prog
	warps := int64((g.threads + warpSize - 1) / warpSize)
	slots := int64(p.n32 + p.n64 + p.nPreds + 1)
	warp := int64(p.n32)*4*warpSize + int64(p.n64)*8*warpSize + int64(p.nPreds)*4 + int64(p.localBytes)*warpSize
	shared := int64(p.dynamicStart()) + int64(g.launch.DynamicShared)
	n := shared
	if g.checks != NoChecks {
		const perSlot = 16 // masks of lanes, three at most, and what is on its way to a register
		warp += slots*perSlot + int64(alignUp(p.localBytes, 64))*warpSize/8
		n += 3 * shared / 8 // bits of a byte: defined, about to be written, about to be read
		if p.products || p.proxies {
			n += shared * 2 // the last ordinary write of a word
		}
	}
	if g.checks.has(CheckRace) {
		n += raceBytes(shared)
	}
	return n + warps*warp
}
