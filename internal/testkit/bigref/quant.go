package bigref

// This file implements quantisation and its inverse.

import (
	"math/big"

	"gpuemu/internal/tensor"
)

// Largest codes of the quantised formats.
const (
	int8Code = 127
	fp8Code  = 448
)

// block tells which scale an element of a row belongs to; all are laid out row by row.
type block func(row, column int) int

func perTensor(int, int) int { return 0 }

func perRow(row, _ int) int { return row }

func perGroup(s tensor.Shape, size int) block {
	groups := (s[1] + size - 1) / size
	return func(row, column int) int { return row*groups + column/size }
}

// quantize sets scale to max(absmax, 1e-10)/code for each block and q to the quotient x/scale within ±code, before any
// rounding to an integer or a narrow float.
func (t *task) quantize(of block, code int) {
	q, scale := t.exact("q"), t.exact("scale")
	in := t.in["input"]
	n, length := rows(in.Shape)
	for r := range n {
		for c := range length {
			b := of(r, c)
			if scale.Big[b] == nil {
				scale.Big[b] = num(1e-10)
			}
			scale.Big[b] = larger(scale.Big[b], abs(num(in.X[r*length+c])))
		}
	}
	for b := range scale.Big {
		scale.Big[b] = t.quo(scale.Big[b], integer(code))
	}
	for r := range n {
		for c := range length {
			x := t.quo(num(in.X[r*length+c]), scale.Big[of(r, c)])
			q.Big[r*length+c] = smaller(larger(x, integer(-code)), integer(code))
		}
	}
}

func smaller(x, y *big.Float) *big.Float { return neg(larger(neg(x), neg(y))) }

func (t *task) quantizeTensor() { t.quantize(perTensor, int8Code) }

func (t *task) quantizeRow() { t.quantize(perRow, int8Code) }

func (t *task) quantizeGroup() {
	t.quantize(perGroup(t.in["input"].Shape, t.attrs.Int("group")), int8Code)
}

func (t *task) quantizeFP8Row() { t.quantize(perRow, fp8Code) }

func (t *task) dequantize(of block) {
	out := t.exact("output")
	q, scale := t.in["q"], t.in["scale"].X
	n, length := rows(q.Shape)
	for r := range n {
		for c := range length {
			out.Big[r*length+c] = t.mul(num(q.X[r*length+c]), num(scale[of(r, c)]))
		}
	}
}

func (t *task) dequantizeTensor() { t.dequantize(perTensor) }

func (t *task) dequantizeRow() { t.dequantize(perRow) }

func (t *task) dequantizeGroup() {
	t.dequantize(perGroup(t.in["q"].Shape, t.attrs.Int("group")))
}
