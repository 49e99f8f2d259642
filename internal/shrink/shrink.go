// Package shrink makes failing cases small: it searches the least case, and the simplest values, on which a predicate
// still holds.
//
// It executes and judges nothing: the predicate does. Both searches are pure functions of their arguments, try
// candidates in a fixed order, and never ask the predicate more often than the budget says.
package shrink

import (
	"slices"

	"gpuemu/internal/dtype"
	"gpuemu/internal/gen"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
)

// This file implements the search over cases: dimensions, attributes, layouts, dtype, value distributions.

// Options bound a search over cases.
type Options struct {
	Budget   int  // how often the predicate is asked at most
	DimsOnly bool // nothing but dimensions changes
	AnyDType bool // a case of a simpler dtype is tried, too; another dtype may well show another bug
}

// Case returns the least case it finds that still fails, and how often it asked. Passes run in a fixed order
// (dimensions, attributes, ranks, layouts, dtype, distributions) until none of them helps or the budget is spent. No
// dimension and no axis of an input ever grows, derived ones included, and no input gets more elements.
//
// A case costs about as much as it has elements, so long dimensions come first, and each is searched from below: odd
// sizes that double until one fails, since many kernels fail at sizes that no vector width divides, then bisection
// between the largest size known to pass and the smallest known to fail. Failures need not be monotonic in a size; the
// search then ends at some local minimum, and the outer loop tries the other dimensions again from there.
func Case(s *opspec.Schema, c opspec.Case, opt Options, fails func(opspec.Case) bool) (opspec.Case, int) {
	z := &search{schema: s, first: c, best: c, budget: opt.Budget, fails: fails, seen: map[string]bool{c.String(): true}}
	for {
		before := z.best.String()
		z.dims()
		if !opt.DimsOnly {
			z.attrs()
			z.ranks()
			z.layouts()
			if opt.AnyDType {
				z.dtype()
			}
			z.values()
		}
		if z.best.String() == before || z.asked >= z.budget {
			return z.best, z.asked
		}
	}
}

// search is the state of one run of Case.
type search struct {
	schema *opspec.Schema
	first  opspec.Case // nothing larger is tried
	best   opspec.Case
	fails  func(opspec.Case) bool
	budget int
	asked  int
	seen   map[string]bool // texts that were asked already: no candidate is executed twice
}

// try asks whether c fails and takes it if so.
func (z *search) try(c opspec.Case) bool {
	c = gen.Fit(z.schema, c)
	text := c.String()
	if z.asked >= z.budget || z.seen[text] || grown(c, z.first) {
		return false
	}
	z.seen[text] = true
	z.asked++
	if !z.fails(c) {
		return false
	}
	z.best = c
	return true
}

// grown reports whether a dimension of c, free or derived, or an axis of an input is larger than in first.
func grown(c, first opspec.Case) bool {
	before := first.DimMap()
	for _, d := range c.Dims {
		if d.Value > before[d.Name] {
			return true
		}
	}
	for i := range c.Inputs {
		now, was := c.Inputs[i].Shape, first.Inputs[i].Shape
		if len(now) < len(was) && now.Elems() <= was.Elems() {
			continue // ranks were dropped: axes of one are not those of the other
		}
		for axis, n := range now {
			if axis >= len(was) || n > was[axis] {
				return true
			}
		}
	}
	return false
}

// long is the size from which on a dimension is made smaller before the others.
const long = 2048

// dims makes each free dimension as small as it goes while the others stay, long ones first.
func (z *search) dims() {
	var first, then []*opspec.Dim
	for i := range z.schema.Dims {
		switch d := &z.schema.Dims[i]; {
		case d.Derived():
		case z.best.DimMap()[d.Name] >= long:
			first = append(first, d)
		default:
			then = append(then, d)
		}
	}
	for _, d := range append(first, then...) {
		z.dim(d)
	}
}

func (z *search) dim(d *opspec.Dim) {
	current := z.best.DimMap()[d.Name]
	low := max(d.Min, 1) // an empty case shows nobody anything
	if low >= current || z.resized(d.Name, low) {
		return
	}
	// Invariant: low is not known to fail, the best case's size does.
	high := current
	for size := z.allowed(d.Name, 2*low+1); size < high && z.asked < z.budget; size = z.allowed(d.Name, 2*low+1) {
		if z.resized(d.Name, size) {
			high = size
		} else {
			low = size
		}
	}
	for high-low > 1 && z.asked < z.budget {
		mid := low + (high-low)/2
		if z.resized(d.Name, mid) {
			high = mid
		} else {
			low = mid
		}
	}
	// Sizes that a relation forbids (D % 8 == 0) stop the bisection early: step down once more by hand.
	for size := z.best.DimMap()[d.Name] - 1; size > 0 && size >= z.best.DimMap()[d.Name]-8; size-- {
		z.resized(d.Name, size)
	}
}

// allowed returns the first size from size on that the schema allows the best case to have, or size itself where it
// allows none of the next.
func (z *search) allowed(name string, size int) int {
	for n := size; n < size+8; n++ {
		if _, ok := Resize(z.schema, z.best, name, n); ok {
			return n
		}
	}
	return size
}

// resized tries the best case with another size of one dimension. A size that the schema does not allow does not fail.
func (z *search) resized(name string, size int) bool {
	c, ok := Resize(z.schema, z.best, name, size)
	return ok && z.try(c)
}

// Resize returns the case with another size of one free dimension, derived dimensions and shapes computed anew. It
// returns false where the schema does not allow that size.
func Resize(s *opspec.Schema, c opspec.Case, name string, size int) (opspec.Case, bool) {
	program, err := s.Compile()
	if err != nil {
		return c, false
	}
	dims := map[string]int{}
	for i := range s.Dims {
		if d := &s.Dims[i]; !d.Derived() {
			dims[d.Name] = c.DimMap()[d.Name]
		}
	}
	dims[name] = size
	attrs := c.AttrMap()
	all, err := program.Derive(dims, attrs)
	if err != nil {
		return c, false
	}
	inputs, _, err := program.Resolve(dims, attrs)
	if err != nil {
		return c, false
	}
	out := clone(c)
	for i := range out.Dims {
		out.Dims[i].Value = all[out.Dims[i].Name]
	}
	ranked := false
	for i := range out.Inputs {
		in := &out.Inputs[i]
		ranked = ranked || len(in.Shape) != len(inputs[in.Name])
		in.Shape = inputs[in.Name]
	}
	if ranked {
		if out, err = program.SpreadLike(out, c); err != nil {
			return c, false
		}
	}
	return gen.Fit(s, out), true
}

// ranks tries the shapes that the operator's own dims have.
func (z *search) ranks() {
	program, err := z.schema.Compile()
	if err != nil || !z.schema.Ranks.Any() {
		return
	}
	inputs, _, err := program.Resolve(z.best.DimMap(), z.best.AttrMap())
	if err != nil {
		return
	}
	c := clone(z.best)
	for i := range c.Inputs {
		c.Inputs[i].Shape = inputs[c.Inputs[i].Name]
	}
	z.try(c)
}

// attrs tries the default of each attribute.
func (z *search) attrs() {
	for i := range z.best.Attrs {
		a, ok := z.schema.Attr(z.best.Attrs[i].Name)
		if !ok || a.Quiet || z.best.Attrs[i].Value == a.DefaultValue() { // quiet ones name a contract, which is kept
			continue
		}
		c := clone(z.best)
		c.Attrs[i].Value = a.DefaultValue()
		// Derived dimensions may depend on the attribute; a resize to the same size computes them anew.
		if len(c.Dims) > 0 {
			var fits bool
			if c, fits = Resize(z.schema, c, z.firstFree(), z.best.DimMap()[z.firstFree()]); !fits {
				continue
			}
		}
		z.try(c)
	}
}

func (z *search) firstFree() string {
	for i := range z.schema.Dims {
		if !z.schema.Dims[i].Derived() {
			return z.schema.Dims[i].Name
		}
	}
	return ""
}

// layouts tries to make all inputs contiguous, then each.
func (z *search) layouts() {
	all := clone(z.best)
	for i := range all.Inputs {
		all.Inputs[i].Layout = tensor.Contiguous
	}
	if z.try(all) {
		return
	}
	for i := range z.best.Inputs {
		c := clone(z.best)
		c.Inputs[i].Layout = tensor.Contiguous
		z.try(c)
	}
}

// simpleTypes are the dtypes in the order of preference: what most people can read in a debugger comes first.
var simpleTypes = []dtype.DType{dtype.Float32, dtype.Float64, dtype.Float16, dtype.BFloat16}

// dtype tries a simpler type for the whole case.
func (z *search) dtype() {
	for _, d := range simpleTypes {
		if d == z.best.DType {
			return
		}
		if !slices.Contains(z.schema.AllowedDTypes(), d) {
			continue
		}
		c := clone(z.best)
		c.DType = d
		ok := true
		for i := range c.Inputs {
			in, found := z.schema.Input(c.Inputs[i].Name)
			if !found {
				ok = false
				break
			}
			elem, err := in.ElemType(d, c.AttrMap())
			if err != nil {
				ok = false
				break
			}
			c.Inputs[i].DType = elem
		}
		if ok && z.try(c) {
			return
		}
	}
}

// simpleValues are the distributions in the order of preference: plain ones first.
var simpleValues = []string{"normal", "uniform"}

// values tries plain distributions for all inputs.
func (z *search) values() {
	for _, name := range simpleValues {
		c := clone(z.best)
		same := true
		for i := range c.Inputs {
			same = same && c.Inputs[i].Values == name
			c.Inputs[i].Values = name
		}
		if same || z.try(c) {
			return
		}
	}
}

// clone copies what the search changes.
func clone(c opspec.Case) opspec.Case {
	c.Dims = slices.Clone(c.Dims)
	c.Attrs = slices.Clone(c.Attrs)
	c.Inputs = slices.Clone(c.Inputs)
	return c
}
