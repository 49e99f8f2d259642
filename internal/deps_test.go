// Package internal_test holds what is true of the repository as a whole: who may import whom, how long a file may
// be, which names are taken, that generated pages are fresh. It has no code of the product and tests no one package.
package internal_test

import (
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// levels is the direction of imports: a package imports only packages of a LOWER level, not of its own, not upwards.
// The idea is that of go/build/deps_test.go. When the table is wrong, move the package and say why in
// docs/rationale.md. Lines name packages that are still to come, too: they already have their place.
const levels = `
	10 cmd/gpuemu cmd/gpu-proof
	9  cli
	8  daemon proof
	7  report policy demo
	6  campaign challenge
	5  shrink receipt
	4  runner store project gradient inspect
	3  gen oracle invariant verdict artifact config emulation
	2  opspec compare ptxvm fingerprint forge cudatool pattern ptxdiff launchfile formula
	1  pagesum command corpus rng tensor gemm ptx ptxmath cubin sass sshsig wire nng
	0  diag dtype escape libm python atomicfile
`

// leaves import nothing of ours at all, whatever their level would allow.
var leaves = map[string]bool{"wire": true, "nng": true}

// external says which packages may import which other modules. Tests may import all of them.
// Every line has its entry in docs/rationale.md.
const external = `
	command github.com/spf13/cobra github.com/spf13/pflag
	cli     github.com/spf13/cobra golang.org/x/term
	proof   github.com/spf13/cobra github.com/spf13/pflag golang.org/x/term
	rng     golang.org/x/crypto/blake2b
	gemm    golang.org/x/sys/cpu
	compare golang.org/x/sys/cpu
	runner  golang.org/x/sys/unix
	daemon  golang.org/x/sys/unix
	config  github.com/pelletier/go-toml/v2 github.com/pelletier/go-toml/v2/unstable
	corpus  github.com/pelletier/go-toml/v2
	store   modernc.org/sqlite
	pagesum modernc.org/libc modernc.org/sqlite/lib
	policy  go.yaml.in/yaml/v3
	libm    golang.org/x/sys/cpu
	cubin   github.com/klauspost/compress/zstd
	oracle  golang.org/x/sys/cpu
	ptxmath golang.org/x/sys/cpu
	ptxvm   golang.org/x/sys/cpu
	sshsig  github.com/hiddeco/sshsig golang.org/x/crypto/ssh golang.org/x/crypto/ssh/agent
	formula github.com/expr-lang/expr/ast github.com/expr-lang/expr/file github.com/expr-lang/expr/parser
`

// parseLevels gives the level of each name of the table.
func parseLevels(t *testing.T, table string) map[string]int {
	t.Helper()
	level := map[string]int{}
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		n, err := strconv.Atoi(fields[0])
		if err != nil {
			t.Fatalf("levels: line %q has no number", line)
		}
		for _, name := range fields[1:] {
			if _, twice := level[name]; twice {
				t.Fatalf("levels: %s stands there twice", name)
			}
			level[name] = n
		}
	}
	return level
}

// short is a package's name in the table: internal/dtype is dtype, cmd/gpuemu stays as it is.
func short(importPath string) string {
	return strings.TrimPrefix(strings.TrimPrefix(importPath, module+"/"), "internal/")
}

func TestImportDirection(t *testing.T) {
	level := parseLevels(t, levels)
	for _, p := range ownPackages(t) {
		if p.isTestkit() || len(p.GoFiles) == 0 || isTool(p) {
			continue
		}
		from := short(p.ImportPath)
		fromLevel, ok := level[from]
		if !ok {
			t.Errorf("package %s has no level: give it one in the table of internal/deps_test.go", p.rel())
			continue
		}
		for _, imp := range p.Imports {
			if !strings.HasPrefix(imp, module+"/") {
				continue
			}
			if msg := edgeFault(level, from, fromLevel, short(imp)); msg != "" {
				t.Errorf("%s imports %s: %s", p.rel(), strings.TrimPrefix(imp, module+"/"), msg)
			}
		}
	}
}

// isTool reports whether the package is a program beside the product: a generator, or in bench/, tools/, corpus/. Such
// a program imports what it likes, and nothing imports it.
func isTool(p *listedPackage) bool {
	cmd, own := strings.HasPrefix(p.rel(), "cmd/"), strings.HasPrefix(p.rel(), "internal/")
	return !cmd && (!own || p.Name == "main")
}

// edgeFault says what is wrong with one import, "" if nothing is.
func edgeFault(level map[string]int, from string, fromLevel int, to string) string {
	if to == "testkit" || strings.HasPrefix(to, "testkit/") {
		return "testkit is for _test.go files only"
	}
	toLevel, ok := level[to]
	switch {
	case !ok:
		return "it has no level in the table of internal/deps_test.go"
	case leaves[from]:
		return from + " imports nothing of ours"
	case toLevel >= fromLevel:
		return "level " + strconv.Itoa(fromLevel) + " may import lower levels only, not level " + strconv.Itoa(toLevel)
	}
	return ""
}

// TestImportDirectionSeesFaults makes sure that the test above can fail at all.
func TestImportDirectionSeesFaults(t *testing.T) {
	level := parseLevels(t, levels)
	for _, tt := range []struct {
		from, to string
		fault    bool
	}{
		{"tensor", "dtype", false},
		{"cli", "oracle", false},
		{"gemm", "dtype", false},
		{"dtype", "tensor", true},     // upwards
		{"gen", "oracle", true},       // its own line
		{"oracle", "testkit", true},   // tests only
		{"oracle", "testkit/x", true}, // tests only
		{"oracle", "nowhere", true},   // unknown
		{"wire", "diag", true},        // a leaf
	} {
		if got := edgeFault(level, tt.from, level[tt.from], tt.to); (got != "") != tt.fault {
			t.Errorf("edgeFault(%s imports %s) = %q, want a fault: %v", tt.from, tt.to, got, tt.fault)
		}
	}
}

func TestExternalImports(t *testing.T) {
	allowed, used := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(external) {
		fields := strings.Fields(line)
		for i := 1; i < len(fields); i++ {
			allowed[fields[0]+" "+fields[i]] = true
		}
	}
	for _, p := range ownPackages(t) {
		if p.isTestkit() || isTool(p) {
			continue
		}
		for _, imp := range p.Imports {
			first, _, _ := strings.Cut(imp, "/")
			edge := short(p.ImportPath) + " " + imp
			used[edge] = true
			if !strings.Contains(first, ".") || allowed[edge] {
				continue
			}
			t.Errorf("%s imports %s: allow it in internal/deps_test.go and give the reason in docs/rationale.md",
				p.rel(), imp)
		}
	}
	for edge := range allowed {
		if !used[edge] && runtime.GOARCH == "amd64" { // elsewhere there is no assembly, and no question of CPU features
			t.Errorf("internal/deps_test.go allows %s, which nobody needs: take it out", edge)
		}
	}
}
