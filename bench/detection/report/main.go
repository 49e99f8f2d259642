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

// The table of evidence stands in the README between these lines.
const (
	tableStart = "<!-- table of docs/evidence/detection-study.md -->\n"
	tableEnd   = "<!-- end of table -->\n"
)

// pages gives every file that the records decide, by its path below the root. The README is given as it stands.
func (d *dataset) pages(readme string) (map[string][]byte, error) {
	before, rest, ok := strings.Cut(readme, tableStart)
	_, after, shut := strings.Cut(rest, tableEnd)
	if !ok || !shut {
		return nil, fmt.Errorf("README.md has no lines %q and %q around the table of evidence", strings.TrimSpace(tableStart),
			strings.TrimSpace(tableEnd))
	}
	table := "\n" + d.inShort().String() + "\n"
	files := map[string][]byte{
		"README.md":                             []byte(before + tableStart + table + tableEnd + after),
		evidenceDir + "/corpus.md":              d.corpusPage(),
		evidenceDir + "/detection-study.md":     d.studyPage(),
		evidenceDir + "/detection-baselines.md": d.baselinesPage(),
		evidenceDir + "/detection-device.md":    d.devicePage(),
	}
	for name, svg := range d.plots() {
		files[evidenceDir+"/plots/"+name] = svg
	}
	return files, nil
}

func run(root string) error {
	d, err := load(root)
	if err != nil {
		return err
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		return err
	}
	files, err := d.pages(string(readme))
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
