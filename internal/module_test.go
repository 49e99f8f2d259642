// This file implements what the tests of this directory share: the packages and files of the module.

package internal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "gpuemu"

// listedPackage is what `go list -json` says of a package, as far as these tests ask.
type listedPackage struct {
	Dir          string
	ImportPath   string
	Name         string
	Export       string // file with the compiled export data
	Standard     bool
	GoFiles      []string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// rel is the package's path inside the module: "internal/dtype".
func (p *listedPackage) rel() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

// judges reports whether the package's arithmetic decides verdicts, cases or reference values.
func (p *listedPackage) judges() bool {
	name := strings.TrimPrefix(p.rel(), "internal/")
	return slices.Contains(strings.Fields("dtype rng libm tensor gemm opspec compare gen oracle invariant"), name)
}

// isTestkit reports whether the package exists for _test.go files only.
func (p *listedPackage) isTestkit() bool {
	return p.rel() == "internal/testkit" || strings.HasPrefix(p.rel(), "internal/testkit/")
}

// loadAll runs go list once: the packages of the module and, with export data, all they depend on.
var loadAll = sync.OnceValues(func() ([]*listedPackage, error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=Dir,ImportPath,Name,Export,Standard,GoFiles,Imports,"+
		"TestImports,XTestImports", "./...")
	cmd.Dir = ".."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.New("go list: " + err.Error() + "\n" + stderr.String())
	}
	var all []*listedPackage
	dec := json.NewDecoder(bytes.NewReader(out))
	for {
		p := new(listedPackage)
		if err := dec.Decode(p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
})

// ownPackages are the packages of the module, without the standard library and other modules.
func ownPackages(t *testing.T) []*listedPackage {
	t.Helper()
	all, err := loadAll()
	if err != nil {
		t.Fatal(err)
	}
	var own []*listedPackage
	for _, p := range all {
		if strings.HasPrefix(p.ImportPath, module+"/") {
			own = append(own, p)
		}
	}
	if len(own) == 0 {
		t.Fatal("go list ./... found no package of this module")
	}
	return own
}

// checkedPackage is a package of ours, parsed and type-checked (its non-test files).
type checkedPackage struct {
	*listedPackage
	Fset  *token.FileSet
	Files []*ast.File
	Info  *types.Info
}

// checkedPackages type-checks every package of the module that has non-test files.
func checkedPackages(t *testing.T) []*checkedPackage {
	t.Helper()
	all, err := loadAll()
	if err != nil {
		t.Fatal(err)
	}
	export := map[string]string{}
	for _, p := range all {
		export[p.ImportPath] = p.Export
	}
	fset := token.NewFileSet()
	imp := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(export[path]) })
	var checked []*checkedPackage
	for _, p := range ownPackages(t) {
		if len(p.GoFiles) == 0 {
			continue
		}
		c := &checkedPackage{listedPackage: p, Fset: fset, Info: &types.Info{
			Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
			Defs: map[*ast.Ident]types.Object{},
		}}
		for _, name := range p.GoFiles {
			c.Files = append(c.Files, parseFile(t, fset, filepath.Join(p.Dir, name)))
		}
		conf := types.Config{Importer: imp, Sizes: types.SizesFor("gc", "amd64")}
		if _, err := conf.Check(p.ImportPath, fset, c.Files, c.Info); err != nil {
			t.Fatalf("type-check %s: %v", p.ImportPath, err)
		}
		checked = append(checked, c)
	}
	return checked
}

func parseFile(t *testing.T, fset *token.FileSet, path string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// place prints a position relative to the repository root.
func place(fset *token.FileSet, pos token.Pos) string {
	p := fset.Position(pos)
	root, _ := filepath.Abs("..")
	if abs, err := filepath.Abs(p.Filename); err == nil {
		p.Filename = filepath.ToSlash(strings.TrimPrefix(abs, root+string(filepath.Separator)))
	}
	return p.String()
}

// trackedFiles are the files of the repository relative to its root: those git tracks and those it would offer to add.
func trackedFiles(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command("git", "ls-files", "-co", "--exclude-standard", "-z")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v (these tests need a git checkout)", err)
	}
	var files []string
	for f := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		if info, err := os.Lstat(filepath.Join("..", f)); err == nil && info.Mode().IsRegular() {
			files = append(files, f)
		}
	}
	if len(files) == 0 {
		t.Fatal("git ls-files named no file")
	}
	return files
}

// goFiles are the tracked Go files, generated ones (*_gen.go, *_gen_test.go) left out.
func goFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, f := range trackedFiles(t) {
		if strings.HasSuffix(f, ".go") && !isGenerated(f) && !strings.Contains(f, "/testdata/") {
			files = append(files, f)
		}
	}
	return files
}

func isGenerated(path string) bool {
	stem, _, _ := strings.Cut(filepath.Base(path), ".")
	return strings.HasSuffix(stem, "_gen") || strings.HasSuffix(stem, "_gen_test") || strings.Contains(stem, "_gen_")
}
