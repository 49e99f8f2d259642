package ptxdiff

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuemu/internal/ptx"
)

const corpus = "../../testdata/ptx"

// fixtures are all PTX files that compilers wrote for us, by path.
func fixtures(t testing.TB) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(corpus, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".ptx" {
			return err
		}
		text, err := os.ReadFile(path)
		files[path] = string(text)
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("%d fixtures: %v", len(files), err)
	}
	return files
}

func rank(t *testing.T, old, new *ptx.File, entry, newEntry string) *Result {
	t.Helper()
	r, err := Compare(old, new, entry, newEntry)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestFixturesAreTheSame: every kernel is the same as itself, and as itself with other names, labels and lines.
func TestFixturesAreTheSame(t *testing.T) {
	kernels := 0
	for path, src := range fixtures(t) {
		old, err := ptx.Parse(path, src)
		if err != nil {
			t.Fatal(err)
		}
		new, err := ptx.Parse(path, renamed(old, src))
		if err != nil {
			t.Fatalf("renaming broke it: %v", err)
		}
		for _, fn := range old.Kernels() {
			kernels++
			if r := rank(t, old, old, fn.Name, fn.Name); r.Rank != Same {
				t.Errorf("%s %s differs from itself: %v\n%s", path, fn.Name, r.Rank, list(r))
			}
			if r := rank(t, old, new, fn.Name, fn.Name); r.Rank != Same {
				t.Errorf("%s %s differs from itself under other names: %v\n%s", path, fn.Name, r.Rank, list(r))
			}
		}
	}
	t.Logf("%d kernels", kernels)
}

var (
	registerName = regexp.MustCompile(`%(p|r|f|rd|rs|fd|h|hh)(<?)(\d+)\b`)
	labelName    = regexp.MustCompile(`\$L__(BB\d+_\d+|tmp\d+)\b`)
)

// renamed gives other numbers to registers and labels, other names to parameters and shared variables, and moves lines.
func renamed(f *ptx.File, src string) string {
	src = registerName.ReplaceAllStringFunc(src, func(s string) string {
		m := registerName.FindStringSubmatch(s)
		n := 0
		fmt.Sscan(m[3], &n)
		if m[2] == "<" {
			return fmt.Sprintf("%%other%s<%d", m[1], 3*n+8)
		}
		return fmt.Sprintf("%%other%s%d", m[1], 3*n+7-n%3*2)
	})
	src = labelName.ReplaceAllString(src, "LABEL_$1")
	for _, fn := range f.Functions {
		for i, p := range fn.Params {
			src = regexp.MustCompile(`\b`+regexp.QuoteMeta(p.Names[0].Name)+`\b`).ReplaceAllLiteralString(src,
				fmt.Sprintf("argument_%s_%d", fn.Name, i))
		}
	}
	return strings.Replace(src, "\n", "\n\n// another line\n", 3)
}

// lines are those of a kernel that hold one instruction each, by number.
func lines(src string, f *ptx.File, fn *ptx.Function) map[int]*ptx.Instr {
	all := strings.Split(src, "\n")
	found := map[int]*ptx.Instr{}
	for _, in := range fn.Code {
		n := f.Position(in.Pos).Line - 1
		text := strings.TrimSpace(all[n])
		if strings.Count(text, ";") == 1 && !strings.ContainsAny(text, ":{}") && found[n] == nil {
			found[n] = in
		}
	}
	return found
}

// numbers are the lines in order, so that the same ones are tried each time.
func numbers(found map[int]*ptx.Instr) []int {
	return slices.Sorted(maps.Keys(found))
}

// edited parses the file with some lines changed.
func edited(t *testing.T, src string, change func(lines []string)) *ptx.File {
	t.Helper()
	all := strings.Split(src, "\n")
	change(all)
	f, err := ptx.Parse("edited.ptx", strings.Join(all, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// touches lists registers that an instruction reads and writes.
func touches(in *ptx.Instr) (reads, writes map[*ptx.Register]bool) {
	reads, writes = map[*ptx.Register]bool{}, map[*ptx.Register]bool{}
	in.Uses(func(o *ptx.Operand) { reads[o.Reg] = true })
	in.Defs(func(o *ptx.Operand) { writes[o.Reg] = true })
	return reads, writes
}

func meet(x, y map[*ptx.Register]bool) bool {
	for r := range x {
		if y[r] {
			return true
		}
	}
	return false
}

// effects are opcodes that may not simply change places with one another.
var effects = words(`ld st atom red bar barrier membar fence cp call shfl vote mma wmma wgmma ldmatrix stmatrix
	activemask match redux griddepcontrol mbarrier nanosleep elect tex prefetch setmaxnreg`)

// sample is how many lines of a kernel are tried, on average.
func sample() int {
	if testing.Short() {
		return 1
	}
	return 3
}

// TestSwaps: two neighbours that depend on each other in no way may change places, and that is order at most. Where the
// second reads what the first writes, and is not dead, it is more. Which of them depend is told from names alone, not
// from the code under test.
func TestSwaps(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	free, bound, dead := 0, 0, 0
	files := fixtures(t)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		src := files[path]
		old, err := ptx.Parse(path, src)
		if err != nil {
			t.Fatal(err)
		}
		for _, fn := range old.Kernels() {
			found := lines(src, old, fn)
			for _, n := range numbers(found) {
				first, second := found[n], found[n+1]
				if second == nil || second.Index != first.Index+1 || ends(first) || ends(second) || first.Has("cc") ||
					len(fn.Code) > 3000 || rng.IntN(len(found)) >= 2*sample() {
					continue
				}
				r1, w1 := touches(first)
				r2, w2 := touches(second)
				swap := edited(t, src, func(l []string) { l[n], l[n+1] = l[n+1], l[n] })
				r := rank(t, old, swap, fn.Name, fn.Name)
				switch {
				case meet(w1, r2) && !meet(w1, w2) && !meet(r1, w2) && first.Op != "mov": // which may repeat another one
					bound++
					without := edited(t, src, func(l []string) { l[n+1] = "" })
					if r.Rank <= Order {
						if dead++; rank(t, old, without, fn.Name, fn.Name).Rank > Order {
							t.Errorf("%s:%d: %s before %s is %v", path, n+1, second, first, r.Rank)
						}
					}
				case !meet(w1, r2) && !meet(w1, w2) && !meet(r1, w2) && !effects[first.Op] && !effects[second.Op]:
					free++
					if r.Rank > Order {
						t.Errorf("%s:%d: %s before %s is %v\n%s", path, n+1, second, first, r.Rank, list(r))
					}
				}
			}
		}
	}
	t.Logf("%d swaps of independent instructions, %d of dependent ones, %d of those dead", free, bound, dead)
	if free < 200*sample() || bound < 200*sample() || dead > bound/10 {
		t.Errorf("%d and %d swaps, %d dead: too few to tell", free, bound, dead)
	}
}

// TestMutations: a changed literal is reported, and so is a store or barrier that is gone, wherever it is.
func TestMutations(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	literals, gone := 0, 0
	files := fixtures(t)
	number := regexp.MustCompile(`\b0f[0-9A-F]{8}\b|, \d{1,8};`)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		src := files[path]
		old, err := ptx.Parse(path, src)
		if err != nil {
			t.Fatal(err)
		}
		for _, fn := range old.Kernels() {
			found := lines(src, old, fn)
			for _, n := range numbers(found) {
				in := found[n]
				if len(fn.Code) > 3000 || rng.IntN(len(found)) >= sample() {
					continue
				}
				text := strings.Split(src, "\n")[n]
				if at := number.FindStringIndex(text); at != nil && !ends(in) && in.Op != "call" {
					literals++
					changed := text[:at[1]-1] + "7" + text[at[1]:]
					if text[at[1]-1] == ';' {
						changed = text[:at[1]-1] + "1;" + text[at[1]:]
					} else if text[at[1]-1] == '7' {
						changed = text[:at[1]-1] + "8" + text[at[1]:]
					}
					r := rank(t, old, edited(t, src, func(l []string) { l[n] = changed }), fn.Name, fn.Name)
					without := rank(t, old, edited(t, src, func(l []string) { l[n] = "" }), fn.Name, fn.Name)
					if r.Rank < Constants && without.Rank > Order {
						t.Errorf("%s:%d: %s for %s is %v", path, n+1, changed, text, r.Rank)
					}
				}
				if in.Op == "st" || in.Op == "bar" || in.Op == "barrier" || in.Op == "atom" || in.Op == "red" {
					gone++
					r := rank(t, old, edited(t, src, func(l []string) { l[n] = "" }), fn.Name, fn.Name)
					if r.Rank != Structure {
						t.Errorf("%s:%d: without %s it is %v", path, n+1, in, r.Rank)
					}
				}
			}
		}
	}
	t.Logf("%d literals changed, %d stores and barriers removed", literals, gone)
	if literals < 50*sample() || gone < 20*sample() {
		t.Errorf("%d literals and %d stores: too few to tell", literals, gone)
	}
}

// long is a kernel of n instructions: a chain, or blocks with many values alive.
func long(n int, change int) string {
	var b strings.Builder
	b.WriteString(head + ".visible .entry k(.param .u64 p) {\n.reg .f32 %f<40>; .reg .b64 %rd<3>; .reg .pred %p<3>;\n" +
		"ld.param.u64 %rd1, [p];\n")
	for i := range 40 {
		fmt.Fprintf(&b, "ld.global.f32 %%f%d, [%%rd1+%d];\n", i, 4*i)
	}
	for i := range n {
		if i == change {
			b.WriteString("mul.f32 %f1, %f1, %f2;\n")
		}
		switch i % 100 {
		case 98:
			fmt.Fprintf(&b, "setp.lt.f32 %%p1, %%f%d, 0f00000000;\n", i%40)
		case 99:
			fmt.Fprintf(&b, "@%%p1 bra L%d;\nneg.f32 %%f3, %%f3;\nL%d:\n", i, i)
		default:
			fmt.Fprintf(&b, "fma.rn.f32 %%f%d, %%f%d, %%f%d, %%f%d;\n", i%40, (i+1)%40, (i*7)%40, (i*3)%40)
		}
	}
	for i := range 40 {
		fmt.Fprintf(&b, "st.global.f32 [%%rd1+%d], %%f%d;\n", 4*i, i)
	}
	b.WriteString("ret;\n}\n")
	return b.String()
}

// TestLong: 100 000 instructions take seconds, the same or not. The limit is ten times what it takes here.
func TestLong(t *testing.T) {
	n := 100_000
	if testing.Short() {
		n = 10_000
	}
	old, new := parse(t, long(n, -1)), parse(t, long(n, n/2))
	begin := time.Now()
	if r := rank(t, old, old, "", ""); r.Rank != Same {
		t.Errorf("the same is %v", r.Rank)
	}
	same := time.Since(begin)
	begin = time.Now()
	r := rank(t, old, new, "", "")
	if r.Rank != Structure || len(r.Changes) > 10 || !strings.Contains(list(r), "mul.f32 was added") {
		t.Errorf("one more instruction is %v with %d changes", r.Rank, len(r.Changes))
	}
	t.Logf("%d instructions: the same in %v, one more in %v", n, same, time.Since(begin))
	if time.Since(begin) > 20*time.Second {
		t.Errorf("it took %v", time.Since(begin))
	}
}
