package ptxdiff

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/ptx"
)

// FuzzCompare: no two files panic, each is the same as itself, and the rank does not depend on which is the old one.
func FuzzCompare(f *testing.F) {
	files := fixtures(f)
	var last string
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if src := files[path]; len(src) < 4000 { // small ones are mutated faster
			f.Add(src, src)
			f.Add(last, src)
			last = src
		}
	}
	f.Add(kernelText(loop("0", "1", "lt", "0fFF800000")), kernelText(loop("0", "1", "le", "0fFF800000")))
	f.Fuzz(func(t *testing.T, old, new string) {
		check(t, old, new)
	})
}

// maxEdited is the size of the files that FuzzEdits changes. Each input is compared twice: large files are few inputs.
const maxEdited = 6000

// FuzzEdits: the same for files that compilers wrote with lines removed, doubled, exchanged or mixed, which still parse
// more often than what bytes are changed in.
func FuzzEdits(f *testing.F) {
	files := fixtures(f)
	var modules []*ptx.File
	var texts []string
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if src := files[path]; len(src) <= maxEdited {
			if m := parsed(src); m != nil {
				modules, texts = append(modules, m), append(texts, src)
			}
		}
	}
	if len(modules) < 10 {
		f.Fatalf("%d files have at most %d bytes, too few to change", len(modules), maxEdited)
	}
	for i := range modules {
		f.Add(uint16(i), []byte{byte(i), 0, 31, 40, byte(i), 1, 50, 3})
	}
	f.Fuzz(func(t *testing.T, which uint16, edits []byte) {
		i := int(which) % len(modules)
		lines := strings.Split(texts[i], "\n")
		for len(edits) >= 4 {
			at := (int(edits[0])<<8 | int(edits[1])) % len(lines)
			other := (at + int(edits[2])%16) % len(lines)
			switch edits[3] % 4 {
			case 0:
				lines[at] = ""
			case 1:
				lines[at] += "\n" + lines[other]
			case 2:
				lines[at], lines[other] = lines[other], lines[at]
			case 3: // the operands of one behind the opcode of another
				from, to := strings.Fields(lines[other]), strings.Fields(lines[at])
				if len(from) > 1 && len(to) > 1 {
					lines[at] = to[0] + " " + strings.Join(from[1:], " ")
				}
			}
			edits = edits[4:]
		}
		if is := parsed(strings.Join(lines, "\n")); is != nil {
			checkPair(t, modules[i], is)
		}
	})
}

// parsed returns a module that has a kernel, else nil.
func parsed(text string) *ptx.File {
	m, err := ptx.Parse("file.ptx", text)
	if err != nil || len(m.Kernels()) == 0 {
		return nil
	}
	return m
}

// check holds what must be true of any two files.
func check(t *testing.T, old, new string) {
	was, is := parsed(old), parsed(new)
	if was == nil || is == nil {
		return
	}
	name := was.Kernels()[0].Name
	self, err := Compare(was, was, name, name)
	if err != nil {
		if diag.CodeOf(err) != Limit {
			t.Fatal(err)
		}
		return
	}
	if self.Rank != Same || len(self.Changes) > 0 {
		t.Fatalf("the file differs from itself: %v\n%s", self.Rank, list(self))
	}
	checkPair(t, was, is)
}

// checkPair holds what must be true of the first kernels of any two modules.
func checkPair(t *testing.T, was, is *ptx.File) {
	from, to := was.Kernels()[0].Name, is.Kernels()[0].Name
	there, err := Compare(was, is, from, to)
	if err != nil {
		if diag.CodeOf(err) != Limit {
			t.Fatal(err)
		}
		return
	}
	back, err := Compare(is, was, to, from)
	if err != nil {
		t.Fatal(err)
	}
	if there.Rank != back.Rank {
		t.Fatalf("the rank is %v, and %v the other way round\n%s\n%s", there.Rank, back.Rank, list(there), list(back))
	}
	if (there.Rank == Same) != (len(there.Changes) == 0) {
		t.Fatalf("%d changes at rank %v", len(there.Changes), there.Rank)
	}
	for _, c := range there.Changes {
		if c.Message == "" || c.Old.Pos.IsZero() && c.New.Pos.IsZero() {
			t.Fatalf("a change without a sentence or a place: %+v", c)
		}
	}
}
