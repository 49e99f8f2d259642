// This file implements the checks of error codes and the generator of docs/errors.md.

package internal_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/testkit"
)

// codeConst is one declared error code.
type codeConst struct {
	Package, Name, Code, Doc string
	Place                    string
}

var codeForm = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)+$`)

// codeConsts returns all declared codes in the order of their text, and reports what is wrong with them.
func codeConsts(t *testing.T) []codeConst {
	t.Helper()
	var codes []codeConst
	for _, p := range checkedPackages(t) {
		if p.isTestkit() || short(p.ImportPath) == "diag" {
			continue
		}
		declared := map[*ast.BasicLit]bool{}
		for _, f := range p.Files {
			for _, decl := range f.Decls {
				gen, ok := decl.(*ast.GenDecl)
				if !ok || gen.Tok != token.CONST {
					continue
				}
				for _, spec := range gen.Specs {
					for _, c := range codesOf(p, spec.(*ast.ValueSpec), declared) {
						codes = append(codes, c)
						if filepath.Base(p.Fset.Position(spec.Pos()).Filename) != "codes.go" {
							t.Errorf("%s: code %s is declared outside codes.go", c.Place, c.Name)
						}
					}
				}
			}
		}
		for _, f := range p.Files {
			ast.Inspect(f, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && !declared[lit] && isCode(p.Info.Types[lit].Type) && lit.Value != `""` {
					t.Errorf("%s: code %s is written in place: declare it in codes.go", place(p.Fset, lit.Pos()), lit.Value)
				}
				return true
			})
		}
	}
	slices.SortFunc(codes, func(x, y codeConst) int { return cmp.Compare(x.Code, y.Code) })
	return codes
}

// codesOf returns the codes of one const line and notes their literals in declared.
func codesOf(p *checkedPackage, spec *ast.ValueSpec, declared map[*ast.BasicLit]bool) []codeConst {
	var codes []codeConst
	for i, name := range spec.Names {
		obj := p.Info.Defs[name].(*types.Const)
		if !isCode(obj.Type()) {
			continue
		}
		if i < len(spec.Values) {
			if lit, ok := spec.Values[i].(*ast.BasicLit); ok {
				declared[lit] = true
			}
		}
		doc := strings.TrimSpace(spec.Doc.Text())
		if doc == "" {
			doc = strings.TrimSpace(spec.Comment.Text())
		}
		codes = append(codes, codeConst{
			Package: p.rel(), Name: name.Name, Code: constant.StringVal(obj.Val()),
			Doc: strings.Join(strings.Fields(doc), " "), Place: place(p.Fset, name.Pos()),
		})
	}
	return codes
}

func isCode(t types.Type) bool {
	named, ok := t.(*types.Named)
	return ok && named.Obj().Name() == "Code" && named.Obj().Pkg().Path() == module+"/internal/diag"
}

// TestCodes: a code is unique for good, says where it comes from, and is documented where it is declared.
func TestCodes(t *testing.T) {
	first := map[string]codeConst{}
	codes := codeConsts(t)
	if len(codes) == 0 {
		t.Fatal("no diag.Code constant found")
	}
	for _, c := range codes {
		if other, twice := first[c.Code]; twice {
			t.Errorf("%s: code %q is also declared at %s", c.Place, c.Code, other.Place)
		}
		first[c.Code] = c
		if !codeForm.MatchString(c.Code) || !strings.HasPrefix(c.Code, filepath.Base(c.Package)+"-") {
			t.Errorf("%s: code %q does not have the form %s-what-happened", c.Place, c.Code, filepath.Base(c.Package))
		}
		if c.Doc == "" {
			t.Errorf("%s: code %s has no doc comment", c.Place, c.Name)
		}
	}
}

// TestErrorsPage keeps docs/errors.md in step with the declared codes.
func TestErrorsPage(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Error codes\n\nEvery error a user may see ends with a code in brackets, `[tensor-shape-limit]`. " +
		"A code keeps its meaning for\ngood. This page is generated from the declarations: `make generate`.\n\n" +
		"| code | meaning |\n|---|---|\n")
	for _, c := range codeConsts(t) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", c.Code, markdownCell(sentence(c)))
	}
	testkit.Golden(t, "../docs/errors.md", []byte(b.String()))
}

// sentence turns a doc comment into the text of the page: the constant's own name in front says nothing to a user.
func sentence(c codeConst) string {
	doc := c.Doc
	for _, lead := range []string{" means that ", " means ", ": ", " says that "} {
		if rest, ok := strings.CutPrefix(doc, c.Name+lead); ok {
			doc = rest
			break
		}
	}
	return strings.TrimSuffix(doc, ".")
}

func markdownCell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
