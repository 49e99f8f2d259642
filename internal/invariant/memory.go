package invariant

import (
	"bytes"
	"fmt"

	"gpuemu/internal/tensor"
)

// checkShape compares the shape of the output with that of the reference's output.
func checkShape(_ Invariant, c *Context) Result {
	switch {
	case c.Output == nil:
		return notApplicable("there is no output")
	case c.Want == nil:
		return notApplicable("there is no reference to take the shape from")
	case !c.Output.Shape.Equal(c.Want.Shape):
		return violated(nil, "the output has shape %s, the reference's %s", c.Output.Shape, c.Want.Shape)
	}
	return holds()
}

// checkDeterministic compares two outputs byte by byte: other NaN payloads and other signs of zero are differences too.
func checkDeterministic(_ Invariant, c *Context) Result {
	t, again := c.Output, c.Again
	switch {
	case t == nil || again == nil:
		return notApplicable("there are no two runs to compare")
	case t.DType != again.DType || !t.Shape.Equal(again.Shape):
		return violated(nil, "the output is %s %s in one run and %s %s in another", t.DType, t.Shape, again.DType,
			again.Shape)
	}
	x, y := t.Bytes(), again.Bytes()
	if bytes.Equal(x, y) {
		return holds()
	}
	size := t.DType.Size()
	first, n := -1, 0
	for i := range t.Shape.Elems() {
		if !bytes.Equal(x[i*size:(i+1)*size], y[i*size:(i+1)*size]) {
			n++
			if first < 0 {
				first = i
			}
		}
	}
	idx := t.Shape.Unravel(first)
	return violated(idx, "%d of %d elements differ between two runs of the same inputs, the first at %v: %s and %s", n,
		t.Shape.Elems(), idx, show(t, idx), show(again, idx))
}

// show prints an element with its bits, since two NaNs look the same otherwise.
func show(t *tensor.Tensor, idx []int) string {
	return fmt.Sprintf("%v (%#x)", t.At(idx...), t.Bits(idx...))
}

// checkWritten looks for elements that still hold the poison. With two runs under different poisons an element is
// unwritten iff it holds the poison of its run in both. With one run an element that is wanted to be just that pattern
// is no finding.
func checkWritten(_ Invariant, c *Context) Result {
	t := c.Output
	if t == nil || c.Poison == nil {
		return notApplicable("the output was not poisoned before the run")
	}
	twice := c.Again != nil && c.PoisonAgain != nil && *c.PoisonAgain != *c.Poison && c.Again.DType == t.DType &&
		c.Again.Shape.Equal(t.Shape)
	raw, d, size := t.Bytes(), t.DType, t.DType.Size()
	var again []byte
	if twice {
		again = c.Again.Bytes()
	}
	first, n := -1, 0
	for i := range t.Shape.Elems() {
		if d.Load(raw[i*size:]) != *c.Poison {
			continue
		}
		if twice && d.Load(again[i*size:]) != *c.PoisonAgain {
			continue
		}
		if !twice && c.wanted(i) {
			continue
		}
		n++
		if first < 0 {
			first = i
		}
	}
	switch {
	case n == 0:
		return holds()
	case n == t.Shape.Elems():
		return violated(t.Shape.Unravel(0), "the output was never written: all %d elements hold the poison %#x", n,
			*c.Poison)
	}
	idx := t.Shape.Unravel(first)
	return violated(idx, "%d of %d elements were never written, the first at %v: they hold the poison %#x", n,
		t.Shape.Elems(), idx, *c.Poison)
}

// wanted reports whether the reference wants the poison pattern itself at position i.
func (c *Context) wanted(i int) bool {
	w, d := c.Want, c.Output.DType
	if w == nil || i >= w.Shape.Elems() || w.DType != d {
		return false
	}
	var x float64
	switch idx := w.Shape.Unravel(i); {
	case w.Exact != nil && w.Exact.Shape.Equal(w.Shape):
		if w.Exact.DType == d {
			return w.Exact.Bits(idx...) == *c.Poison
		}
		x = w.Exact.At(idx...)
	case w.Stored != nil && w.Stored.Shape.Equal(w.Shape):
		x = w.Stored.At(idx...)
	case len(w.Value) == w.Shape.Elems():
		x = w.Value[i]
	default:
		return false
	}
	if d.IsNaN(*c.Poison) {
		// A wanted NaN may be any: whether this one was written cannot be seen in one run.
		return isNaN(x)
	}
	return d.Bits(x) == *c.Poison
}

// checkInputs compares the storages of the inputs, gaps included.
func checkInputs(_ Invariant, c *Context) Result {
	return checkRegions(c.Inputs, "input %q was changed", "no inputs were recorded")
}

// checkZones compares the red zones.
func checkZones(_ Invariant, c *Context) Result {
	return checkRegions(c.Zones, "the red zone %q was overwritten", "there were no red zones")
}

func checkRegions(list []Region, what, none string) Result {
	if len(list) == 0 {
		return notApplicable("%s", none)
	}
	for _, r := range list {
		if bytes.Equal(r.Before, r.After) {
			continue
		}
		first, n := -1, 0
		for i := range r.Before {
			if r.Before[i] != r.After[i] {
				n++
				if first < 0 {
					first = i
				}
			}
		}
		return violated(nil, what+": %d of %d bytes, the first at byte %d: %#02x became %#02x", r.Name, n, len(r.Before),
			first, r.Before[first], r.After[first])
	}
	return holds()
}
