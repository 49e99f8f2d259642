package compare

import (
	"encoding/json"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed)) }

// TestFrozen compares the bits of many reports with a frozen digest. The same digest must come out with GOAMD64=v1 and
// v3, with the tag purego, on other architectures, and in later versions.
func TestFrozen(t *testing.T) {
	h := fnv.New64a()
	for _, d := range dtype.All() {
		r := newRand(uint64(d))
		for range 30 {
			got, want, opt := randomCase(r, d)
			rep, err := Compare(got, want, opt)
			if err != nil {
				t.Fatal(err)
			}
			writeReport(t, h.Write, rep)
		}
	}
	// Several segments, values of all magnitudes, float32 in both kernels.
	r := newRand(99)
	shape := tensor.MustShape(3, segmentElems/2+13)
	vals, bounds := make([]float64, shape.Elems()), make([]float64, shape.Elems())
	out := tensor.New(dtype.Float32, shape)
	for i := range vals {
		vals[i] = normal(r) * math.Ldexp(1, r.IntN(200)-100)
		bounds[i] = math.Abs(vals[i]) * 1e-6
		bits := dtype.Float32.Bits(vals[i] * (1 + float64(1e-6*(r.Float64()-0.5))))
		if r.IntN(1000) == 0 {
			bits += uint64(r.IntN(1 << 12))
		}
		dtype.Float32.Store(out.Data[4*i:], bits)
	}
	stored := tensor.FromFloat64s(dtype.Float32, shape, vals)
	for _, w := range []*Want{{Value: vals, Bound: bounds}, {Stored: stored}, {Value: vals}} {
		w.DType, w.Shape = dtype.Float32, shape
		for _, f := range []func(*tensor.Tensor, *Want, Options) (*Report, error){Compare, Quick} {
			rep, err := f(out, w, DefaultOptions())
			if err != nil {
				t.Fatal(err)
			}
			writeReport(t, h.Write, rep)
		}
	}
	const want = uint64(0x3be5b3274cb07b35)
	if got := h.Sum64(); got != want {
		t.Errorf("digest of the reports = %#x, want %#x", got, want)
	}
}

// writeReport writes a report without losing bits: JSON prints float64s so that they read back the same. Elements can
// hold infinities and go as bits.
func writeReport(t *testing.T, write func([]byte) (int, error), rep *Report) {
	t.Helper()
	b, err := json.Marshal(struct {
		V any
		C Counts
		S Stats
		F []Finding
		M *ErrorMap
	}{rep.Verdict, rep.Counts, rep.Stats, rep.Findings, rep.Map})
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range [][]Element{rep.Worst.Abs, rep.Worst.Rel, rep.Worst.ULP, rep.Worst.Ratio, rep.Worst.Class} {
		for _, e := range list {
			more, err := json.Marshal([]any{e.Index, e.Kind, e.GotText, e.WantText, math.Float64bits(e.Bound), e.Abs, e.Rel,
				e.ULP, e.Ratio})
			if err != nil {
				t.Fatal(err)
			}
			b = append(b, more...)
		}
	}
	if _, err := write(b); err != nil {
		t.Fatal(err)
	}
}
