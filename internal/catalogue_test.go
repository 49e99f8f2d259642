// This file implements the generators of docs/ops.md, docs/cases.md and docs/cli.md.

package internal_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"gpuemu/internal/cli"
	"gpuemu/internal/gen"
	"gpuemu/internal/tensor"
	"gpuemu/internal/testkit"
)

// TestOpsPage keeps docs/ops.md in step with the catalogue.
func TestOpsPage(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := cli.Main(cli.Env{Args: []string{"ops", "--format", "markdown"}, Stdout: &stdout, Stderr: &stderr,
		Getenv: func(string) string { return "" }})
	if code != 0 {
		t.Fatalf("gpuemu ops --format markdown exits with %d: %s", code, stderr.String())
	}
	const head = "# The built-in operators\n\nName (and aliases), formula, inputs with their dimensions, " +
		"attributes with their defaults, and the contract: what an\nimplementation may do, hence what the error bound " +
		"covers. `gpuemu ops NAME` shows the whole schema. This page is\ngenerated from the catalogue: `make generate`.\n\n"
	// The attribute compute is explained once: every operator has it, and the table leaves it out.
	precision, err := os.ReadFile("testdata/precision.md")
	if err != nil {
		t.Fatal(err)
	}
	ranks, err := os.ReadFile("testdata/ranks.md")
	if err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, "../docs/ops.md", []byte(head+string(precision)+string(ranks)+"## Catalogue\n\n"+stdout.String()))
}

// layoutDocs say what each memory layout is; the test fails when one has no sentence.
var layoutDocs = map[tensor.Layout]string{
	tensor.Contiguous:   "row-major without gaps; finds nothing by itself and everything that is wrong anyway",
	tensor.Strided:      "gaps between elements along an axis: kernels that ignore strides",
	tensor.Transposed:   "two axes swapped in memory: kernels that assume a unit stride on the last axis",
	tensor.ChannelsLast: "the channel axis innermost (NHWC order of an NCHW shape): kernels that mix up the two orders",
	tensor.Broadcast:    "stride 0 along an axis: kernels that copy by size, or write to what is shared",
	tensor.Sliced:       "a window of a larger buffer, with an offset: kernels that start at the base pointer",
}

// ranksPage is what docs/cases.md says about ranks.
const ranksPage = `
## Ranks

Inputs have the rank of the operator's dims, unless a list of ranks is set: ` + "`ranks = [1, 2, 3, 4, 5]`" + ` under
[validation] or for an op, ` + "`--ranks 1,2,3,4,5`" + `, ` +
	"`ranks=range(1, 6)`" + ` in Python. Such cases find kernels
that assume a rank, or compute offsets from the wrong axes.

Drawing a rank is the last step of a case, with a random stream of its own: it splits or merges the axes that fold
([ops.md](ops.md#ranks-and-axes)) into axes with the same product. Dimensions, attributes, seed and the values in
row-major order are those of the case without ranks; only the shapes in its text, and which layouts these can have,
change. Without the setting no case changes. A rank that the operator or the case cannot have is not drawn,
and axes whose sizes are set by ` + "`shapes`" + ` are left alone. Invariants that compare
batches are checked on cases of the operator's own rank.
`

// TestCasesPage keeps docs/cases.md in step with the generators.
func TestCasesPage(t *testing.T) {
	var b strings.Builder
	b.WriteString("# How cases are chosen\n\nA case is a function of schema, strategy, master seed and index alone. " +
		"`gpuemu cases` prints cases; its flags\n`--shapes`, `--values` and `--layouts` take the names below. " +
		"Each says which bugs it is for. This page is generated\nfrom the code: `make generate`.\n")
	table := func(title string, list []gen.Named) {
		if len(list) == 0 {
			t.Errorf("%s: the list is empty", title)
		}
		fmt.Fprintf(&b, "\n## %s\n\n| name | what it does |\n|---|---|\n", title)
		for _, n := range list {
			if n.Doc == "" {
				t.Errorf("%s: %s has no sentence", title, n.Name)
			}
			fmt.Fprintf(&b, "| `%s` | %s |\n", n.Name, markdownCell(n.Doc))
		}
	}
	table("Shape strategies", gen.ShapeStrategies())
	table("Value distributions", gen.ValueDistributions())
	var layouts []gen.Named
	for _, l := range tensor.Layouts() {
		layouts = append(layouts, gen.Named{Name: l.String(), Doc: layoutDocs[l]})
	}
	table("Memory layouts", layouts)
	b.WriteString(ranksPage)
	testkit.Golden(t, "../docs/cases.md", []byte(b.String()))
}

// TestCommandsPage keeps docs/cli.md in step with the help of the commands.
func TestCommandsPage(t *testing.T) {
	testkit.Golden(t, "../docs/cli.md", []byte(cli.Reference()))
}
