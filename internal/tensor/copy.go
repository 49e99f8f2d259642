package tensor

// This file implements the one copy loop behind Bytes and SetBytes: from any strided view to any other.

// tile is the edge of the blocks in which a transposition is done. 32 rows of 32 elements of 8 bytes are 8 KiB
// on either side, which a first-level cache of 32 KiB holds together.
const tile = 32

// axis is one loop of a copy: n steps, of dst elements on one side and src elements on the other.
type axis struct{ n, dst, src int }

// copyStrided copies the elements of shape from src to dst; size is the bytes per element. Offsets and strides
// are in elements. The caller vouches for the bounds and that shape has at least one element.
func copyStrided(dst []byte, dstOff int, dstStrides []int, src []byte, srcOff int, srcStrides []int,
	shape Shape, size int) {
	axes := coalesce(shape, dstStrides, srcStrides)
	if len(axes) == 0 {
		copy(dst[dstOff*size:][:size], src[srcOff*size:])
		return
	}
	// The axes with the smallest step on either side run innermost. When they differ, going along one of them
	// would touch a new cache line of the other side at each step, so both run in tiles.
	p, q := 0, 0
	for i, a := range axes {
		if abs(a.dst) <= abs(axes[p].dst) {
			p = i
		}
		if abs(a.src) <= abs(axes[q].src) {
			q = i
		}
	}
	in := axes[p]
	out := axis{n: 1}
	if p != q {
		out = axes[q]
	}
	var outer [MaxRank]axis
	k := 0
	for i, a := range axes {
		if i != p && i != q {
			outer[k] = a
			k++
		}
	}
	var idx [MaxRank]int
	d, s := dstOff, srcOff
	for {
		copyPlane(dst, d, src, s, in, out, size)
		i := k - 1
		for ; i >= 0; i-- {
			a := outer[i]
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

// copyPlane copies the two innermost axes; out.n is 1 when there is only one.
func copyPlane(dst []byte, d int, src []byte, s int, in, out axis, size int) {
	if out.n == 1 {
		copyRow(dst, d*size, in.dst*size, src, s*size, in.src*size, in.n, size)
		return
	}
	for i := 0; i < out.n; i += tile {
		for j := 0; j < in.n; j += tile {
			n := min(tile, in.n-j)
			for r := i; r < min(i+tile, out.n); r++ {
				copyRow(dst, (d+r*out.dst+j*in.dst)*size, in.dst*size,
					src, (s+r*out.src+j*in.src)*size, in.src*size, n, size)
			}
		}
	}
}

// copyRow copies n elements; positions and steps are in bytes. Elements are moved as small arrays, which the
// compiler turns into single loads and stores and which need no alignment.
func copyRow(dst []byte, d, dstStep int, src []byte, s, srcStep, n, size int) {
	if dstStep == size && srcStep == size {
		copy(dst[d:d+n*size], src[s:])
		return
	}
	switch size {
	case 1:
		for range n {
			dst[d] = src[s]
			d += dstStep
			s += srcStep
		}
	case 2:
		for range n {
			*(*[2]byte)(dst[d:]) = *(*[2]byte)(src[s:])
			d += dstStep
			s += srcStep
		}
	case 4:
		for range n {
			*(*[4]byte)(dst[d:]) = *(*[4]byte)(src[s:])
			d += dstStep
			s += srcStep
		}
	case 8:
		for range n {
			*(*[8]byte)(dst[d:]) = *(*[8]byte)(src[s:])
			d += dstStep
			s += srcStep
		}
	default:
		panic("tensor: internal error: element size")
	}
}

// coalesce drops axes of size 1 and merges neighbours that are one longer axis on both sides, so that inner
// loops are as long as the two layouts allow.
func coalesce(shape Shape, dstStrides, srcStrides []int) []axis {
	axes := make([]axis, 0, MaxRank)
	for i, n := range shape {
		if n == 1 {
			continue
		}
		a := axis{n, dstStrides[i], srcStrides[i]}
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
