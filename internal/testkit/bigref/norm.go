package bigref

// This file implements the normalisations.

import "math/big"

// reciprocalSigma is 1/√(variance + eps).
func (t *task) reciprocalSigma(variance *big.Float) *big.Float {
	return t.quo(one(), t.sqrt(t.add(variance, num(t.attrs.Float("eps")))))
}

// affine sets element i to d·rstd·w + b.
func (t *task) affine(out *Result, i int, d, rstd, w, b *big.Float) {
	sum := t.total()
	t.accumulate(sum, t.mul(t.mul(d, rstd), w))
	t.accumulate(sum, b)
	out.Big[i], out.Scale[i] = sum.value, sum.scale
}

func (t *task) layerNorm() {
	out := t.summed("output")
	in, weight, bias := t.in["input"], t.in["weight"].X, t.in["bias"].X
	n, length := rows(in.Shape)
	for r := range n {
		xs := numbers(in.X[r*length : (r+1)*length])
		mean, squares := t.moments(xs)
		rstd := t.reciprocalSigma(t.quo(squares, integer(length)))
		for i, x := range xs {
			t.affine(out, r*length+i, t.sub(x, mean), rstd, num(weight[i]), num(bias[i]))
		}
	}
}

func (t *task) rmsNorm() {
	out := t.exact("output")
	in, weight := t.in["input"], t.in["weight"].X
	n, length := rows(in.Shape)
	for r := range n {
		xs := numbers(in.X[r*length : (r+1)*length])
		rstd := t.reciprocalSigma(t.quo(t.sumOfSquares(xs), integer(length)))
		for i, x := range xs {
			out.Big[r*length+i] = t.mul(t.mul(x, rstd), num(weight[i]))
		}
	}
}

func (t *task) sumOfSquares(xs []*big.Float) *big.Float {
	sum := zero()
	for _, x := range xs {
		sum = t.add(sum, t.mul(x, x))
	}
	return sum
}

// groupNorm takes the moments over the channels of a group and all their positions.
func (t *task) groupNorm() {
	out := t.summed("output")
	in, weight, bias := t.in["input"], t.in["weight"].X, t.in["bias"].X
	images, channels, length := in.Shape[0], in.Shape[1], in.Shape[2]
	groups := t.attrs.Int("groups")
	width := channels / groups
	for n := range images {
		for g := range groups {
			var members []*big.Float
			for c := g * width; c < (g+1)*width; c++ {
				for l := range length {
					members = append(members, num(in.X[(n*channels+c)*length+l]))
				}
			}
			mean, squares := t.moments(members)
			rstd := t.reciprocalSigma(t.quo(squares, integer(len(members))))
			for c := g * width; c < (g+1)*width; c++ {
				for l := range length {
					i := (n*channels+c)*length + l
					t.affine(out, i, t.sub(num(in.X[i]), mean), rstd, num(weight[c]), num(bias[c]))
				}
			}
		}
	}
}

func (t *task) l2Norm() {
	out := t.exact("output")
	in := t.in["input"]
	n, length := rows(in.Shape)
	for r := range n {
		xs := numbers(in.X[r*length : (r+1)*length])
		norm := larger(t.sqrt(t.sumOfSquares(xs)), num(t.attrs.Float("eps")))
		for i, x := range xs {
			out.Big[r*length+i] = t.quo(x, norm)
		}
	}
}

func (t *task) batchNorm() {
	out := t.summed("output")
	in := t.in["input"]
	mean, variance, weight, bias := t.in["mean"].X, t.in["var"].X, t.in["weight"].X, t.in["bias"].X
	images, channels, length := in.Shape[0], in.Shape[1], in.Shape[2]
	for n := range images {
		for c := range channels {
			rstd := t.reciprocalSigma(num(variance[c]))
			for l := range length {
				i := (n*channels+c)*length + l
				t.affine(out, i, t.sub(num(in.X[i]), num(mean[c])), rstd, num(weight[c]), num(bias[c]))
			}
		}
	}
}
