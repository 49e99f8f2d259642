package dtype

// This file implements the bulk conversions between little-endian bytes and float64.

// Decode sets dst to the values of the elements in src. It converts as many elements as fit in both.
func Decode(dst []float64, d DType, src []byte) {
	size := d.Size()
	if size == 0 {
		return
	}
	for i := range min(len(dst), len(src)/size) {
		dst[i] = d.Float64(d.Load(src[i*size:]))
	}
}

// Encode sets dst to the elements nearest to src, as Bits rounds. It converts as many elements as fit in both.
func Encode(dst []byte, d DType, src []float64) {
	size := d.Size()
	if size == 0 {
		return
	}
	for i := range min(len(src), len(dst)/size) {
		d.Store(dst[i*size:], d.Bits(src[i]))
	}
}
