package ptxvm

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"gpuemu/internal/ptx"
)

// This file implements what is different for programs about tensors. In CUDA C++ the author writes what a thread does,
// and orders threads. In Triton the author writes what a block does, one operation after another, and the compiler
// makes threads of it. Each of them loads a scalar of the program, and one of them stores it:
//
//	count = tl.load(Count)
//	if count == 0:
//	    tl.atomic_xchg(Count, 1)
//
// The threads that load a scalar are replicas: theirs is one load of the program, and it comes before the store. In PTX
// nothing keeps the thread that stores from being faster than others that load (PTX ISA, "Memory Consistency Model"),
// so a barrier is missing. But it is missing in what Triton generates, not in what the kernel says, and such a load is
// not reported. The same holds for a load and a later store of one warp: warps of such programs do not part.
//
// Execution keeps to that order, too: after such a load a warp lets the others come to theirs (takeTurns).
//
// A load of a tensor before another warp's store to it is reported, and so is a load after a store. These are the cases
// for which Triton has tl.debug_barrier().

// tensorShared is the name of the shared memory of kernels that Triton compiled.
const tensorShared = "global_smem"

// tensorProducer is who made the debug information of them.
const tensorProducer = "triton"

// aboutTensors reports whether a module is compiled from a program about tensors.
func aboutTensors(f *ptx.File) bool {
	for _, item := range f.Items {
		switch item := item.(type) {
		case *ptx.Variable:
			if item.Space == "shared" && len(item.Names) > 0 && item.Names[0].Name == tensorShared {
				return true
			}
		case *ptx.Section:
			if item.Name == ".debug_info" && bytes.Contains(sectionBytes(item.Text), []byte(tensorProducer+"\x00")) {
				return true
			}
		}
	}
	return false
}

// sectionBytes are the bytes that a section begins with, as far as they matter here: those of the first unit.
func sectionBytes(text string) (list []byte) {
	const most = 256
	for line := range strings.Lines(text) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest, _, _ = strings.Cut(rest, "//")
		if kind != ".b8" {
			continue
		}
		for part := range strings.SplitSeq(rest, ",") {
			v, err := strconv.ParseUint(strings.TrimSpace(part), 0, 8)
			if err != nil || len(list) == most {
				return list
			}
			list = append(list, byte(v))
		}
	}
	return list
}

// programOrder reports whether one of two accesses of the own block is a load that comes before a store, the other one,
// in the program about tensors that they are compiled from.
func (r *blockRacing) programOrder(x *accessing, verb string, old *former) bool {
	p := r.worker.grid.prog
	load, store := p.marked(old.mark), x.in
	if verb == "reads" {
		load, store = store, load
	}
	if !p.tensors || old.block != r.block || x.t.space == sharedSpace || load == nil || store == nil ||
		load.facts.rule != loads || store.facts.rule == loads {
		return false
	}
	if old.warp() == x.w.index {
		return verb == "writes"
	}
	return p.scalar(load, r.worker.grid.launch.Block) && p.precedes(load, store)
}

// takeTurns lets the warps of a block go on together at loads of scalars that a store to a scalar follows.
func (p *Program) takeTurns() {
	if !p.tensors {
		return
	}
	var loaded, stored []*ins
	varies := p.varying()
	for i := range p.code {
		in := &p.code[i]
		if in.kind != plain || in.src == nil || in.mem == nil || in.mem.space != globalSpace ||
			slices.ContainsFunc(in.facts.address, func(at int32) bool { return varies[at] }) {
			continue
		}
		switch in.facts.rule {
		case loads:
			loaded = append(loaded, in)
		case stores, updates:
			stored = append(stored, in)
		}
	}
	for _, in := range loaded {
		if slices.ContainsFunc(stored, func(store *ins) bool { return p.precedes(in, store) }) {
			in.kind = lets
		}
	}
}

// varying are the registers that may differ between threads of a block. A register that is not among them is the same
// for all of them, as far as branches that part them do not decide: in programs about tensors none does.
func (p *Program) varying() map[int32]bool {
	list := map[int32]bool{}
	for changed := true; changed; {
		changed = false
		for i := range p.code {
			in := &p.code[i]
			if in.src == nil || len(in.facts.writes) == 0 || list[in.facts.writes[0]] {
				continue
			}
			varies := in.facts.rule == updates || in.facts.rule == exchange || in.src.Has("local") ||
				in.facts.guard >= 0 && list[in.facts.guard] || slices.ContainsFunc(in.src.Args, ofThread)
			for _, at := range slices.Concat(in.facts.reads, in.facts.address) {
				varies = varies || list[at]
			}
			for _, at := range in.facts.writes {
				if varies {
					list[at], changed = true, true
				}
			}
		}
	}
	return list
}

// ofThread reports whether an operand is a special register that differs between threads of a block.
func ofThread(o ptx.Operand) bool {
	return o.Kind == ptx.SpecialArg && (strings.HasPrefix(o.Text, "%tid") || o.Text == "%laneid" || o.Text == "%warpid" ||
		strings.HasPrefix(o.Text, "%lanemask") || strings.HasPrefix(o.Text, "%clock"))
}

// precedes reports whether a thread executes a load before it comes to a store, and then does not come to the load
// again without a barrier of the block in between.
func (p *Program) precedes(load, store *ins) bool {
	c := p.replica
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.slicer(p)
	from, to := store.src.Index, load.src.Index
	return s.has(load.src) && s.has(store.src) && s.dominates(to, from) && !s.reaches(from, to)
}

// has reports whether an instruction is one of the kernel itself.
func (s *slicer) has(in *ptx.Instr) bool {
	return in.Index < len(s.graph.Func.Code) && s.graph.Func.Code[in.Index] == in
}

// dominates reports whether every way to an instruction leads through another one.
func (s *slicer) dominates(first, then int) bool {
	a, b := s.graph.BlockOf(first), s.graph.BlockOf(then)
	if a == b {
		return first < then
	}
	for ; b >= 0; b = s.above[b] {
		if a == b {
			return true
		}
	}
	return false
}

// reaches reports whether there is a way between two instructions without a barrier of the block.
func (s *slicer) reaches(from, to int) bool {
	seen := map[int]bool{}
	for open := []int{from + 1}; len(open) > 0; {
		at := open[len(open)-1]
		open = open[:len(open)-1]
		if seen[at] || at >= len(s.graph.Func.Code) {
			continue
		}
		seen[at] = true
		b := &s.graph.Blocks[s.graph.BlockOf(at)]
		waits := false
		for ; at < b.End && !waits; at++ {
			if at == to {
				return true
			}
			in := s.graph.Func.Code[at]
			waits = (in.Op == "bar" || in.Op == "barrier") && in.Has("sync") && !in.Has("warp") && in.Guard == nil
		}
		if !waits {
			for _, next := range b.Succs {
				open = append(open, s.graph.Blocks[next].First)
			}
		}
	}
	return false
}
