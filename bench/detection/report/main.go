// Command report makes the pages and pictures of the detection study of the committed records: docs/evidence/corpus.md,
// detection-study.md, detection-baselines.md, detection-device.md and plots, and the table of evidence in the README.
// It executes no kernel.
//
// make evidence-detection runs it at the root of the repository. Its test holds the committed pages against the
// records.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// What the tool writes into pages that are written by hand stands between these lines.
const (
	blockStart = "<!-- make evidence-detection writes what follows -->\n"
	blockEnd   = "<!-- up to here -->\n"
)

// handWritten are the pages with such a block.
var handWritten = []string{"README.md", evidenceDir + "/README.md"}

// filled gives a page with its block replaced.
func filled(name, text, block string) ([]byte, error) {
	before, rest, ok := strings.Cut(text, blockStart)
	_, after, shut := strings.Cut(rest, blockEnd)
	if !ok || !shut {
		return nil, fmt.Errorf("%s has no lines %q and %q around what the tool writes", name, strings.TrimSpace(blockStart),
			strings.TrimSpace(blockEnd))
	}
	return []byte(before + blockStart + "\n" + strings.TrimSpace(block) + "\n\n" + blockEnd + after), nil
}

// readmeBlock is the evidence in the README.
func (d *dataset) readmeBlock() string {
	p := &page{}
	p.WriteString(d.inShort().String() + "\n")
	_, cases := d.ourAlarms()
	p.para("gpuemu ran %d cases of correct kernels, with adversarial values in half of them; %d fail, so with 95 %% "+
		"confidence fewer than %s of such cases do. "+
		"[All tables, intervals and every miss](docs/evidence/detection-study.md), "+
		"[the rules of the other harnesses](docs/evidence/detection-baselines.md), "+
		"[the same kernels on an H200](docs/evidence/detection-device.md), [the corpus](docs/evidence/corpus.md).", cases.n,
		cases.k,
		cases.limit())
	p.WriteString("![wrong kernels found, by class of fault and by rule](docs/evidence/plots/baselines.svg)\n")
	return p.String()
}

// listBlock is the entry of the study in the list of evidence.
const listBlock = "- `make evidence-detection` makes, of the records of [the study](../corpus.md#the-study):\n" +
	"  [detection-study.md](detection-study.md), which wrong kernels are found, after how many cases, and how many " +
	"correct ones\n  are accused; [detection-baselines.md](detection-baselines.md), what the rules of other harnesses " +
	"say of the same kernels;\n  [detection-device.md](detection-device.md), what a GPU says of them; " +
	"[corpus.md](corpus.md), what they are.\n"

// pages gives every file that the records decide, by its path below the root; read gives pages as they stand.
func (d *dataset) pages(read func(name string) (string, error)) (map[string][]byte, error) {
	files := map[string][]byte{
		evidenceDir + "/corpus.md":              d.corpusPage(),
		evidenceDir + "/detection-study.md":     d.studyPage(),
		evidenceDir + "/detection-baselines.md": d.baselinesPage(),
		evidenceDir + "/detection-device.md":    d.devicePage(),
	}
	for name, svg := range d.plots() {
		files[evidenceDir+"/plots/"+name] = svg
	}
	for i, block := range []string{d.readmeBlock(), listBlock} {
		text, err := read(handWritten[i])
		if err != nil {
			return nil, err
		}
		if files[handWritten[i]], err = filled(handWritten[i], text, block); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// below reads files below a root.
func below(root string) func(name string) (string, error) {
	return func(name string) (string, error) {
		text, err := os.ReadFile(filepath.Join(root, name))
		return string(text), err
	}
}

func run(root string) error {
	d, err := load(root)
	if err != nil {
		return err
	}
	files, err := d.pages(below(root))
	if err != nil {
		return err
	}
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, text, 0o644); err != nil {
			return err
		}
	}
	for _, fault := range d.unexplained() {
		fmt.Fprintf(os.Stderr, "report: %s: %s\n", explanationsFile, fault)
	}
	return nil
}

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}
