// This file implements cross entropy.

package honest

import "math"

func crossEntropy(e *eval) {
	a, ok := e.in("logits", 2)
	if !ok {
		return
	}
	rows, c := a.Shape[0], a.Shape[1]
	target := e.vector("target", rows)
	reduction := e.text("reduction", "none")
	var out, losses []float64
	if reduction == "none" {
		out = e.out("output", rows)
		losses = out
	} else {
		out, losses = e.out("output", 1), make([]float64, rows)
	}
	if e.err != nil {
		return
	}
	count := 0
	ignore := float64(e.int("ignore_index", -100))
	smooth := e.float("label_smoothing", 0)
	e.shifted = c > 1
	for r := range losses {
		if target[r] == ignore {
			losses[r] = 0
			continue
		}
		count++
		t := int(target[r])
		if t < 0 || t >= c {
			e.fail("target %d of row %d is not in [0,%d)", t, r, c)
			return
		}
		if e.fault == OffByOne {
			t = (t + 1) % c
		}
		losses[r] = e.nll(a.X[r*c:(r+1)*c], t, smooth)
	}
	if reduction != "none" {
		out[0] = e.reduceLosses(losses, count, reduction == "mean")
	}
}

// reduceLosses adds up the losses of rows, ignored ones as zeros, each rounded to the type of the case before (AltPad)
// and for a mean divided before (AltFold) or after.
func (e *eval) reduceLosses(losses []float64, count int, mean bool) float64 {
	each := mean && e.alt(AltFold)
	for i := range losses {
		if e.alt(AltPad) {
			losses[i] = e.round(losses[i])
		}
		if each && count > 0 {
			losses[i] = e.mean(losses[i], count)
		}
	}
	total := e.Sum(losses)
	switch {
	case !mean:
		return total
	case count == 0:
		return math.NaN()
	case each:
		return total
	}
	return e.mean(total, count)
}

// nll is (1-smooth)·(lse-x_t)+smooth·(lse-mean(x)), with lse-x_t as (m+log Σ)-x_t or log Σ-(x_t-m) (AltMain).
func (e *eval) nll(x []float64, t int, smooth float64) float64 {
	top, sum := e.expSum(x)
	l := e.Log(sum)
	minus := func(v float64) float64 {
		if e.alt(AltMain) {
			return e.Sub(l, e.Sub(v, top))
		}
		return e.Sub(e.Add(top, l), v)
	}
	loss := minus(x[t])
	if smooth == 0 {
		return loss
	}
	eps := e.Const(smooth * e.k)
	mean := e.Div(e.Sum(x), float64(len(x)))
	return e.MulAdd(e.Sub(1, eps), loss, e.Mul(eps, minus(mean)))
}
