// This file implements the checks of floating-point code that must give the same bits on every CPU: no arithmetic that
// the compiler may fuse, no functions of package math whose last bits differ between machines.

package internal_test

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// portableMath are the functions of package math that are exact or correctly rounded by IEEE 754, hence the same
// everywhere. The others (Exp, Log, Erf, Sin, Pow, ...) differ in the last bits between CPUs: internal/libm has ours.
var portableMath = strings.Fields(`
	Abs Ceil Copysign Dim FMA Float32bits Float32frombits Float64bits Float64frombits Floor Frexp Ilogb Inf IsInf IsNaN
	Ldexp Logb Max Min Mod Modf NaN Nextafter Nextafter32 Remainder Round RoundToEven Signbit Sqrt Trunc`)

// TestPortableMath: no value of ours depends on the math library of the machine, and no choice on a global generator.
func TestPortableMath(t *testing.T) {
	for _, p := range checkedPackages(t) {
		if p.isTestkit() || isTool(p.listedPackage) {
			continue
		}
		var faults []string
		for id, obj := range p.Info.Uses {
			if fault := mathFault(obj); fault != "" {
				faults = append(faults, place(p.Fset, id.Pos())+": "+fault)
			}
		}
		slices.Sort(faults)
		for _, fault := range faults {
			t.Error(fault)
		}
	}
}

// mathFault says what is wrong with using obj, "" if nothing is.
func mathFault(obj types.Object) string {
	fn, ok := obj.(*types.Func)
	if !ok || fn.Pkg() == nil {
		return ""
	}
	switch fn.Pkg().Path() {
	case "math":
		if !slices.Contains(portableMath, fn.Name()) {
			return "math." + fn.Name() + " gives other last bits on another CPU: use internal/libm"
		}
	case "math/cmplx":
		return "math/cmplx gives other last bits on another CPU"
	case "math/rand", "math/rand/v2":
		return fn.Pkg().Path() + " is not reproducible: draw from a named stream of internal/rng"
	}
	return ""
}

// TestNoFusableProducts: the compiler may compute x*y + z with one rounding (Go spec, floating-point operators), and
// does so with GOAMD64=v3 and on arm64. An explicit conversion, float64(x*y) + z, forbids it.
func TestNoFusableProducts(t *testing.T) {
	for _, p := range checkedPackages(t) {
		if !p.judges() {
			continue
		}
		for _, pos := range fusable(p.Files, p.Info) {
			t.Errorf("%s: the compiler may fuse this product with the addition: write float64(x*y) + z, "+
				"or math.FMA where one rounding is meant", place(p.Fset, pos))
		}
	}
}

// fusable returns the products that feed an addition or subtraction directly.
func fusable(files []*ast.File, info *types.Info) []token.Pos {
	var found []token.Pos
	look := func(operand ast.Expr) {
		if prod := bareProduct(operand, info); prod != nil {
			found = append(found, prod.Pos())
		}
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if n.Op == token.ADD || n.Op == token.SUB {
					look(n.X)
					look(n.Y)
				}
			case *ast.AssignStmt:
				if n.Tok == token.ADD_ASSIGN || n.Tok == token.SUB_ASSIGN {
					look(n.Rhs[0])
				}
			}
			return true
		})
	}
	return found
}

// bareProduct returns the floating-point multiplication that e is, through parentheses and signs, or nil.
func bareProduct(e ast.Expr, info *types.Info) ast.Expr {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return bareProduct(e.X, info)
	case *ast.UnaryExpr:
		if e.Op == token.SUB || e.Op == token.ADD {
			return bareProduct(e.X, info)
		}
	case *ast.BinaryExpr:
		if tv := info.Types[e]; e.Op == token.MUL && tv.Value == nil && hasFloat(tv.Type) {
			return e
		}
	}
	return nil
}

// hasFloat reports whether a value of type t may be a floating-point or complex number; t may be a type parameter.
func hasFloat(t types.Type) bool {
	if tp, ok := types.Unalias(t).(*types.TypeParam); ok {
		t = tp.Constraint()
	}
	switch u := t.Underlying().(type) {
	case *types.Basic:
		return u.Info()&(types.IsFloat|types.IsComplex) != 0
	case *types.Union:
		for term := range u.Terms() {
			if hasFloat(term.Type()) {
				return true
			}
		}
	case *types.Interface:
		for e := range u.EmbeddedTypes() {
			if hasFloat(e) {
				return true
			}
		}
	}
	return false
}

// TestNoFusableProductsSeesFaults makes sure that the test above can fail at all.
func TestNoFusableProductsSeesFaults(t *testing.T) {
	const src = `package p
		type num interface{ ~float32 | ~float64 }
		type myfloat float64
		const c = 2.0
		func ok(x, y, z float64, i, j, k int) {
			_ = float64(x*y) + z; z += float64(x * y); _ = i*j + k; _ = c*c + z; _ = x / y + z; _ = (x + y) * z
		}
		func okGeneric[T num](x, y, z T) T { return T(x*y) + z }
		func bad(x, y, z float64, f float32, m myfloat) {
			_ = x*y + z // want
			_ = z - (x*y) // want
			_ = -(x*y) + z // want
			z += x*y // want
			z -= x*y // want
			_ = f*f + f // want
			_ = m*m + m // want
			_ = float64(x*y + z) // want
			_ = c*x + z // want
		}
		func badGeneric[T num](x, y, z T) T { return x*y + z } // want
	`
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "p.go", src, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	conf := types.Config{Importer: importer.Default()}
	if _, err := conf.Check("p", fset, []*ast.File{f}, info); err != nil {
		t.Fatal(err)
	}
	var got, want []int
	for _, pos := range fusable([]*ast.File{f}, info) {
		got = append(got, fset.Position(pos).Line)
	}
	for _, c := range f.Comments {
		want = append(want, fset.Position(c.Pos()).Line)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("fusable products in lines %v, want %v", got, want)
	}
}

// fusedInstr is a fused multiply-add in the listing of the arm64 compiler, with the place it came from:
//
//	0x0010 00016 (file.go:12)	FMADDD	F1, F2, F0, F0
var fusedInstr = regexp.MustCompile(`\(([^()\s]+\.go):(\d+)\)\s+(FN?M(?:ADD|SUB)[SD])\b`)

// TestNoFusedInstructions looks at what the compiler made of it. The syntax check above cannot see products that go
// through a variable (t := x*y; r := t + z may be fused, too). arm64 fuses whatever the language allows, so its listing
// is the strictest witness; it is compiled here, not run.
func TestNoFusedInstructions(t *testing.T) {
	var paths []string
	for _, p := range ownPackages(t) {
		if p.judges() {
			paths = append(paths, p.ImportPath)
		}
	}
	for _, fault := range fusedIn(t, "..", append([]string{"-gcflags=" + module + "/internal/...=-S"}, paths...)) {
		t.Errorf("%s, and no math.FMA stands there: write float64(x*y) around the product", fault)
	}
}

// fusedIn compiles for arm64 and returns the fused instructions that stem from lines without math.FMA.
func fusedIn(t *testing.T, dir string, args []string) []string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"build"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0", "GOFLAGS=")
	listing, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(cmd.Args[1:], " "), err, lastLines(listing, 30))
	}
	if !bytes.Contains(listing, []byte("STEXT")) {
		t.Fatalf("go %s printed no listing", strings.Join(cmd.Args[1:], " "))
	}
	seen := map[string]bool{}
	var faults []string
	scan := bufio.NewScanner(bytes.NewReader(listing))
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		m := fusedInstr.FindStringSubmatch(scan.Text())
		if m == nil || seen[m[1]+":"+m[2]] {
			continue
		}
		seen[m[1]+":"+m[2]] = true
		file := m[1]
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		line, _ := strconv.Atoi(m[2])
		if !strings.Contains(sourceLine(t, file, line), "math.FMA(") {
			abs, _ := filepath.Abs(dir)
			rel := strings.TrimPrefix(m[1], abs+string(filepath.Separator))
			faults = append(faults, fmt.Sprintf("%s:%s: compiled to %s on arm64", rel, m[2], m[3]))
		}
	}
	return faults
}

func sourceLine(t *testing.T, file string, line int) string {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(src), "\n")
	if line < 1 || line > len(lines) {
		t.Fatalf("%s has no line %d", file, line)
	}
	return lines[line-1]
}

func lastLines(text []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// TestNoFusedInstructionsSeesFaults compiles a small module that has what the test above looks for.
func TestNoFusedInstructionsSeesFaults(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module m\n\ngo 1.26\n",
		"m.go": "package m\n\nimport \"math\"\n\nfunc f(x, y, z float64) float64 {\n\tt := x * y\n\treturn t + z\n}\n\n" +
			"func g(x, y, z float64) float64 {\n\tt := float64(x * y)\n\treturn t + z\n}\n\n" +
			"func h(x, y, z float64) float64 { return math.FMA(x, y, z) }\n\nvar F, G, H = f, g, h\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	faults := fusedIn(t, dir, []string{"-gcflags=-S", "."})
	if len(faults) != 1 || !strings.Contains(faults[0], "m.go:7") {
		t.Errorf("fused instructions found: %q, want one in m.go:7", faults)
	}
}
