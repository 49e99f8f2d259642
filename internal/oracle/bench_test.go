package oracle

import (
	"math/rand/v2"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

func benchOp(b *testing.B, name string, shapes map[string][]int) {
	op, ok := Lookup(name)
	if !ok {
		b.Fatal(name)
	}
	r := rand.New(rand.NewPCG(1, 1))
	in := map[string]*tensor.Tensor{}
	for n, s := range shapes {
		shape := tensor.MustShape(s...)
		x := make([]float64, shape.Elems())
		for i := range x {
			x[i] = r.NormFloat64()
		}
		in[n] = tensor.FromFloat64s(dtype.Float32, shape, x)
		b.SetBytes(int64(len(x)) * 4)
	}
	attrs := op.Schema.DefaultAttrs()
	for b.Loop() {
		if _, err := Evaluate(op, in, attrs, dtype.Invalid); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOracle(b *testing.B) {
	b.Run("softmax", func(b *testing.B) { benchOp(b, "softmax", map[string][]int{"input": {8, 128, 1025}}) })
	b.Run("softmax_small", func(b *testing.B) { benchOp(b, "softmax", map[string][]int{"input": {4, 16, 257}}) })
	b.Run("gelu", func(b *testing.B) { benchOp(b, "gelu", map[string][]int{"input": {8, 128, 1025}}) })
	b.Run("sum", func(b *testing.B) { benchOp(b, "sum", map[string][]int{"input": {8, 128, 1025}}) })
	b.Run("layernorm", func(b *testing.B) {
		benchOp(b, "layernorm", map[string][]int{"input": {8, 128, 1025}, "weight": {1025}, "bias": {1025}})
	})
	b.Run("matmul", func(b *testing.B) { benchOp(b, "matmul", map[string][]int{"a": {1024, 1024}, "b": {1024, 1024}}) })
	b.Run("attention", func(b *testing.B) {
		benchOp(b, "attention", map[string][]int{"q": {2, 4, 128, 64}, "k": {2, 4, 128, 64}, "v": {2, 4, 128, 64}})
	})
}
