package ptxvm

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"gpuemu/internal/diag"
	"gpuemu/internal/ptx"
)

// This file implements findings: what a kernel does that it should not, and where.

// Class is a kind of finding.
type Class string

// Kinds of findings.
const (
	OutOfBoundsRead   Class = "oob_read"
	OutOfBoundsWrite  Class = "oob_write"
	Misaligned        Class = "misaligned"
	Uninitialised     Class = "uninit"
	Unwritten         Class = "unwritten"
	Race              Class = "race"
	BarrierDivergence Class = "barrier_divergence"
	BadMask           Class = "bad_mask"
	Deadlock          Class = "deadlock"
	Assertion         Class = "assert" // assert() of the kernel
	Trap              Class = "trap"   // the kernel stops itself
	AsyncHazard       Class = "async_hazard"
	Nondeterministic  Class = "nondeterministic"
	InputModified     Class = "input_modified" // a store to a buffer whose role is In
	ResourceLimit     Class = "resource_limit" // a block needs more memory than a GPU has for it: nothing was executed
)

// classChecks are the checks that classes belong to. Those of other classes are always on.
var classChecks = map[Class]Checks{
	OutOfBoundsRead: CheckBounds, OutOfBoundsWrite: CheckBounds, Misaligned: CheckBounds, Uninitialised: CheckUninit,
	Unwritten: CheckUninit, Race: CheckRace, BarrierDivergence: CheckBarrier, BadMask: CheckBarrier,
	AsyncHazard: CheckAsync,
}

// maxFindings is how many findings a result has at most, and maxOfClass how many of a class a worker keeps: what comes
// later is counted.
const (
	maxFindings = 100
	maxOfClass  = 1000
)

// Finding is something a kernel does that it should not. Of findings of one class at one instruction, the first one in
// the order of blocks stands for all.
type Finding struct {
	Class   Class
	Message string
	Count   int        // how often threads did it
	Instr   *ptx.Instr // nil where no instruction is to blame
	PTX     diag.Pos   // of the instruction
	Source  []diag.Pos // from .loc: the line itself, then where it was inlined; empty where the file has none
	Block   Dim
	Thread  Dim

	Warp     int       // of the block
	Lane     int       // of the warp
	Operands []Operand // values of the registers that the instruction read, as far as it left them as they were
	Former   *Access   // the other side of a race; nil where there is none

	Address uint64 // of memory, in its own space; 0 where none is concerned
	Buffer  string // the nearest memory
	Element int    // bytes of an element of the access, which may be one of several; 0 where none is concerned
	Outside int64  // how many bytes the access ends behind the buffer, or, negative, begins before it

	block, order int  // of the first occurrence: number of the block, and of the finding in it
	follows      bool // it may follow from a race in the block, and is listed after those
}

// Operand is a register that an instruction read.
type Operand struct {
	Register string
	Value    uint64
}

// Access is an access that came before the one a finding is about.
type Access struct {
	Write  bool
	Block  Dim
	Thread Dim
	Instr  *ptx.Instr
	PTX    diag.Pos
	Source []diag.Pos // as in Finding
}

// findingKey is what makes findings the same.
type findingKey struct {
	class Class
	in    *ptx.Instr
	other string // a buffer, where no instruction is to blame
}

// findings are those of a worker.
type findings struct {
	list  []*Finding
	index map[findingKey]*Finding
	made  int // how many there were, in all lists

	ofClass map[Class]int
	beyond  map[findingKey]bool // those that are counted alone, up to maxOfClass of them
}

// again counts a finding that is known, and reports whether it is.
func (f *findings) again(key findingKey) bool {
	known := f.index[key]
	if known != nil {
		known.Count++
		return true
	}
	if f.ofClass[key.class] < maxOfClass {
		return false
	}
	if len(f.beyond) < maxOfClass {
		f.beyond[key] = true
	}
	return true
}

func newFindings() findings {
	return findings{index: map[findingKey]*Finding{}, ofClass: map[Class]int{}, beyond: map[findingKey]bool{}}
}

func (f *findings) add(key findingKey, x *Finding) {
	f.ofClass[key.class]++
	f.index[key] = x
	f.list = append(f.list, x)
}

// merge adds the findings of another worker: the one in the lower block stays.
func (f *findings) merge(other *findings) {
	for key, x := range other.index {
		known := f.index[key]
		if known == nil {
			f.add(key, x)
			continue
		}
		count := known.Count + x.Count
		if x.block < known.block {
			*known = *x
		}
		known.Count = count
	}
	maps.Copy(f.beyond, other.beyond)
}

// byOrder compares findings in the order of blocks. Of one block, causes come first: the use of an uninitialized value
// may follow from a race, because a thread read too early. An uninitialized address is a cause itself.
func byOrder(a, b *Finding) int {
	return cmp.Or(cmp.Compare(a.block, b.block), cmp.Compare(truth(a.follows), truth(b.follows)),
		cmp.Compare(a.order, b.order))
}

// sorted lists the findings in the order of blocks, and how many were too many.
func (f *findings) sorted() (list []Finding, dropped int) {
	slices.SortFunc(f.list, byOrder)
	for key := range f.beyond { // another worker may have kept it
		if f.index[key] == nil {
			dropped++
		}
	}
	for _, x := range f.list[:min(len(f.list), maxFindings)] {
		list = append(list, *x)
	}
	return list, dropped + len(f.list) - len(list)
}

// report adds a finding about a lane, and returns it for what else is to be said; nil if it is known or not asked for.
func (w *warp) report(in *ins, lane int, class Class, format string, args ...any) *Finding {
	if check, ok := classChecks[class]; ok && !w.cta.grid.checks.has(check) {
		return nil
	}
	return w.note(in, lane, class, format, args...)
}

// stop ends the block of a warp with a finding, whatever is looked for: what a block has not done must not pass for a
// result.
func (w *warp) stop(in *ins, lane int, class Class, format string, args ...any) {
	w.note(in, lane, class, format, args...)
	w.cta.stopped = true
}

// note adds a finding, or counts one that is known and returns nil.
func (w *warp) note(in *ins, lane int, class Class, format string, args ...any) *Finding {
	c := w.cta
	key := findingKey{class: class, in: in.src}
	if c.worker.findings.again(key) {
		return nil
	}
	f := w.finding(in, lane, class, format, args...)
	f.follows = class == Uninitialised && !strings.HasPrefix(format, "the address")
	c.worker.findings.add(key, f)
	return f
}

// operands are the values of the registers that an instruction reads. Findings may come after it was executed, so
// those that it writes are left out.
func (w *warp) operands(in *ins, lane int) (list []Operand) {
	if in.src == nil {
		return nil
	}
	in.src.Uses(func(o *ptx.Operand) {
		slot, ok := w.cta.grid.prog.slots[o.Reg]
		known := slices.ContainsFunc(list, func(x Operand) bool { return x.Register == o.Text })
		if !ok || o.Kind != ptx.RegisterArg || known || slices.Contains(in.facts.writes, w.cta.grid.prog.position(slot)) {
			return
		}
		list = append(list, Operand{o.Text, w.get(slot, lane)})
	})
	return list
}

// finding makes a finding about a lane.
func (w *warp) finding(in *ins, lane int, class Class, format string, args ...any) *Finding {
	f := w.unread(in, lane, class, format, args...)
	f.Operands = w.operands(in, lane)
	return f
}

// unread makes a finding without looking at registers.
func (w *warp) unread(in *ins, lane int, class Class, format string, args ...any) *Finding {
	c := w.cta
	f := &Finding{Class: class, Message: fmt.Sprintf(format, args...), Count: 1, Instr: in.src, Block: c.id,
		Thread: w.thread(lane), Warp: w.index, Lane: lane, block: c.number,
		order: c.worker.findings.made}
	f.PTX, f.Source = c.grid.prog.place(in.src)
	c.worker.findings.made++
	return f
}

// thread is the index of a lane in its block.
func (w *warp) thread(lane int) Dim {
	t, b := w.index*warpSize+lane, w.cta.grid.launch.Block
	return Dim{t % b.X, t / b.X % b.Y, t / (b.X * b.Y)}
}

// place is where an instruction stands in the PTX and in the source, with the chain of inlining.
func (p *Program) place(in *ptx.Instr) (at diag.Pos, source []diag.Pos) {
	if in == nil {
		return p.File.Position(p.Kernel.Pos), nil
	}
	for l := in.Loc; l != nil; l = l.Inlined {
		source = append(source, diag.Pos{File: p.files[l.File], Line: l.Line, Col: l.Col})
	}
	return p.File.Position(in.Pos), source
}

// spot names the place of an instruction in messages: the source line if there is one.
func (p *Program) spot(in *ins) string {
	at, source := p.place(in.src)
	if len(source) > 0 && source[0].Line > 0 {
		at = source[0]
	}
	at.Col = 0
	return at.String()
}

// sourceFiles are the names behind the numbers of .loc.
func sourceFiles(f *ptx.File) map[int]string {
	files := map[int]string{}
	for _, item := range f.Items {
		if n, ok := item.(*ptx.FileName); ok {
			files[n.Number] = filepath.Clean(n.Path) // clang writes ././kernel.cu
		}
	}
	return files
}

// String is a line for people: class, place, message.
func (f *Finding) String() string {
	var b strings.Builder
	at := f.PTX
	if len(f.Source) > 0 {
		at = f.Source[0]
	}
	fmt.Fprintf(&b, "%s: %s: %s", at, f.Class, f.Message)
	if f.Instr != nil {
		fmt.Fprintf(&b, " (block %s, thread %s", f.Block, f.Thread)
		if f.Count > 1 {
			fmt.Fprintf(&b, ", and %d more", f.Count-1)
		}
		b.WriteString(")")
	}
	return b.String()
}

// String is "x,y,z".
func (d Dim) String() string { return fmt.Sprintf("%d,%d,%d", d.X, d.Y, d.Z) }
