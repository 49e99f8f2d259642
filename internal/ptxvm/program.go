// Package ptxvm executes compiled kernels, PTX text as nvcc, clang and Triton write it, on the CPU.
//
// A warp is executed at once: every register is 32 lanes, and an instruction is dispatched once for all of them.
// Threads of a warp part at branches and meet again at the immediate post-dominator. Blocks of a grid are independent.
//
// What is not in the table of instructions is refused when a kernel is loaded, with its name and place: a kernel that
// runs here is executed as a whole or not at all.
package ptxvm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpuemu/internal/diag"
	"gpuemu/internal/ptx"
)

// Program is a kernel that can be launched.
type Program struct {
	File     *ptx.File
	Kernel   *ptx.Function
	Params   []Param
	Numerics Numerics

	code             []ins
	marks            []int32 // instructions by the numbers that marks have for them
	n32, n64, nPreds int
	consts           []constant
	specials         map[string]ref
	ofBlock          []blockValue          // those of them that differ between blocks
	slots            map[*ptx.Register]ref // for reports
	paramBytes       int
	sharedParts      []sharedPart // static variables
	sharedStatic     int          // bytes of them, as a GPU lays them out
	sharedDynamic    bool         // it declares shared memory whose size a launch gives
	dynamicAlign     int          // of that memory, in bytes
	localBytes       int          // per thread: arrays, and parameters of functions
	variables        []variable
	copies           bool  // it has asynchronous copies
	products         bool  // it has products that several warps ask for together
	proxies          bool  // it has instructions that reach shared memory another way than loads do
	partial          bool  // in every launch, threads may be ordered with some others and not with all: see overflow
	parts            bool  // and lanes with some lanes of their warp
	communicates     bool  // blocks may see what others do: their order matters
	unset            []ref // registers that a block must find zero
	files            map[int]string
	dynamic          []dynamicUse
	replica          *replicaCache
	tensors          bool  // it is compiled from a program about tensors, see tensor.go
	bytes            int64 // about what all of this takes
}

// blockValue is a slot with a special register that is the same for all threads of a block.
type blockValue struct {
	slot  ref
	value func(w *warp, thread int) int
}

// dynamicUse is a slot with an address in dynamic shared memory, which begins behind the static one.
type dynamicUse struct {
	slot   ref
	offset uint64
}

// Param is a parameter of the kernel. Offsets and sizes are in bytes.
type Param struct {
	Name         string
	Offset, Size int
}

// constant is a slot with the same value in all lanes.
type constant struct {
	slot  ref
	value uint64
}

// variable is memory of the module: .global or .const.
type variable struct {
	name     string
	address  uint64
	size     int
	data     []byte // initial values, as far as they go; the rest is zero
	readOnly bool
}

// ins is an instruction ready to run.
type ins struct {
	run        func(w *warp, in *ins) // for everything that does not change the way of control
	kind       control
	guard      ref    // noRef: none
	guardFlip  uint32 // ^0 for @!p
	d, a, b, c ref
	list       []ref // of vectors
	f1         func(a uint64) uint64
	f2         func(a, b uint64) uint64
	f3         func(a, b, c uint64) uint64
	fast32     func(d, a, b *lanes32)
	fast64     func(d, a, b *lanes64)
	fastSetp   func(a, b *lanes32) uint32
	cmp        func(a, b uint64) bool
	combine    string // and, or, xor: with the predicate c
	flipC      uint32 // ^0 for !c
	members    uint32 // of an instruction for which lanes wait, if it is a constant
	mem        *access
	bar        *barrierUse
	copy       *transferUse
	wgmma      *wgmmaUse
	target     int   // of a branch or a call
	targets    []int // of a branch by index
	rejoin     int   // where lanes meet again that part here
	exits      bool  // the branch leads to the end of the kernel, and nothing is done on the way
	src        *ptx.Instr
	clock      bool  // it is not src itself but reads the time for it
	index      int32 // in the code
	facts      facts

	flow func(x *warpShadow, w *warp, in *ins) // of definedness, where no rule says it
}

// control is how an instruction changes the way of control.
type control uint8

const (
	plain    control = iota
	branch           // to target
	indexed          // to one of targets
	enter            // call
	leave            // the end of a function: back to the caller
	finish           // the end of the threads
	barrier          // waits for the block
	together         // waits for the lanes of a mask, then runs
	asks             // runs, and if the answer is no for all lanes, the warp lets others go on
	lets             // runs, and then the warp lets others go on
)

// Load makes a kernel of a module executable. An empty entry names the only kernel.
func Load(f *ptx.File, entry string) (*Program, error) { return LoadWith(f, entry, Numerics{}) }

// LoadWith is Load with a choice among the results that PTX allows.
func LoadWith(f *ptx.File, entry string, n Numerics) (*Program, error) {
	return LoadWithin(f, entry, n, 0)
}

// LoadWithin is LoadWith with a limit of the memory that launches of the program may use, 0 for the usual one. A
// program that needs more by itself is refused before it is made.
func LoadWithin(f *ptx.File, entry string, n Numerics, memory int64) (*Program, error) {
	kernel, err := choose(f, entry)
	if err != nil {
		return nil, err
	}
	l := &lowering{file: f, prog: &Program{File: f, Kernel: kernel, Numerics: n, specials: map[string]ref{},
		replica: &replicaCache{known: map[replicaKey]sameOperands{}}, tensors: aboutTensors(f)},
		slots: map[*ptx.Register]ref{}, consts: map[constantKey]ref{}, symbols: map[symbolKey]symbol{},
		functions: map[*ptx.Function]*lowered{}, addresses: map[*ptx.Function]uint64{},
		memory: cmp.Or(memory, UsualMemory)}
	if err := l.program(); err != nil {
		return nil, err
	}
	l.prog.slots = l.slots
	return l.prog, nil
}

func choose(f *ptx.File, entry string) (*ptx.Function, error) {
	kernels := f.Kernels()
	var names []string
	for _, k := range kernels {
		if k.Name == entry || entry == "" && len(kernels) == 1 {
			return k, nil
		}
		names = append(names, k.Name)
	}
	slices.Sort(names)
	at := diag.Pos{File: f.Name}
	switch {
	case len(kernels) == 0:
		return nil, diag.Errorf(NoEntry, "", "the module has no kernel").At(at)
	case entry == "":
		return nil, diag.Errorf(NoEntry, "name one of them", "the module has %d kernels: %s", len(names),
			shorten(names)).At(at)
	}
	return nil, diag.Errorf(NoEntry, "it has "+shorten(names), "the module has no kernel %s", entry).At(at)
}

// shorten lists names, the first few of many.
func shorten(names []string) string {
	if len(names) > 8 {
		return strings.Join(names[:8], ", ") + fmt.Sprintf(" and %d more", len(names)-8)
	}
	return strings.Join(names, ", ")
}
