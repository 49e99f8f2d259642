package bigref

// This file implements the operators that pick, scatter and rank.

import (
	"math"
	"math/big"
	"slices"
)

func (t *task) embedding() {
	out := t.selected("output")
	table, index := t.in["table"], t.in["index"].X
	width := table.Shape[1]
	for r, v := range index {
		for d := range width {
			out.F[r*width+d] = table.X[int(v)*width+d]
		}
	}
}

func (t *task) gather() {
	out := t.selected("output")
	in, index := t.in["input"], t.in["index"]
	n, picks := rows(index.Shape)
	for r := range n {
		for j := range picks {
			out.F[r*picks+j] = in.X[r*in.Shape[1]+int(index.X[r*picks+j])]
		}
	}
}

func (t *task) scatterAdd() {
	out := t.summed("output")
	in, index, src := t.in["input"], t.in["index"].X, t.in["src"].X
	n, width := rows(in.Shape)
	for v := range n {
		for d := range width {
			sum := t.total()
			t.accumulate(sum, num(in.X[v*width+d]))
			for r := range index {
				if int(index[r]) == v {
					t.accumulate(sum, num(src[r*width+d]))
				}
			}
			out.Big[v*width+d], out.Scale[v*width+d] = sum.value, sum.scale
		}
	}
}

func (t *task) topK() {
	values, indices := t.selected("values"), t.selected("indices")
	in := t.in["input"]
	n, length := rows(in.Shape)
	k := t.attrs.Int("k")
	for r := range n {
		row := in.X[r*length : (r+1)*length]
		order := make([]int, length)
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(i, j int) int { return falling(row[i], row[j]) })
		for j := range k {
			values.F[r*k+j], indices.F[r*k+j] = row[order[j]], float64(order[j])
		}
	}
}

// falling orders from great to small, NaN first.
func falling(x, y float64) int {
	switch {
	case math.IsNaN(x) && math.IsNaN(y):
		return 0
	case math.IsNaN(x) || x > y:
		return -1
	case math.IsNaN(y) || x < y:
		return 1
	}
	return 0
}

// moeRouting ranks the softmax of each row and keeps the k greatest.
func (t *task) moeRouting() {
	weights, indices := t.exact("weights"), t.selected("indices")
	in := t.in["logits"]
	n, experts := rows(in.Shape)
	k := t.attrs.Int("k")
	for r := range n {
		row := in.X[r*experts : (r+1)*experts]
		_, es, sum := t.exponentials(numbers(row))
		order := make([]int, experts)
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(i, j int) int { return falling(row[i], row[j]) })
		chosen := zero()
		for j := range k {
			chosen = t.add(chosen, t.quo(es[order[j]], sum))
		}
		if !t.attrs.Bool("renormalize") {
			chosen = one()
		}
		for j := range k {
			weights.Big[r*k+j] = t.quo(t.quo(es[order[j]], sum), chosen)
			indices.F[r*k+j] = float64(order[j])
		}
	}
}

// Probabilities returns the softmax of one row of finite numbers: what routing ranks by.
func Probabilities(row []float64) []*big.Float {
	t := &task{calc: calc{funcs: shared()}}
	_, es, sum := t.exponentials(numbers(row))
	for i, e := range es {
		es[i] = t.quo(e, sum)
	}
	return es
}
