package internal_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// machinePath finds what belongs to one machine only. It is put together from pieces so that it does not find itself.
var machinePath = regexp.MustCompile(`(^|[^A-Za-z0-9_.~$}/-])/(` + `work|farm|root|home|Users` + `)/[A-Za-z0-9._]`)

// TestNoMachinePaths: the repository speaks of the product, not of the machine somebody wrote it on.
func TestNoMachinePaths(t *testing.T) {
	for _, f := range trackedFiles(t) {
		src, err := os.ReadFile(filepath.Join("..", f))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.IndexByte(src, 0) >= 0 || filepath.Base(f) == "go.sum" {
			continue
		}
		for i, line := range bytes.Split(src, []byte("\n")) {
			if machinePath.Match(line) {
				t.Errorf("%s:%d: looks like a path of one machine: %s", f, i+1, bytes.TrimSpace(line))
			}
		}
	}
	for line, want := range map[string]bool{
		"see /wo" + "rk/main/x": true, "(/ro" + "ot/.cache)": true, "a/wo" + "rk/x": false, "https://x/ho" + "me/y": false,
	} {
		if got := machinePath.MatchString(line); got != want {
			t.Errorf("machinePath.MatchString(%q) = %v, want %v", line, got, want)
		}
	}
}

// link finds the target of a Markdown link.
var link = regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`)

// TestDocLinks: a link of a page to another file of the repository leads somewhere.
func TestDocLinks(t *testing.T) {
	for _, f := range trackedFiles(t) {
		if filepath.Ext(f) != ".md" || strings.Contains(f, "/testdata/") { // parts of pages, with the links of the page
			continue
		}
		src, err := os.ReadFile(filepath.Join("..", f))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllSubmatch(src, -1) {
			target := string(m[1])
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			if _, err := os.Stat(filepath.Join("..", filepath.Dir(f), target)); err != nil {
				t.Errorf("%s: link to %s leads nowhere", f, target)
			}
		}
	}
}
