// This file implements the choice of memory layouts.

package gen

import (
	"gpuemu/internal/opspec"
	"gpuemu/internal/rng"
	"gpuemu/internal/tensor"
)

// effectiveLayout returns l, or Contiguous where l would be no other memory layout for this shape: a case never
// claims a layout it does not exercise.
func effectiveLayout(l tensor.Layout, s tensor.Shape, in *opspec.Input) tensor.Layout {
	if l == tensor.LayoutInvalid || !l.Supports(s) || s.Elems() == 0 {
		return tensor.Contiguous
	}
	real := false
	switch l {
	case tensor.Strided:
		real = len(longerAxes(s, len(s))) > 0
	case tensor.Transposed:
		real = len(longerAxes(s, len(s))) > 1
	case tensor.ChannelsLast:
		real = s[1] > 1 && s.Elems() > s[0]*s[1]
	case tensor.Broadcast:
		real = len(broadcastAxes(s, in)) > 0
	case tensor.Sliced:
		real = true
	}
	if !real {
		return tensor.Contiguous
	}
	return l
}

// longerAxes returns the axes below limit with more than one element.
func longerAxes(s tensor.Shape, limit int) []int {
	var axes []int
	for i, n := range s[:limit] {
		if n > 1 {
			axes = append(axes, i)
		}
	}
	return axes
}

// broadcastAxes returns the axes along which all slices may be equal: not the last one where the input must be
// distinct along it.
func broadcastAxes(s tensor.Shape, in *opspec.Input) []int {
	limit := len(s)
	if in.Domain.Distinct {
		limit = max(limit-1, 0)
	}
	return longerAxes(s, limit)
}

// layoutParams draws the free choices of a layout.
func layoutParams(r *rng.RNG, l tensor.Layout, s tensor.Shape, in *opspec.Input) tensor.LayoutParams {
	var p tensor.LayoutParams
	pick := func(axes []int) int { return axes[r.Intn(len(axes))] }
	switch l {
	case tensor.Strided:
		p.Axis = pick(longerAxes(s, len(s)))
		p.Gap = []int{1, 1, 2, 3}[r.Intn(4)]
	case tensor.Transposed:
		p.Perm = transposition(r, s)
	case tensor.Broadcast:
		p.Axis = pick(broadcastAxes(s, in))
	case tensor.Sliced:
		p.Axis = r.Intn(len(s))
		p.Lead = 1 + r.Intn(4)
		p.Tail = r.Intn(3)
	}
	return p
}

// transposition swaps the last two axes that have several elements (a transposed matrix), or any two such axes.
func transposition(r *rng.RNG, s tensor.Shape) []int {
	axes := longerAxes(s, len(s))
	perm := make([]int, len(s))
	for i := range perm {
		perm[i] = i
	}
	j := len(axes) - 1
	i := j - 1
	if r.Intn(4) == 0 {
		i = r.Intn(j)
	}
	perm[axes[i]], perm[axes[j]] = perm[axes[j]], perm[axes[i]]
	return perm
}
