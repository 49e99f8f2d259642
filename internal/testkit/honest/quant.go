// This file implements quantisation to int8 and fp8, and back.

package honest

import "math"

// quantFloor is the least maximum that a scale is made of.
const quantFloor = 1e-10

// absmax returns max(largest magnitude, quantFloor).
func (e *eval) absmax(x []float64) float64 {
	abs := e.scratch(6, len(x))
	for i, v := range x {
		abs[i] = e.Abs(v)
	}
	return e.Max(e.reduceMax(abs), e.Const(quantFloor))
}

// quantise sets q to x in units of a scale, and returns the scale: x/scale, x·(1/scale) (AltMain) or x·(127/absmax)
// (AltFold).
func (e *eval) quantise(q, x []float64) float64 {
	limit := e.Const(127 * e.k)
	top := e.absmax(x)
	scale := e.Div(top, limit)
	factor := 0.0
	switch {
	case e.alt(AltFold):
		factor = e.Div(limit, top)
	case e.alt(AltMain):
		factor = e.Div(1, scale)
	}
	for i, v := range x {
		if factor != 0 {
			v = e.Mul(v, factor)
		} else {
			v = e.Div(v, scale)
		}
		q[i] = min(max(math.RoundToEven(v), -127), 127)
	}
	return scale
}

// quantiseGroups quantises rows in groups of the given size.
func quantiseGroups(e *eval, size func(rows, cols int) (length, group int)) {
	a, ok := e.in("input", 2)
	if !ok {
		return
	}
	length, group := size(a.Shape[0], a.Shape[1])
	if group < 1 || length < 1 {
		e.fail("groups of %d in rows of %d", group, length)
		return
	}
	per := (length + group - 1) / group
	q, scale := e.out("q", len(a.X)), e.out("scale", len(a.X)/length*per)
	if e.err != nil {
		return
	}
	for i := range scale {
		lo := i / per * length
		hi := min(lo+(i%per+1)*group, lo+length)
		lo += i % per * group
		scale[i] = e.quantise(q[lo:hi], a.X[lo:hi])
	}
}

func quantizeTensor(e *eval) {
	quantiseGroups(e, func(r, c int) (int, int) { return r * c, r * c })
}

func quantizeRow(e *eval) {
	quantiseGroups(e, func(_, c int) (int, int) { return c, c })
}

func quantizeGroup(e *eval) {
	quantiseGroups(e, func(_, c int) (int, int) { return c, e.int("group", 32) })
}

// quantizeFP8Row writes float8_e4m3fn, saturating at 448.
func quantizeFP8Row(e *eval) {
	a, ok := e.in("input", 2)
	if !ok {
		return
	}
	rows, cols := a.Shape[0], a.Shape[1]
	q, scale := e.out("q", len(a.X)), e.out("scale", rows)
	if e.err != nil {
		return
	}
	e.outs[0].saturate = true
	for r := range rows {
		row := a.X[r*cols : (r+1)*cols]
		scale[r] = e.Div(e.absmax(row), e.Const(448*e.k))
		for j, v := range row {
			q[r*cols+j] = e.Div(v, scale[r])
		}
	}
}

// scaleRule says which scale element (r, c) has.
type scaleRule func(e *eval, r, c, cols int) int

// dequantize makes an op of the rule which scale an element has.
func dequantize(scaleAt scaleRule) func(*eval) {
	return func(e *eval) {
		a, ok := e.in("q", 2)
		s := e.call.Inputs["scale"]
		scale, ok2 := e.in("scale", len(s.Shape))
		out := e.out("output", len(a.X))
		if !ok || !ok2 || out == nil {
			return
		}
		cols := a.Shape[1]
		for i, v := range a.X {
			j := scaleAt(e, i/cols, i%cols, cols)
			if j >= len(scale.X) {
				e.fail("scale has shape %s for q of shape %s", scale.Shape, a.Shape)
				return
			}
			out[i] = e.Mul(v, scale.X[j])
		}
	}
}

func dequantTensor(*eval, int, int, int) int { return 0 }

func dequantRow(_ *eval, r, _, _ int) int { return r }

func dequantGroup(e *eval, r, c, cols int) int {
	g := max(e.int("group", 32), 1)
	return r*((cols+g-1)/g) + c/g
}

// withZeroPoint evaluates f for each element of the input of that name with its scale and zero point.
func withZeroPoint(from, to string, scaleAt scaleRule, f func(e *eval, x, scale, zero float64) float64) func(*eval) {
	return func(e *eval) {
		a, ok := e.in(from, 2)
		scale, ok2 := e.in("scale", 1)
		zero, ok3 := e.in("zero_point", 1)
		if !ok || !ok2 || !ok3 {
			return
		}
		out := e.out(to, len(a.X))
		if out == nil {
			return
		}
		cols := a.Shape[1]
		for i, v := range a.X {
			j := scaleAt(e, i/cols, i%cols, cols)
			if j >= len(scale.X) || j >= len(zero.X) {
				e.fail("scale has shape %s and zero_point %s for %s of shape %s", scale.Shape, zero.Shape, from, a.Shape)
				return
			}
			out[i] = f(e, v, scale.X[j], zero.X[j])
		}
	}
}

// quantizeStatic is round(x/scale)+zero, by division or reciprocal (AltMain), the zero point added before (AltFold) or
// after rounding, to even or half away from zero (AltPad).
func quantizeStatic(scaleAt scaleRule) func(*eval) {
	return withZeroPoint("input", "q", scaleAt, func(e *eval, x, scale, zero float64) float64 {
		round := math.RoundToEven
		if e.alt(AltPad) {
			round = math.Round
		}
		y := 0.0
		if e.alt(AltMain) {
			y = e.Mul(x, e.Div(1, scale))
		} else {
			y = e.Div(x, scale)
		}
		if e.alt(AltFold) {
			y = round(e.Add(y, zero))
		} else {
			y = round(y) + zero
		}
		low, high := -128.0, 127.0
		if e.text("qdtype", "int8") == "uint8" {
			low, high = 0, 255
		}
		return min(max(y, low), high)
	})
}

func dequantizeAffine(scaleAt scaleRule) func(*eval) {
	return withZeroPoint("q", "output", scaleAt, func(e *eval, q, scale, zero float64) float64 {
		return e.Mul(e.Sub(q, zero), scale)
	})
}
