package litmus

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"
)

// This file implements the set: programs of the files in set/, and message passing in all its combinations.

//go:embed set/*.litmus
var files embed.FS

// Set is all programs, each with the verdict that its author gives it. A racy one has a silent twin: the program that
// fixes it.
var Set = sync.OnceValues(func() ([]*Program, error) {
	names, err := fs.Glob(files, "set/*.litmus")
	if err != nil {
		return nil, err
	}
	var out []*Program
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		programs, err := Parse(strings.TrimSuffix(path.Base(name), ".litmus"), string(text))
		if err != nil {
			return nil, err
		}
		out = append(out, programs...)
	}
	matrix, err := messages()
	return append(out, matrix...), err
})

// messages is message passing between blocks: x = 1 and a flag, with every kind of store and load of the flag and every
// fence on either side. Who wrote it gives no verdict; its twin is the silent combination with the fewest changes.
func messages() ([]*Program, error) {
	var b strings.Builder
	fences := []string{"", "fence.acq_rel.cta", "fence.acq_rel.gpu", "fence.sc.gpu"}
	short := []string{"none", "cta", "gpu", "sc"}
	for _, st := range []string{"weak", "relaxed.gpu", "release.gpu"} {
		for _, ld := range []string{"weak", "relaxed.gpu", "acquire.gpu"} {
			for i, before := range fences {
				for k, after := range fences {
					fmt.Fprintf(&b, "test %s-%s-%s-%s: st.%[1]s, ld.%[3]s of the flag; fences %[2]s, %[4]s\n", word(st), short[i],
						word(ld), short[k])
					fmt.Fprintf(&b, "global x f\nblock 0\n  st x 1\n  %s\n  st.%s f 1\n", before, st)
					fmt.Fprintf(&b, "block 1\n  wait ld.%s f == 1\n  %s\n  r = ld x\n", ld, after)
				}
			}
		}
	}
	return Parse("messages", b.String())
}

// word is the first part of a qualifier.
func word(q string) string {
	w, _, _ := strings.Cut(q, ".")
	return w
}
