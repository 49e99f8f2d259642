package bigref

// This file implements the matrix products.

import "math/big"

// product is row i of a (m×k) times column j of b (k×n).
func (t *task) product(a, b []float64, i, j, n, k int) *total {
	sum := t.total()
	for p := range k {
		t.accumulate(sum, t.mul(num(a[i*k+p]), num(b[p*n+j])))
	}
	return sum
}

func (t *task) matmul() {
	out := t.summed("output")
	a, b := t.in["a"], t.in["b"]
	m, k, n := a.Shape[0], a.Shape[1], b.Shape[1]
	for i := range m {
		for j := range n {
			sum := t.product(a.X, b.X, i, j, n, k)
			out.Big[i*n+j], out.Scale[i*n+j] = sum.value, sum.scale
		}
	}
}

func (t *task) batchedMatmul() {
	out := t.summed("output")
	a, b := t.in["a"], t.in["b"]
	batch, m, k, n := a.Shape[0], a.Shape[1], a.Shape[2], b.Shape[2]
	for s := range batch {
		for i := range m {
			for j := range n {
				sum := t.product(a.X[s*m*k:(s+1)*m*k], b.X[s*k*n:(s+1)*k*n], i, j, n, k)
				out.Big[(s*m+i)*n+j], out.Scale[(s*m+i)*n+j] = sum.value, sum.scale
			}
		}
	}
}

func (t *task) matmulBiasAct() {
	out := t.summed("output")
	a, b, bias := t.in["a"], t.in["b"], t.in["bias"].X
	m, k, n := a.Shape[0], a.Shape[1], b.Shape[1]
	for i := range m {
		for j := range n {
			sum := t.product(a.X, b.X, i, j, n, k)
			t.accumulate(sum, num(bias[j]))
			out.Big[i*n+j], out.Scale[i*n+j] = t.epilogue(sum.value), sum.scale
			if t.attrs.Str("act") != "none" && !t.in["a"].Wide && sum.scale.Cmp(integer(1<<18)) > 0 {
				out.edge(i*n + j) // the exponent of the activation is known to no more than its sign, if that
			}
		}
	}
}

func (t *task) epilogue(x *big.Float) *big.Float {
	switch act := t.attrs.Str("act"); act {
	case "none":
		return x
	case "relu":
		return larger(x, zero())
	case "gelu":
		return t.gelu(x)
	case "gelu_tanh":
		return t.geluTanh(x)
	case "silu":
		return t.silu(x)
	default:
		panic("bigref: unknown activation " + act)
	}
}

func (t *task) int8Matmul() {
	out := t.exact("output")
	a, b, scaleA, scaleB := t.in["a"], t.in["b"], t.in["scale_a"].X, t.in["scale_b"].X
	m, k, n := a.Shape[0], a.Shape[1], b.Shape[1]
	for i := range m {
		for j := range n {
			sum := t.product(a.X, b.X, i, j, n, k)
			out.Big[i*n+j] = t.mul(t.mul(sum.value, num(scaleA[i])), num(scaleB[j]))
		}
	}
}

func (t *task) fp8Matmul() {
	out := t.summed("output")
	a, b := t.in["a"], t.in["b"]
	m, k, n := a.Shape[0], a.Shape[1], b.Shape[1]
	scale := t.mul(num(t.in["scale_a"].X[0]), num(t.in["scale_b"].X[0]))
	for i := range m {
		for j := range n {
			sum := t.product(a.X, b.X, i, j, n, k)
			out.Big[i*n+j], out.Scale[i*n+j] = t.mul(sum.value, scale), t.mul(sum.scale, abs(scale))
		}
	}
}
