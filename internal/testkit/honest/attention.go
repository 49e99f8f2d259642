// This file implements attention: two passes over the scores, online over tiles of keys, or split over the keys.

package honest

import "math"

// head is one query row with the keys and values of its head.
type head struct {
	q      []float64 // [D]
	k      []float64 // [N,D]
	vt     []float64 // [D,N]: values, transposed
	n, d   int
	lo, hi int // visible keys
	drop   int // key left out by DropTerm, -1: none
	scale  float64
	folded float64 // scale·log2(e), 0: not folded
	tile   int
	out    []float64
}

// mask says which keys a row sees.
type mask struct {
	causal     bool
	topLeft    bool
	window     int
	rows, keys int
	shift      int // OffByOne
	skipFirst  int // OffByOne where no mask depends on the row
}

// visible returns the range of keys that row i sees.
func (k *mask) visible(i int) (lo, hi int) {
	at := i + k.shift
	if !k.topLeft {
		at += k.keys - k.rows
	}
	lo, hi = k.skipFirst, k.keys
	if k.causal {
		hi = min(hi, at+1)
	}
	if k.window > 0 {
		lo = max(lo, at-k.window+1)
	}
	return lo, max(hi, lo)
}

// attention makes one of the ops that differ in their default mask only.
func attention(causal bool, window int) func(*eval) {
	return func(e *eval) {
		q, _ := e.in("q", 4)
		k, _ := e.in("k", 4)
		v, ok := e.in("v", 4)
		if !ok {
			return
		}
		rows, keys := q.Shape[2], k.Shape[2]
		mk := mask{causal: e.flag("causal", causal), window: e.int("window", window), rows: rows, keys: keys,
			topLeft: e.text("align", "bottom_right") == "top_left"}
		if e.fault == OffByOne {
			e.shifted = mk.causal || mk.window > 0 || keys > 1
			if mk.causal || mk.window > 0 {
				mk.shift = 1
			} else if keys > 1 {
				mk.skipFirst = 1
			}
		}
		e.attend(q, k, v, func(_, i int) (int, int) { return mk.visible(i) })
	}
}

func decodeAttention(e *eval) {
	q, _ := e.in("q", 3)
	k, _ := e.in("k", 4)
	v, ok := e.in("v", 4)
	if !ok {
		return
	}
	lens := e.vector("kv_len", q.Shape[0])
	if e.err != nil {
		return
	}
	one := 0
	if e.fault == OffByOne {
		e.shifted, one = true, 1
	}
	q.Shape = []int{q.Shape[0], q.Shape[1], 1, q.Shape[2]}
	e.attend(q, k, v, func(b, _ int) (int, int) { return 0, max(0, min(int(lens[b]), k.Shape[2])-one) })
}

// attend evaluates every query row; visible gives the keys that row i of batch b sees.
func (e *eval) attend(q, k, v Array, visible func(b, i int) (int, int)) {
	batch, hq, rows, d := q.Shape[0], q.Shape[1], q.Shape[2], q.Shape[3]
	hkv, n := k.Shape[1], k.Shape[2]
	if hkv == 0 || hq%hkv != 0 || k.Shape[0] != batch || k.Shape[3] != d || !v.Shape.Equal(k.Shape) {
		e.fail("inputs have shapes %s, %s and %s", q.Shape, k.Shape, v.Shape)
		return
	}
	out := e.out("output", batch*hq*rows*d)
	if len(out) == 0 {
		return
	}
	h := head{n: n, d: d, drop: -1, tile: e.tile()}
	h.scale = e.float("scale", 0)
	if h.scale == 0 {
		h.scale = 1 / math.Sqrt(float64(d))
	}
	h.scale = e.Const(h.scale * e.k)
	if e.alt(AltFold) && h.scale > 0 {
		h.folded = e.whole(func() float64 { return e.Mul(h.scale, e.Const(log2E)) })
	}
	fault := e.fault
	defer func() { e.fault = fault }()
	for i := range batch * hq {
		b := i / hq
		kv := (b*hkv + i%hq/(hq/hkv)) * n * d
		h.k = k.X[kv : kv+n*d]
		h.vt = e.transpose(7, v.X[kv:kv+n*d], n, d)
		for j := range rows {
			at := (i*rows + j) * d
			h.q, h.out = q.X[at:at+d], out[at:at+d]
			h.lo, h.hi = visible(b, j)
			e.fault = fault
			keep, skip := e.dropped(max(0, h.hi-h.lo))
			h.hi = h.lo + keep
			if h.drop = -1; skip >= 0 {
				h.drop = h.lo + skip
			}
			if fault == DropTerm || fault == SkipTile {
				e.fault = NoFault // of the sums over keys, not of those inside a tile or a score
			}
			e.row(&h)
		}
	}
}

// tile returns the number of keys per tile.
func (e *eval) tile() int {
	t := 16
	if e.alt(AltTile) {
		t *= 2
	}
	if e.alt(AltTile2) {
		t *= 4
	}
	return t
}

// row computes one row of the output. A row that sees nothing is 0.
func (e *eval) row(h *head) {
	if h.hi <= h.lo {
		clear(h.out)
		return
	}
	lo, hi := h.lo, h.hi
	if e.alt(AltPad) { // whole tiles, the masked keys with probability 0
		lo, hi = lo/h.tile*h.tile, min((hi+h.tile-1)/h.tile*h.tile, h.n)
	}
	switch {
	case !e.alt(AltMain):
		e.rowTwoPass(h, lo, hi)
	case e.style.Order == Blocked:
		e.rowSplit(h, lo, hi)
	default:
		e.rowOnline(h, lo, hi)
	}
}

// scores returns the scores of keys lo..hi-1, -Inf for the invisible ones, and their maximum. With a folded scale they
// are not yet scaled.
func (e *eval) scores(h *head, lo, hi int) (s []float64, top float64) {
	s = e.scratch(8, hi-lo)
	top = math.Inf(-1)
	for j := lo; j < hi; j++ {
		if j < h.lo || j >= h.hi || j == h.drop {
			s[j-lo] = math.Inf(-1)
			continue
		}
		x := e.Dot(h.q, h.k[j*h.d:(j+1)*h.d], true)
		if h.folded == 0 {
			x = e.Mul(x, h.scale)
		}
		s[j-lo] = x
		top = e.Max(top, x)
	}
	return s, top
}

// weight is the unnormalised probability of score s under maximum top.
func (e *eval) weight(h *head, s, top float64) float64 {
	if h.folded == 0 {
		return e.Exp(e.Sub(s, top))
	}
	if e.composite() { // scores relative to their maximum are no result here
		return e.whole(func() float64 { return e.weight(h, s, top) })
	}
	return e.Exp2(e.MulAdd(s, h.folded, -e.Mul(top, h.folded)))
}

// rescale is the factor that takes sums under maximum from to maximum to. It belongs to the running sums.
func (e *eval) rescale(h *head, from, to float64) float64 {
	e.inner++
	defer func() { e.inner-- }()
	if h.folded == 0 {
		return e.Exp(e.Sub(from, to))
	}
	return e.Exp2(e.Mul(e.Sub(from, to), h.folded))
}

// rescaled is a running sum under a new maximum.
func (e *eval) rescaled(sum, factor float64) float64 {
	e.inner++
	defer func() { e.inner-- }()
	return e.Mul(sum, factor)
}

// usable is the maximum to subtract: 0 where all scores are -Inf, because -Inf+Inf is not a number.
func usable(top float64) float64 {
	if math.IsInf(top, -1) {
		return 0
	}
	return top
}

// weights turns scores into unnormalised probabilities in place and returns their sum, taken before any rounding.
func (e *eval) weights(h *head, s []float64, top float64, round bool) float64 {
	for j, x := range s {
		s[j] = e.weight(h, x, top)
	}
	sum := e.Sum(s)
	if round {
		e.roundAll(s)
	}
	return sum
}

func (e *eval) roundAll(s []float64) {
	if e.style.RoundIntermediates {
		for j, x := range s {
			s[j] = e.Cast(x, e.t)
		}
	}
}

// values returns the values of keys lo..hi-1 in column c.
func (h *head) values(c, lo, hi int) []float64 { return h.vt[c*h.n+lo : c*h.n+hi] }

func (e *eval) rowTwoPass(h *head, lo, hi int) {
	s, top := e.scores(h, lo, hi)
	norm := e.alt(AltNorm)
	sum := e.weights(h, s, usable(top), !norm)
	if norm {
		for j, p := range s {
			s[j] = e.Div(p, sum)
		}
		e.roundAll(s)
	}
	narrow := e.style.RoundIntermediates
	for c := range h.out {
		x := e.Dot(s, h.values(c, lo, hi), narrow)
		if !norm {
			x = e.Div(x, sum)
		}
		h.out[c] = x
	}
}

// rowOnline is flash attention: running maximum, sum and output, rescaled whenever the maximum grows.
func (e *eval) rowOnline(h *head, lo, hi int) {
	top, sum := math.Inf(-1), 0.0
	clear(h.out)
	for t := lo; t < hi; t += h.tile {
		end := min(t+h.tile, hi)
		s, m := e.scores(h, t, end)
		next := e.Max(top, m)
		alpha := e.rescale(h, top, usable(next))
		sum = e.accMul(sum, alpha, e.weights(h, s, usable(next), true))
		for c := range h.out {
			h.out[c] = e.DotFrom(e.rescaled(h.out[c], alpha), s, h.values(c, t, end), e.style.RoundIntermediates)
		}
		top = next
	}
	for c, x := range h.out {
		h.out[c] = e.Div(x, sum)
	}
}

// rowSplit computes the tiles independently and joins them, as kernels for decoding do.
func (e *eval) rowSplit(h *head, lo, hi int) {
	tiles := (hi - lo + h.tile - 1) / h.tile
	tops, sums := e.scratch(9, tiles), e.scratch(10, tiles)
	parts := e.scratch(11, tiles*h.d) // [D,tiles]
	top := math.Inf(-1)
	for i := range tiles {
		t := lo + i*h.tile
		end := min(t+h.tile, hi)
		s, m := e.scores(h, t, end)
		tops[i], top = m, e.Max(top, m)
		sums[i] = e.weights(h, s, usable(m), true)
		for c := range h.d {
			parts[c*tiles+i] = e.Dot(s, h.values(c, t, end), e.style.RoundIntermediates)
		}
	}
	for i, m := range tops {
		tops[i] = e.rescale(h, m, usable(top))
	}
	sum := e.Dot(tops, sums, false)
	for c := range h.out {
		h.out[c] = e.Div(e.Dot(tops, parts[c*tiles:(c+1)*tiles], false), sum)
	}
}
