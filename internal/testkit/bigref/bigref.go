// Package bigref is the second, naive reference of every operator of the catalogue.
//
// It computes each formula as it is written, with plain loops over indexes and in math/big to more than 200 bits, so
// that its results are exact for every practical purpose. It is written from the description of the operators alone
// and shares no code with internal/oracle, which its tests are about; it is imported by _test.go files only. It knows
// nothing of error bounds, element types or layouts.
//
// [Run] computes values from finite inputs. Where inputs are not finite, [Classify] says what class (NaN, an infinity,
// finite) each result has by the rules of IEEE 754. Operators that select or copy go through [Run] with any input.
package bigref

// This file implements the entry point and the table of operators.

import (
	"fmt"
	"math"
	"math/big"
	"slices"

	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
)

// Array is one input: its elements in row-major order, exact in float64.
type Array struct {
	Shape tensor.Shape
	X     []float64
	Wide  bool // of float64, which no hardware flushes
}

// Result is one output, row-major.
type Result struct {
	Shape tensor.Shape
	// Big holds the exact results. A nil element is not finite by the formula (log 0, 0/0), and F says what it is. Big
	// itself is nil for outputs that are selected from the inputs or are indexes.
	Big []*big.Float
	// F holds selected values and indexes, and what Big leaves nil.
	F []float64
	// Scale is the sum of the magnitudes of the terms of each element, where the formula ends in a sum or difference:
	// what an error from cancellation is measured by. Nil: there is none.
	Scale []*big.Float
	// Open marks elements on which the operator's description does not decide. Nil: none.
	Open []bool
	// Edge marks elements so near to one on which it does not decide that the roundings of an implementation do. Nil:
	// none.
	Edge []bool
	// Peak is the largest magnitude of all inputs and intermediate values, as a binary exponent: all were below 2^Peak.
	Peak int
}

// task is one call: inputs, attributes, and the arithmetic with its records.
type task struct {
	calc
	in    map[string]Array
	attrs opspec.Attrs
	shape map[string]tensor.Shape
	out   map[string]*Result
}

// table has one function for each operator.
var table = map[string]func(*task){
	"relu": (*task).relu, "leaky_relu": elementwise((*task).leakyReLU), "elu": elementwise((*task).elu),
	"gelu": elementwise((*task).gelu), "gelu_tanh": elementwise((*task).geluTanh), "silu": elementwise((*task).silu),
	"sigmoid": elementwise((*task).sigmoid), "tanh": elementwise((*task).hyperbolic),
	"softplus": elementwise((*task).softplus), "exp": elementwise((*task).exponential),
	"log": (*task).logarithm, "rsqrt": (*task).reciprocalRoot,
	"add": (*task).sumOfTwo, "mul": (*task).productOfTwo, "swiglu": gated((*task).silu), "geglu": gated((*task).gelu),
	"sum": (*task).sum, "mean": (*task).mean, "max": (*task).maximum, "argmax": (*task).argmax, "var": (*task).variance,
	"logsumexp": (*task).logSumExp, "cumsum": (*task).cumulativeSum,
	"softmax": (*task).softmax, "log_softmax": (*task).logSoftmax,
	"layernorm": (*task).layerNorm, "rmsnorm": (*task).rmsNorm, "groupnorm": (*task).groupNorm,
	"l2norm": (*task).l2Norm, "batchnorm": (*task).batchNorm,
	"matmul": (*task).matmul, "batched_matmul": (*task).batchedMatmul, "matmul_bias_act": (*task).matmulBiasAct,
	"int8_matmul": (*task).int8Matmul, "fp8_matmul": (*task).fp8Matmul,
	"attention": (*task).attention, "causal_attention": (*task).attention, "window_attention": (*task).attention,
	"gqa_attention": (*task).attention, "decode_attention": (*task).decodeAttention, "rope": (*task).rope,
	"cross_entropy": (*task).crossEntropy,
	"embedding":     (*task).embedding, "gather": (*task).gather, "scatter_add": (*task).scatterAdd, "topk": (*task).topK,
	"moe_routing": (*task).moeRouting,
	"conv1d":      (*task).conv1d, "conv2d": (*task).conv2d, "depthwise_conv2d": (*task).depthwiseConv2d,
	"max_pool2d": (*task).maxPool2d, "avg_pool2d": (*task).avgPool2d,
	"quantize_tensor": (*task).quantizeTensor, "quantize_row": (*task).quantizeRow,
	"quantize_group": (*task).quantizeGroup, "quantize_fp8_row": (*task).quantizeFP8Row,
	"dequantize_tensor": (*task).dequantizeTensor, "dequantize_row": (*task).dequantizeRow,
	"dequantize_group":       (*task).dequantizeGroup,
	"quantize_static_tensor": (*task).quantizeStaticTensor, "quantize_static_row": (*task).quantizeStaticRow,
	"dequantize_affine_tensor": (*task).dequantizeAffineTensor, "dequantize_affine_row": (*task).dequantizeAffineRow,
}

// Ops returns the names of the operators, sorted.
func Ops() []string {
	names := make([]string, 0, len(table))
	for name := range table {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// selections are the operators whose results are copies of inputs or indexes: no arithmetic, so any input will do.
var selections = []string{"relu", "max", "argmax", "max_pool2d", "embedding", "gather", "topk"}

// Selects reports whether the operator only selects or copies, so that [Run] takes inputs that are not finite.
func Selects(op string) bool { return slices.Contains(selections, op) }

// Run computes op. Attrs must be complete; outShapes gives the shape of every output.
func Run(
	op string, inputs map[string]Array, attrs opspec.Attrs, outShapes map[string]tensor.Shape,
) (map[string]*Result, error) {
	compute, ok := table[op]
	if !ok {
		return nil, fmt.Errorf("bigref has no operator %q", op)
	}
	t := &task{in: inputs, attrs: attrs, shape: outShapes, out: map[string]*Result{}}
	t.calc.funcs = shared()
	t.calc.peak = math.MinInt32
	for name, a := range inputs {
		if len(a.X) != a.Shape.Elems() {
			return nil, fmt.Errorf("input %s has %d elements, want %d", name, len(a.X), a.Shape.Elems())
		}
		for i, x := range a.X {
			if (math.IsNaN(x) || math.IsInf(x, 0)) && !Selects(op) {
				return nil, fmt.Errorf("input %s[%d] = %v: want a finite value", name, i, x)
			}
			if e := exponentOf(x); e > t.peak {
				t.peak = e
			}
		}
	}
	compute(t)
	for name, r := range t.out {
		r.Peak = t.peak
		if n := r.Shape.Elems(); len(r.F) != n || r.Big != nil && len(r.Big) != n {
			return nil, fmt.Errorf("output %s of %s has %d elements, want %d", name, op, len(r.F), n)
		}
	}
	for name := range outShapes {
		if t.out[name] == nil {
			return nil, fmt.Errorf("bigref computes no output %q of %s", name, op)
		}
	}
	return t.out, nil
}

// exact makes the output of that name hold numbers.
func (t *task) exact(name string) *Result {
	s := t.shape[name]
	r := &Result{Shape: s, Big: make([]*big.Float, s.Elems()), F: make([]float64, s.Elems())}
	t.out[name] = r
	return r
}

// summed is exact for outputs that have a scale.
func (t *task) summed(name string) *Result {
	r := t.exact(name)
	r.Scale = make([]*big.Float, len(r.F))
	return r
}

// selected makes the output of that name hold copies or indexes.
func (t *task) selected(name string) *Result {
	s := t.shape[name]
	r := &Result{Shape: s, F: make([]float64, s.Elems())}
	t.out[name] = r
	return r
}

// open marks element i as one that the description leaves open.
func (r *Result) open(i int) {
	if r.Open == nil {
		r.Open = make([]bool, len(r.F))
	}
	r.Open[i] = true
	r.F[i] = math.NaN()
}

// edge marks element i as one next to those that are open.
func (r *Result) edge(i int) {
	if r.Edge == nil {
		r.Edge = make([]bool, max(len(r.F), len(r.Big)))
	}
	r.Edge[i] = true
}

// rows splits an array into its last axis: how many rows there are and how long each is.
func rows(s tensor.Shape) (n, length int) {
	length = s[len(s)-1]
	n = 1
	for _, d := range s[:len(s)-1] {
		n *= d
	}
	return n, length
}
