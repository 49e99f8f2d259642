package main

import (
	"path/filepath"
	"testing"

	"gpuemu/internal/testkit"
)

// TestCommittedPages: the pages and pictures of the repository, and the table of the README, are what the committed
// records give; whatever came out otherwise than it should has an explanation.
func TestCommittedPages(t *testing.T) {
	root := testkit.Root(t)
	d, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	files, err := d.pages(below(root))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		testkit.Golden(t, filepath.Join(root, name), text)
	}
	for _, fault := range d.unexplained() {
		t.Errorf("%s: %s", explanationsFile, fault)
	}
}
