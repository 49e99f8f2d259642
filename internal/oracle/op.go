// This file implements the catalogue: what an entry holds and how entries are found.

package oracle

import (
	"sort"

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
}

// families lists the entries of each family; a new family adds one line here.
func families() [][]*Op {
	return [][]*Op{
		activationOps(), binaryOps(), reduceOps(), softmaxOps(), normOps(), matmulOps(), attentionOps(), lossOps(), indexOps(),
		convOps(), poolOps(), quantOps(),
	}
}

// mathAttr is the attribute every entry has: which arithmetic the candidate is held to.
var mathAttr = opspec.Attr{
	Name: "math", Kind: opspec.String, Default: "gpu", Values: []any{"gpu", "ieee"}, Fixed: true,
	Doc: "gpu: documented approximations, fused or not, subnormals kept or flushed; ieee: correctly rounded operations",
}

// Ops returns the catalogue in the order of its families.
func Ops() []*Op {
	var all []*Op
	for _, f := range families() {
		for _, op := range f {
			s := *op.Schema
			s.Name, s.Doc = op.Name, op.Doc
			s.Attrs = append(append([]opspec.Attr(nil), s.Attrs...), mathAttr)
			op.Schema = &s
			all = append(all, op)
		}
	}
	return all
}

// Lookup returns the entry with that name or alias.
func Lookup(name string) (*Op, bool) {
	for _, op := range Ops() {
		if op.Name == name {
			return op, true
		}
		for _, a := range op.Aliases {
			if a == name {
				return op, true
			}
		}
	}
	return nil, false
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
