package corpus

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/testkit"
)

// TestBugs: every edit finds its place in its kernel, and mutants.json says the same where it has the bug.
func TestBugs(t *testing.T) {
	bugs := Bugs()
	if len(bugs) == 0 {
		t.Fatal("the corpus has no bugs")
	}
	reference := regexp.MustCompile(`^[\w.-]+/[\w.-]+#\d+$`)
	for i := range bugs {
		b := &bugs[i]
		name := "bugs/" + b.Name + ".toml"
		for key, value := range map[string]string{"title": b.Title, "class": b.Class, "what": b.What, "axis": b.Axis,
			"silent": b.Silent} {
			if value == "" || strings.ContainsAny(value, "\n|") {
				t.Errorf("%s: %s is %q, want one line that fits a table", name, key, value)
			}
		}
		if !reference.MatchString(b.Ref) {
			t.Errorf("%s: ref is %q, want owner/repository#number", name, b.Ref)
		}
		b.checkEdits(t, name)
		id := Real + "." + b.Name
		if m := load().byMutant[id]; m != nil && (m.Ref != b.Ref || m.Kernel != b.Kernel || m.Class != b.Class) {
			t.Errorf("%s: mutants.json has %s, %s, %s: run make corpus", name, m.Ref, m.Kernel, m.Class)
		}
	}
}

// checkEdits applies the edits to the source of the kernel, one after the other.
func (b *Bug) checkEdits(t *testing.T, name string) {
	k := load().byKernel[b.Kernel]
	if k == nil {
		t.Errorf("%s: there is no kernel %q", name, b.Kernel)
		return
	}
	if len(b.DTypes) == 0 || len(b.Edits) == 0 {
		t.Errorf("%s: %d dtypes and %d edits, want some", name, len(b.DTypes), len(b.Edits))
	}
	for _, d := range b.DTypes {
		if !slices.Contains(k.DTypes, d) {
			t.Errorf("%s: %s is no format of %s", name, d, k.Name)
		}
	}
	source, err := Source(k.Name)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range b.Edits {
		if n := strings.Count(source, e.Before); n != 1 || e.Before == e.After {
			t.Errorf("%s: edit %d: %q occurs %d times in the source, want once, and another text in its place",
				name, i+1, e.Before, n)
		}
		source = strings.Replace(source, e.Before, e.After, 1)
	}
}

// TestBugsPage: docs/corpus-bugs.md has the bugs in its first table.
func TestBugsPage(t *testing.T) {
	const page = "../../docs/corpus-bugs.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(text), "\n\n| bug |")
	_, tail, ends := strings.Cut(rest, "\n\n")
	if !found || !ends {
		t.Fatalf("%s has no table that begins with a column called bug", page)
	}
	var table strings.Builder
	table.WriteString("| bug | report | kernel | what goes wrong | what must be drawn | where it does not show |\n" +
		"|---|---|---|---|---|---|\n")
	for _, b := range Bugs() {
		fmt.Fprintf(&table, "| `%s.%s` | %s | `%s` | %s | %s | %s |\n",
			Real, b.Name, b.Ref, b.Kernel, b.What, b.Axis, b.Silent)
	}
	testkit.Golden(t, page, []byte(head+"\n\n"+table.String()+"\n"+tail))
}
