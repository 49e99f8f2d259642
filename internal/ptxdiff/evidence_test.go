package ptxdiff

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/ptx"
	"gpuemu/internal/testkit"
)

// pairCase is an entry of testdata/kernels/pairs/manifest.json: a kernel and an edit of it.
type pairCase struct {
	Name, Language string
	Kind           string // "fault" or "edit"
	Class          string // of an edit: "same" or "other"; of a fault: its family
	What           string
	Before, After  struct{ PTX, Entry string }
}

// figures are what can be counted in a kernel.
type figures struct {
	declared  int // registers, the sum of the N of %r<N>
	live      int // peak of live 32-bit registers
	spills    int // accesses to local memory
	instrs    int
	mnemonics []string
	text      string // all instructions as written, debug information left out
}

func figuresOf(t *testing.T, fn *ptx.Function) figures {
	t.Helper()
	f := figures{instrs: len(fn.Code)}
	blocks := []*ptx.Block{fn.Body}
	for len(blocks) > 0 {
		for _, s := range blocks[0].Stmts {
			switch x := s.(type) {
			case *ptx.Block:
				blocks = append(blocks, x)
			case *ptx.Variable:
				for _, n := range x.Names {
					if x.Space == "reg" {
						f.declared += n.Count
					}
				}
			}
		}
		blocks = blocks[1:]
	}
	live, err := ptx.NewGraph(fn).Liveness()
	if err != nil {
		t.Fatal(err)
	}
	f.live = live.PeakLive().Registers
	for _, in := range fn.Code {
		if (in.Op == "ld" || in.Op == "st") && in.Has("local") {
			f.spills++
		}
		f.mnemonics = append(f.mnemonics, in.Mnemonic())
		f.text += in.String() + "\n"
	}
	slices.Sort(f.mnemonics)
	f.mnemonics = slices.Compact(f.mnemonics)
	return f
}

// outcome is what the methods say of a pair.
type outcome struct {
	pairCase
	old, new figures
	result   *Result
}

// methods are the ways to raise an alarm, in the order of the table.
var methods = []struct {
	name  string
	alarm func(o *outcome) bool
}{
	{"declared registers differ", func(o *outcome) bool { return o.old.declared != o.new.declared }},
	{"any count differs", func(o *outcome) bool {
		return o.old.declared != o.new.declared || o.old.live != o.new.live || o.old.spills != o.new.spills ||
			o.old.instrs != o.new.instrs || !slices.Equal(o.old.mnemonics, o.new.mnemonics)
	}},
	{"texts differ", func(o *outcome) bool { return o.old.text != o.new.text }},
	{"semantic diff, any rank", func(o *outcome) bool { return o.result.Rank > Same }},
	{"semantic diff, above order", func(o *outcome) bool { return o.result.Rank > Order }},
}

func outcomes(t *testing.T) []outcome {
	t.Helper()
	text, err := os.ReadFile("../../testdata/kernels/pairs/manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct{ Pairs []pairCase }
	if err := json.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	var all []outcome
	for _, c := range manifest.Pairs {
		o := outcome{pairCase: c}
		var sides [2]*ptx.File
		for i, s := range []struct{ PTX, Entry string }{c.Before, c.After} {
			f, err := ptx.ReadFile(filepath.Join(corpus, s.PTX))
			if err != nil {
				t.Fatal(err)
			}
			fn, err := kernel(f, s.Entry)
			if err != nil {
				t.Fatal(err)
			}
			sides[i] = f
			if i == 0 {
				o.old = figuresOf(t, fn)
			} else {
				o.new = figuresOf(t, fn)
			}
		}
		o.result = rank(t, sides[0], sides[1], c.Before.Entry, c.After.Entry)
		all = append(all, o)
	}
	return all
}

// groups are the rows of the summary: what a pair is, and whether an alarm is wanted.
var groups = []struct {
	name string
	has  func(o *outcome) bool
}{
	{"faults, all", func(o *outcome) bool { return o.Kind == "fault" }},
	{"faults, CUDA", func(o *outcome) bool { return o.Kind == "fault" && o.Language == "cuda" }},
	{"faults, Triton", func(o *outcome) bool { return o.Kind == "fault" && o.Language == "triton" }},
	{"harmless edits, all", func(o *outcome) bool { return o.Kind == "edit" }},
	{"same code expected", func(o *outcome) bool { return o.Kind == "edit" && o.Class == "same" }},
	{"other code, same meaning", func(o *outcome) bool { return o.Kind == "edit" && o.Class == "other" }},
}

// tally counts the pairs of a group, and those of them that a method raises an alarm for.
func tally(all []outcome, has, alarm func(*outcome) bool) (alarms, pairs int) {
	for i := range all {
		if has(&all[i]) {
			pairs++
			if alarm(&all[i]) {
				alarms++
			}
		}
	}
	return alarms, pairs
}

// TestPairs: every planted fault is told, as more than another order, and no edit that leaves the code as it is.
func TestPairs(t *testing.T) {
	all := outcomes(t)
	faults, edits := 0, 0
	for i := range all {
		o := &all[i]
		switch {
		case o.Kind == "fault":
			if faults++; o.result.Rank <= Order {
				t.Errorf("fault %s (%s) is %v", o.Name, o.What, o.result.Rank)
			}
		case o.Class == "same":
			if edits++; o.result.Rank != Same {
				t.Errorf("edit %s (%s) is %v\n%s", o.Name, o.What, o.result.Rank, list(o.result))
			}
		default:
			edits++
		}
	}
	if faults < 20 || edits < 40 {
		t.Errorf("%d faults and %d edits: at least 20 and 40 are wanted", faults, edits)
	}
}

// TestDiffEvidence keeps docs/evidence/artifacts-diff.md in step with the corpus; `make evidence` writes it.
func TestDiffEvidence(t *testing.T) {
	all := outcomes(t)
	slices.SortFunc(all, func(x, y outcome) int {
		return strings.Compare(x.Kind+x.Class+x.Language+x.Name, y.Kind+y.Class+y.Language+y.Name)
	})
	var b strings.Builder
	b.WriteString(`# What counts and the semantic diff tell of changed kernels

Made by ` + "`make evidence`" + ` from the pairs of ` + "`testdata/kernels/pairs`" + `: a kernel and the same
kernel with one planted fault, or with an edit that changes no meaning. Edits that are expected to leave the code as it
is (names, comments, lines, debug information) stand apart from those that make other code with the same meaning
(another compiler, unrolling, commuted operands). All figures are of the one kernel, not of the file.

An alarm is, by method: the numbers of declared virtual registers differ; any of declared registers, peak of live
registers, accesses to local memory, instructions and the set of mnemonics differs; the instructions differ as texts,
debug information aside; the semantic diff finds any difference; it finds one beyond the order of instructions.

## Alarms

| pairs | |`)
	for _, m := range methods {
		b.WriteString(" " + m.name + " |")
	}
	b.WriteString("\n|---|---:|" + strings.Repeat("---:|", len(methods)) + "\n")
	for _, g := range groups {
		_, pairs := tally(all, g.has, g.has)
		fmt.Fprintf(&b, "| %s | %d |", g.name, pairs)
		for _, m := range methods {
			alarms, _ := tally(all, g.has, m.alarm)
			fmt.Fprintf(&b, " %d (%.0f %%) |", alarms, 100*float64(alarms)/float64(max(pairs, 1)))
		}
		b.WriteString("\n")
	}
	b.WriteString("\nAlarms on faults are wanted, alarms on edits are false. The semantic diff says \"changed\", never " +
		"\"wrong\": other code\nwith the same meaning is a difference to it. Comparing texts finds as much; what it misses " +
		"here is a value of a table,\nand its false alarms where the same code is expected are names.\n\n" +
		"## Pairs\n\nColumns 4 to 7 are new minus old.\n\n" +
		"| pair | what | class | declared registers | live registers | local accesses | instructions | mnemonics | " +
		"semantic diff | changes |\n|---|---|---|---:|---:|---:|---:|---|---|---:|\n")
	for _, o := range all {
		mnemonics := "same"
		if !slices.Equal(o.old.mnemonics, o.new.mnemonics) {
			mnemonics = "differ"
		}
		class := o.Class
		if o.Kind == "edit" {
			class = map[string]string{"same": "same code", "other": "other code"}[o.Class]
		}
		fmt.Fprintf(&b, "| %s | %s: %s | %s | %+d | %+d | %+d | %+d | %s | %v | %d |\n", o.Name, o.Kind, o.What, class,
			o.new.declared-o.old.declared, o.new.live-o.old.live, o.new.spills-o.old.spills, o.new.instrs-o.old.instrs,
			mnemonics, o.result.Rank, len(o.result.Changes)+o.result.Omitted)
	}
	testkit.Golden(t, "../../docs/evidence/artifacts-diff.md", []byte(b.String()))
}
