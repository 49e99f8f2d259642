package main

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// This file implements the record: a table of versions, and what is behind each finding, refusal and wrong output.

//go:embed findings.toml
var findingsText []byte

// note is an entry of findings.toml: what was found out about the alarms on a kernel.
type note struct {
	Kernel  string `toml:"kernel"`
	Verdict string `toml:"verdict"` // kernel, compiler, emulator, or not executed
	What    string `toml:"what"`
}

// readNotes reads findings.toml by kernel.
func readNotes(text []byte) (map[string]note, error) {
	var doc struct {
		Notes []note `toml:"note"`
	}
	if err := toml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("findings.toml: %w", err)
	}
	notes := map[string]note{}
	for _, n := range doc.Notes {
		if n.Kernel == "" || n.Verdict == "" || n.What == "" {
			return nil, fmt.Errorf("findings.toml: the note about %q is not complete", n.Kernel)
		}
		notes[n.Kernel] = n
	}
	return notes, nil
}

// sums are the figures of some builds.
type sums struct {
	kernels                                             map[string]bool
	builds, failed, launches, silent, findings, refused int
	wrong                                               int
}

func (s *sums) add(o *outcome) {
	if s.kernels == nil {
		s.kernels = map[string]bool{}
	}
	if o.Error != "" {
		s.failed++
		return
	}
	s.kernels[o.Suite+"/"+o.Kernel] = true
	s.builds++
	s.launches += o.Count
	s.silent += o.Silent
	s.findings += len(o.Findings)
	s.refused += len(o.Refused)
	s.wrong += len(o.Wrong)
}

// accused is how many launches have findings.
func (s *sums) accused() int { return s.launches - s.silent - s.refused }

// alarm is what is wrong, or not executed, about a kernel in all versions.
type alarm struct {
	kernel, what string // what: classes, an instruction, or an error of the compiler
	versions     map[string]bool
	builds       map[string]bool
	launches     int
}

// suiteNames are the sources of the suites.
var suiteNames = map[string]string{
	"corpus": "internal/corpus/kernels, cases of gpuemu fuzz", "fixtures": "testdata/kernels/triton",
	"reductions": "reductions.py", "rows": "rows.py", "products": "products.py", "recurrent": "recurrent.py",
	"indices": "indices.py", "elements": "elements.py",
}

var refusedInstruction = regexp.MustCompile(`: (\S+) is not executed here`)

// writeRecord writes the page.
func writeRecord(path string, versions []string, all map[string][]outcome) error {
	notes, err := readNotes(findingsText)
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(pageHead)
	var total sums
	for _, v := range versions {
		var s sums
		for i := range all[v] {
			s.add(&all[v][i])
			total.add(&all[v][i])
		}
		writeSums(&b, v, &s)
	}
	writeSums(&b, "all", &total)
	b.WriteString(suitesHead)
	bySuite := map[string]*sums{}
	for _, v := range versions {
		for i := range all[v] {
			o := &all[v][i]
			if bySuite[o.Suite] == nil {
				bySuite[o.Suite] = &sums{}
			}
			bySuite[o.Suite].add(o)
		}
	}
	for _, suite := range slices.Sorted(maps.Keys(bySuite)) {
		writeSums(&b, suiteNames[suite], bySuite[suite])
	}
	unread := writeAlarms(&b, versions, all, notes)
	b.WriteString(failuresHead)
	for _, a := range collect(versions, all, failures) {
		fmt.Fprintf(&b, "| %s | %s | %d | %s |\n", a.kernel, span(versions, a.versions), len(a.builds), a.what)
	}
	b.WriteString(fixed)
	if err := os.WriteFile(path, []byte(b.String()), 0o666); err != nil {
		return err
	}
	return unread
}

func writeSums(b *strings.Builder, title string, s *sums) {
	fmt.Fprintf(b, "| %s | %d | %d | %d | %d | %d | %d | %d | %d |\n", title, len(s.kernels), s.builds, s.failed,
		s.launches, s.silent, s.accused(), s.refused, s.wrong)
}

// writeAlarms writes what is behind findings, refusals and wrong outputs; an error where nobody has read one.
func writeAlarms(b *strings.Builder, versions []string, all map[string][]outcome, notes map[string]note) error {
	b.WriteString(alarmsHead)
	var unread []error
	list := collect(versions, all, alarms)
	for _, a := range list {
		n, ok := notes[a.kernel]
		if !ok {
			n = note{Verdict: "not read", What: "findings.toml has nothing about it"}
			unread = append(unread, fmt.Errorf("%s: %s: findings.toml has nothing about it", a.kernel, a.what))
		}
		fmt.Fprintf(b, "| %s | %s | %s | %d | %s | %s |\n", a.kernel, a.what, span(versions, a.versions), a.launches,
			n.Verdict, strings.TrimSpace(n.What))
	}
	if len(list) == 0 {
		b.WriteString("| none | | | | | |\n")
	}
	return errors.Join(unread...)
}

// alarms says what there is to read about a build, and how many launches it concerns.
func alarms(o *outcome) (what string, launches int) {
	classes := slices.Clone(o.Classes)
	if len(o.Wrong) > 0 {
		classes = append(classes, "wrong output")
	}
	for _, text := range o.Refused {
		name := text
		if m := refusedInstruction.FindStringSubmatch(text); m != nil {
			name = m[1]
		}
		classes = append(classes, "not executed: `"+name+"`")
	}
	slices.Sort(classes)
	return strings.Join(slices.Compact(classes), ", "), max(o.Count-o.Silent, min(len(o.Wrong), o.Count))
}

// failures says why a build does not compile.
func failures(o *outcome) (what string, launches int) { return lastError(o.Error), 0 }

// lastError is the end of a compiler's error, which says what is wrong; the beginning quotes the source. Of what ptxas
// says it is the first error.
func lastError(text string) string {
	if _, said, ok := strings.Cut(text, "error : "); ok && strings.Contains(text, "ptxas") {
		said, _, _ = strings.Cut(said, " ... ")
		return "ptxas: " + strings.ReplaceAll(said, "|", "\\|")
	}
	if i := strings.LastIndex(text, "^ "); i >= 0 {
		text = text[i+2:]
	}
	start := text[:min(len(text), 40)]
	if i := strings.Index(text[len(start):], start); start != "" && i >= 0 {
		text = strings.TrimSpace(text[:len(start)+i]) // exceptions repeat the text of their causes
	}
	if len(text) > 160 {
		text = text[:160] + " ..."
	}
	return strings.ReplaceAll(text, "|", "\\|")
}

// collect groups builds of all versions by kernel and by what there is to say about them.
func collect(versions []string, all map[string][]outcome, say func(o *outcome) (string, int)) []*alarm {
	groups := map[[2]string]*alarm{}
	for _, v := range versions {
		for i := range all[v] {
			o := &all[v][i]
			what, launches := say(o)
			if what == "" {
				continue
			}
			key := [2]string{o.Kernel, what}
			a := groups[key]
			if a == nil {
				a = &alarm{kernel: o.Kernel, what: what, versions: map[string]bool{}, builds: map[string]bool{}}
				groups[key] = a
			}
			a.versions[v] = true
			a.builds[v+o.Build] = true
			a.launches += launches
		}
	}
	return slices.SortedFunc(maps.Values(groups), func(x, y *alarm) int {
		return cmp.Or(cmp.Compare(x.kernel, y.kernel), cmp.Compare(x.what, y.what))
	})
}

// span lists versions, or says that all of them are meant.
func span(versions []string, some map[string]bool) string {
	if len(some) == len(versions) {
		return "all"
	}
	var list []string
	for _, v := range versions {
		if some[v] {
			list = append(list, v)
		}
	}
	return strings.Join(list, ", ")
}

const (
	failuresHead = `
## Does not compile

Builds that a version does not compile are counted above; there is nothing to execute.

| kernel | versions | builds | the compiler says |
|---|---|---|---|
`

	columns = "kernels | builds | do not compile | launches | silent | with findings | not executed | " +
		"outputs wrong |\n|---|---|---|---|---|---|---|---|---|\n"

	pageHead = `# Triton over its versions

This page is written by "make triton-versions", which compiles kernels by every minor version of Triton from 3.2 on, for
sm_80 and sm_90, executes them in the emulator with all checks, and compares their outputs with references in float64.
All kernels are meant to be correct: a finding counts as a false alarm until it is read.
[bench/triton-versions](../../bench/triton-versions/README.md) says what the kernels are. A build is a kernel with its
number format, constants, warps and stages, for one architecture. A launch is silent if no check has a finding.

| Triton | ` + columns

	suitesHead = `
The same by the sources of the kernels, all versions together:

| source | ` + columns

	fixed = `
## False alarms that are fixed

The first runs of these kernels accused or refused correct ones. Each cause is fixed in the emulator, with a test:

- uninit: one or two numbers converted to float8_e5m2 (3.6 and others), which Triton packs with registers that nothing
  writes.
- race: ` + "`tl.sum(a * b, axis=0)`" + ` on 8 x 16 with four and eight warps (3.9), whose replicas store at addresses
  swizzled by bfe.s32.
- uninit and wrong outputs: the lock of the layer-norm gradient (3.8). Before 3.9 no barrier stands between
  ` + "`tl.load(Count)` and `tl.atomic_xchg(Count, 1)`" + `; warps of a Triton program now load a scalar before one of
  them stores it.
- not executed: ` + "`tl.atomic_add`" + ` of a tile for sm_90, which becomes atom.global.gpu.acq_rel.add.v4.f32.
`

	alarmsHead = `
## Findings, refusals and wrong outputs

Each was read; the verdict says what is at fault.

| kernel | what | versions | launches | at fault | why |
|---|---|---|---|---|---|
`
)
