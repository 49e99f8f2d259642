package bigref

// This file implements attention in all its forms, and rotary position embeddings.

import "math/big"

// factor is what scores are multiplied by: the attribute, or 1/√D where it is 0.
func (t *task) factor(depth int) *big.Float {
	if s := t.attrs.Float("scale"); s != 0 {
		return num(s)
	}
	return t.quo(one(), t.sqrt(integer(depth)))
}

// attend writes softmax(scale·q·k)·v over the keys that see allows to out[at:at+depth].
func (t *task) attend(out *Result, at int, q, k, v []float64, keys int, see func(j int) bool) {
	depth := len(q)
	var scores []*big.Float
	var seen []int
	for j := range keys {
		if !see(j) {
			continue
		}
		dot := t.total()
		for d := range depth {
			t.accumulate(dot, t.mul(num(q[d]), num(k[j*depth+d])))
		}
		scores = append(scores, t.mul(t.factor(depth), dot.value))
		seen = append(seen, j)
	}
	if len(seen) == 0 {
		for d := range depth {
			out.open(at + d)
		}
		return
	}
	_, es, sum := t.exponentials(scores)
	for d := range depth {
		mix := t.total()
		for s, j := range seen {
			t.accumulate(mix, t.mul(t.quo(es[s], sum), num(v[j*depth+d])))
		}
		out.Big[at+d], out.Scale[at+d] = mix.value, mix.scale
	}
}

// attention is over q[B,HQ,M,D] and k, v[B,HKV,N,D]; consecutive query heads share a key head.
func (t *task) attention() {
	out := t.summed("output")
	q, k, v := t.in["q"], t.in["k"], t.in["v"]
	batch, heads, queries, depth := q.Shape[0], q.Shape[1], q.Shape[2], q.Shape[3]
	keyHeads, keys := k.Shape[1], k.Shape[2]
	shift := 0
	if t.attrs.Str("align") == "bottom_right" {
		shift = keys - queries
	}
	causal, window := t.attrs.Bool("causal"), t.attrs.Int("window")
	for b := range batch {
		for h := range heads {
			kv := (b*keyHeads + h/(heads/keyHeads)) * keys * depth
			for i := range queries {
				see := func(j int) bool {
					if causal && j > i+shift {
						return false
					}
					return window == 0 || j > i+shift-window
				}
				at := ((b*heads+h)*queries + i) * depth
				t.attend(out, at, q.X[at:at+depth], k.X[kv:], v.X[kv:], keys, see)
			}
		}
	}
}

// decodeAttention is over q[B,HQ,D] and the first kv_len[b] keys.
func (t *task) decodeAttention() {
	out := t.summed("output")
	q, k, v, lengths := t.in["q"], t.in["k"], t.in["v"], t.in["kv_len"].X
	batch, heads, depth := q.Shape[0], q.Shape[1], q.Shape[2]
	keyHeads, keys := k.Shape[1], k.Shape[2]
	for b := range batch {
		for h := range heads {
			kv := (b*keyHeads + h/(heads/keyHeads)) * keys * depth
			at := (b*heads + h) * depth
			see := func(j int) bool { return j < int(lengths[b]) }
			t.attend(out, at, q.X[at:at+depth], k.X[kv:], v.X[kv:], keys, see)
		}
	}
}

// rope turns pairs of input[B,S,H,D] by the angles whose cos and sin [S,D/2] are given.
func (t *task) rope() {
	out := t.summed("output")
	in, cos, sin := t.in["input"], t.in["cos"].X, t.in["sin"].X
	batch, steps, heads, depth := in.Shape[0], in.Shape[1], in.Shape[2], in.Shape[3]
	for b := range batch {
		for s := range steps {
			for h := range heads {
				at := ((b*steps+s)*heads + h) * depth
				for p := range depth / 2 {
					first, second := at+p, at+p+depth/2
					if t.attrs.Bool("interleaved") {
						first, second = at+2*p, at+2*p+1
					}
					c, n := num(cos[s*(depth/2)+p]), num(sin[s*(depth/2)+p])
					x1, x2 := num(in.X[first]), num(in.X[second])
					t.pair(out, first, t.mul(x1, c), neg(t.mul(x2, n)))
					t.pair(out, second, t.mul(x2, c), t.mul(x1, n))
				}
			}
		}
	}
}

// pair sets element i to x + y.
func (t *task) pair(out *Result, i int, x, y *big.Float) {
	sum := t.totalOf([]*big.Float{x, y})
	out.Big[i], out.Scale[i] = sum.value, sum.scale
}
