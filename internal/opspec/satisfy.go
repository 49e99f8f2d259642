// This file implements the bounded search for a choice of dimensions that fulfils the relations.

package opspec

import (
	"strconv"

	"gpuemu/internal/diag"
)

// maxSearch bounds the number of assignments tried. A schema of the catalogue needs a few dozen.
const maxSearch = 1 << 14

// searchVar is one free dimension or integer attribute with the values to try.
type searchVar struct {
	name     string
	isAttr   bool
	values   []any
	complete bool // values are all there are
}

type search struct {
	p        *Program
	vars     []searchVar
	dims     map[string]int
	attrs    Attrs
	budget   int
	complete bool
	last     error // why the latest full assignment was refused
}

// checkSatisfiable refuses a schema whose relations no combination of candidates and attribute values fulfils.
// It says nothing about schemas where the search ended early or ranges were only sampled.
func (p *Program) checkSatisfiable() error {
	if len(p.relations) == 0 && len(p.derived) == 0 {
		return nil
	}
	for _, r := range p.relations {
		one := *p
		one.relations = []*Relation{r}
		if ok, complete, last := one.search(); !ok && complete && last != nil {
			return diag.Errorf(SchemaUnsatisfiable, "change the relation or add candidates that fulfil it",
				"relation %q holds for no choice of candidates (last tried: %w)", r.src, last)
		}
	}
	if ok, complete, last := p.search(); !ok && complete {
		return diag.Errorf(SchemaUnsatisfiable, "change a relation or add candidates that fulfil all of them",
			"no choice of candidates fulfils all relations (last tried: %w)", last)
	}
	return nil
}

func (p *Program) search() (found, complete bool, last error) {
	sr := &search{p: p, dims: map[string]int{}, attrs: p.schema.DefaultAttrs(), budget: maxSearch, complete: true}
	used := p.usedNames()
	for i := range p.schema.Dims {
		d := &p.schema.Dims[i]
		if d.Derived() {
			continue
		}
		v := searchValues(d)
		if !used[d.Name] {
			v.values = v.values[:1] // its size matters to nothing
		}
		sr.complete = sr.complete && (v.complete || !used[d.Name])
		sr.vars = append(sr.vars, v)
	}
	for i := range p.schema.Attrs {
		a := &p.schema.Attrs[i]
		if used[a.Name] {
			// Users may give other integers than the listed ones, but generators do not.
			sr.vars = append(sr.vars, searchVar{name: a.Name, isAttr: true, values: a.NormalValues(), complete: true})
		}
	}
	found = sr.try(0)
	return found, sr.complete && sr.budget > 0, sr.last
}

// usedNames returns the names that relations and derived dimensions depend on.
func (p *Program) usedNames() map[string]bool {
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
	return used
}

func searchValues(d *Dim) searchVar {
	v := searchVar{name: d.Name, complete: len(d.Candidates) > 0 && d.Max == 0 && d.Tile == 0}
	for _, c := range d.Candidates {
		v.values = append(v.values, c)
	}
	if len(d.Candidates) == 0 {
		if d.Max == 0 && d.Min == 0 && d.Tile == 0 {
			v.complete = true // the published form: a dimension without candidates is 1
		}
		const sample = 64
		hi := d.Max
		if d.Max == 0 {
			hi = max(d.Min, 1)
		}
		for c := max(d.Min, 1); c <= hi && len(v.values) < sample; c++ {
			v.values = append(v.values, c)
		}
		v.complete = v.complete || d.Max != 0 && d.Max-max(d.Min, 1) < sample
	}
	return v
}

func (sr *search) try(k int) bool {
	if sr.budget <= 0 {
		return false
	}
	if k == len(sr.vars) {
		sr.budget--
		_, err := sr.p.Derive(sr.dims, sr.attrs)
		sr.last = err
		return err == nil
	}
	v := &sr.vars[k]
	for _, x := range v.values {
		if v.isAttr {
			sr.attrs[v.name] = x
		} else {
			sr.dims[v.name] = x.(int)
		}
		if sr.try(k + 1) {
			return true
		}
	}
	return false
}

func indexed(field string, i int) string { return field + "[" + strconv.Itoa(i) + "]" }
