package internal_test

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// filesWithoutOpening is how many files a package may have before each must say what it is for.
const filesWithoutOpening = 5

// TestPackageDocs: every package says what it is; in a large one every file says what it implements.
func TestPackageDocs(t *testing.T) {
	for _, p := range ownPackages(t) {
		if len(p.GoFiles) == 0 {
			continue
		}
		opening := "Package " + p.Name + " "
		if p.Name == "main" {
			opening = "Command " + filepath.Base(p.Dir) + " "
		}
		fset := token.NewFileSet()
		documented := 0
		for _, name := range p.GoFiles {
			f := parseFile(t, fset, filepath.Join(p.Dir, name))
			if doc := f.Doc.Text(); strings.HasPrefix(doc, opening) || isTool(p) && doc != "" {
				documented++
				continue
			}
			if len(p.GoFiles) > filesWithoutOpening && !isGenerated(name) && !opensWell(f) {
				t.Errorf("%s/%s: the package has %d files, so each opens with \"This file implements ...\"",
					p.rel(), name, len(p.GoFiles))
			}
		}
		if documented != 1 {
			t.Errorf("%s: %d doc comments start with %q, want 1", p.rel(), documented, opening)
		}
	}
}

// opensWell reports whether a comment before the file's first declaration says what the file implements.
func opensWell(f *ast.File) bool {
	first := f.FileEnd
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
			continue
		}
		first = d.Pos()
		break
	}
	for _, c := range f.Comments {
		if c.Pos() < first && strings.Contains(c.Text(), "This file implements") {
			return true
		}
	}
	return false
}

// TestNoInit: work at start-up is paid by every command, and its order is hard to see.
func TestNoInit(t *testing.T) {
	for _, f := range goFiles(t) {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		for _, decl := range parseFile(t, fset, filepath.Join("..", f)).Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s: func init is not allowed", place(fset, fn.Pos()))
			}
		}
	}
}
