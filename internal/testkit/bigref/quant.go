package bigref

// This file implements quantisation and its inverse.

import (
	"math/big"

	"gpuemu/internal/tensor"
)

// Largest codes of the quantised formats.
const (
	int8Code  = 127
	uint8Code = 255
	fp8Code   = 448
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

// quantizeStatic sets q to x/scale + zero point, within the range of the quantised type and before any rounding to an
// integer.
func (t *task) quantizeStatic(of block) {
	q := t.exact("q")
	in, scale, zeroPoint := t.in["input"], t.in["scale"].X, t.in["zero_point"].X
	low, high := -int8Code-1, int8Code
	if t.attrs.Str("qdtype") == "uint8" {
		low, high = 0, uint8Code
	}
	n, length := rows(in.Shape)
	for r := range n {
		for c := range length {
			b := of(r, c)
			quotient := t.quo(num(in.X[r*length+c]), num(scale[b]))
			if past := t.sub(abs(quotient), integer(1<<31)); abs(past).Cmp(integer(1<<11)) < 0 {
				q.edge(r*length + c) // a few roundings to float32 from the first that is no int32
			} else if past.Sign() >= 0 {
				q.open(r*length + c)
				continue
			}
			q.Big[r*length+c] = smaller(larger(t.add(quotient, num(zeroPoint[b])), integer(low)), integer(high))
		}
	}
}

func (t *task) quantizeStaticTensor() { t.quantizeStatic(perTensor) }

func (t *task) quantizeStaticRow() { t.quantizeStatic(perRow) }

func (t *task) dequantizeAffine(of block) {
	out := t.exact("output")
	q, scale, zeroPoint := t.in["q"], t.in["scale"].X, t.in["zero_point"].X
	n, length := rows(q.Shape)
	for r := range n {
		for c := range length {
			b := of(r, c)
			out.Big[r*length+c] = t.mul(t.sub(num(q.X[r*length+c]), num(zeroPoint[b])), num(scale[b]))
		}
	}
}

func (t *task) dequantizeAffineTensor() { t.dequantizeAffine(perTensor) }

func (t *task) dequantizeAffineRow() { t.dequantizeAffine(perRow) }

func (t *task) dequantizeTensor() { t.dequantize(perTensor) }

func (t *task) dequantizeRow() { t.dequantize(perRow) }

func (t *task) dequantizeGroup() {
	t.dequantize(perGroup(t.in["q"].Shape, t.attrs.Int("group")))
}
