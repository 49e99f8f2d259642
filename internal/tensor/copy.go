package tensor

// This file implements the one copy loop behind Bytes and SetBytes: from any strided view to any other.

const (
	// cacheLine is the reach of one memory access in bytes. A walk in smaller steps uses each line it loads.
	cacheLine = 64
	// tileRow is the number of elements along the inner axis of a tile. Across it a tile has one cache line of
	// elements. Each line of the far side is then loaded once and used up while it is in the first-level cache,
	// also where a stride of a power of two puts the lines into few sets. Measured best among 16 to 128.
	tileRow = 64
)

// side is one end of a copy: a storage and how the elements lie in it, in elements.
type side struct {
	data    []byte
	offset  int
	strides []int
}

// axis is one loop of a copy: n steps, of dst bytes on one side and src bytes on the other.
type axis struct{ n, dst, src int }

// copier moves elements of size bytes between two storages.
type copier struct {
	dst, src []byte
	size     int
}

// copyStrided copies the elements of shape from src to dst; size is the bytes per element. The caller vouches
// for the bounds and that shape has at least one element.
//
// The axes with the smallest step on either side run innermost. When these are two axes, going along one of them
// touches a new cache line of the other side at each step, so both run in tiles.
func copyStrided(dst, src side, shape Shape, size int) {
	c := copier{dst.data, src.data, size}
	d, s := dst.offset*size, src.offset*size
	axes := coalesce(shape, dst.strides, src.strides, size)
	if len(axes) == 0 {
		copy(c.dst[d:d+size], c.src[s:])
		return
	}
	p, q := 0, 0
	for i, a := range axes {
		if abs(a.dst) <= abs(axes[p].dst) {
			p = i
		}
		if abs(a.src) <= abs(axes[q].src) {
			q = i
		}
	}
	inner, second := axes[p], axis{n: 1}
	if abs(inner.src) < cacheLine {
		q = p
	}
	if p != q {
		second = axes[q]
	}
	var outer [MaxRank]axis
	k := 0
	for i, a := range axes {
		if i != p && i != q {
			outer[k] = a
			k++
		}
	}
	c.walk(d, s, outer[:k], func(d, s int) { c.plane(d, s, inner, second) })
}

// walk calls f with the position of each combination of the axes, the last axis fastest.
func (c *copier) walk(d, s int, axes []axis, f func(d, s int)) {
	var idx [MaxRank]int
	for {
		f(d, s)
		i := len(axes) - 1
		for ; i >= 0; i-- {
			a := axes[i]
			idx[i]++
			d += a.dst
			s += a.src
			if idx[i] < a.n {
				break
			}
			d -= a.dst * a.n
			s -= a.src * a.n
			idx[i] = 0
		}
		if i < 0 {
			return
		}
	}
}

// plane copies the two innermost axes; second.n is 1 when there is only one.
func (c *copier) plane(d, s int, inner, second axis) {
	if second.n == 1 {
		c.row(d, s, inner)
		return
	}
	tileRows := cacheLine / c.size
	for i := 0; i < second.n; i += tileRows {
		for j := 0; j < inner.n; j += tileRow {
			part := axis{min(tileRow, inner.n-j), inner.dst, inner.src}
			for r := i; r < min(i+tileRows, second.n); r++ {
				c.row(d+r*second.dst+j*inner.dst, s+r*second.src+j*inner.src, part)
			}
		}
	}
}

// row copies the elements of one axis. They are moved as small arrays, which the compiler turns into single
// loads and stores and which need no alignment.
func (c *copier) row(d, s int, a axis) {
	dst, src := c.dst, c.src
	if a.dst == c.size && a.src == c.size {
		copy(dst[d:d+a.n*c.size], src[s:])
		return
	}
	if a.dst == c.size && a.src == 0 {
		repeat(dst[d:d+a.n*c.size], src[s:s+c.size])
		return
	}
	switch c.size {
	case 1:
		for range a.n {
			dst[d] = src[s]
			d += a.dst
			s += a.src
		}
	case 2:
		for range a.n {
			*(*[2]byte)(dst[d:]) = *(*[2]byte)(src[s:])
			d += a.dst
			s += a.src
		}
	case 4:
		for range a.n {
			*(*[4]byte)(dst[d:]) = *(*[4]byte)(src[s:])
			d += a.dst
			s += a.src
		}
	case 8:
		for range a.n {
			*(*[8]byte)(dst[d:]) = *(*[8]byte)(src[s:])
			d += a.dst
			s += a.src
		}
	default:
		panic("tensor: internal error: element size")
	}
}

// repeat fills dst with copies of one element. Doubling what is there keeps it at memory speed; chunks end where
// a first-level cache does, so that the source of the copies stays in it.
func repeat(dst, one []byte) {
	const chunk = 16 << 10
	n := copy(dst, one)
	for n < len(dst) {
		n += copy(dst[n:], dst[:min(n, chunk)])
	}
}

// coalesce drops axes of size 1 and merges neighbours that are one longer axis on both sides, so that inner
// loops are as long as the two layouts allow. Strides become bytes.
func coalesce(shape Shape, dstStrides, srcStrides []int, size int) []axis {
	axes := make([]axis, 0, MaxRank)
	for i, n := range shape {
		if n == 1 {
			continue // its stride is never used and may be anything
		}
		a := axis{n, dstStrides[i] * size, srcStrides[i] * size}
		if k := len(axes); k > 0 {
			if b := &axes[k-1]; b.dst == a.dst*a.n && b.src == a.src*a.n {
				*b = axis{b.n * a.n, a.dst, a.src}
				continue
			}
		}
		axes = append(axes, a)
	}
	return axes
}

func abs(x int) int {
	if x < 0 {
		return -x
	}
	return x
}
