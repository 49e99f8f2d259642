// Package ptxdiff says what differs between two versions of a kernel when names and registers do not count.
//
// Both kernels are brought to a normal form: registers become the values they hold, labels become blocks, parameters
// are known by their place, variables that a host sets by their name, and others by what is done with them. Copies,
// dead results, debug information, hints and the order of operands that may change places are left out; comparisons and
// branches that are the negation of one another are the same. Then one of four things holds.
//
//   - Same: the same instructions with the same operands in the same order.
//   - Order: the same loads, stores, barriers and branches with the same operands; only computations without effect
//     stand elsewhere, or are repeated. Loads may change places where nothing between them writes. This is shown, not
//     guessed: a dependence that changed makes it Structure.
//   - Constants: as Order, but some numbers differ: an immediate, the offset of an address, a value of a table.
//   - Structure: all else.
//
// It cannot tell whether a difference matters. Other code with the same meaning (an unrolled loop, another compiler, a
// product by 2 for a sum) is a difference, and a change is never called wrong. Version and target of the module are not
// compared, nor are variables that the kernel does not use. What ptxas makes of equal PTX may still differ from version
// to version. Device functions that the kernel calls are compared, too; what stands behind a function without a body or
// a pointer to a function is not seen.
package ptxdiff

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpuemu/internal/diag"
	"gpuemu/internal/ptx"
)

// Rank is how deep a difference goes.
type Rank uint8

// Ranks, each above the one before.
const (
	Same      Rank = iota + 1 // no difference
	Order                     // the same with the same dependences, in another order
	Constants                 // other numbers
	Structure                 // other instructions, dependences, branches or declarations
)

var rankNames = [...]string{"not set", "same", "order", "constants", "structure"}

func (r Rank) String() string { return rankNames[min(int(r), len(rankNames)-1)] }

// Kind is what changed.
type Kind uint8

// Kinds of changes.
const (
	ConstantChanged    Kind = iota + 1 // a number
	InstructionAdded                   // only the new version has it
	InstructionRemoved                 // only the old version has it
	ModifierChanged                    // the same opcode with other modifiers or another form
	OperandChanged                     // an operand comes from elsewhere
	BranchChanged                      // control goes elsewhere
	DirectiveChanged                   // a declaration: parameters, launch bounds, sizes of variables
	Moved                              // it stands elsewhere
)

var kindNames = [...]string{
	"not set", "constant", "added", "removed", "modifier", "operand", "branch", "directive", "moved",
}

func (k Kind) String() string { return kindNames[min(int(k), len(kindNames)-1)] }

// Place is where something stands.
type Place struct {
	Pos    diag.Pos // in the PTX; zero where there is none
	Source diag.Pos // in the source, as .loc tells; zero where the file does not say
	Text   string   // the instruction or declaration as it stands there
}

// Change is one difference.
type Change struct {
	Kind     Kind
	Rank     Rank
	Old, New Place  // one of them is zero for what was added or removed
	Message  string // one sentence for people, without the places of the change itself
}

// Result is what differs.
type Result struct {
	Rank    Rank
	Changes []Change // in the order of the text
	Omitted int      // changes beyond the limit of what is listed
	Coarse  bool     // parts were too different and too large to be aligned well: more is listed than changed
}

// maxChanges is how many changes are listed. Nobody reads more.
const maxChanges = 1000

// Compare tells what differs between a kernel and its new version. An empty name means the only kernel of the file.
func Compare(old, new *ptx.File, oldEntry, newEntry string) (*Result, error) {
	from, err := kernel(old, oldEntry)
	if err != nil {
		return nil, err
	}
	to, err := kernel(new, newEntry)
	if err != nil {
		return nil, err
	}
	c := &comparer{old: newSide(old), new: newSide(new), names: newNames(), result: Result{Rank: Same},
		symbols: map[symbol]symbol{}, back: map[symbol]symbol{}, met: map[[2]*ptx.Function]bool{}}
	c.enqueue(from, to)
	for len(c.queue) > 0 {
		pair := c.queue[0]
		c.queue = c.queue[1:]
		if err := c.functions(pair[0], pair[1]); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(c.result.Changes, func(x, y Change) int {
		return cmp.Or(cmp.Compare(x.line(), y.line()), cmp.Compare(y.Rank, x.Rank))
	})
	return &c.result, nil
}

// line is where a change stands: in the new text where it is there.
func (c *Change) line() int {
	if c.New.Pos.Line > 0 {
		return c.New.Pos.Line
	}
	return c.Old.Pos.Line
}

// kernel finds a kernel by its name.
func kernel(f *ptx.File, name string) (*ptx.Function, error) {
	all := f.Kernels()
	var known []string
	for _, fn := range all {
		if fn.Name == name || name == "" && len(all) == 1 {
			return fn, nil
		}
		known = append(known, fn.Name)
	}
	hint := "it has " + strings.Join(known, ", ")
	if len(known) == 0 {
		hint = "a kernel begins with .entry"
	}
	if name == "" {
		return nil, diag.Errorf(NoKernel, hint, "the file has %d kernels, and none was named", len(all)).
			At(diag.Pos{File: f.Name})
	}
	return nil, diag.Errorf(NoKernel, hint, "the file has no kernel %q", name).At(diag.Pos{File: f.Name})
}

// side is one of the two files.
type side struct {
	file      *ptx.File
	paths     map[int]string  // of source files, by number
	variables map[string]bool // names of the module
}

func newSide(f *ptx.File) *side {
	s := &side{file: f, paths: map[int]string{}, variables: map[string]bool{}}
	for _, item := range f.Items {
		switch x := item.(type) {
		case *ptx.FileName:
			s.paths[x.Number] = x.Path
		case *ptx.Variable:
			for i := range x.Names {
				s.variables[x.Names[i].Name] = true
			}
		}
	}
	return s
}

// comparer compares two kernels and the functions that they call.
type comparer struct {
	old, new *side
	names    *names
	result   Result
	symbols  map[symbol]symbol // what names of old stand for in new
	back     map[symbol]symbol
	queue    [][2]*ptx.Function
	met      map[[2]*ptx.Function]bool
}

func (c *comparer) enqueue(old, new *ptx.Function) {
	if key := [2]*ptx.Function{old, new}; !c.met[key] {
		c.met[key] = true
		c.queue = append(c.queue, key)
	}
}

func (c *comparer) record(ch Change) {
	c.result.Rank = max(c.result.Rank, ch.Rank)
	if len(c.result.Changes) == maxChanges {
		c.result.Omitted++
		return
	}
	c.result.Changes = append(c.result.Changes, ch)
}

// functions compares two functions with bodies.
func (c *comparer) functions(old, new *ptx.Function) error {
	c.compareSignatures(old, new)
	was, err := build(c.old.file, old, c.names)
	if err != nil {
		return err
	}
	is, err := build(c.new.file, new, c.names)
	if err != nil {
		return err
	}
	oldHash, newHash := newHashes(was), newHashes(is)
	masked := c.newProver(was, is, oldHash.masked, newHash.masked, true)
	holds := masked.prove()
	if holds && len(masked.diffs) == 0 && len(masked.tables) == 0 {
		masked.commit()
		c.orders(masked)
		return nil
	}
	// Constants may have been paired the wrong way round where only they tell values apart.
	exact := c.newProver(was, is, oldHash.exact, newHash.exact, false)
	switch {
	case exact.prove():
		exact.commit()
		c.orders(exact)
	case holds:
		masked.commit()
		c.constants(masked)
	default:
		c.structure(was, is, oldHash, newHash)
	}
	return nil
}

// place is a place in the file, of something that is not an instruction.
func (s *side) place(at ptx.Pos, text string) Place {
	return Place{Pos: s.file.Position(at), Text: text}
}

// instrPlace is the place of an instruction.
func (s *side) instrPlace(in *ptx.Instr) Place {
	if in == nil {
		return Place{}
	}
	p := Place{Pos: s.file.Position(in.Pos), Text: in.String()}
	if in.Loc != nil {
		p.Source = diag.Pos{File: s.paths[in.Loc.File], Line: in.Loc.Line, Col: in.Loc.Col}
	}
	return p
}

// lineOf is the line of an instruction for a sentence.
func (s *side) lineOf(in *ptx.Instr) string {
	return fmt.Sprintf("line %d", s.file.Position(in.Pos).Line)
}
