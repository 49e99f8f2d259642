package ptxdiff

import (
	"strconv"
	"strings"

	"gpuemu/internal/ptx"
)

// This file implements the comparison of initial values, element by element as they lie in memory.

// initDiff is a pair of initial values that differ.
type initDiff struct {
	old, new *ptx.Init
	index    string // "[3]"
}

// maxInitDiffs is how many differing values of one table are told apart.
const maxInitDiffs = 20

// element is an initial value and where it lies, counted in elements of the table.
type element struct {
	at int
	in *ptx.Init
}

// shapeOf is how many elements a table has in each dimension. Lanes of a vector are one more; 0 is for one that the
// text does not tell, which only the first can be.
func shapeOf(v *ptx.Variable, n *ptx.Name) []int {
	var dims []int
	for _, d := range n.Dims {
		dims = append(dims, max(d, 0))
	}
	if lanes, err := strconv.Atoi(strings.TrimPrefix(v.Vec, "v")); err == nil {
		dims = append(dims, lanes)
	}
	return dims
}

// elements lists the values of a table. Braces begin a row, which they need not fill.
func elements(v *ptx.Variable, n *ptx.Name) []element {
	var list []element
	if n.Init == nil {
		return nil
	}
	var walk func(in *ptx.Init, at int, dims []int)
	walk = func(in *ptx.Init, at int, dims []int) {
		if !in.IsList() {
			list = append(list, element{at, in})
			return
		}
		if len(dims) > 0 {
			dims = dims[1:]
		}
		row := 1
		for _, d := range dims {
			row *= d
		}
		for e := range in.Elements() {
			walk(e, at, dims)
			if at++; e.IsList() {
				at += row - 1
			}
		}
	}
	walk(n.Init, 0, shapeOf(v, n))
	return list
}

// indexText is the place of an element as the declaration counts: "[1][0]", and nothing for a single value.
func indexText(at int, dims []int) string {
	text := ""
	for i := len(dims) - 1; i > 0; i-- {
		d := max(dims[i], 1)
		text, at = "["+strconv.Itoa(at%d)+"]"+text, at/d
	}
	if len(dims) > 0 {
		text = "[" + strconv.Itoa(at) + "]" + text
	}
	return text
}

// compareInits lists the values of two tables that differ. pair says whether two symbols stand for each other. Zeros
// may be left out, so nothing is compared with zero.
func compareInits(old, new symbol, a, b *ptx.Name, pair func(old, new symbol) bool) (diffs []initDiff, structure bool) {
	t, dims := old.v.Type, shapeOf(new.v, b)
	was, is := elements(old.v, a), elements(new.v, b)
	for i, j := 0, 0; (i < len(was) || j < len(is)) && len(diffs) < maxInitDiffs && !structure; {
		var x, y *ptx.Init
		at := 0
		if i < len(was) && (j == len(is) || was[i].at <= is[j].at) {
			at, x = was[i].at, was[i].in
		}
		if j < len(is) && (i == len(was) || is[j].at <= was[i].at) {
			at, y = is[j].at, is[j].in
		}
		if x != nil {
			i++
		}
		if y != nil {
			j++
		}
		if sym, same := sameInit(t, x, y, pair); sym && !same {
			structure = true
		} else if !same {
			diffs = append(diffs, initDiff{x, y, indexText(at, dims)})
		}
	}
	return diffs, structure
}

// sameInit compares two single values, nil for zero; sym is true where a symbol is among them.
func sameInit(t string, old, new *ptx.Init, pair func(old, new symbol) bool) (sym, same bool) {
	zero := &ptx.Init{Value: ptx.Operand{Kind: ptx.IntArg}}
	if old == nil {
		old = zero
	}
	if new == nil {
		new = zero
	}
	if old.Mask != new.Mask {
		return true, false
	}
	a, b := &old.Value, &new.Value
	if a.Kind == ptx.SymbolArg || b.Kind == ptx.SymbolArg {
		return true, a.Kind == b.Kind && a.Offset == b.Offset && a.Generic == b.Generic && pair(symbolOf(a), symbolOf(b))
	}
	return false, initBits(t, a) == initBits(t, b)
}

// initBits is a number as a variable of that type holds it.
func initBits(t string, o *ptx.Operand) uint64 {
	w := widths[t]
	if w < 8 {
		w = 64 // no type that tells a size
	}
	return number(o, t, w)
}
