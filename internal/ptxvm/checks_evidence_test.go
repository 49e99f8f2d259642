package ptxvm

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/testkit"
)

// This file implements docs/evidence/emulator-checks.md: what the checks of the emulator find.

// TestChecksEvidence makes the page.
func TestChecksEvidence(t *testing.T) {
	if testing.Short() {
		t.Skip("TestPlantedCUDA and TestRaceSuite run the same kernels, or some of them")
	}
	var page bytes.Buffer
	fmt.Fprintf(&page, `# What the checks of the emulator find

Made by %[1]sgo test ./internal/ptxvm -run TestChecksEvidence -update%[1]s; a test keeps it current.

`, "`")
	plantedPage(t, &page)
	racePage(t, &page)
	mutantPage(t, &page)
	testkit.Golden(t, "../../docs/evidence/emulator-checks.md", page.Bytes())
}

// plantedPage writes about the kernels of testdata/kernels/planted.
func plantedPage(t *testing.T, page *bytes.Buffer) {
	plants, home := plantedSources(t)
	launches := plantedLaunches()
	var rows []string
	classes := map[Class]int{}
	right := 0
	for i := range launches {
		k := &launches[i]
		ok := true
		for _, compiler := range plantedCompilers {
			if err := k.check(t, compiler, home[k.kernel], plants[k.kernel]); err != nil {
				t.Errorf("%s: %s: %v", k.kernel, compiler, err)
				ok = false
			}
		}
		verdict := "as planted, twin silent"
		if ok {
			right++
		} else {
			verdict = "WRONG"
		}
		var lines, what []string
		for _, p := range plants[k.kernel] {
			if n := fmt.Sprint(p.line); !slices.Contains(lines, n) {
				lines = append(lines, n)
			}
			if !slices.Contains(what, string(p.class)) {
				what = append(what, string(p.class))
			}
		}
		classes[plants[k.kernel][0].class]++
		rows = append(rows, fmt.Sprintf("| `%s.cu` | `%s` | %s | %s | %s |\n", home[k.kernel], k.kernel,
			strings.Join(what, ", "), strings.Join(lines, ", "), verdict))
	}
	fmt.Fprintf(page, `## Planted defects

%[2]d kernels of %[1]stestdata/kernels/planted%[1]s, written in CUDA C++, have one defect each, in lines that the source
marks, and a sound twin that differs in a condition or a barrier. Both are compiled by clang 19 and 22 with -O3 and
executed with all checks. Right are those whose findings, through both compilers, have the class and the line of a
mark, both sides of a race in marked lines, with nothing else found and nothing in the twin: **%[3]d of %[2]d**.
A second class is a consequence: what a thread reads that did not wait was not written yet.

| class | kernels |
|---|---:|
`, "`", len(launches), right)
	for _, class := range allClasses {
		fmt.Fprintf(page, "| `%s` | %d |\n", class, classes[class])
	}
	fmt.Fprintf(page, "\n| source | kernel | class | lines | found |\n|---|---|---|---|---|\n%s\n", strings.Join(rows, ""))
}

// racePage writes about the generated races.
func racePage(t *testing.T, page *bytes.Buffer) {
	var sum raceScore
	parts := map[string]*raceScore{}
	var order []string
	missed := map[string]int{}
	raceSuite(t, 1, func(p *raceProgram, racy, found bool) {
		sum.add(racy, found)
		space := map[bool]string{true: "shared", false: "global"}[p.shared]
		between := p.sync.name
		if p.fork.bit != 0 {
			between = p.fork.name
		}
		key := space + " | " + between
		if parts[key] == nil {
			parts[key] = &raceScore{}
			order = append(order, key)
		}
		parts[key].add(racy, found)
		if racy && !found {
			missed[p.second.name+" to "+p.to.name]++
		}
	})
	fmt.Fprintf(page, `## Generated races

%[1]d programs: two accesses of all threads of 2 blocks of 64, or of some the one and of some the other, with something
between them that may order them. Accesses are loads, stores, volatile ones, atomic ones, bytes and vectors of two
words; the second goes to the thread's own slot or to one of 7 others. Whether a program races is decided by looking at
all pairs of its accesses, in %[6]sinternal/ptxvm/races_test.go%[6]s, and not by what the emulator keeps.

**%[2]d of %[3]d programs with a race are found (%.1[4]f %%); of %[5]d without one none is reported.** A missed one is
missed in this order of warps and blocks; a finding in one access is enough.

| memory | between the accesses | race | found | sound | false alarms |
|---|---|---:|---:|---:|---:|
`, sum.racy+sum.sound, sum.found, sum.racy, 100*float64(sum.found)/float64(sum.racy), sum.sound, "`")
	slices.Sort(order)
	slices.Reverse(order)
	for _, key := range order {
		s := parts[key]
		fmt.Fprintf(page, "| %s | %d | %d | %d | %d |\n", key, s.racy, s.found, s.sound, s.alarms)
	}
	var rest []string
	for what, n := range missed {
		rest = append(rest, fmt.Sprintf("%d %s", n, what))
	}
	slices.Sort(rest)
	fmt.Fprintf(page, `
Missed are, by the second access: %s.
The state of a word has one last writer: of warps that write different bytes of a word the last counts. It has room for
two more accesses: a third one that is not synchronized with them is not remembered.
`, strings.Join(rest, ", "))
}
