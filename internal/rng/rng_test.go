package rng

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"gpuemu/internal/testkit"
)

type streamVector struct {
	Seed        testkit.U64    `json:"seed"`
	U64         []testkit.U64  `json:"u64"`
	At100000    testkit.U64    `json:"u64_at_100000"`
	F64         []testkit.Bits `json:"f64"`
	F32         []testkit.Bits `json:"f32"`
	Range0To200 []uint64       `json:"range_0_200"`
	Shuffle     []int          `json:"shuffle_1_10"`
}

type deriveVector struct {
	Seed   testkit.U64 `json:"seed"`
	Domain string      `json:"domain"`
	Out    testkit.U64 `json:"out"`
}

type splitmixVector struct {
	In  testkit.U64 `json:"in"`
	Out testkit.U64 `json:"out"`
}

// TestVectors checks the published known answers.
func TestVectors(t *testing.T) {
	file := testkit.Read[struct {
		Format     string           `json:"format"`
		Streams    []streamVector   `json:"streams"`
		Derive     []deriveVector   `json:"derive"`
		Splitmix64 []splitmixVector `json:"splitmix64"`
	}](t, "rng/rng-v1.json")
	testkit.EachOf(t, "streams", file.Streams, func(t *testing.T, v streamVector) {
		checkU64(t, v)
		checkDraws(t, v)
	})
	testkit.EachOf(t, "derive", file.Derive, checkDerive)
	testkit.EachOf(t, "splitmix64", file.Splitmix64, func(t *testing.T, v splitmixVector) {
		if got := splitmix64(uint64(v.In)); got != uint64(v.Out) {
			t.Errorf("splitmix64(%d) = %d, want %d", v.In, got, v.Out)
		}
	})
}

func checkU64(t *testing.T, v streamVector) {
	t.Helper()
	if len(v.U64) == 0 {
		t.Fatalf("seed %d: no u64 in the vector", v.Seed)
	}
	r := New(uint64(v.Seed))
	if r.Seed() != uint64(v.Seed) {
		t.Errorf("New(%d).Seed() = %d", v.Seed, r.Seed())
	}
	bulk := make([]uint64, len(v.U64))
	New(uint64(v.Seed)).FillUint64(bulk)
	raw := make([]byte, 8*len(v.U64))
	New(uint64(v.Seed)).Fill(raw)
	for i, want := range v.U64 {
		if got := r.Uint64(); got != uint64(want) {
			t.Errorf("New(%d), draw %d: Uint64() = %d, want %d", v.Seed, i, got, want)
		}
		if bulk[i] != uint64(want) {
			t.Errorf("New(%d).FillUint64: element %d = %d, want %d", v.Seed, i, bulk[i], want)
		}
		if got := binary.LittleEndian.Uint64(raw[8*i:]); got != uint64(want) {
			t.Errorf("New(%d).Fill: word %d = %d, want %d", v.Seed, i, got, want)
		}
	}
	if v.At100000 == 0 {
		return
	}
	for range 100000 - len(v.U64) - 1 {
		r.Uint64()
	}
	if got := r.Uint64(); got != uint64(v.At100000) {
		t.Errorf("New(%d): the 100000th Uint64() = %d, want %d", v.Seed, got, v.At100000)
	}
}

func checkDraws(t *testing.T, v streamVector) {
	t.Helper()
	if len(v.F64) == 0 || len(v.F32) == 0 || len(v.Range0To200) == 0 || len(v.Shuffle) == 0 {
		t.Fatalf("seed %d: a list is missing in the vector", v.Seed)
	}
	seed := uint64(v.Seed)
	r, bulk := New(seed), make([]float64, len(v.F64))
	New(seed).FillFloat64(bulk)
	for i, want := range v.F64 {
		if got := r.Float64(); got != want.F64() {
			t.Errorf("New(%d), draw %d: Float64() = %v, want %v", seed, i, got, want.F64())
		}
		if bulk[i] != want.F64() {
			t.Errorf("New(%d).FillFloat64: element %d = %v, want %v", seed, i, bulk[i], want.F64())
		}
	}
	r = New(seed)
	for i, want := range v.F32 {
		if got := r.Float32(); math.Float32bits(got) != uint32(want.U) {
			t.Errorf("New(%d), draw %d: Float32() = %08x, want %v", seed, i, math.Float32bits(got), want)
		}
	}
	r, r2, r3 := New(seed), New(seed), New(seed)
	for i, want := range v.Range0To200 {
		if got := r.Range(0, 200); got != want {
			t.Errorf("New(%d), draw %d: Range(0, 200) = %d, want %d", seed, i, got, want)
		}
		if got := r2.Range(1000, 1200); got != 1000+want {
			t.Errorf("New(%d), draw %d: Range(1000, 1200) = %d, want %d", seed, i, got, 1000+want)
		}
		if got := r3.Intn(200); got != int(want) {
			t.Errorf("New(%d), draw %d: Intn(200) = %d, want %d", seed, i, got, want)
		}
	}
	got := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	New(seed).Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
	if !slices.Equal(got, v.Shuffle) {
		t.Errorf("New(%d).Shuffle of 1…10 = %v, want %v", seed, got, v.Shuffle)
	}
}

func checkDerive(t *testing.T, v deriveVector) {
	t.Helper()
	if got := DeriveSeed(uint64(v.Seed), v.Domain); got != uint64(v.Out) {
		t.Errorf("DeriveSeed(%d, %q) = %d, want %d", v.Seed, v.Domain, got, v.Out)
	}
	r := New(uint64(v.Seed))
	r.Uint64() // what was drawn does not matter
	if got := r.Derive(v.Domain).Seed(); got != uint64(v.Out) {
		t.Errorf("New(%d).Derive(%q).Seed() = %d, want %d", v.Seed, v.Domain, got, v.Out)
	}
}

type normalVector struct {
	Seed testkit.U64    `json:"seed"`
	F64  []testkit.Bits `json:"f64"`
	F32  []testkit.Bits `json:"f32"`
}

type derivedVector struct {
	Seed        testkit.U64 `json:"seed"`
	Path        []string    `json:"path"`
	DerivedSeed testkit.U64 `json:"derived_seed"`
	FirstU64    testkit.U64 `json:"first_u64"` // 0: not in the specification
}

// TestSpecTables checks the tables that the specification prints, which were computed independently of the published
// vectors.
func TestSpecTables(t *testing.T) {
	type seedVector struct {
		Seed       testkit.U64   `json:"seed"`
		Splitmix64 []testkit.U64 `json:"splitmix64"`
		U64        []testkit.U64 `json:"u64"`
	}
	file := testkit.Read[struct {
		Format  string          `json:"format"`
		Streams []seedVector    `json:"streams"`
		Draws   []streamVector  `json:"draws"`
		Derive  []deriveVector  `json:"derive"`
		Derived []derivedVector `json:"derived"`
		Normal  []normalVector  `json:"normal"`
	}](t, "rng/rng-v1-spec.json")
	testkit.EachOf(t, "streams", file.Streams, func(t *testing.T, v seedVector) {
		checkU64(t, streamVector{Seed: v.Seed, U64: v.U64})
		for i, want := range v.Splitmix64 {
			if got := splitmix64(uint64(v.Seed) + uint64(i)); got != uint64(want) {
				t.Errorf("splitmix64(%d + %d) = %d, want %d", v.Seed, i, got, want)
			}
		}
	})
	testkit.EachOf(t, "draws", file.Draws, checkDraws)
	testkit.EachOf(t, "derive", file.Derive, checkDerive)
	testkit.EachOf(t, "derived", file.Derived, func(t *testing.T, v derivedVector) {
		r := New(uint64(v.Seed))
		for _, domain := range v.Path {
			r = r.Derive(domain)
		}
		if r.Seed() != uint64(v.DerivedSeed) {
			t.Errorf("New(%d) derived by %q has seed %d, want %d", v.Seed, v.Path, r.Seed(), v.DerivedSeed)
		}
		if got := r.Uint64(); v.FirstU64 != 0 && got != uint64(v.FirstU64) {
			t.Errorf("New(%d) derived by %q: Uint64() = %d, want %d", v.Seed, v.Path, got, v.FirstU64)
		}
	})
	testkit.EachOf(t, "normal", file.Normal, checkNormal)
}

// checkNormal allows one unit in the last place for float64: the answers come from another math library. What remains
// after rounding to float32 is exact.
func checkNormal(t *testing.T, v normalVector) {
	if len(v.F64) == 0 {
		t.Fatalf("seed %d: no f64 in the vector", v.Seed)
	}
	r := New(uint64(v.Seed))
	bulk := make([]float64, len(v.F64))
	New(uint64(v.Seed)).FillNormal(bulk)
	for i, want := range v.F64 {
		got := r.Normal()
		if d := int64(math.Float64bits(got) - want.U); d < -1 || d > 1 {
			t.Errorf("New(%d), draw %d: Normal() = %v, want %v", v.Seed, i, got, want.F64())
		}
		if bulk[i] != got {
			t.Errorf("New(%d).FillNormal: element %d = %v, want %v", v.Seed, i, bulk[i], got)
		}
	}
	single := make([]float64, len(v.F32))
	New(uint64(v.Seed)).FillNormal(single)
	for i, want := range v.F32 {
		if got := math.Float32bits(float32(single[i])); got != uint32(want.U) {
			t.Errorf("New(%d).FillNormal: element %d as float32 = %08x, want %v", v.Seed, i, got, want)
		}
	}
}

func TestBool(t *testing.T) {
	r, ref := New(7), New(7)
	for i := range 1000 {
		p := float64(i) / 1000
		if got, want := r.Bool(p), ref.Float64() < p; got != want {
			t.Fatalf("draw %d: Bool(%v) = %v, want %v", i, p, got, want)
		}
	}
	for range 1000 {
		if r.Bool(0) {
			t.Fatal("Bool(0) = true")
		}
		if !r.Bool(1) {
			t.Fatal("Bool(1) = false")
		}
	}
}

// TestFillTail checks that a short tail takes the low bytes of one more draw and that the stream goes on behind it.
func TestFillTail(t *testing.T) {
	for n := range 33 {
		r, ref := New(9), New(9)
		got := make([]byte, n)
		r.Fill(got)
		var want []byte
		for len(want) < n {
			want = binary.LittleEndian.AppendUint64(want, ref.Uint64())
		}
		if !bytes.Equal(got, want[:n]) {
			t.Errorf("Fill of %d bytes = %x, want %x", n, got, want[:n])
		}
		if got, want := r.Uint64(), ref.Uint64(); got != want {
			t.Errorf("Uint64() after Fill of %d bytes = %d, want %d", n, got, want)
		}
	}
}

// TestFillsContinue checks that bulk and single draws advance the stream alike.
func TestFillsContinue(t *testing.T) {
	r, ref := New(11), New(11)
	us, fs := make([]uint64, 5), make([]float64, 7)
	for round := range 3 {
		r.FillUint64(us)
		for i, got := range us {
			if want := ref.Uint64(); got != want {
				t.Fatalf("round %d: FillUint64 element %d = %d, want %d", round, i, got, want)
			}
		}
		r.FillFloat64(fs)
		for i, got := range fs {
			if want := ref.Float64(); got != want {
				t.Fatalf("round %d: FillFloat64 element %d = %v, want %v", round, i, got, want)
			}
		}
	}
}

// TestFillNormalState: an odd length drops a sine, in the fill and before it.
func TestFillNormalState(t *testing.T) {
	r, ref := New(13), New(13)
	r.Normal()
	odd := make([]float64, 3)
	r.FillNormal(odd)
	want := make([]float64, 8)
	ref.FillNormal(want)
	if !slices.Equal(odd, want[2:5]) {
		t.Errorf("FillNormal of 3 after Normal() = %v, want %v", odd, want[2:5])
	}
	if got := r.Normal(); got != want[6] {
		t.Errorf("Normal() after FillNormal of 3 = %v, want %v", got, want[6])
	}
}

// TestUniformFloor checks the stand-in for a uniform of zero: the result is large but finite.
func TestUniformFloor(t *testing.T) {
	want := math.Sqrt(600 * math.Ln10)
	r := &RNG{} // the zero state returns zeros for ever
	if got := r.Normal(); math.Abs(got-want) > 1e-12*want {
		t.Errorf("Normal() of two zero uniforms = %v, want %v", got, want)
	}
}

func TestEmptyRangesPanic(t *testing.T) {
	r := New(1)
	for name, f := range map[string]func(){
		"Range(5, 5)": func() { r.Range(5, 5) },
		"Range(6, 5)": func() { r.Range(6, 5) },
		"Intn(0)":     func() { r.Intn(0) },
		"Intn(-1)":    func() { r.Intn(-1) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				want := "rng: internal error: " + name + ": the range is empty"
				if got := fmt.Sprint(recover()); got != want {
					t.Errorf("panic %q, want %q", got, want)
				}
			}()
			f()
		})
	}
}

func BenchmarkFillUint64(b *testing.B) {
	dst := make([]uint64, 1<<14)
	r := New(1)
	b.SetBytes(int64(8 * len(dst)))
	for b.Loop() {
		r.FillUint64(dst)
	}
}

func BenchmarkFill(b *testing.B) {
	dst := make([]byte, 1<<17)
	r := New(1)
	b.SetBytes(int64(len(dst)))
	for b.Loop() {
		r.Fill(dst)
	}
}

func BenchmarkFillFloat64(b *testing.B) {
	dst := make([]float64, 1<<14)
	r := New(1)
	b.SetBytes(int64(8 * len(dst)))
	for b.Loop() {
		r.FillFloat64(dst)
	}
}

func BenchmarkFillNormal(b *testing.B) {
	dst := make([]float64, 1<<14)
	r := New(1)
	b.SetBytes(int64(8 * len(dst)))
	for b.Loop() {
		r.FillNormal(dst)
	}
}

func BenchmarkDeriveSeed(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		DeriveSeed(42, "input_0")
	}
}

// TestFillNormalIsNormal: the bulk of whole slices has the bits of single draws.
func TestFillNormalIsNormal(t *testing.T) {
	got := make([]float64, 100_000)
	New(77).FillNormal(got)
	r := New(77)
	for i, g := range got {
		if want := r.Normal(); math.Float64bits(g) != math.Float64bits(want) {
			t.Fatalf("FillNormal: element %d = %x, want %x", i, g, want)
		}
	}
	u := []float64{0, 0.25, 0, 0, 0.5, 0.5, 0.125}
	Normals(u)
	if math.IsInf(u[0], 0) || math.IsNaN(u[0]) || u[3] != 0 || u[6] != 0.125 {
		t.Errorf("Normals of zeros and an odd element = %v", u)
	}
}
