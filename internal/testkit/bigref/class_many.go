package bigref

// This file implements the classes of operators with weights, matrix products, attention and windows.

import "math"

// affineClass is d·rstd·w + b; with an infinite weight the folded form x·(rstd·w) + (b - mean·rstd·w) may differ.
func affineClass(d, rstd, w, b float64) Class {
	if math.IsInf(w, 0) {
		return Unstated
	}
	return ClassOf(float64(d*rstd*w) + b)
}

// member is the distance of x from the mean of a set in class: NaN if the set is not all finite, otherwise not zero.
func member(x float64, set []float64) float64 { return x + spreadOf(set) }

// layerNorm leaves out rows of one element, see variance.
func (t *classTask) layerNorm() {
	in := t.in["input"]
	n, length := rows(in.Shape)
	for r := range n {
		row := in.X[r*length : (r+1)*length]
		for i, x := range row {
			if length > 1 || finite(x) {
				t.out[r*length+i] = affineClass(member(x, row), 1, t.in["weight"].X[i], t.in["bias"].X[i])
			}
		}
	}
}

func (t *classTask) groupNorm() {
	in := t.in["input"]
	channels, length := in.Shape[1], in.Shape[2]
	size := channels / t.attrs.Int("groups") * length
	for i, x := range in.X {
		set := in.X[i/size*size : i/size*size+size]
		c := i / length % channels
		if size > 1 || finite(x) {
			t.out[i] = affineClass(member(x, set), 1, t.in["weight"].X[c], t.in["bias"].X[c])
		}
	}
}

func (t *classTask) batchNorm() {
	in := t.in["input"]
	channels, length := in.Shape[1], in.Shape[2]
	for i, x := range in.X {
		c := i / length % channels
		t.out[i] = affineClass(x-t.in["mean"].X[c], 1, t.in["weight"].X[c], t.in["bias"].X[c])
	}
}

// sizeOf is the root of the sum of squares in class: not below 1.
func sizeOf(xs []float64) float64 {
	sum := 1.0
	for _, x := range xs {
		sum += float64(x * x)
	}
	return sum
}

func (t *classTask) rmsNorm() {
	in := t.in["input"]
	n, length := rows(in.Shape)
	for r := range n {
		row := in.X[r*length : (r+1)*length]
		for i, x := range row {
			t.out[r*length+i] = ClassOf(x * (1 / sizeOf(row)) * t.in["weight"].X[i])
		}
	}
}

func (t *classTask) l2Norm() {
	in := t.in["input"]
	n, length := rows(in.Shape)
	for r := range n {
		row := in.X[r*length : (r+1)*length]
		for i, x := range row {
			t.out[r*length+i] = ClassOf(x / sizeOf(row))
		}
	}
}

// matmul is for one or several products, with or without what follows.
func (t *classTask) matmul() {
	a, b := t.in["a"], t.in["b"]
	axes := len(a.Shape)
	m, k, n := a.Shape[axes-2], a.Shape[axes-1], b.Shape[axes-1]
	for i := range t.out {
		batch, row, col := i/(m*n), i/n%m, i%n
		sum := 0.0
		for p := range k {
			sum += float64(a.X[(batch*m+row)*k+p] * b.X[(batch*k+p)*n+col])
		}
		if bias, ok := t.in["bias"]; ok {
			sum += bias.X[col]
		}
		if scale, ok := t.in["scale_a"]; ok {
			sum = sum * scale.X[0] * t.in["scale_b"].X[0]
		}
		switch t.attrs.Str("act") {
		case "relu":
			sum = max(sum, 0)
		case "gelu", "silu", "gelu_tanh":
			t.out[i] = gateClass(sum)
			continue
		}
		t.out[i] = ClassOf(sum)
	}
}

// attend classifies out[at:at+depth]. Keys and values that are not seen must be finite for the class to be known.
func (t *classTask) attend(at int, q, k, v []float64, keys int, see func(j int) bool) {
	depth := len(q)
	var scores []float64
	var seen []int
	hidden := true // all that is not seen is finite
	for j := range keys {
		if !see(j) {
			hidden = hidden && finite(k[j*depth:(j+1)*depth]...) && finite(v[j*depth:(j+1)*depth]...)
			continue
		}
		score := 0.0
		for d := range depth {
			score += float64(q[d] * k[j*depth+d])
		}
		scores, seen = append(scores, score), append(seen, j)
	}
	has := census(scores)
	for d := range depth {
		sum := 0.0
		for s, j := range seen {
			switch {
			case ClassOf(scores[s]) == Finite:
				sum += v[j*depth+d]
			case !finite(v[j*depth+d]): // with weight 0, or NaN anyway
				hidden = false
			}
		}
		switch {
		case !has[Finite] && !has[NaN]:
			t.out[at+d] = Undecided
		case !has[Finite]:
			t.out[at+d] = Unstated
		case has[NaN] || has[PlusInf]:
			t.out[at+d] = NaN
		case hidden && finite(sum) || math.IsNaN(sum): // an infinite value may meet a weight that underflowed to zero
			t.out[at+d] = ClassOf(sum)
		}
	}
}

func (t *classTask) attention() {
	q, k, v := t.in["q"], t.in["k"], t.in["v"]
	heads, queries, depth := q.Shape[1], q.Shape[2], q.Shape[3]
	keyHeads, keys := k.Shape[1], k.Shape[2]
	shift := 0
	if t.attrs.Str("align") == "bottom_right" {
		shift = keys - queries
	}
	window := t.attrs.Int("window")
	for row := range q.Shape[0] * heads * queries {
		b, h, i := row/(heads*queries), row/queries%heads, row%queries
		kv := (b*keyHeads + h/(heads/keyHeads)) * keys * depth
		see := func(j int) bool {
			return (!t.attrs.Bool("causal") || j <= i+shift) && (window == 0 || j > i+shift-window)
		}
		t.attend(row*depth, q.X[row*depth:(row+1)*depth], k.X[kv:], v.X[kv:], keys, see)
	}
}

func (t *classTask) decodeAttention() {
	q, k, v := t.in["q"], t.in["k"], t.in["v"]
	heads, depth := q.Shape[1], q.Shape[2]
	keyHeads, keys := k.Shape[1], k.Shape[2]
	for row := range q.Shape[0] * heads {
		b, h := row/heads, row%heads
		kv := (b*keyHeads + h/(heads/keyHeads)) * keys * depth
		see := func(j int) bool { return j < int(t.in["kv_len"].X[b]) }
		t.attend(row*depth, q.X[row*depth:(row+1)*depth], k.X[kv:], v.X[kv:], keys, see)
	}
}

func (t *classTask) rope() {
	in, cos, sin := t.in["input"], t.in["cos"].X, t.in["sin"].X
	steps, heads, depth := in.Shape[1], in.Shape[2], in.Shape[3]
	for i := range t.out {
		at, s, d := i/depth*depth, i/(heads*depth)%steps, i%depth
		p := d % (depth / 2)
		first, second := at+p, at+p+depth/2
		if t.attrs.Bool("interleaved") {
			p = d / 2
			first, second = at+2*p, at+2*p+1
		}
		c, n := cos[s*(depth/2)+p], sin[s*(depth/2)+p]
		if i == first {
			t.out[i] = ClassOf(float64(in.X[first]*c) - float64(in.X[second]*n))
		} else {
			t.out[i] = ClassOf(float64(in.X[second]*c) + float64(in.X[first]*n))
		}
	}
}

func (t *classTask) scatterAdd() {
	in, index, src := t.in["input"], t.in["index"].X, t.in["src"].X
	width := in.Shape[1]
	for i, x := range in.X {
		for r := range index {
			if int(index[r]) == i/width {
				x += src[r*width+i%width]
			}
		}
		t.out[i] = ClassOf(x)
	}
}

// conv is for all convolutions. Those over one axis have images of one line and filters that stay on it.
func (t *classTask) conv() {
	in, weight := t.in["input"], t.in["weight"]
	axes := len(in.Shape)
	height, width, kh, kw, ow := 1, in.Shape[axes-1], 1, weight.Shape[axes-1], t.shape[axes-1]
	if axes == 4 {
		height, kh = in.Shape[2], weight.Shape[2]
	}
	stride, padding, dilation := t.attrs.Int("stride"), t.attrs.Int("padding"), t.attrs.Int("dilation")
	channels, filters, depth := in.Shape[1], weight.Shape[0], weight.Shape[1]
	plane := t.shape.Elems() / max(t.shape[0]*filters, 1)
	for o := range t.out {
		b, f, i, j := o/plane/filters, o/plane%filters, o%plane/ow, o%ow
		sum, known := t.in["bias"].X[f], true
		for tap := range depth * kh * kw {
			c, y, x := tap/(kh*kw), tap/kw%kh, tap%kw
			if each := t.attrs.Int("multiplier"); each > 0 { // each filter has one channel
				c = f / each
			}
			row, col := i*stride-padding+y*dilation, j*stride-padding+x*dilation
			if axes == 3 {
				row = 0
			}
			w := weight.X[f*depth*kh*kw+tap]
			if row >= 0 && row < height && col >= 0 && col < width {
				sum += float64(in.X[((b*channels+c)*height+row)*width+col] * w)
			} else if !finite(w) {
				known = false // the zero of the border may be multiplied by it
			}
		}
		if known || math.IsNaN(sum) {
			t.out[o] = ClassOf(sum)
		}
	}
}

func (t *classTask) avgPool() {
	in := t.in["input"]
	height, width := in.Shape[2], in.Shape[3]
	oh, ow := t.shape[2], t.shape[3]
	kernel := t.attrs.Int("kernel")
	w := window2d{height, width, t.attrs.Int("stride"), t.attrs.Int("padding"), 1}
	for o := range t.out {
		sum := 0.0
		for tap := range kernel * kernel {
			if at, inside := w.place(o/ow%oh, o%ow, tap/kernel, tap%kernel); inside {
				sum += in.X[o/(oh*ow)*height*width+at]
			}
		}
		t.out[o] = ClassOf(sum)
	}
}
