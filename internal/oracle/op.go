// This file implements the catalogue: what an entry holds and how entries are found.

package oracle

import (
	"sort"
	"sync"

	"gpuemu/internal/opspec"
)

// An Op is one catalogue entry: everything the product knows about an operator.
type Op struct {
	Name    string
	Aliases []string
	Family  string
	// Doc is the formula in one line.
	Doc string
	// Contract is what an implementation may do, in one line: algorithm, accumulation, permitted roundings.
	Contract string
	Schema   *opspec.Schema

	ref func(c *call) error
	// setsAll says that ref sets every element of its outputs, by set, setAll or setExact: their memory need not be
	// cleared before.
	setsAll bool
	// once says that the output has one correctly rounded operation before it is rounded to its type.
	once     bool
	compile  sync.Once
	program  *opspec.Program // of Schema, set by compile
	compiled error
	sizes    sizesCache
}

// Program returns the schema ready to bind and resolve, compiled on first use.
func (op *Op) Program() (*opspec.Program, error) {
	op.compile.Do(func() { op.program, op.compiled = op.Schema.Compile() })
	return op.program, op.compiled
}

// families lists the entries of each family; a new family adds one line here.
func families() [][]*Op {
	return [][]*Op{
		activationOps(), binaryOps(), reduceOps(), softmaxOps(), normOps(), matmulOps(), attentionOps(), lossOps(),
		indexOps(), convOps(), poolOps(), quantOps(),
	}
}

// mathAttr is the attribute every entry has: which arithmetic the candidate is held to.
var mathAttr = opspec.Attr{
	Name: "math", Kind: opspec.String, Default: "gpu", Values: []any{"gpu", "ieee"}, Fixed: true,
	Doc: "gpu: documented approximations, fused or not, subnormals kept or flushed; ieee: correctly rounded operations",
}

// computeAttr returns the attribute every entry has: in which precision the candidate is meant to compute.
func computeAttr(op string) opspec.Attr {
	a := opspec.Attr{
		Name: "compute", Kind: opspec.String, Default: "float32", Values: []any{"float32", "storage"},
		Fixed: true, Quiet: true,
		Doc: "float32: intermediates in float32 (float64 for float64); storage: each result may be rounded to a 16-bit " +
			"element type, as eager PyTorch and JAX do",
	}
	if tf32Ops[op] {
		a.Values = append(a.Values, "tf32")
		a.Doc += "; tf32: operands of float32 products may be rounded or truncated to 10 mantissa bits"
	}
	return a
}

// tf32Ops are the entries with products that tensor cores compute in TF32.
var tf32Ops = map[string]bool{
	"matmul": true, "batched_matmul": true, "matmul_bias_act": true, "conv1d": true, "conv2d": true,
	"depthwise_conv2d": true, "attention": true, "causal_attention": true, "window_attention": true,
	"gqa_attention": true, "decode_attention": true,
}

// Ops returns the catalogue in the order of its families. Callers share the entries and must not change them.
func Ops() []*Op { return catalogue().ops }

// index is the catalogue, built on first use.
type index struct {
	ops    []*Op
	byName map[string]*Op // names and aliases
}

var catalogue = sync.OnceValue(func() *index {
	x := &index{byName: map[string]*Op{}}
	for _, f := range families() {
		for _, op := range f {
			op.Schema.Name, op.Schema.Doc = op.Name, op.Doc
			markBatches(op)
			op.Schema.Attrs = append(append([]opspec.Attr(nil), op.Schema.Attrs...), mathAttr, computeAttr(op.Name))
			markRanks(op)
			x.ops = append(x.ops, op)
			for _, name := range append([]string{op.Name}, op.Aliases...) {
				x.byName[name] = op
			}
		}
	}
	return x
})

// Lookup returns the entry with that name or alias.
func Lookup(name string) (*Op, bool) {
	op, ok := catalogue().byName[name]
	return op, ok
}

// Names returns the names of all entries, sorted, without aliases.
func Names() []string {
	var names []string
	for _, op := range Ops() {
		names = append(names, op.Name)
	}
	sort.Strings(names)
	return names
}
