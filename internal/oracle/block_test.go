package oracle

import (
	"math"
	"runtime"
	"testing"

	"gpuemu/internal/compare"
	"gpuemu/internal/dtype"
	"gpuemu/internal/rng"
	"gpuemu/internal/tensor"
)

// normals returns a float32 tensor of standard normal values.
func normals(r *rng.RNG, dims ...int) *tensor.Tensor {
	s := tensor.MustShape(dims...)
	x := make([]float64, s.Elems())
	for i := range x {
		x[i] = r.Normal()
	}
	return tensor.FromFloat64s(dtype.Float32, s, x)
}

// prepared returns a call of op ready to run, with default attributes but for those given.
func prepared(t *testing.T, name string, in map[string]*tensor.Tensor, given map[string]string) *call {
	t.Helper()
	op, ok := Lookup(name)
	if !ok {
		t.Fatalf("no op %q", name)
	}
	attrs, err := op.Schema.ResolveAttrs(given)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newCall(op, in, attrs, dtype.Float32)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func sameWant(t *testing.T, got, want *compare.Want) {
	t.Helper()
	open := func(w *compare.Want, i int) bool { return w.Undetermined != nil && w.Undetermined[i] }
	for i := range want.Value {
		if math.Float64bits(got.Value[i]) != math.Float64bits(want.Value[i]) || got.Bound[i] != want.Bound[i] ||
			open(got, i) != open(want, i) {
			t.Fatalf("element %d: got %v ± %v (%t), want %v ± %v (%t)", i, got.Value[i], got.Bound[i], open(got, i),
				want.Value[i], want.Bound[i], open(want, i))
		}
	}
}

func convInputs(r *rng.RNG) map[string]*tensor.Tensor {
	w := normals(r, 3, 2, 3, 2)
	x := w.Float64s()
	x[5] = math.Inf(1) // taps outside meet it: the rule for padding is applied at the right places
	w.SetFloat64s(x)
	return map[string]*tensor.Tensor{"input": normals(r, 1, 2, 6, 7), "weight": w, "bias": normals(r, 3)}
}

// TestConvolutionInBlocks: how many output positions are computed at once changes nothing.
func TestConvolutionInBlocks(t *testing.T) {
	in := convInputs(rng.New(1))
	g := conv{ci: 2, h: 6, w: 7, co: 3, kh: 3, kw: 2, oh: 8, ow: 10, stride: 1, padH: 2, padW: 2, dil: 1}
	run := func(block int) *result {
		c := prepared(t, "conv2d", in, map[string]string{"padding": "2"})
		g.block = block
		out := c.out("output")
		c.convolve(out, 0, &g, c.data("input"), c.data("weight"), c.data("bias"))
		return out
	}
	whole := run(g.oh * g.ow)
	for _, block := range []int{1, 7, 79, 200} {
		sameWant(t, &run(block).Want, &whole.Want)
	}
}

// TestPaddingCostsNoMatrix: the memory of a convolution grows with its tensors, not with their size times the taps.
func TestPaddingCostsNoMatrix(t *testing.T) {
	r := rng.New(2)
	in := map[string]*tensor.Tensor{
		"input": normals(r, 1, 16, 3, 3), "weight": normals(r, 1, 16, 3, 3), "bias": normals(r, 1),
	}
	c := prepared(t, "conv2d", in, map[string]string{"padding": "128"})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := c.conv2d(); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	elems := len(c.out("output").Value)
	matrix := uint64(8 * elems * 16 * 9)
	limit := uint64(8*2*blockElems + 64*elems)
	if limit > matrix/2 {
		t.Fatalf("the limit of %d bytes is not far from the %d of the whole matrix", limit, matrix)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > limit {
		t.Errorf("%d bytes allocated for %d outputs, want at most %d", used, elems, limit)
	}
}

// TestAttentionInBlocks: rows computed in parts are those computed at once.
func TestAttentionInBlocks(t *testing.T) {
	r := rng.New(3)
	const n, d = 40, 8
	in := map[string]*tensor.Tensor{
		"q": normals(r, 1, 1, n, d), "k": normals(r, 1, 1, n, d), "v": normals(r, 1, 1, n, d),
	}
	problem := func(c *call) head {
		return head{
			q: c.data("q"), k: c.data("k"), v: c.data("v"), m: n, n: n, d: d, scale: c.attentionScale(d),
			visible: func(i int) (int, int) { return max(0, i-20), i + 1 },
		}
	}
	whole := prepared(t, "attention", in, nil)
	whole.attendRows(whole.out("output"), 0, problem(whole))
	for _, rows := range []int{1, 7, 39, 64} {
		c := prepared(t, "attention", in, nil)
		c.attendBlocks(c.out("output"), 0, problem(c), rows)
		sameWant(t, &c.out("output").Want, &whole.out("output").Want)
	}
}
