// This file implements the default sizes of a dimension and the bounded search for a choice that fulfils the
// relations.

package opspec

import (
	"errors"
	"slices"
	"strconv"

	"gpuemu/internal/diag"
)

// maxSearch bounds the number of values tried in one Validate. A schema of the catalogue needs a few dozen.
const maxSearch = 1 << 15

// rangeSample is how many values of a range are listed before it is sampled.
const rangeSample = 64

// Sizes returns what the shape strategy "default" draws from, in rising order without repeats: the candidates
// and, around a tile, t-1, t, t+1 and 2t+1. A dimension with neither gets its range (all of it if short, else
// its ends and the powers of two) or, as in the published form, 1. All lists everything there is to draw, so a
// relation that none of the sizes fulfils can never hold.
func (d *Dim) Sizes() (sizes []int, all bool) {
	sizes = slices.Clone(d.Candidates)
	all = true
	if d.Tile > 0 {
		sizes = append(sizes, d.Tile-1, d.Tile, d.Tile+1, 2*d.Tile+1)
	}
	if len(sizes) == 0 {
		lo, hi := max(d.Min, 1), max(d.Max, d.Min, 1)
		all = hi-lo < rangeSample
		for v := lo; v <= hi && v < lo+rangeSample && all; v++ {
			sizes = append(sizes, v)
		}
		if !all {
			sizes = append(sizes, lo, lo+1, hi-1, hi)
			for v := 1; v < hi; v *= 2 {
				sizes = append(sizes, v)
			}
		}
	}
	slices.Sort(sizes)
	sizes = slices.Compact(sizes)
	sizes = slices.DeleteFunc(sizes, func(v int) bool { return !d.Generates(v) })
	if len(sizes) == 0 {
		sizes = []int{max(d.Min, 1)}
	}
	return sizes, all
}

// Generates reports whether v is within what generators may draw for the dimension.
func (d *Dim) Generates(v int) bool {
	if v == 0 {
		return d.AllowsEmpty()
	}
	return v >= max(d.Min, 1) && (d.Max == 0 || v <= d.Max) && v <= MaxDimValue
}

// searchVar is one free dimension or integer attribute with the values to try.
type searchVar struct {
	name   string
	isAttr bool
	values []any
}

// search is a backtracking search. Variable i is assigned at level i+1; a derived dimension or relation is
// computed at the first level at which all it depends on is known, so that a relation between two dimensions
// costs the product of their candidates, not of all.
type search struct {
	p       *Program
	vars    []searchVar
	derived [][]derivedDim
	rels    [][]*Relation
	dims    map[string]int
	attrs   Attrs
	budget  *int
	deepest int
	reason  error // why the deepest assignment was refused
}

// checkSatisfiable refuses a schema whose relations no combination of sizes and attribute values fulfils. It
// says nothing about schemas where the search ran out of its budget or a range could only be sampled.
func (p *Program) checkSatisfiable() error {
	budget := maxSearch
	for _, r := range p.relations { // each alone first, so that the message can name the one that is impossible
		one := p.only(r)
		if found, complete, reason := one.search(&budget); !found && complete {
			return diag.Errorf(SchemaUnsatisfiable, "change the relation, or add candidates that fulfil it",
				"relation %q holds for no choice of candidates (%s)", r.src, message(reason))
		}
	}
	if found, complete, reason := p.search(&budget); !found && complete {
		return diag.Errorf(SchemaUnsatisfiable, "change a relation, or add candidates that fulfil all of them",
			"no choice of candidates fulfils all relations and derived dims together (%s)", message(reason))
	}
	return nil
}

// message is the text of an error without its code, for use inside another one.
func message(err error) string {
	var e *diag.Error
	if errors.As(err, &e) {
		return e.Msg
	}
	return err.Error()
}

// only returns p with one relation and the derived dimensions it needs.
func (p *Program) only(r *Relation) *Program {
	one := &Program{schema: p.schema, relations: []*Relation{r}}
	need := map[string]bool{}
	for _, n := range r.Names() {
		need[n] = true
	}
	for i := len(p.derived) - 1; i >= 0; i-- { // later ones depend on earlier ones
		if w := p.derived[i]; need[w.dim.Name] {
			one.derived = append(one.derived, w)
			for _, n := range w.expr.Names() {
				need[n] = true
			}
		}
	}
	slices.Reverse(one.derived)
	return one
}

func (p *Program) search(budget *int) (found, complete bool, reason error) {
	used := map[string]bool{}
	for _, r := range p.relations {
		for _, n := range r.Names() {
			used[n] = true
		}
	}
	for _, w := range p.derived {
		for _, n := range w.expr.Names() {
			used[n] = true
		}
	}
	sr := &search{p: p, dims: map[string]int{}, attrs: p.schema.DefaultAttrs(), budget: budget}
	level := map[string]int{}
	complete = true
	for i := range p.schema.Dims {
		d := &p.schema.Dims[i]
		if d.Derived() || !used[d.Name] {
			continue
		}
		sizes, all := d.Sizes()
		v := searchVar{name: d.Name}
		for _, x := range sizes {
			v.values = append(v.values, x)
		}
		complete = complete && all
		sr.vars = append(sr.vars, v)
		level[d.Name] = len(sr.vars)
	}
	for i := range p.schema.Attrs {
		a := &p.schema.Attrs[i]
		if used[a.Name] { // users may give other integers than those listed, but generators do not
			sr.vars = append(sr.vars, searchVar{name: a.Name, isAttr: true, values: a.NormalValues()})
			level[a.Name] = len(sr.vars)
		}
	}
	sr.schedule(level)
	if !sr.check(0) {
		return false, complete, sr.reason
	}
	found = sr.try(1)
	return found, complete && *budget > 0, sr.reason
}

// schedule puts every derived dimension and relation on the level at which it can be computed.
func (sr *search) schedule(level map[string]int) {
	sr.derived = make([][]derivedDim, len(sr.vars)+1)
	sr.rels = make([][]*Relation, len(sr.vars)+1)
	highest := func(names []string) int {
		at := 0
		for _, n := range names {
			at = max(at, level[n])
		}
		return at
	}
	for _, w := range sr.p.derived {
		at := highest(w.expr.Names())
		level[w.dim.Name] = at
		sr.derived[at] = append(sr.derived[at], w)
	}
	for _, r := range sr.p.relations {
		at := highest(r.Names())
		sr.rels[at] = append(sr.rels[at], r)
	}
}

// check computes what belongs to a level, given everything below it. Messages cost far more than relations, so
// a refusal is described only where it is the deepest so far.
func (sr *search) check(level int) bool {
	lookup := lookupIn(sr.dims, sr.attrs)
	describe := sr.reason == nil || level > sr.deepest
	for _, w := range sr.derived[level] {
		if err := sr.p.deriveOne(w, sr.dims, nil, lookup); err != nil {
			if describe {
				sr.deepest, sr.reason = level, err
			}
			return false
		}
	}
	r, err := firstBroken(sr.rels[level], lookup)
	if r == nil && err == nil {
		return true
	}
	if describe {
		sr.deepest, sr.reason = level, checkRelations(sr.rels[level], lookup)
	}
	return false
}

func (sr *search) try(level int) bool {
	if level > len(sr.vars) {
		return true
	}
	v := &sr.vars[level-1]
	for _, x := range v.values {
		if *sr.budget <= 0 {
			return false
		}
		*sr.budget--
		if v.isAttr {
			sr.attrs[v.name] = x
		} else {
			sr.dims[v.name] = x.(int)
		}
		if sr.check(level) && sr.try(level+1) {
			return true
		}
	}
	return false
}

func indexed(field string, i int) string { return field + "[" + strconv.Itoa(i) + "]" }
