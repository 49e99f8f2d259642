package compare

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

// benchElems is far beyond the caches: 64 MiB per float32 buffer.
const benchElems = 1 << 24

type benchData struct {
	got, ref *tensor.Tensor
	value    []float64
	bound    []float64
}

func newBenchData(d dtype.DType) *benchData {
	r := rand.New(rand.NewPCG(1, 2))
	shape := tensor.MustShape(benchElems/4096, 4096)
	b := &benchData{got: tensor.New(d, shape), ref: tensor.New(d, shape),
		value: make([]float64, benchElems), bound: make([]float64, benchElems)}
	got, ref := b.got.Bytes(), b.ref.Bytes()
	for i := range b.value {
		v := r.NormFloat64()
		b.value[i], b.bound[i] = v, 2*(d.UnitRoundoff()*math.Abs(v)+d.HalfULP(v))
		d.Store(ref[i*d.Size():], d.Bits(v))
		d.Store(got[i*d.Size():], d.Bits(v*(1+r.Float64()*d.UnitRoundoff())))
	}
	return b
}

func benchOptions(workers int) Options {
	opt := DefaultOptions()
	opt.Workers = workers
	return opt
}

func (b *benchData) fixed() *Want {
	return &Want{DType: b.got.DType, Shape: b.got.Shape, Stored: b.ref}
}

func (b *benchData) bounded() *Want {
	return &Want{DType: b.got.DType, Shape: b.got.Shape, Value: b.value, Bound: b.bound}
}

func bench(b *testing.B, bytesPer int, f func() (*Report, error)) {
	b.Helper()
	b.SetBytes(int64(bytesPer) * benchElems)
	for b.Loop() {
		rep, err := f()
		if err != nil || rep.Verdict != Pass {
			b.Fatalf("%v %v", rep, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchElems, "ns/elem")
}

// BenchmarkMemory is the yardstick: two buffers compared for equality, one core.
func BenchmarkMemory(b *testing.B) {
	d := newBenchData(dtype.Float32)
	copyOf := bytes.Clone(d.got.Bytes())
	b.SetBytes(8 * benchElems)
	for b.Loop() {
		if !bytes.Equal(copyOf, d.got.Bytes()) {
			b.Fatal("not equal")
		}
	}
}

func BenchmarkQuickFixed(b *testing.B) {
	d := newBenchData(dtype.Float32)
	w := d.fixed()
	bench(b, 8, func() (*Report, error) { return Quick(d.got, w, benchOptions(1)) })
}

func BenchmarkQuickBound(b *testing.B) {
	d := newBenchData(dtype.Float32)
	w := d.bounded()
	bench(b, 20, func() (*Report, error) { return Quick(d.got, w, benchOptions(1)) })
}

func BenchmarkQuickFixedAllCores(b *testing.B) {
	d := newBenchData(dtype.Float32)
	w := d.fixed()
	bench(b, 8, func() (*Report, error) { return Quick(d.got, w, benchOptions(0)) })
}

func BenchmarkFull(b *testing.B) {
	for _, d := range []dtype.DType{dtype.Float32, dtype.Float16, dtype.BFloat16} {
		data := newBenchData(d)
		fixed, bounded := data.fixed(), data.bounded()
		for _, c := range []struct {
			name string
			want *Want
		}{{"fixed", fixed}, {"bound", bounded}} {
			b.Run(d.String()+"/"+c.name, func(b *testing.B) {
				bench(b, 8, func() (*Report, error) { return Compare(data.got, c.want, benchOptions(1)) })
			})
		}
	}
}

// BenchmarkSmall is the cost of one small case of a campaign.
func BenchmarkSmall(b *testing.B) {
	shape := tensor.MustShape(4, 16)
	got := tensor.New(dtype.Float32, shape)
	w := &Want{DType: dtype.Float32, Shape: shape, Value: make([]float64, 64)}
	for b.Loop() {
		if _, err := Compare(got, w, DefaultOptions()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWrong is an output of which every element is wrong, with its diagnosis.
func BenchmarkWrong(b *testing.B) {
	d := newBenchData(dtype.Float32)
	raw := d.got.Bytes()
	r := rand.New(rand.NewPCG(3, 4))
	for i := range benchElems {
		dtype.Float32.Store(raw[4*i:], dtype.Float32.Bits(r.Float64()))
	}
	w := d.bounded()
	for b.Loop() {
		rep, err := Compare(d.got, w, benchOptions(1))
		if err != nil || rep.Verdict != Fail || len(rep.Findings) > 0 {
			b.Fatalf("%v %v", rep, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchElems, "ns/elem")
}
