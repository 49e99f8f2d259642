// This file implements tolerances from the spread of a reference: how far its own evaluations are apart.

package compare

import (
	"bytes"
	"math"

	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

// SpreadFactor is how many times the root mean square of the random evaluations an implementation may be off.
//
// A conforming implementation rounds each operation by half a unit at most, where a random evaluation moves it by up to
// one and a half: its errors are about a third of theirs. So the factor allows some 48 standard deviations, which six
// evaluations underestimate enough to accuse once in 2e8 elements (Student's t with six degrees of freedom). An element
// that needs the spread has lost digits to cancellation. There 16 units of the largest intermediate are 1e-6 of it in
// float32: a tenth of what the fixed tolerance allows an element that lost none.
const SpreadFactor = 16

// Evaluations are what a reference gave for one output of one case. All have the same shape.
type Evaluations struct {
	// Native is what the reference returned on the inputs as they are. Never nil.
	Native *tensor.Tensor
	// Exact is what it returned on inputs widened to float64; nil: it does not take them.
	Exact *tensor.Tensor
	// Working are evaluations in the working precision, rounded at random, or on inputs moved by a unit in the last
	// place.
	Working []*tensor.Tensor
	// Storage are evaluations in which every intermediate has the type of the inputs. Only their overflows count:
	// without a contract, an implementation may compute in that type.
	Storage []*tensor.Tensor
	// Replaced are evaluations with numbers in place of the NaNs among the inputs, and in place of very large numbers
	// where Working does not show overflow.
	Replaced []*tensor.Tensor
	// NonFinite: the inputs have a NaN or an infinity.
	NonFinite bool
}

// Want is the evaluation that an output is compared with.
func (e *Evaluations) Want() *tensor.Tensor {
	if e.Exact != nil {
		return e.Exact
	}
	return e.Native
}

// Judge sets Bound and Undetermined of w, which holds the values of e.Want, for the regime Spread with tolerance tol.
//
// An element is undetermined where the evaluations do not agree on its class (finite, NaN, an infinity), which is what
// overflow in the working precision looks like; where NaN is what the reference makes of an input that is not finite;
// and where its value depends on a NaN: libraries do not treat these alike. Indexes and other integers are undetermined
// where evaluations differ.
func (e *Evaluations) Judge(w *Want, tol Tolerance) {
	marks := make([]bool, w.Shape.Elems())
	copy(marks, w.Undetermined)
	if w.Exact != nil {
		for _, t := range e.all() {
			markUnequal(marks, e.Want(), t)
		}
		w.Undetermined = marks
		return
	}
	want := e.Want().Float64s()
	w.Bound = e.spread(want, marks)
	for _, t := range e.Storage {
		for i, v := range t.Float64s() {
			marks[i] = marks[i] || !isFinite(v) && isFinite(want[i])
		}
	}
	for _, t := range e.Replaced {
		for i, v := range t.Float64s() {
			marks[i] = marks[i] || !sameClass(v, want[i]) ||
				isFinite(v) && math.Abs(v-want[i]) > tol.At(want[i])+w.Bound[i]
		}
	}
	for i, v := range want {
		marks[i] = marks[i] || e.NonFinite && v != v
	}
	w.Undetermined = marks
}

// all are the evaluations that integers are compared over.
func (e *Evaluations) all() []*tensor.Tensor {
	return append(append(append([]*tensor.Tensor{e.Native}, e.Working...), e.Storage...), e.Replaced...)
}

// spread returns what the evaluations allow beyond the fixed tolerance, and marks elements whose class they dispute.
func (e *Evaluations) spread(want []float64, marks []bool) []float64 {
	out := make([]float64, len(want))
	for _, t := range e.Working {
		d := t.DType
		for i, v := range t.Float64s() {
			if !sameClass(v, want[i]) {
				marks[i] = true
				continue
			}
			if x := beyondRounding(v, want[i], d); x > 0 {
				out[i] += float64(x * x)
			}
		}
	}
	n := float64(max(len(e.Working), 1))
	for i, x := range out {
		out[i] = min(SpreadFactor*math.Sqrt(x/n), math.MaxFloat64)
	}
	for i, v := range e.Native.Float64s() {
		if !sameClass(v, want[i]) {
			marks[i] = true
			continue
		}
		out[i] = max(out[i], beyondRounding(v, want[i], e.Native.DType))
	}
	return out
}

// beyondRounding is the distance of an evaluation in type d from want, less what the roundings of the last operation
// and of the result account for: the fixed tolerance of every type has room for these. Zero where they are not finite.
func beyondRounding(v, want float64, d dtype.DType) float64 {
	if v == want || !isFinite(v) || !isFinite(want) {
		return 0
	}
	return min(max(0, math.Abs(v-want)-float64(3*d.HalfULP(want))), math.MaxFloat64)
}

func isFinite(x float64) bool { return math.Abs(x) <= math.MaxFloat64 }

// sameClass reports whether both are finite, both NaN or both the same infinity.
func sameClass(a, b float64) bool {
	return isFinite(a) && isFinite(b) || a != a && b != b || a == b
}

// markUnequal marks the elements in which two tensors differ: all of them where their types do.
func markUnequal(marks []bool, want, got *tensor.Tensor) {
	size := want.DType.Size()
	a, b := want.Bytes(), got.Bytes()
	for i := range marks {
		marks[i] = marks[i] || got.DType != want.DType || !bytes.Equal(a[i*size:(i+1)*size], b[i*size:(i+1)*size])
	}
}
