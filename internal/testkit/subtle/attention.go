package subtle

// This file implements attention.

import "math"

// attentionWay is a way to compute attention. The zero value takes two passes over the visible keys.
type attentionWay struct {
	masked  float32 // score of hidden keys; 0: they are left out
	extra   float32 // is added to the sum of the weights
	narrow  bool    // scores are added in the dtype of the case, in blocks of 64
	online  bool    // one pass over tiles of 16 keys
	forget  bool    // online: the last tile does not rescale what was there
	keyTile int     // kv_len is rounded up to a multiple of this; 0: not
}

const attentionTile = 16

// heads are the tensors of one call.
type heads struct {
	q, k, v, out     []float32
	hq, hkv, m, n, d int
	scale            float32
}

func attention(w attentionWay) Kernel {
	return func(c *Call) {
		var h heads
		q, shape := c.in("q")
		h.q, h.hq, h.m = q, shape[1], shape[2]
		causal, window := c.Attrs.Bool("causal"), c.int("window")
		h.attend(c, w, func(_, i int) (lo, hi int) {
			at := i
			if c.Attrs.Str("align") != "top_left" {
				at += h.n - h.m
			}
			hi = h.n
			if causal {
				hi = min(hi, at+1)
			}
			if window > 0 {
				lo = max(0, at-window+1)
			}
			return lo, max(hi, lo)
		})
	}
}

func decodeAttention(w attentionWay) Kernel {
	return func(c *Call) {
		var h heads
		q, shape := c.in("q")
		h.q, h.hq, h.m = q, shape[1], 1
		lens, _ := c.in("kv_len")
		h.attend(c, w, func(b, _ int) (int, int) {
			n := int(lens[b])
			if t := w.keyTile; t > 0 {
				n = (n + t - 1) / t * t
			}
			return 0, max(0, min(n, h.n))
		})
	}
}

// attend computes every row; visible gives the keys that row i of batch b sees.
func (h *heads) attend(c *Call, w attentionWay, visible func(b, i int) (int, int)) {
	k, shape := c.in("k")
	v, _ := c.in("v")
	h.k, h.v, h.hkv, h.n, h.d = k, v, shape[1], shape[2], shape[3]
	h.out = make([]float32, len(h.q))
	if h.scale = c.float("scale"); h.scale == 0 {
		h.scale = float32(1 / math.Sqrt(float64(h.d)))
	}
	scores := make([]float32, h.n)
	for i := range shape[0] * h.hq {
		b := i / h.hq
		kv := (b*h.hkv + i%h.hq/(h.hq/h.hkv)) * h.n * h.d
		for j := range h.m {
			lo, hi := visible(b, j)
			at := (i*h.m + j) * h.d
			if lo >= hi && (w.masked == 0 || h.n == 0) {
				continue
			}
			h.score(c, w, scores, at, kv, lo, hi)
			first, last := lo, hi
			if w.masked != 0 {
				first, last = 0, h.n
			}
			if w.online {
				h.online(w, scores[first:last], at, kv+first*h.d)
			} else {
				h.twoPass(w, scores[first:last], at, kv+first*h.d)
			}
		}
	}
	c.put("output", h.out, nearest)
}

// score fills the scores of one row.
func (h *heads) score(c *Call, w attentionWay, scores []float32, at, kv, lo, hi int) {
	r := reduction{narrow: w.narrow}
	q := h.q[at : at+h.d]
	for j := range scores {
		if j < lo || j >= hi {
			scores[j] = w.masked
			continue
		}
		key := h.k[kv+j*h.d : kv+(j+1)*h.d]
		if w.narrow {
			scores[j] = h.scale * r.sum(h.d, c.DType, func(i int) float32 { return q[i] * key[i] })
			continue
		}
		dot := float32(0)
		for i, x := range q {
			dot += x * key[i]
		}
		scores[j] = h.scale * dot
	}
}

// usable is the maximum to subtract: 0 where all scores are -Inf, because -Inf+Inf is not a number.
func usable(top float32) float32 {
	if isNegInf(top) {
		return 0
	}
	return top
}

func (h *heads) twoPass(w attentionWay, scores []float32, at, kv int) {
	top := usable(maxOf(scores))
	total := w.extra
	out := h.out[at : at+h.d]
	for j, s := range scores {
		p := exp(s - top)
		total += p
		for i := range out {
			out[i] += p * h.v[kv+j*h.d+i]
		}
	}
	for i := range out {
		out[i] /= total
	}
}

func (h *heads) online(w attentionWay, scores []float32, at, kv int) {
	top, total := float32(math.Inf(-1)), float32(0)
	out := h.out[at : at+h.d]
	for t := 0; t < len(scores); t += attentionTile {
		end := min(t+attentionTile, len(scores))
		next := larger(maxOf(scores[t:end]), top)
		if !w.forget || end < len(scores) || t == 0 {
			alpha := exp(top - usable(next))
			total *= alpha
			for i := range out {
				out[i] *= alpha
			}
		}
		top = next
		for j := t; j < end; j++ {
			p := exp(scores[j] - usable(top))
			total += p
			for i := range out {
				out[i] += p * h.v[kv+j*h.d+i]
			}
		}
	}
	for i := range out {
		out[i] /= total
	}
}
