// This file implements the forms of coverage: text, JSON and that of Codecov.

package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"gpuemu/internal/escape"
)

// Text writes the coverage for people.
func (c *Coverage) Text(w io.Writer) error {
	out := bufio.NewWriter(w)
	rows := [][]string{{"op", "cases", "not run", "dtypes", "layouts", "values", "shapes"}}
	for i := range c.Ops {
		op := &c.Ops[i]
		row := []string{escape.Line(op.Op), fmt.Sprint(op.Cases), fmt.Sprint(op.NotRun)}
		for _, f := range op.facets() {
			seen, all := f.Hit()
			row = append(row, fmt.Sprintf("%d/%d", seen, all))
		}
		rows = append(rows, row)
	}
	for _, line := range columns(rows, 1) {
		fmt.Fprintln(out, line)
	}
	for i := range c.Ops {
		op := &c.Ops[i]
		fmt.Fprintf(out, "\n%s\n", escape.Line(op.Op))
		if op.Cases == 0 {
			fmt.Fprintln(out, "  never exercised")
			continue
		}
		for k, f := range op.facets() {
			if _, all := f.Hit(); all == 0 {
				continue
			}
			var seen []string
			for _, s := range f.Seen {
				seen = append(seen, fmt.Sprintf("%s %d", escape.Text(s.Name), s.Cases))
			}
			if seen == nil {
				seen = []string{"none"}
			}
			fmt.Fprintf(out, "  %-8s %s\n", facetNames[k]+":", strings.Join(seen, ", "))
			if len(f.Unseen) > 0 {
				fmt.Fprintf(out, "           not exercised: %s\n", escape.Text(strings.Join(f.Unseen, ", ")))
			}
		}
	}
	if len(c.Unconfigured) > 0 {
		fmt.Fprintf(out, "\nnot in the configuration: %s\n", escape.Text(strings.Join(c.Unconfigured, ", ")))
	}
	exercised := 0
	for i := range c.Ops {
		if c.Ops[i].Cases > 0 {
			exercised++
		}
	}
	fmt.Fprintf(out, "\n%d of %d ops exercised\n", exercised, len(c.Ops))
	return out.Flush()
}

var facetNames = [...]string{"dtypes", "layouts", "values", "shapes"}

func (o *OpCoverage) facets() [4]*Facet {
	return [4]*Facet{&o.DTypes, &o.Layouts, &o.Values, &o.Shapes}
}

// JSON writes the coverage as JSON.
func (c *Coverage) JSON(w io.Writer) error { return writeJSON(w, c) }

func writeJSON(w io.Writer, v any) error {
	b, err := encode(v, "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// Codecov writes the custom coverage format of Codecov. Coverage of cases has no lines, so the first line of each file
// stands for the whole: the number of cases that exercised its ops, or a share such as "2/3" where only some of the
// configured dtypes were, or 0. Files are those of candidates and of references; what is no file (builtin:, worker:,
// client) is left out.
func (c *Coverage) Codecov(w io.Writer) error {
	type total struct{ cases, seen, all int }
	files := map[string]*total{}
	for i := range c.Ops {
		op := &c.Ops[i]
		seen, all := op.DTypes.Hit()
		if all == 0 { // nothing configured and nothing known of dtypes: a kernel
			seen, all = min(1, op.Cases), 1
		}
		last := ""
		for _, target := range []string{op.Candidate, op.Reference} {
			file := targetFile(target)
			if file == "" || file == last {
				continue
			}
			last = file
			t := files[file]
			if t == nil {
				t = &total{}
				files[file] = t
			}
			t.cases, t.seen, t.all = t.cases+op.Cases, t.seen+seen, t.all+all
		}
	}
	lines := map[string]map[string]any{}
	for file, t := range files {
		var hit any = t.cases
		if t.cases > 0 && t.seen < t.all {
			hit = fmt.Sprintf("%d/%d", t.seen, t.all)
		}
		lines[file] = map[string]any{"1": hit}
	}
	return writeJSON(w, map[string]any{"coverage": lines})
}

// targetFile returns the file of a candidate or reference as configured, "" where it is none.
func targetFile(target string) string {
	if target == "client" || strings.HasPrefix(target, "builtin:") || strings.HasPrefix(target, "worker:") {
		return ""
	}
	if i := strings.LastIndex(target, ".py:"); i >= 0 {
		return target[:i+len(".py")]
	}
	return target
}
