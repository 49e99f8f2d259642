package ptxvm

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"gpuemu/internal/ptx"
)

// This file implements kernels of the zoo that lack one instruction which orders accesses.

// nothingLeft stands for an instruction that is left out.
const nothingLeft = "// left out"

// mutation is what is done to a kernel.
type mutation struct {
	name string
	// edit gives another text for an instruction; "" where it is left as it is.
	edit func(in *ptx.Instr) string
}

var mutations = []mutation{
	{"a barrier of the block is left out", func(in *ptx.Instr) string {
		if (in.Op == "bar" || in.Op == "barrier") && in.Has("sync") && !in.Has("warp") {
			return nothingLeft
		}
		return ""
	}},
	{"nobody waits for copies", func(in *ptx.Instr) string {
		if in.Op == "cp" && (in.Has("wait_group") || in.Has("wait_all")) {
			return nothingLeft
		}
		return ""
	}},
	{"one group of copies less is waited for", func(in *ptx.Instr) string {
		if in.Op == "cp" && in.Has("wait_group") && !in.Has("bulk") {
			return fmt.Sprintf("cp.async.wait_group %d;", in.Args[0].Value+1)
		}
		return ""
	}},
	{"a fence is left out", func(in *ptx.Instr) string {
		if (in.Op == "membar" || in.Op == "fence") && !in.Has("proxy") && !in.Has("mbarrier_init") {
			return nothingLeft
		}
		return ""
	}},
}

// mutants makes a kernel without one instruction after the other, by the line that was changed.
func (v *individual) mutants(m *mutation, use func(line int, p *Program)) error {
	text, err := os.ReadFile("../../testdata/ptx/" + v.file + ".ptx")
	if err != nil {
		return err
	}
	for _, in := range v.program.Kernel.Code {
		other := m.edit(in)
		if other == "" {
			continue
		}
		lines := strings.Split(string(text), "\n")
		line := v.program.File.Position(in.Pos).Line
		before, _, ok := strings.Cut(lines[line-1], in.Op+".")
		if !ok || strings.Count(lines[line-1], ";") != 1 {
			return fmt.Errorf("%s: line %d is not one instruction: %q", v.file, line, lines[line-1])
		}
		lines[line-1] = before + strings.TrimSuffix(other, nothingLeft)
		f, err := ptx.Parse(v.file, strings.Join(lines, "\n"))
		if err != nil {
			return err
		}
		f.Targets[0] = v.program.File.Targets[0]
		p, err := Load(f, v.program.Kernel.Name)
		if err != nil {
			return err
		}
		use(line, p)
	}
	return nil
}

// mutantScore counts mutants: those with a finding, and of the others those that leave something wrong.
type mutantScore struct{ all, found, wrong int }

// mutantOrders is in how many orders of blocks and warps a mutant runs that has no finding in the first.
const mutantOrders = 4

// judge runs a mutant: with a finding in any order, or with nothing wrong in the outputs.
func (s *mutantScore) judge(a *animal, p *Program) error {
	s.all++
	r, args, err := a.run(p, AllChecks, 0)
	if err != nil {
		return err
	}
	if len(r.Findings) == 0 {
		l := a.launch(AllChecks, 0)
		l.Schedules = mutantOrders
		if r, err = p.Run(l); err != nil {
			return err
		}
	}
	if len(r.Findings) > 0 {
		s.found++
		return nil
	}
	for _, k := range a.outputs() {
		if _, err := a.bound(k).compare(args[k].Buffer, a.want[k]); err != nil {
			s.wrong++
			return fmt.Errorf("nothing is found, but argument %d: %w", k, err)
		}
	}
	return nil
}

// isMutated reports whether the mutants of a fixture are looked at: those of one compiler of CUDA without variants, and
// Triton's.
func isMutated(file string) bool {
	return strings.HasPrefix(file, "triton36/") || strings.HasPrefix(file, "clang19/") && !strings.Contains(file, "-")
}

// mutantPage writes about them.
func mutantPage(t *testing.T, page *bytes.Buffer) {
	scores := make([]mutantScore, len(mutations))
	for _, a := range zoo() {
		if a.disorder || a.want == nil {
			continue
		}
		versions, err := a.individuals()
		if err != nil {
			t.Fatal(err)
		}
		for i := range versions {
			v := &versions[i]
			for j := 0; j < len(mutations) && isMutated(v.file); j++ {
				err := v.mutants(&mutations[j], func(line int, p *Program) {
					if err := scores[j].judge(&a, p); err != nil {
						t.Errorf("%s, line %d: %s: %v", v.file, line, mutations[j].name, err)
					}
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	page.WriteString(`
## Barriers, waits and fences left out

Kernels of the zoo as clang 19 and Triton wrote them, each without one instruction that orders accesses. Not all of them
are needed: compilers write barriers where only one warp is left to wait, and kernels wait for copies that have come.
What must not be is a mutant that leaves something wrong and is not reported.

| what is done | mutants | reported | not reported and wrong | not reported, right in 4 orders |
|---|---:|---:|---:|---:|
`)
	for j, m := range mutations {
		s := &scores[j]
		fmt.Fprintf(page, "| %s | %d | %d | %d | %d |\n", m.name, s.all, s.found, s.wrong, s.all-s.found-s.wrong)
	}
}
