// This file implements attention in its variants and rotary embeddings.

package oracle

import (
	"math"

	"gpuemu/internal/dtype"
	"gpuemu/internal/libm"
	"gpuemu/internal/opspec"
)

// leastTile is the smallest number of keys a kernel is assumed to take at once; each tile after the first may rescale
// what was accumulated before it.
const leastTile = 16

// A head is one attention problem: queries m×d, keys and values n×d. Row i sees the keys of visible(i).
type head struct {
	q, k, v []float64
	m, n, d int
	visible func(i int) (lo, hi int)
	scale   num
	peak    float64 // largest finite magnitude of v
}

// weights holds what a row of scores becomes: unnormalised probabilities and their sum, which no implementation holds
// below least. Overfull: a tile of the keys may overflow by itself; see call.overfull.
type weights struct {
	p        []num
	own      []float64 // errors of p that its sum does not have
	total    num
	least    float64
	overfull bool
}

// attend fills out[at:] with softmax(scale·q·kᵀ)·v, so many rows at once that their scores take bounded memory.
func (c *call) attend(out *result, at int, h head) { c.attendBlocks(out, at, h, blockRows(h.n)) }

func (c *call) attendBlocks(out *result, at int, h head, rows int) {
	for first := 0; first < h.m; first += rows {
		part := h
		part.m = min(rows, h.m-first)
		part.q = h.q[first*h.d : (first+part.m)*h.d]
		part.visible = func(i int) (lo, hi int) { return h.visible(first + i) }
		c.attendRows(out, at+first*h.d, part)
	}
}

// attendRows is attend for all rows at once.
//
// Error of one weight p = exp(s-m): that of s and m themselves (the dot product, n(m) terms; see dots); of the
// exponent, which a kernel may form as fma(q·k, scale·log2 e, -m·scale·log2 e), so that the roundings of
// both products stay, relative to |s| and |m| and not to their difference; of the exponential; of the rescaling by
// exp(m_old-m_new) once for each tile but the first (the arguments telescope to m-s, already charged; each costs one
// exponential and two roundings); of normalising before the product (one division); and of rounding p to the type of
// the case before the product with v, normalised or not.
func (c *call) attendRows(out *result, at int, h head) {
	if h.m == 0 || h.d == 0 {
		return
	}
	scores := c.dots(c.inputs(h.q), c.inputs(h.k),
		dotShape{m: h.m, n: h.n, k: h.d, transB: true, tensorCore: c.tensorCore()})
	values := c.inputs(h.v)
	p := matrix{make([]float64, h.m*h.n), make([]float64, h.m*h.n)}
	own := make([]float64, h.m*h.n)
	totals, least := make([]num, h.m), make([]float64, h.m)
	special, overfull := make([]bool, h.m), make([]bool, h.m)
	h.peak = largest(finitePart(h.v))
	crowded := c.crowded(&h)
	open := !allFinite(h.v)
	parallel(h.m, 64*h.n+1, func(first, last int) {
		for i := first; i < last; i++ {
			w := c.weigh(&scores, &h, i)
			lo, hi := h.visible(i)
			overfull[i] = w.overfull
			special[i] = open || !w.total.clean() || w.total.v == 0
			for j := lo; j < hi && !special[i]; j++ {
				special[i] = !w.p[j-lo].clean()
			}
			special[i] = special[i] || c.hiddenOpen(&h, i, &scores)
			if special[i] {
				c.attendRow(out, at+i*h.d, &h, i, &scores, w, crowded)
				continue
			}
			totals[i], least[i] = w.total, w.least
			for j := lo; j < hi; j++ {
				p.v[i*h.n+j], p.e[i*h.n+j], own[i*h.n+j] = w.p[j-lo].v, w.p[j-lo].e, w.own[j-lo]
			}
		}
	})
	var narrow []float64
	// Rounded to TF32 or to the storage type, weights are no longer the same in the product and in their sum. Of few keys
	// the sum of the weights is near 1, where a constant added to it shows most, and the second look costs little.
	asTheyAre := !c.tf32 && c.store == dtype.Invalid
	if r := (rowWeights{p, own, totals, least, special}); asTheyAre && (h.n <= leastTile || r.wide()) {
		narrow = c.narrowed(&h, &r, values)
	}
	o := c.dots(p, values, dotShape{m: h.m, n: h.d, k: h.n, tensorCore: c.tensorCore()})
	parallel(h.m*h.d, 16, func(first, last int) {
		for i := first; i < last; i++ {
			if special[i/h.d] {
				continue
			}
			x := c.divLeast(o.at(i), totals[i/h.d], least[i/h.d])
			if narrow != nil && x.v-x.v == 0 {
				x.e = math.Min(x.e, narrow[i])
			}
			if overfull[i/h.d] {
				x.w |= clsNaN
			}
			if crowded != nil && h.severalTiles(i/h.d) {
				x.w |= crowded[i%h.d]
			}
			if x.w == 0 { // a mean of values lies among them
				x.e = math.Min(x.e, abs(x.v)+float64(1.1*h.peak)+float64(2*c.tiny))
			}
			out.set(at+i, x)
		}
	})
}

// severalTiles reports whether the keys of row i may lie in more than one tile, so that sums are rescaled.
func (h *head) severalTiles(i int) bool {
	lo, hi := h.visible(i)
	return hi-lo > leastTile || lo/leastTile != (hi-1)/leastTile
}

// crowded returns, for each column of the values, what the accumulator of an online kernel may become before it is
// rescaled: under a running maximum every weight may be as large as 1, so it reaches the sum of the values, and an
// infinity rescaled by zero is NaN. Nil: far from overflow.
func (c *call) crowded(h *head) []classes {
	if float64(float64(2*h.n)*h.peak) < c.limit {
		return nil
	}
	pos, neg := make([]float64, h.d), make([]float64, h.d)
	for i, x := range finitePart(h.v) {
		pos[i%h.d] += math.Max(x, 0)
		neg[i%h.d] += math.Max(-x, 0)
	}
	w := make([]classes, h.d)
	for x := range w {
		if w[x] = c.partial(float64(1.01*pos[x]), float64(1.01*neg[x])); w[x] != 0 {
			w[x] |= clsNaN
		}
	}
	return w
}

// overfull reports whether what a tile accumulates under its own maximum may overflow, or its sum vanish, although the
// rest of the row makes it count for nothing: an infinity rescaled by zero is NaN, and so is a part divided by a sum of
// zero. Far from zero the exponent of the maximum itself is as wrong as the roundings of its two products.
func (c *call) overfull(reach float64, h *head) bool {
	local := libm.Exp(float64(2 * reach * c.expArg)) // the largest weight under the maximum of a tile
	return local > 1.01 && !(float64(local*float64(float64(h.n)*math.Max(h.peak, 1))) < c.limit)
}

// tileReach returns the largest magnitude that the maximum of a tile may have. A tile is a union of groups of leastTile
// keys, so its maximum is that of one of them. S are the visible scores, from key lo on.
func tileReach(s []num, lo int) float64 {
	reach := 0.0
	for first := 0; first < len(s); {
		last := min(first+leastTile-(lo+first)%leastTile, len(s))
		top := exact(math.Inf(-1))
		for _, x := range s[first:last] {
			if x.v > top.v {
				top = x
			}
		}
		if top.v-top.v == 0 {
			reach = math.Max(reach, abs(top.v)+top.e)
		}
		first = last
	}
	return reach
}

// weigh returns the weights of row i.
func (c *call) weigh(scores *product, h *head, i int) weights {
	lo, hi := h.visible(i)
	w := weights{p: make([]num, max(0, hi-lo)), own: make([]float64, max(0, hi-lo))}
	top := exact(math.Inf(-1))
	for j := lo; j < hi; j++ {
		w.p[j-lo] = c.mul(scores.at(i*h.n+j), h.scale)
		top = c.max2(top, w.p[j-lo])
	}
	// The exponent of the maximum is zero but for the roundings of both products, and no other exceeds it.
	reach := abs(top.v) + top.e // an implementation's own maximum
	slip := float64(2 * reach * c.expArg)
	most := float64(libm.Exp(slip) * (1 + float64(2*c.expRel)))
	w.least = 0.5 / most
	if h.severalTiles(i) {
		w.overfull = c.overfull(tileReach(w.p, lo), h)
	}
	roof := c.limit // weights beyond are infinite and no cap holds
	if c.tensorCore() > 0 {
		roof = c.T.OverflowThreshold() / 2
	}
	later := max(0, h.n-1) / leastTile // tiles after the first
	rescale := float64(float64(later)*(c.expRel+float64(2*c.u))) + c.quot
	var total sum
	for j, s := range w.p {
		x := c.sub(s, top)
		if x.v-x.v == 0 {
			x.e += float64((abs(s.v) + s.e + reach) * c.expArg)
		}
		x = c.exp(x)
		if x.v-x.v == 0 {
			x.e += float64((abs(x.v) + x.e) * rescale)
		}
		if most < roof {
			x = capped(x, most)
		}
		w.p[j] = x
		w.own[j] = math.Min(x.e, float64((abs(x.v)+x.e)*rescale))
		total.add(x)
	}
	w.total = total.total(&c.arith)
	for j := range w.p {
		// Divided by the sum before it meets a value, a weight may be flushed: zero times infinity is NaN.
		if p := &w.p[j]; p.clean() && w.total.clean() && p.v-p.e < float64(2*c.tiny*(w.total.v+w.total.e)) {
			p.e = math.Max(p.e, p.v)
		}
	}
	if c.tensorCore() > 0 && w.total.clean() {
		for j := range w.p {
			e := w.p[j].e
			c.castWeight(&w.p[j], w.total, w.least)
			w.own[j] += w.p[j].e - e
		}
	}
	return w
}

// castWeight adds the rounding of a weight to the type of the case: at the end, after it was divided by their sum, or
// when its tile was met.
func (c *call) castWeight(p *num, total num, least float64) {
	if !p.clean() {
		return
	}
	q := abs(p.v) + p.e
	if q >= c.T.OverflowThreshold() {
		p.w |= clsPosInf
		return
	}
	normalised := q / math.Max(total.v-total.e, least)
	after := float64((total.v + total.e) * c.T.HalfULP(normalised))
	// Rounded beside an earlier, smaller maximum, the weight was larger and stood elsewhere between powers of two.
	earlier := float64(q * c.T.UnitRoundoff())
	p.e += math.Max(math.Max(c.T.HalfULP(q), after), earlier)
}

// hiddenOpen reports whether the score of a key that row i does not see may be infinite or NaN. A mask that adds -inf
// leaves NaN of +Inf.
func (c *call) hiddenOpen(h *head, i int, scores *product) bool {
	lo, hi := h.visible(i)
	for j := 0; j < h.n; j++ {
		if j == lo {
			j = hi
		}
		if j < h.n && !c.mul(scores.at(i*h.n+j), h.scale).clean() {
			return true
		}
	}
	return false
}

// attendRow fills one row whose scores or values are not all finite, by the rules for single values. A value or
// key outside the visible range may still reach the sum with weight zero: 0·NaN is NaN.
func (c *call) attendRow(out *result, at int, h *head, i int, scores *product, w weights, crowded []classes) {
	lo, hi := h.visible(i)
	finite, hidden := false, c.hiddenOpen(h, i, scores)
	for j := lo; j < hi; j++ {
		finite = finite || !math.IsInf(scores.v[i*h.n+j], 0)
	}
	for x := range h.d {
		var s sum
		maskedNaN := hidden
		for j := range h.n {
			v := h.v[j*h.d+x]
			if j < lo || j >= hi {
				maskedNaN = maskedNaN || v-v != 0
				continue
			}
			s.add(c.mul(c.operand(w.p[j-lo]), c.operand(c.input(v))))
		}
		o := c.divLeast(s.total(&c.arith), w.total, w.least)
		if o.v == o.v {
			if crowded != nil && h.severalTiles(i) {
				o.w |= crowded[x] &^ classOf(o.v)
			}
			if maskedNaN || w.overfull {
				o.w |= clsNaN
			}
		}
		out.set(at+x, o)
		if !finite {
			if lo >= hi {
				out.Value[at+x] = 0
			}
			out.mark(at + x)
		}
	}
}

func (c *call) attentionScale(d int) num {
	if s := c.attrs.Float("scale"); s != 0 {
		return c.constant(s)
	}
	return c.constant(1 / math.Sqrt(float64(d)))
}

// VisibleKeys returns which keys a query row of attention sees: those from lo on and below hi, of n keys and m rows.
func VisibleKeys(attrs opspec.Attrs, m, n int) func(i int) (lo, hi int) {
	causal, window := attrs.Bool("causal"), attrs.Int("window")
	off := 0
	if attrs.Str("align") != "top_left" {
		off = n - m
	}
	return func(i int) (lo, hi int) {
		hi = n
		if causal {
			hi = min(n, i+off+1)
		}
		if window > 0 && window < n+m {
			lo = i + off - window + 1
		}
		lo = min(max(0, lo), n)
		return lo, max(lo, hi)
	}
}

func (c *call) attention() error {
	q, k, v, out := c.data("q"), c.data("k"), c.data("v"), c.out("output")
	m, n, d := c.dim("M"), c.dim("N"), c.dim("D")
	hq, hkv := c.dim("HQ"), c.dim("HKV")
	mask := VisibleKeys(c.attrs, m, n)
	visible := func(i int) (lo, hi int) { return mask(i + c.shift) }
	for bh := range c.dim("B") * hq {
		kv := bh/hq*hkv + bh%hq*hkv/hq
		c.attend(out, bh*m*d, head{
			q: q[bh*m*d : (bh+1)*m*d], k: k[kv*n*d : (kv+1)*n*d], v: v[kv*n*d : (kv+1)*n*d],
			m: m, n: n, d: d, visible: visible, scale: c.attentionScale(d),
		})
	}
	return nil
}

func (c *call) decodeAttention() error {
	q, k, v, lens, out := c.data("q"), c.data("k"), c.data("v"), c.data("kv_len"), c.out("output")
	n, d, hq, hkv := c.dim("N"), c.dim("D"), c.dim("HQ"), c.dim("HKV")
	if err := checkIndexes("kv_len", lens, 0, n+1); err != nil {
		return err
	}
	for bh := range c.dim("B") * hq {
		kv, length := bh/hq*hkv+bh%hq*hkv/hq, int(lens[bh/hq])
		c.attend(out, bh*d, head{
			q: q[bh*d : (bh+1)*d], k: k[kv*n*d : (kv+1)*n*d], v: v[kv*n*d : (kv+1)*n*d],
			m: 1, n: n, d: d, visible: func(int) (int, int) { return 0, length }, scale: c.attentionScale(d),
		})
	}
	return nil
}

// rope: each output is a sum of two products.
func (c *call) rope() error {
	x, cosines, sines, out := c.data("input"), c.data("cos"), c.data("sin"), c.out("output")
	s, h, d := c.dim("S"), c.dim("H"), c.dim("D")
	half := d / 2
	interleaved := c.attrs.Bool("interleaved")
	parallel(len(x)/d, 64*d, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			pos := r / h % s
			for i := range half {
				a, b := r*d+i, r*d+i+half
				if interleaved {
					a, b = r*d+2*i, r*d+2*i+1
				}
				x1, x2 := c.input(x[a]), c.input(x[b])
				co, si := c.input(cosines[pos*half+i]), c.input(sines[pos*half+i])
				out.set(a, c.sub(c.mul(x1, co), c.mul(x2, si)))
				out.set(b, c.add(c.mul(x2, co), c.mul(x1, si)))
			}
		}
	})
	return nil
}

// attentionOp returns one variant of attention: the same reference with other defaults.
func attentionOp(name, doc string, causal, window []any, heads [2][]int) *Op {
	dims := []opspec.Dim{
		{Name: "B", Candidates: []int{1, 2}, Empty: true},
		{Name: "HQ", Candidates: heads[0], Min: 1},
		{Name: "HKV", Candidates: heads[1], Min: 1},
		{Name: "M", Candidates: []int{1, 3, 16, 33, 64}, Min: 1, Tile: 64},
		{Name: "N", Candidates: []int{1, 5, 16, 32, 65, 128}, Empty: true, Tile: 32, Reduced: true},
		{Name: "D", Candidates: []int{8, 16, 32, 64}, Min: 1, Tile: 16},
	}
	kv := []string{"B", "HKV", "N", "D"}
	// Scores are products of q and k and stand in exponents: two inputs that are large, or k of infinities, leave
	// nothing to judge, and tiny ones give every row the mean of v. An infinite v, or one near overflow, has no defined
	// product with a weight that may underflow; adversarial values still have some.
	exponents := []string{"boundary", "offset", "cancelling", "near_eps", "masked"}
	return &Op{
		Name: name, Family: "attention", Doc: doc,
		Contract: "float32 accumulation (float64 for float64), online or two-pass softmax over tiles of 16 keys or more, " +
			"weights may be rounded to the input type before the product with v; rows that see no finite score undetermined",
		Schema: &opspec.Schema{
			Dims: dims, Relations: []string{"HQ % HKV == 0", "window >= 0"},
			Usual:  []string{"N >= M"}, // else the first rows of a causal mask see no key
			DTypes: plainFloats(),
			Inputs: []opspec.Input{
				{Name: "q", Dims: []string{"B", "HQ", "M", "D"}, Rare: append([]string{"rising_max"}, exponents...),
					Factor: true},
				{Name: "k", Dims: kv, Rare: exponents, Factor: true},
				{Name: "v", Dims: kv, Rare: []string{"boundary", "masked", "nan_injected", "offset"}},
			},
			Outputs: []opspec.Output{{Name: "output", Dims: []string{"B", "HQ", "M", "D"}}},
			Attrs: []opspec.Attr{
				{Name: "causal", Kind: opspec.Bool, Values: causal, Doc: "row i sees keys up to its own position"},
				{
					Name: "align", Kind: opspec.String, Values: []any{"bottom_right", "top_left"}, Fixed: true,
					Doc: "bottom_right: the last row sees the last key; top_left: the first row sees the first",
				},
				{Name: "window", Kind: opspec.Int, Values: window, Doc: "a row sees this many keys up to its own; 0: all"},
				{Name: "scale", Kind: opspec.Float, Values: []any{0.0, 1.0}, Fixed: true, Doc: "of the scores; 0: 1/sqrt(D)"},
			},
		},
		ref: (*call).attention,
	}
}

func attentionOps() []*Op {
	one := [2][]int{{1, 2}, {1, 2}}
	grouped := [2][]int{{4, 8, 6}, {1, 2}}
	off, on := []any{false}, []any{true}
	full := attentionOp("attention", "softmax(scale q k^T) v", off, []any{0}, one)
	full.Aliases = []string{"flash_attention", "sdpa"}
	lens := opspec.Input{
		Name: "kv_len", Dims: []string{"B"}, DType: "int32", Role: opspec.RoleIndex,
		Domain: opspec.Domain{Below: "N+1", Counts: true},
	}
	decode := attentionOp("decode_attention", "softmax(scale q k^T) v, one query, the first kv_len keys",
		nil, nil, grouped)
	s := decode.Schema
	s.Dims = append(s.Dims[:3:3], s.Dims[4:]...)
	s.Dims[0].Candidates = []int{2, 3, 5}                     // so that one empty sequence leaves others to judge
	s.Dims[3].Candidates = []int{1, 2, 3, 5, 16, 32, 65, 128} // of few keys all scores may be far below 0
	query := opspec.Input{Name: "q", Dims: []string{"B", "HQ", "D"}, Rare: s.Inputs[0].Rare, Factor: true}
	s.Inputs = []opspec.Input{query, s.Inputs[1], s.Inputs[2], lens}
	s.Outputs[0].Dims = []string{"B", "HQ", "D"}
	s.Attrs, s.Relations, s.Usual = s.Attrs[3:], s.Relations[:1], []string{"N >= 1"}
	decode.ref = (*call).decodeAttention
	return []*Op{
		full,
		attentionOp("causal_attention", "softmax(scale q k^T) v, causal", on, []any{0}, one),
		attentionOp("window_attention", "softmax(scale q k^T) v, causal in a sliding window", on,
			[]any{16, 1, 33, 100}, one),
		attentionOp("gqa_attention", "softmax(scale q k^T) v, several query heads to a key head",
			[]any{false, true}, []any{0}, grouped),
		decode,
		{
			Name: "rope", Aliases: []string{"rotary_embedding"}, Family: "attention",
			Doc:      "(x1 cos - x2 sin, x2 cos + x1 sin) for pairs of elements",
			Contract: "float32 arithmetic (float64 for float64), one rounding to the output type",
			Schema: &opspec.Schema{
				Dims: []opspec.Dim{
					{Name: "B", Candidates: []int{1, 2}, Empty: true},
					{Name: "S", Candidates: []int{1, 7, 16, 65}, Min: 1},
					{Name: "H", Candidates: []int{1, 3, 4}, Min: 1},
					{Name: "D", Candidates: []int{2, 6, 32, 64}, Min: 2, Tile: 32},
				},
				Relations: []string{"D % 2 == 0"}, DTypes: plainFloats(),
				Attrs: []opspec.Attr{{
					Name: "interleaved", Kind: opspec.Bool, Values: []any{false, true},
					Doc: "pairs are neighbours instead of halves",
				}},
				Inputs: []opspec.Input{
					{Name: "input", Dims: []string{"B", "S", "H", "D"}},
					{Name: "cos", Dims: []string{"S", "D/2"}, Domain: opspec.Domain{Min: -1, Max: 1, Finite: true}},
					{Name: "sin", Dims: []string{"S", "D/2"}, Domain: opspec.Domain{Min: -1, Max: 1, Finite: true}},
				},
				Outputs: []opspec.Output{{Name: "output", Dims: []string{"B", "S", "H", "D"}}},
			},
			ref: (*call).rope,
		},
	}
}
