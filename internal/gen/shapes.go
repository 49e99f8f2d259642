// This file implements the shape strategies.

package gen

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gpuemu/internal/diag"
	"gpuemu/internal/opspec"
	"gpuemu/internal/rng"
	"gpuemu/internal/tensor"
)

// maxTries bounds the draws for one case. Relations that hold for one draw in ten are missed once in 10^9 cases.
// The first draws also keep to what is wished and not needed: an unusual shape is better than none.
const (
	maxTries   = 200
	firstTries = 40
)

// Sizes of the strategies. Small primes never divide a block; the long axes stand on both sides of 2^16, the limit of
// a CUDA grid's y and z dimension, where kernels have been wrong (NVIDIA/apex#411).
var (
	smallPrimes = []int{1, 2, 3, 5, 7, 11, 13, 1, 2, 3, 5, 7, 11, 13} // twice: see sometimesEmpty
	powersOfTwo = []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
	usualTiles  = []int{16, 32, 64, 128}
	tilePrimes  = []int{3, 7, 13, 31, 61, 127, 251}
	longAxes    = []int{4096, 4097, 16384, 32768, 65535, 65536, 65537, 131072, 1 << 20}
	shortAxes   = []int{1, 2, 3}
)

// emptyEvery is how many default cases have one with an empty axis, where the operator has a meaning for it: two or
// three of the 100 cases of a run, because one shows a wrapper that divides by a size or launches a grid of no blocks.
const emptyEvery = 40

type shapeStrategy struct {
	Named
	// sizes lists what a dimension is drawn from. The stream is the dimension's own.
	sizes func(d *opspec.Dim, r *rng.RNG) []int
}

var shapeStrategies = [...]shapeStrategy{
	{Named{"default", "the operator's own candidates plus t-1, t, t+1 and 2t+1 around its usual tile t, for bugs at " +
		"sizes that real models use and just beside them; one case in 40 has an axis of size 0 where the operator " +
		"allows it"}, defaultSizes},
	{Named{"boundary", "1 and small primes, for dropped or wrong masks of the last partial tile and for axes of one " +
		"element"}, func(d *opspec.Dim, _ *rng.RNG) []int { return sometimesEmpty(d, slices.Clone(smallPrimes)) }},
	{Named{"regular", "powers of two, for bugs in the main loop that partial tiles would cover up"},
		func(*opspec.Dim, *rng.RNG) []int { return powersOfTwo }},
	{Named{"tile_aware", "1, t-1, t, t+1, 2t+1 and primes around the tile t of each axis (16, 32, 64 or 128 if " +
		"unknown), for skipped last tiles, steps that are off by one and padded lanes that enter a reduction"}, tileSizes},
	{Named{"zero_size", "size 0 along one axis that may be empty, for empty batches and key lengths that are read " +
		"uninitialised or divided by"}, defaultSizes},
	{Named{"large", "one long axis such as 65536 or 65537, for grid limits, index overflow and sums that lose digits " +
		"with length"}, func(*opspec.Dim, *rng.RNG) []int { return shortAxes }},
}

// ShapeStrategies lists the shape strategies, the default first.
func ShapeStrategies() []Named {
	out := make([]Named, len(shapeStrategies))
	for i := range shapeStrategies {
		out[i] = shapeStrategies[i].Named
	}
	return out
}

func defaultSizes(d *opspec.Dim, r *rng.RNG) []int {
	sizes, all := d.Sizes()
	if !all && r.Bool(0.5) { // a long range: its ends and powers of two, or anything in it
		lo := max(d.Min, 1)
		return []int{lo + r.Intn(d.Max-lo+1)}
	}
	return sizes
}

func tileSizes(d *opspec.Dim, r *rng.RNG) []int {
	t := d.Tile
	if t == 0 {
		t = usualTiles[r.Intn(len(usualTiles))]
	}
	return sometimesEmpty(d, append([]int{1, t - 1, t, t + 1, 2*t + 1, t - 1, t + 1}, tilePrimes...))
}

// sometimesEmpty adds one 0 to the fourteen sizes of a list, for dimensions that may be empty.
func sometimesEmpty(d *opspec.Dim, sizes []int) []int {
	if d.AllowsEmpty() {
		return append(sizes, 0)
	}
	return sizes
}

// shaper draws dimensions and attributes together, because relations may be about both.
type shaper struct {
	schema   *opspec.Schema
	prog     *opspec.Program
	strategy *shapeStrategy
	maxElems int
	fixed    opspec.Attrs
	listed   map[string][]int // the only sizes of these dimensions
	most     map[string]int   // the largest sizes of these
	free     []string         // dimensions that do not follow from others
	drawn    []string         // those of them that the strategy decides on
	empty    []string         // those of drawn that may be 0
	reduced  []string         // those of drawn that kernels reduce over
}

// choice is one draw that fulfils the schema.
type choice struct {
	dims           map[string]int
	attrs          opspec.Attrs
	inputs, output map[string]tensor.Shape
}

func newShaper(s *opspec.Schema, prog *opspec.Program, st Strategy) (shaper, error) {
	sh := shaper{schema: s, prog: prog, maxElems: st.MaxElems, fixed: st.Attrs, listed: st.Dims, most: st.Most}
	if err := checkListed(s, st.Dims); err != nil {
		return sh, err
	}
	if err := checkMost(s, st.Most); err != nil {
		return sh, err
	}
	for i := range shapeStrategies {
		if shapeStrategies[i].Name == st.Shapes {
			sh.strategy = &shapeStrategies[i]
		}
	}
	if sh.strategy == nil {
		return sh, diag.Errorf(UnknownStrategy, hintNames(ShapeStrategies()), "unknown shape strategy %q", st.Shapes)
	}
	for i := range s.Dims {
		d := &s.Dims[i]
		if d.Derived() {
			continue
		}
		sh.free = append(sh.free, d.Name)
		if _, ok := sh.listed[d.Name]; ok {
			continue
		}
		sh.drawn = append(sh.drawn, d.Name)
		if d.AllowsEmpty() {
			sh.empty = append(sh.empty, d.Name)
		}
		if d.Reduced {
			sh.reduced = append(sh.reduced, d.Name)
		}
	}
	if sh.strategy.Name == "zero_size" && len(sh.empty) == 0 {
		return sh, diag.Errorf(NoEmptyDim, "choose another shape strategy for it",
			"operator %q has no dimension that may be empty", s.Name)
	}
	return sh, nil
}

// checkListed refuses sizes that the schema does not have or does not allow.
func checkListed(s *opspec.Schema, listed map[string][]int) error {
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		d, ok := s.Dim(name)
		if !ok {
			var known []string
			for i := range s.Dims {
				known = append(known, s.Dims[i].Name)
			}
			return diag.Errorf(BadStrategy, "it has "+strings.Join(known, ", "),
				"operator %q has no dimension %q", s.Name, name)
		}
		if d.Derived() {
			return diag.Errorf(BadStrategy, "list those it follows from: "+d.Expr,
				"dimension %q of operator %q follows from others", name, s.Name)
		}
		if len(listed[name]) == 0 {
			return diag.Errorf(BadStrategy, "", "dimension %q of operator %q has no size to choose from", name, s.Name)
		}
		for _, v := range listed[name] {
			if !d.Generates(v) {
				return diag.Errorf(BadStrategy, "", "dimension %q of operator %q cannot be %d", name, s.Name, v)
			}
		}
	}
	return nil
}

// checkMost refuses largest sizes that leave none.
func checkMost(s *opspec.Schema, most map[string]int) error {
	for _, name := range slices.Sorted(maps.Keys(most)) {
		d, ok := s.Dim(name)
		if !ok || d.Derived() {
			return diag.Errorf(BadStrategy, "name one that is drawn", "operator %q draws no dimension %q", s.Name, name)
		}
		if most[name] < max(d.Min, 1) {
			return diag.Errorf(BadStrategy, "", "dimension %q of operator %q is at least %d, and at most %d is allowed", name,
				s.Name, max(d.Min, 1), most[name])
		}
	}
	return nil
}

// allows reports whether a dimension may have size v.
func (sh *shaper) allows(d *opspec.Dim, v int) bool {
	most, limited := sh.most[d.Name]
	return d.Generates(v) && (!limited || v <= most) && sh.prog.Admits(d.Name, v)
}

// choose draws until the schema is fulfilled and every tensor is small enough.
func (sh *shaper) choose(root *rng.RNG) (*choice, error) {
	var last error
	long := sh.longAxis(root)
	for try := range maxTries {
		prefix := "v1/"
		if try > 0 {
			prefix = "v1/try/" + strconv.Itoa(try) + "/"
		}
		attrs := sh.drawAttrs(root, prefix)
		dims := sh.drawDims(root, prefix)
		if try < firstTries && !sh.stretch(root, prefix, dims, long) {
			long = ""
		}
		c, err := sh.fit(dims, attrs)
		if err == nil && (try >= firstTries || sh.usual(root, c)) {
			return c, nil
		}
		if err != nil {
			last = err
		}
	}
	var e *diag.Error
	text := last.Error()
	if errors.As(last, &e) {
		text = e.Msg
	}
	return nil, diag.Errorf(NoShape,
		`choose another --shapes, or change "candidates" of a dimension or "relations" in the schema`,
		"operator %q: %d draws of shape strategy %q found no valid shape: %s", sh.schema.Name, maxTries, sh.strategy.Name,
		text)
}

func (sh *shaper) drawAttrs(root *rng.RNG, prefix string) opspec.Attrs {
	attrs := make(opspec.Attrs, len(sh.schema.Attrs))
	for i := range sh.schema.Attrs {
		a := &sh.schema.Attrs[i]
		if v, ok := sh.fixed[a.Name]; ok {
			attrs[a.Name] = v
			continue
		}
		attrs[a.Name] = a.DefaultValue()
		if values := a.NormalValues(); len(values) > 1 {
			if r := root.Derive(prefix + "attr/" + a.Name); r.Bool(0.5) { // the default most often
				attrs[a.Name] = values[r.Intn(len(values))]
			}
		}
	}
	return attrs
}

func (sh *shaper) drawDims(root *rng.RNG, prefix string) map[string]int {
	dims := make(map[string]int, len(sh.free))
	for _, name := range sh.free {
		if list := sh.listed[name]; len(list) > 0 {
			dims[name] = list[pick(root, prefix+"dim/", name, len(list))]
			continue
		}
		dims[name] = sh.drawDim(root.Derive(prefix+"dim/"+name), name, sh.strategy.sizes)
	}
	switch domain := "shape"; sh.strategy.Name {
	case "default":
		if r := root.Derive(prefix + "empty"); len(sh.empty) > 0 && r.Intn(emptyEvery) == 0 {
			dims[sh.empty[r.Intn(len(sh.empty))]] = 0
		}
	case "zero_size":
		dims[sh.empty[pick(root, prefix, domain, len(sh.empty))]] = 0
	case "large":
		if len(sh.drawn) > 0 {
			r := root.Derive(prefix + domain)
			name := sh.drawn[r.Intn(len(sh.drawn))]
			dims[name] = sh.drawDim(r, name, func(d *opspec.Dim, _ *rng.RNG) []int {
				if d.Max != 0 && d.Max < longAxes[0] {
					return []int{d.Max}
				}
				return longAxes
			})
		}
	}
	return dims
}

// drawDim draws one size that the dimension allows. Where the strategy offers none (powers of two for "D % 3 == 0"),
// the operator's own sizes are taken.
func (sh *shaper) drawDim(r *rng.RNG, name string, sizes func(*opspec.Dim, *rng.RNG) []int) int {
	d, _ := sh.schema.Dim(name)
	allowed := func(list []int) []int {
		return slices.DeleteFunc(slices.Clone(list), func(v int) bool { return !sh.allows(d, v) })
	}
	list := allowed(sizes(d, r))
	if len(list) == 0 {
		own, _ := d.Sizes()
		if list = allowed(own); len(list) == 0 {
			list = own
		}
		if most, ok := sh.most[name]; ok && slices.Min(list) > most {
			list = []int{most}
		}
	}
	return list[r.Intn(len(list))]
}

// fit resolves the draw and, while a tensor is too large, makes the largest dimension smaller.
func (sh *shaper) fit(dims map[string]int, attrs opspec.Attrs) (*choice, error) {
	const maxShrinks = 256 // 64 dimensions, each halved from 2^31 to 1, is more than ever happens; this is enough
	for range maxShrinks {
		in, out, err := sh.prog.Resolve(dims, attrs)
		if err != nil && diag.CodeOf(err) != tensor.ShapeLimit {
			return nil, err
		}
		if err == nil && sh.largest(in, out) <= sh.maxElems {
			c := &choice{dims: dims, attrs: attrs, inputs: in, output: out}
			return c, sh.checkIndices(c)
		}
		if !sh.shrink(dims, "") {
			return nil, diag.Errorf(NoShape, "", "every shape has a tensor of more than %d elements", sh.maxElems)
		}
	}
	return nil, diag.Errorf(NoShape, "", "no shape has at most %d elements in every tensor", sh.maxElems)
}

func (sh *shaper) largest(shapes ...map[string]tensor.Shape) int {
	most := 0
	for _, m := range shapes {
		for _, s := range m {
			most = max(most, s.Elems())
		}
	}
	return most
}

// shrink replaces the largest dimension but keep (the first of several) by the next smaller size: one of its own, else
// half.
func (sh *shaper) shrink(dims map[string]int, keep string) bool {
	order := slices.DeleteFunc(slices.Clone(sh.drawn), func(name string) bool { return name == keep })
	slices.SortStableFunc(order, func(x, y string) int { return cmp.Compare(dims[y], dims[x]) })
	for _, name := range order {
		d, _ := sh.schema.Dim(name)
		own, _ := d.Sizes()
		list := append(slices.Clone(own), longAxes...)
		next := 0
		for v := dims[name] / 2; v >= 1 && next == 0; v /= 2 {
			if sh.allows(d, v) {
				next = v
			}
		}
		for _, v := range list {
			if v > next && v < dims[name] && sh.allows(d, v) {
				next = v
			}
		}
		if next > 0 {
			dims[name] = next
			return true
		}
	}
	return false
}

// checkIndices refuses shapes for which an index input could hold no valid index.
func (sh *shaper) checkIndices(c *choice) error {
	all, err := sh.prog.Derive(c.dims, c.attrs)
	if err != nil {
		return err
	}
	for i := range sh.schema.Inputs {
		in := &sh.schema.Inputs[i]
		if err := checkIndex(sh.prog, i, in, c.inputs[in.Name], all, c.attrs); err != nil {
			return err
		}
	}
	return nil
}

func checkIndex(prog *opspec.Program, i int, in *opspec.Input, s tensor.Shape, dims map[string]int,
	attrs opspec.Attrs) error {
	below, ok, err := prog.Below(i, dims, attrs)
	if err != nil || !ok || s.Elems() == 0 {
		return err
	}
	row := 1
	if len(s) > 0 {
		row = s[len(s)-1]
	}
	if below < 1 || in.Domain.Distinct && below < int64(row) {
		return diag.Errorf(NoShape, "", "input %q of shape %s has no valid indices below %s = %d",
			in.Name, s, in.Domain.Below, below)
	}
	return nil
}
