package bigref

// This file implements the classes of results of inputs that are not finite, for operators on single elements, sums and
// products. It computes in float64, whose rules for NaN and infinities are those of IEEE 754, and with functions that
// are right in class only, so that the finite inputs must be small enough for nothing to overflow.

import (
	"fmt"
	"math"

	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
)

// Class is what kind of number a result is.
type Class uint8

// The classes.
const (
	Unstated Class = iota // implementations may differ, or the description says nothing
	NaN
	PlusInf
	MinusInf
	Finite
	Undecided // the description leaves the result open, so a reference has to mark it
)

// String names the class.
func (c Class) String() string {
	return [...]string{"unstated", "NaN", "+Inf", "-Inf", "finite", "undecided"}[c]
}

// ClassOf returns the class of a number.
func ClassOf(x float64) Class {
	switch {
	case math.IsNaN(x):
		return NaN
	case math.IsInf(x, 1):
		return PlusInf
	case math.IsInf(x, -1):
		return MinusInf
	}
	return Finite
}

// classTask is one call of Classify.
type classTask struct {
	in    map[string]Array
	attrs opspec.Attrs
	shape tensor.Shape // of the one output
	out   []Class
}

// classTable has no entry for operators that select (see [Run]) or take finite inputs only.
var classTable = map[string]func(*classTask){
	"leaky_relu": classEach(leakyClass), "elu": classEach(eluClass), "gelu": (*classTask).gate,
	"gelu_tanh": (*classTask).gate, "silu": (*classTask).gate, "sigmoid": classEach(boundedClass),
	"tanh": classEach(boundedClass), "softplus": classEach(expClass), "exp": classEach(expClass),
	"log": classEach(logClass), "rsqrt": classEach(func(x float64) float64 { return 1 / math.Sqrt(x) }),
	"add":    classPairs("a", "b", func(x, y float64) float64 { return x + y }),
	"mul":    classPairs("a", "b", func(x, y float64) float64 { return x * y }),
	"swiglu": (*classTask).gatedProduct, "geglu": (*classTask).gatedProduct,
	"sum": classRows(sumOf), "mean": classRows(sumOf), "var": (*classTask).variance,
	"logsumexp": (*classTask).logSumExp,
	"cumsum":    (*classTask).cumulativeSum, "softmax": classSoftmax(false), "log_softmax": classSoftmax(true),
	"layernorm": (*classTask).layerNorm, "rmsnorm": (*classTask).rmsNorm, "groupnorm": (*classTask).groupNorm,
	"l2norm": (*classTask).l2Norm, "batchnorm": (*classTask).batchNorm,
	"matmul": (*classTask).matmul, "batched_matmul": (*classTask).matmul, "matmul_bias_act": (*classTask).matmul,
	"fp8_matmul": (*classTask).matmul,
	"attention":  (*classTask).attention, "causal_attention": (*classTask).attention,
	"window_attention": (*classTask).attention, "gqa_attention": (*classTask).attention,
	"decode_attention": (*classTask).decodeAttention, "rope": (*classTask).rope,
	"cross_entropy": (*classTask).crossEntropy, "scatter_add": (*classTask).scatterAdd,
	"conv1d": (*classTask).conv, "conv2d": (*classTask).conv, "depthwise_conv2d": (*classTask).conv,
	"avg_pool2d": (*classTask).avgPool,
}

// Classifies reports whether [Classify] knows the operator.
func Classifies(op string) bool { return classTable[op] != nil }

// Classify returns the class of every element of the one output of op.
func Classify(op string, inputs map[string]Array, attrs opspec.Attrs, shape tensor.Shape) ([]Class, error) {
	classify, ok := classTable[op]
	if !ok {
		return nil, fmt.Errorf("bigref has no classes for operator %q", op)
	}
	t := &classTask{in: inputs, attrs: attrs, shape: shape, out: make([]Class, shape.Elems())}
	classify(t)
	return t.out, nil
}

func classEach(f func(float64) float64) func(*classTask) {
	return func(t *classTask) {
		for i, x := range t.in["input"].X {
			t.out[i] = ClassOf(f(x))
		}
	}
}

func classPairs(a, b string, f func(x, y float64) float64) func(*classTask) {
	return func(t *classTask) {
		for i, x := range t.in[a].X {
			t.out[i] = ClassOf(f(x, t.in[b].X[i]))
		}
	}
}

// classRows is for reductions to one number a row.
func classRows(f func(row []float64) float64) func(*classTask) {
	return func(t *classTask) {
		n, length := rows(t.in["input"].Shape)
		for r := range n {
			t.out[r] = ClassOf(f(t.in["input"].X[r*length : (r+1)*length]))
		}
	}
}

func leakyClass(x float64) float64 { return x }

func eluClass(x float64) float64 { return max(x, -1) }

// gateClass is for x·g(x) where g goes from 0 to 1: at -Inf that is -Inf·0 by the formula and 0 as a limit.
func gateClass(x float64) Class {
	if math.IsInf(x, -1) {
		return Undecided
	}
	return ClassOf(x)
}

func (t *classTask) gate() {
	for i, x := range t.in["input"].X {
		t.out[i] = gateClass(x)
	}
}

// gatedProduct is the product of a gate with up: where the gate is 0 or NaN, the product is NaN if up is not finite.
func (t *classTask) gatedProduct() {
	for i, x := range t.in["gate"].X {
		up := t.in["up"].X[i]
		switch {
		case !math.IsInf(x, -1):
			t.out[i] = ClassOf(x * up)
		case finite(up):
			t.out[i] = Undecided
		default:
			t.out[i] = NaN
		}
	}
}

func boundedClass(x float64) float64 { return min(max(x, -1), 1) }

func expClass(x float64) float64 { return max(x, 0) }

func logClass(x float64) float64 {
	switch {
	case x < 0:
		return math.NaN()
	case x == 0:
		return math.Inf(-1)
	}
	return x
}

func sumOf(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum
}

func finite(xs ...float64) bool {
	for _, x := range xs {
		if ClassOf(x) != Finite {
			return false
		}
	}
	return true
}

// variance leaves out rows of one element: Welford's updates may start from it and never look at it again.
func (t *classTask) variance() {
	n, length := rows(t.in["input"].Shape)
	for r := range n {
		row := t.in["input"].X[r*length : (r+1)*length]
		switch {
		case length == 1 && t.attrs.Int("correction") == 1:
			t.out[r] = NaN
		case length > 1 || finite(row...):
			t.out[r] = ClassOf(spreadOf(row))
		}
	}
}

// spreadOf is a number if all of xs are finite, otherwise NaN: an infinity has no distance from a mean of infinity.
func spreadOf(xs []float64) float64 {
	if finite(xs...) {
		return 0
	}
	return math.NaN()
}

// census says which classes there are in a row.
func census(xs []float64) (has [Undecided + 1]bool) {
	for _, x := range xs {
		has[ClassOf(x)] = true
	}
	return has
}

// scoresClass is the class of a result that every score of a row has a part in: NaN if one of them is NaN, undecided if
// the maximum is infinite, otherwise finite.
func scoresClass(row []float64) Class {
	switch has := census(row); {
	case has[NaN]:
		return NaN
	case has[PlusInf] || !has[Finite]:
		return Undecided
	}
	return Finite
}

func (t *classTask) logSumExp() {
	n, length := rows(t.in["input"].Shape)
	for r := range n {
		t.out[r] = scoresClass(t.in["input"].X[r*length : (r+1)*length])
	}
}

func (t *classTask) cumulativeSum() {
	n, length := rows(t.in["input"].Shape)
	for r := range n {
		for i := range length {
			t.out[r*length+i] = ClassOf(sumOf(t.in["input"].X[r*length : r*length+i+1]))
		}
	}
}

// classSoftmax is softmax, or its logarithm.
func classSoftmax(log bool) func(*classTask) {
	return func(t *classTask) {
		n, length := rows(t.in["input"].Shape)
		for r := range n {
			row := t.in["input"].X[r*length : (r+1)*length]
			class := scoresClass(row)
			for i, x := range row {
				t.out[r*length+i] = class
				if class == Finite && log {
					t.out[r*length+i] = ClassOf(x)
				}
			}
		}
	}
}

func (t *classTask) crossEntropy() {
	in, target := t.in["logits"], t.in["target"].X
	n, length := rows(in.Shape)
	smooth := t.attrs.Float("label_smoothing") != 0
	classes, seen := make([]Class, n), map[Class]bool{}
	count := 0
	for r := range n {
		row := in.X[r*length : (r+1)*length]
		classes[r] = scoresClass(row)
		switch {
		case int(target[r]) == t.attrs.Int("ignore_index"):
			classes[r] = Finite
			continue
		case classes[r] == Finite && (smooth && census(row)[MinusInf] || math.IsInf(row[int(target[r])], -1)):
			classes[r] = PlusInf
		}
		count++
		seen[classes[r]] = true
	}
	if t.attrs.Str("reduction") == "none" {
		copy(t.out, classes)
		return
	}
	switch { // one number for all rows
	case count == 0 && t.attrs.Str("reduction") == "mean" || seen[NaN]:
		t.out[0] = NaN
	case seen[Unstated]:
	case seen[Undecided]:
		t.out[0] = Undecided
	case seen[PlusInf]:
		t.out[0] = PlusInf
	default:
		t.out[0] = Finite
	}
}
