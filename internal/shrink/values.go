package shrink

import (
	"maps"

	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
)

// This file implements the search over values: as many elements as possible become simple ones.

// Values returns inputs with as many elements as it finds replaced by the simplest value of their domain, such that
// the predicate still holds, and how often it asked. It is delta debugging (Zeller and Hildebrandt, IEEE TSE 28,
// 2002) over chunks of elements: halves, quarters and so on down to single elements. The inputs given are not
// modified.
func Values(
	s *opspec.Schema, c opspec.Case, inputs map[string]*tensor.Tensor, budget int,
	fails func(map[string]*tensor.Tensor) bool,
) (map[string]*tensor.Tensor, int) {
	z := &valueSearch{best: maps.Clone(inputs), budget: budget, fails: fails}
	for _, in := range c.Inputs { // schema order
		spec, ok := s.Input(in.Name)
		if !ok || z.best[in.Name] == nil {
			continue
		}
		z.simplify(in.Name, simplest(spec))
	}
	return z.best, z.asked
}

type valueSearch struct {
	best   map[string]*tensor.Tensor
	budget int
	asked  int
	fails  func(map[string]*tensor.Tensor) bool
}

// simplest returns a value of the domain that is easy on the eye: 0, else 1, else the smallest allowed.
func simplest(in *opspec.Input) float64 {
	d := &in.Domain
	switch {
	case in.Role == opspec.RoleScale:
		return 1
	case !d.Bounded() && !d.NonZero:
		return 0
	case !d.Bounded():
		return 1
	}
	for _, v := range []float64{0, 1} {
		if v >= d.Min && v <= d.Max && (v != 0 || !d.NonZero) {
			return v
		}
	}
	return d.Min
}

// simplify replaces chunks of one input. What it does between two questions is linear in the elements, over all chunks
// of one size: an input of millions of elements, most of them simple already, must not take longer than the questions.
func (z *valueSearch) simplify(name string, value float64) {
	vals := z.best[name].Float64s()
	n := len(vals)
	for size := n; size >= 1 && z.asked < z.budget && !allEqual(vals, value); size /= 2 {
		for lo := 0; lo < n && z.asked < z.budget; lo += size {
			hi := min(lo+size, n)
			if !allEqual(vals[lo:hi], value) && z.replace(name, lo, hi, value) {
				vals = z.best[name].Float64s() // elements may share storage
			}
		}
	}
}

// replace tries elements [lo, hi) of an input at value and reports whether that was taken.
func (z *valueSearch) replace(name string, lo, hi int, value float64) bool {
	old := z.best[name]
	next := cloneLayout(old)
	b := append([]byte(nil), old.Bytes()...)
	size := old.DType.Size()
	bits := old.DType.Bits(value)
	for i := lo; i < hi; i++ {
		old.DType.Store(b[i*size:], bits)
	}
	next.SetBytes(b)
	trial := maps.Clone(z.best)
	trial[name] = next
	z.asked++
	if !z.fails(trial) {
		return false
	}
	z.best = trial
	return true
}

func allEqual(vals []float64, want float64) bool {
	for _, v := range vals {
		if v != want {
			return false
		}
	}
	return true
}

// cloneLayout copies a tensor with its storage, so that the layout stays what it is.
func cloneLayout(t *tensor.Tensor) *tensor.Tensor {
	c := *t
	c.Data = append([]byte(nil), t.Data...)
	return &c
}
