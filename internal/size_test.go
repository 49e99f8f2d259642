package internal_test

import (
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// Limits of size: what does not fit on a few screens is not read.
const (
	maxFileLines = 800
	maxFuncLines = 100 // composite literals (flat tables) are not counted
	maxLineRunes = 120
)

// longFuncs are functions that may be longer, each with its reason: "internal/ptxvm decode": "one case per opcode".
var longFuncs = map[string]string{}

func TestSizes(t *testing.T) {
	used := map[string]bool{}
	assembly := 0
	for _, f := range trackedFiles(t) {
		if strings.HasSuffix(f, ".s") {
			assembly++
			checkLines(t, f)
		}
	}
	if assembly == 0 {
		t.Error("there is no assembly: its limits have not been looked at")
	}
	for _, f := range goFiles(t) {
		checkLines(t, f)
		fset := token.NewFileSet()
		for _, decl := range parseFile(t, fset, filepath.Join("..", f)).Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			key := path.Dir(f) + " " + fn.Name.Name
			if n := funcLines(fset, fn); n > maxFuncLines {
				used[key] = true
				if longFuncs[key] == "" {
					t.Errorf("%s: function %s has %d lines, at most %d are allowed",
						place(fset, fn.Pos()), fn.Name.Name, n, maxFuncLines)
				}
			}
		}
	}
	for key := range longFuncs {
		if !used[key] {
			t.Errorf("longFuncs names %q, which is not too long any more: remove the entry", key)
		}
	}
}

// checkLines holds the number of lines of a file and their lengths against the limits.
func checkLines(t *testing.T, f string) {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("..", f))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(src), "\n"), "\n")
	if len(lines) > maxFileLines {
		t.Errorf("%s has %d lines, at most %d are allowed", f, len(lines), maxFileLines)
	}
	for i, line := range lines {
		if n := utf8.RuneCountInString(line); n > maxLineRunes {
			t.Errorf("%s:%d: line has %d characters, at most %d are allowed", f, i+1, n, maxLineRunes)
		}
	}
}

// funcLines counts the lines of a function without those of its flat tables: composite literals that hold no function.
func funcLines(fset *token.FileSet, fn *ast.FuncDecl) int {
	span := func(n ast.Node) int { return fset.Position(n.End()).Line - fset.Position(n.Pos()).Line }
	total := span(fn.Body) + 1
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		if lit, ok := n.(*ast.CompositeLit); ok && !holdsFunc(lit) {
			total -= span(lit)
			return false
		}
		return true
	})
	return total
}

func holdsFunc(n ast.Node) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		_, ok := n.(*ast.FuncLit)
		found = found || ok
		return !found
	})
	return found
}

// documentedNames are files whose place the published interface fixes.
var documentedNames = []string{"python/src/gpuemu/frameworks/base.py"}

// TestForbiddenNames: a name that says nothing collects everything. A homeless function goes to the package of its main
// argument.
func TestForbiddenNames(t *testing.T) {
	for _, f := range trackedFiles(t) {
		if bad := forbiddenName(f); bad != "" && !slices.Contains(documentedNames, f) {
			t.Errorf("%s: %q is not allowed as the name of a package or file", f, bad)
		}
	}
	for f, want := range map[string]bool{
		"internal/util/x.go": true, "internal/dtype/helpers_test.go": true, "python/src/gpuemu/common.py": true,
		"internal/dtype/basement.go": false, "docs/types.md": true, "internal/cli/ops.go": false,
	} {
		if got := forbiddenName(f) != ""; got != want {
			t.Errorf("forbiddenName(%q) is a fault: %v, want %v", f, got, want)
		}
	}
}

func forbiddenName(file string) string {
	forbidden := strings.Fields("util utils common helper helpers misc base types manager")
	for part := range strings.SplitSeq(file, "/") {
		stem, _, _ := strings.Cut(part, ".")
		stem = strings.TrimSuffix(stem, "_test")
		if slices.Contains(forbidden, stem) {
			return stem
		}
	}
	return ""
}
