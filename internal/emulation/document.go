package emulation

import (
	"fmt"
	"strconv"

	"gpuemu/internal/diag"
	"gpuemu/internal/launchfile"
	"gpuemu/internal/ptxvm"
)

// This file implements what is said of a launch: the JSON form is that of gpuemu emulate and of POST /v1/emulate.

// Document is the result of a launch, and its JSON form.
type Document struct {
	Status        string       `json:"status"` // passed, failed, or not_run with an error
	Kernel        string       `json:"kernel"`
	PTX           string       `json:"ptx"`
	Line          int          `json:"ptx_line"`
	Target        string       `json:"target"`
	Grid          [3]int       `json:"grid"`
	Block         [3]int       `json:"block"`
	DynamicShared int          `json:"dynamic_shared"`
	Checks        []string     `json:"checks"`
	Schedules     int          `json:"schedules"`
	SFU           string       `json:"sfu"` // worst+, worst-, or "" for the nearest results
	Contract      bool         `json:"contract"`
	Instructions  uint64       `json:"instructions"` // of warps
	Seconds       float64      `json:"seconds"`
	Printed       string       `json:"printed"` // by printf of the kernel
	Findings      []Finding    `json:"findings"`
	Dropped       int          `json:"findings_dropped"` // beyond the length of the list
	Expected      []Comparison `json:"expected"`
	Outputs       []string     `json:"outputs"` // files
	Counters      *Counters    `json:"counters,omitempty"`
	Error         *Refusal     `json:"error,omitempty"`

	Written []bool `json:"-"` // by argument: whether the kernel wrote to its memory
}

// Refusal is why a kernel was not executed, or not to its end.
type Refusal struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

// Finding is one finding. Source and Line are those of the source file, "" and 0 where the PTX does not say.
type Finding struct {
	Class       string  `json:"class"`
	Message     string  `json:"message"`
	Source      string  `json:"source"`
	Line        int     `json:"line"`
	InlinedAt   []Place `json:"inlined_at"` // the innermost first
	PTXLine     int     `json:"ptx_line"`
	Block       [3]int  `json:"block"` // the first, and
	Thread      [3]int  `json:"thread"`
	Count       int     `json:"count"` // how often threads did it
	Instruction string  `json:"instruction"`
	Warp        int     `json:"warp"` // of the block
	Lane        int     `json:"lane"` // of the warp
	// Operands are the registers that the instruction read, and what the thread had in them, in hexadecimal.
	Operands []Operand `json:"operands"`
	Former   *Access   `json:"former,omitempty"` // the other side of a race
	// Buffer is the argument that an access out of bounds is nearest to, and Element how many bytes an element of the
	// access has; 0: not known. They are for those who know what the elements of the argument are.
	Buffer  string `json:"-"`
	Element int    `json:"-"`
}

// Operand is a register and its value.
type Operand struct {
	Register string `json:"register"`
	Value    string `json:"value"`
}

// Access is the access that a finding is about together with its own.
type Access struct {
	Write       bool    `json:"write"`
	Source      string  `json:"source"` // as in Finding
	Line        int     `json:"line"`
	InlinedAt   []Place `json:"inlined_at"`
	PTXLine     int     `json:"ptx_line"`
	Block       [3]int  `json:"block"`
	Thread      [3]int  `json:"thread"`
	Instruction string  `json:"instruction"`
}

// Place is a line of a source file.
type Place struct {
	Source string `json:"source"`
	Line   int    `json:"line"`
}

// Comparison is an output beside what was expected.
type Comparison struct {
	Name     string `json:"name"`
	Tensor   string `json:"tensor"` // dtype and shape
	Rule     string `json:"rule"`
	Elements int    `json:"elements"`
	Wrong    int    `json:"wrong"`
	Worst    *Worst `json:"worst,omitempty"`
}

// Worst is the element that is furthest off. Numbers are texts: JSON has no NaN, and a double no 64-bit integer.
type Worst struct {
	Index []int  `json:"index"`
	Got   string `json:"got"`
	Want  string `json:"want"`
	ULP   string `json:"ulp"` // "" from a NaN to a number
	Abs   string `json:"abs"`
}

// Counters is what a launch did in numbers, of the first order where there are several.
type Counters struct {
	Warps     uint64     `json:"warp_instructions"`
	Threads   uint64     `json:"thread_instructions"`
	Branches  uint64     `json:"branches"`
	Divergent uint64     `json:"divergent_branches"`
	Barriers  uint64     `json:"barriers"`
	Global    Traffic    `json:"global"` // units are sectors of 32 bytes
	Shared    Traffic    `json:"shared"` // units are passes over the banks
	Mix       []Mnemonic `json:"instructions"`
}

// Traffic is what was moved from and to one kind of memory.
type Traffic struct {
	Accesses uint64 `json:"accesses"`
	Bytes    uint64 `json:"bytes"`
	Units    uint64 `json:"units"`
	Fewest   uint64 `json:"fewest"`
}

// Mnemonic is how often instructions of one form were executed.
type Mnemonic struct {
	Name    string `json:"name"`
	Warps   uint64 `json:"warps"`
	Threads uint64 `json:"threads"`
}

// newCounters takes the counters of the emulator.
func newCounters(c *ptxvm.Counters) *Counters {
	d := &Counters{Warps: c.Warps, Threads: c.Threads, Branches: c.Branches, Divergent: c.Divergent,
		Barriers: c.Barriers, Global: Traffic(c.Global), Shared: Traffic(c.Shared), Mix: []Mnemonic{}}
	for _, m := range c.Mix {
		d.Mix = append(d.Mix, Mnemonic(m))
	}
	return d
}

// add takes a finding of the emulator.
func (d *Document) add(f *ptxvm.Finding) {
	doc := Finding{Class: string(f.Class), Message: f.Message, Count: f.Count, PTXLine: f.PTX.Line,
		Block: [3]int{f.Block.X, f.Block.Y, f.Block.Z}, Thread: [3]int{f.Thread.X, f.Thread.Y, f.Thread.Z},
		InlinedAt: []Place{}, Warp: f.Warp, Lane: f.Lane, Operands: []Operand{}, Buffer: f.Buffer, Element: f.Element}
	for _, o := range f.Operands {
		doc.Operands = append(doc.Operands, Operand{o.Register, fmt.Sprintf("%#x", o.Value)})
	}
	if x := f.Former; x != nil {
		doc.Former = &Access{Write: x.Write, PTXLine: x.PTX.Line, Block: [3]int{x.Block.X, x.Block.Y, x.Block.Z},
			Thread: [3]int{x.Thread.X, x.Thread.Y, x.Thread.Z}, Instruction: x.Instr.String(), InlinedAt: []Place{}}
		if list := Places(x.Source); len(list) > 0 {
			doc.Former.Source, doc.Former.Line = list[0].Source, list[0].Line
			doc.Former.InlinedAt = append(doc.Former.InlinedAt, list[1:]...)
		}
	}
	if list := Places(f.Source); len(list) > 0 {
		doc.Source, doc.Line = list[0].Source, list[0].Line
		doc.InlinedAt = append(doc.InlinedAt, list[1:]...)
	}
	if f.Instr != nil {
		doc.Instruction = f.Instr.String()
	}
	d.Findings = append(d.Findings, doc)
}

// Places are the lines of source files, without those for which the compiler names none.
func Places(source []diag.Pos) (list []Place) {
	for _, at := range source {
		if at.Line > 0 {
			list = append(list, Place{at.File, at.Line})
		}
	}
	return list
}

// Compare takes an output that something is expected of.
func (d *Document) Compare(x *launchfile.Expected, a *launchfile.Arg) {
	c := x.Compare(a)
	doc := Comparison{Name: x.Name, Tensor: a.DType.String() + a.Shape.String(), Rule: x.Rule(), Elements: c.Elems,
		Wrong: c.Wrong}
	if c.Wrong > 0 {
		doc.Worst = &Worst{Index: c.Index, Got: c.Got, Want: c.Want,
			Abs: strconv.FormatFloat(c.Abs, 'g', 6, 64)}
		if c.ULP != 1<<64-1 {
			doc.Worst.ULP = strconv.FormatUint(c.ULP, 10)
		}
	}
	d.Expected = append(d.Expected, doc)
}

// Conclude sets the status, and makes lists of what is absent: JSON has them empty, not null.
func (d *Document) Conclude() {
	switch {
	case d.Error != nil:
		d.Status = "not_run"
	case len(d.Findings) > 0 || d.WrongOutputs() > 0:
		d.Status = "failed"
	default:
		d.Status = "passed"
	}
	d.Checks = append([]string{}, d.Checks...)
	d.Findings = append([]Finding{}, d.Findings...)
	d.Expected = append([]Comparison{}, d.Expected...)
	d.Outputs = append([]string{}, d.Outputs...)
}

// WrongOutputs is how many outputs are not as expected.
func (d *Document) WrongOutputs() (n int) {
	for i := range d.Expected {
		if d.Expected[i].Wrong > 0 {
			n++
		}
	}
	return n
}
