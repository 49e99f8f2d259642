package dtype_test

import (
	"math/rand/v2"
	"testing"

	"gpuemu/internal/dtype"
)

const benchElems = 1 << 16

// benchValues are what tensors usually hold: normal variates around zero.
func benchValues() []float64 {
	r := rand.New(rand.NewPCG(1, 2))
	xs := make([]float64, benchElems)
	for i := range xs {
		xs[i] = r.NormFloat64()
	}
	return xs
}

func reportRate(b *testing.B, n int) {
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Melem/s")
}

func BenchmarkDecode(b *testing.B) {
	xs := benchValues()
	for _, d := range dtype.All() {
		src := make([]byte, len(xs)*d.Size())
		dtype.Encode(src, d, xs)
		dst := make([]float64, len(xs))
		b.Run(d.String(), func(b *testing.B) {
			for b.Loop() {
				dtype.Decode(dst, d, src)
			}
			reportRate(b, len(xs))
		})
	}
}

// BenchmarkDecodeCodes decodes uniformly random codes, so that subnormals and NaNs are as likely as they can be.
func BenchmarkDecodeCodes(b *testing.B) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, d := range dtype.Floats() {
		src := make([]byte, benchElems*d.Size())
		for i := range src {
			src[i] = byte(r.Uint32())
		}
		dst := make([]float64, benchElems)
		b.Run(d.String(), func(b *testing.B) {
			for b.Loop() {
				dtype.Decode(dst, d, src)
			}
			reportRate(b, benchElems)
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	xs := benchValues()
	for _, d := range dtype.All() {
		dst := make([]byte, len(xs)*d.Size())
		b.Run(d.String(), func(b *testing.B) {
			for b.Loop() {
				dtype.Encode(dst, d, xs)
			}
			reportRate(b, len(xs))
		})
	}
}

func BenchmarkFloat32(b *testing.B) {
	wide := benchValues()
	xs := make([]float32, len(wide))
	for i, x := range wide {
		xs[i] = float32(x)
	}
	for _, d := range dtype.Floats() {
		code := make([]byte, len(xs)*d.Size())
		back := make([]float32, len(xs))
		b.Run("encode/"+d.String(), func(b *testing.B) {
			for b.Loop() {
				dtype.EncodeFloat32(code, d, xs)
			}
			reportRate(b, len(xs))
		})
		b.Run("decode/"+d.String(), func(b *testing.B) {
			for b.Loop() {
				dtype.DecodeFloat32(back, d, code)
			}
			reportRate(b, len(xs))
		})
	}
}

func BenchmarkEncodeSaturating(b *testing.B) {
	xs := benchValues()
	for _, d := range dtype.Floats() {
		dst := make([]byte, len(xs)*d.Size())
		b.Run(d.String(), func(b *testing.B) {
			for b.Loop() {
				dtype.EncodeSaturating(dst, d, xs)
			}
			reportRate(b, len(xs))
		})
	}
}
