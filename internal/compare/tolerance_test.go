package compare

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

func TestDefaultTolerance(t *testing.T) {
	want := map[dtype.DType]Tolerance{
		dtype.Float64: {1e-10, 1e-10}, dtype.Float32: {1e-5, 1e-5}, dtype.Float16: {1e-2, 1e-2},
		dtype.BFloat16: {1e-2, 1e-2}, dtype.Float8E4M3FN: {0.0625, 0.0625}, dtype.Float8E5M2: {0.125, 0.125},
	}
	for _, d := range dtype.All() {
		if got := DefaultTolerance(d); got != want[d] {
			t.Errorf("DefaultTolerance(%v) = %v, want %v", d, got, want[d])
		}
	}
}

func TestProfiles(t *testing.T) {
	for _, c := range []struct {
		profile string
		d       dtype.DType
		want    float64
	}{
		{"strict", dtype.Float32, 1e-7}, {"production", dtype.Float32, 1e-7},
		{"relaxed", dtype.Float32, 1e-3}, {"testing", dtype.Float32, 1e-3},
		{"cross-framework", dtype.Float32, 1e-4}, {"cross_framework", dtype.Float32, 1e-4},
		{"default", dtype.Float32, 1e-5}, {"strict", dtype.Float64, 1e-12}, {"relaxed", dtype.Float64, 1e-8},
		{"strict", dtype.Float16, 1e-7 * 8192}, {"strict", dtype.BFloat16, 1e-7 * 65536},
		{"strict", dtype.Float8E4M3FN, 0.0625}, {"relaxed", dtype.Float8E5M2, 0.25},
		{"relaxed", dtype.Int32, 0}, {"testing", dtype.Bool, 0},
	} {
		p, err := LookupProfile(c.profile)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.For(c.d); got != (Tolerance{c.want, c.want}) {
			t.Errorf("profile %s for %v = %v, want %v", c.profile, c.d, got, c.want)
		}
	}
	order := []string{"strict", "default", "cross-framework", "relaxed"}
	for _, d := range dtype.Floats() {
		last := 0.0
		for _, name := range order {
			p, _ := LookupProfile(name)
			tol := p.For(d)
			if tol.Abs < last || tol.Abs <= 0 {
				t.Errorf("%v: profile %s = %v, want at least %v", d, name, tol, last)
			}
			last = tol.Abs
		}
		// A correctly rounded result passes every profile.
		p, _ := LookupProfile("strict")
		if tol := p.For(d); tol.Rel < d.UnitRoundoff() {
			t.Errorf("%v: strict rtol %v is below the unit roundoff %v", d, tol.Rel, d.UnitRoundoff())
		}
	}
	_, err := LookupProfile("lenient")
	if diag.CodeOf(err) != UnknownProfile || !strings.Contains(diag.HintOf(err), "cross-framework") {
		t.Errorf("LookupProfile(lenient) = %v, hint %q", err, diag.HintOf(err))
	}
	if got := (Tolerance{1e-5, 2e-5}).Scale(10); math.Abs(got.Abs-1e-4) > 1e-19 || math.Abs(got.Rel-2e-4) > 1e-19 {
		t.Errorf("Scale(10) = %v", got)
	}
}

func TestParseRegime(t *testing.T) {
	for _, r := range []Regime{Bound, Calibrated, Fixed} {
		if got, err := ParseRegime(r.String()); got != r || err != nil {
			t.Errorf("ParseRegime(%q) = %v, %v", r.String(), got, err)
		}
	}
	if _, err := ParseRegime("unset"); diag.CodeOf(err) != UnknownRegime {
		t.Errorf("ParseRegime(unset) = %v, want an error", err)
	}
}

func TestAccepts(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		tol       Tolerance
		got, want float64
		ok        bool
	}{
		{Tolerance{0.5, 0}, 1.5, 1, true}, {Tolerance{0.5, 0}, 1.6, 1, false}, {Tolerance{0, 0.5}, 3, 2, true},
		{Tolerance{1, 1}, inf, 1, false}, {Tolerance{1, 1}, 1, inf, false}, {Tolerance{1, 1}, inf, inf, true},
		{Tolerance{1, 1}, -inf, inf, false}, {Tolerance{1, 1}, nan, nan, true}, {Tolerance{1, 1}, nan, 1, false},
		{Tolerance{1, 1}, 1, nan, false}, {Tolerance{}, math.Copysign(0, -1), 0, true},
	} {
		if got := c.tol.Accepts(c.got, c.want); got != c.ok {
			t.Errorf("%+v.Accepts(%v, %v) = %v, want %v", c.tol, c.got, c.want, got, c.ok)
		}
	}
	// One element on which a fused multiply-add gives another bound: 1e-5 + 1e-5*x for this x rounds differently. The
	// search below finds such x at once if the compiler fuses, and never otherwise.
	tol := Tolerance{1e-5, 1e-5}
	for i := range 100000 {
		x := 1 + float64(i)*0x1p-20
		product := tol.Rel * x
		if got, want := tol.At(x), tol.Abs+float64(product); got != want {
			t.Fatalf("At(%v) = %v, want %v: fused", x, got, want)
		}
	}
}

// TestBadQuestions checks that a wrong question is an error that names what is wrong, never a verdict.
func TestBadQuestions(t *testing.T) {
	s := tensor.MustShape(2, 3)
	good := func() *Want { return &Want{DType: dtype.Float32, Shape: s, Value: make([]float64, 6)} }
	got := tensor.New(dtype.Float32, s)
	nan := math.NaN()
	for _, c := range []struct {
		name string
		code diag.Code
		says string
		got  *tensor.Tensor
		want func(w *Want)
		opt  func(o *Options)
	}{
		{"nan atol", BadTolerance, "tolerance: atol is NaN", got, nil, func(o *Options) { o.Tol.Abs = nan }},
		{"negative rtol", BadTolerance, "tolerance: rtol is -1", got, nil, func(o *Options) { o.Tol.Rel = -1 }},
		{"infinite atol", BadTolerance, "atol is +Inf", got, nil, func(o *Options) { o.Tol.Abs = math.Inf(1) }},
		{"regime", BadOptions, "regime Regime(9)", got, nil, func(o *Options) { o.Regime = 9 }},
		{"nonfinite", BadOptions, "nonfinite 7", got, nil, func(o *Options) { o.NonFinite = 7 }},
		{"worst", BadOptions, "worst is -1", got, nil, func(o *Options) { o.Worst = -1 }},
		{"workers", BadOptions, "workers is -2", got, nil, func(o *Options) { o.Workers = -2 }},
		{"tiles", BadOptions, "tiles[1] is 1", got, nil, func(o *Options) { o.Tiles = []int{16, 1} }},
		{"want dtype", BadOptions, "want dtype", got, nil, func(o *Options) { o.WantDType = 99 }},
		{"no bound", NoBound, "gives no bounds", got, nil, func(o *Options) { o.Regime = Bound }},
		{"no output", BadGot, "no output", nil, nil, nil},
		{"short storage", BadGot, "output: ", &tensor.Tensor{DType: dtype.Float32, Shape: s, Strides: []int{3, 1},
			Data: make([]byte, 20)}, nil, nil},
		{"dtype", BadWant, "dtype invalid does not exist", got, func(w *Want) { w.DType = 0 }, nil},
		{"shape", BadWant, "is negative", got, func(w *Want) { w.Shape = tensor.Shape{-1} }, nil},
		{"values", BadWant, "has 6 elements, got 5 values", got, func(w *Want) { w.Value = w.Value[:5] }, nil},
		{"no values", BadWant, "0 of value, exact and stored", got, func(w *Want) { w.Value = nil }, nil},
		{"two values", BadWant, "2 of value, exact and stored", got,
			func(w *Want) { w.Stored = tensor.New(dtype.Float32, s) }, nil},
		{"stored shape", BadWant, "stored has shape [6], want [2,3]", got,
			func(w *Want) { w.Value, w.Stored = nil, tensor.New(dtype.Float32, tensor.MustShape(6)) }, nil},
		{"stored integers", BadWant, "stored is int8", got,
			func(w *Want) { w.Value, w.Stored = nil, tensor.New(dtype.Int8, s) }, nil},
		{"exact for floats", BadWant, "exact integers for an output of float32", got,
			func(w *Want) { w.Value, w.Exact = nil, tensor.New(dtype.Int8, s) }, nil},
		{"bounds", BadWant, "got 1 bounds", got, func(w *Want) { w.Bound = []float64{1} }, nil},
		{"marks", BadWant, "got 2 undetermined marks", got, func(w *Want) { w.Undetermined = make([]bool, 2) }, nil},
		{"nan bound", BadWant, "the bound of element [1 2] is NaN", got,
			func(w *Want) { w.Bound = []float64{0, 0, 0, 0, 0, nan} }, nil},
		{"negative bound", BadWant, "the bound of element [0 1] is -1", got,
			func(w *Want) { w.Bound = []float64{0, -1, 0, 0, 0, nan} }, nil},
		{"ties for floats", BadWant, "holds no indexes", got, func(w *Want) { w.Ties = &Ties{} }, nil},
	} {
		for name, f := range entryPoints() {
			w, opt := good(), DefaultOptions()
			if c.want != nil {
				c.want(w)
			}
			if c.opt != nil {
				c.opt(&opt)
			}
			rep, err := f(c.got, w, opt)
			if rep != nil || diag.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %s = %v, %v, want code %s with %q", c.name, name, rep, err, c.code, c.says)
			}
		}
	}
	if _, err := Compare(got, nil, DefaultOptions()); diag.CodeOf(err) != BadWant {
		t.Errorf("Compare with nil = %v", err)
	}
}

// TestBadIntegerBound checks the bounds of the integer path, which has its own loop.
func TestBadIntegerBound(t *testing.T) {
	s := tensor.MustShape(2)
	w := &Want{DType: dtype.Int64, Shape: s, Value: []float64{1, 2}, Bound: []float64{0, math.NaN()}}
	if _, err := Compare(tensor.New(dtype.Int64, s), w, DefaultOptions()); diag.CodeOf(err) != BadWant {
		t.Errorf("Compare = %v, want %s", err, BadWant)
	}
}

func TestCalibrate(t *testing.T) {
	samples := make([]Sample, 200)
	for i := range samples {
		// Held in: 0, 2, …, 198; their p95 is sorted[round(0.95*99)] = sorted[94] = 188.
		samples[i] = Sample{MaxAbs: float64(i) * 1e-6, MaxWant: 1}
	}
	c, err := Calibrate(dtype.Float32, samples)
	if err != nil {
		t.Fatal(err)
	}
	if c.P95 != 188*1e-6 || c.Tol != (Tolerance{Abs: 1.5 * c.P95}) || c.Floored || c.HeldIn != 100 || c.HeldOut != 100 {
		t.Errorf("Calibrate = %+v, want p95 188e-6 of 100", c)
	}
	if c.Alarms != 0 || c.Rate != 0 || c.RateLow != 0 || math.Abs(c.RateHigh-0.036994) > 1e-5 {
		t.Errorf("Calibrate = %+v, want no alarms, rate at most 0.037", c)
	}
	// The held-out half is not looked at for the fit, and the held-in half not for the rate.
	for i := 1; i < 200; i += 2 {
		if i < 20 {
			samples[i].MaxAbs = 1
		}
	}
	c2, err := Calibrate(dtype.Float32, samples)
	if err != nil || c2.Tol != c.Tol || c2.Alarms != 10 || c2.Rate != 0.1 {
		t.Errorf("Calibrate with outliers held out = %+v, %v, want 10 alarms and the same tolerance", c2, err)
	}
	if math.Abs(c2.RateLow-0.0552291) > 1e-6 || math.Abs(c2.RateHigh-0.1743657) > 1e-6 {
		t.Errorf("Wilson interval of 10 in 100 = [%v, %v], want [0.0552, 0.1744]", c2.RateLow, c2.RateHigh)
	}
	if lo, hi := wilson(7, 7); lo <= 0.5 || hi != 1 {
		t.Errorf("wilson(7, 7) = %v, %v", lo, hi)
	}
}

func TestCalibrateFloor(t *testing.T) {
	samples := make([]Sample, MinSamples)
	for i := range samples {
		samples[i].MaxWant = 3
	}
	c, err := Calibrate(dtype.Float16, samples)
	if err != nil || !c.Floored || c.Tol.Abs != dtype.Float16.HalfULP(3) || c.Tol.Abs != 0x1p-10 {
		t.Errorf("Calibrate of a bit-exact kernel = %+v, %v, want half an ulp of 3, 2^-10", c, err)
	}
	c, err = Calibrate(dtype.Int32, samples)
	if err != nil || c.Floored || c.Tol.Abs != 0 {
		t.Errorf("Calibrate of integers = %+v, %v, want 0", c, err)
	}
}

func TestCalibrateRefuses(t *testing.T) {
	ok := make([]Sample, MinSamples)
	_, err := Calibrate(dtype.Float32, ok[:MinSamples-1])
	if diag.CodeOf(err) != BadSamples || !strings.Contains(err.Error(), "at least 40 samples, got 39") ||
		!strings.Contains(diag.HintOf(err), "--iterations") {
		t.Errorf("Calibrate of 39 samples = %v, hint %q", err, diag.HintOf(err))
	}
	for _, bad := range []Sample{{MaxAbs: math.NaN()}, {MaxAbs: math.Inf(1)}, {MaxAbs: -1}, {MaxWant: math.Inf(1)}} {
		samples := append([]Sample{}, ok...)
		samples[7] = bad
		if _, err := Calibrate(dtype.Float32, samples); diag.CodeOf(err) != BadSamples ||
			!strings.Contains(err.Error(), "sample 7: max_") {
			t.Errorf("Calibrate with %+v = %v, want an error that names sample 7", bad, err)
		}
	}
}

// relativeErrors are runs of a kernel that is off by two units in the last place of float32 at every magnitude.
func relativeErrors(n int) []Sample {
	out := make([]Sample, n)
	for i := range out {
		for k := -20; k <= -1; k++ {
			want := math.Ldexp(1, k)
			out[i].Bins = append(out[i].Bins, ErrorBin{Want: want, MaxAbs: want * 0x1p-22, Count: 1 << (20 + k)})
		}
		out[i].MaxAbs, out[i].MaxWant = 0x1p-23, 0.9
	}
	return out
}

func TestCalibrateBothParts(t *testing.T) {
	c, err := DefaultFit().Calibrate(dtype.Float32, relativeErrors(100))
	if err != nil {
		t.Fatal(err)
	}
	if c.Alarms != 0 || c.Tol.Rel < 0x1p-22 || c.Tol.Rel > 4*0x1p-22 || c.Tol.Abs > 1e-12 {
		t.Errorf("Calibrate of relative errors = %+v, want an rtol of 1.5 times 2^-22 and next to no atol", c)
	}
	for i, p := range c.Planted {
		if want := []string{"zeros", "10 % off", "1 % off", "0.1 % off"}[i]; p.Name != want || p.Share != 0 {
			t.Errorf("planted %d = %+v, want %s, missed nowhere", i, p, want)
		}
	}
	// Errors that do not follow the values: a sum that cancels.
	samples := relativeErrors(100)
	for i := range samples {
		for j := range samples[i].Bins {
			samples[i].Bins[j].MaxAbs = 1e-6
		}
		samples[i].MaxAbs = 1e-6
	}
	if c, err = DefaultFit().Calibrate(dtype.Float32, samples); err != nil {
		t.Fatal(err)
	}
	if math.Abs(c.Tol.Abs-1.5e-6) > 1e-9 || c.Tol.Rel != 0x1p-24 || c.Alarms != 0 {
		t.Errorf("Calibrate of absolute errors = %+v, want atol 1.5e-6 and half an ulp", c.Tol)
	}
	last := c.Planted[3]
	if below := c.Tol.Abs / (0.001 - 0x1p-24); last.Below != below || !(last.Share > 0 && last.Share < 0.01) {
		t.Errorf("0.1 %% off = %+v, want missed up to %v", last, below)
	}
	// A run of the held-out half that is worse at small values is a false alarm, although its largest error is not.
	samples = relativeErrors(100)
	samples[1].Bins[0].MaxAbs *= 100
	if c, err = DefaultFit().Calibrate(dtype.Float32, samples); err != nil || c.Alarms != 1 {
		t.Errorf("Calibrate with a small value that is wrong = %+v, %v, want one alarm", c, err)
	}
}

func TestCalibrateRefusesWhatAcceptsZeros(t *testing.T) {
	samples := relativeErrors(100)
	for i := range samples {
		for j := range samples[i].Bins {
			samples[i].Bins[j].MaxAbs = 2 * samples[i].Bins[j].Want // zeros for everything
		}
	}
	_, err := DefaultFit().Calibrate(dtype.Float32, samples)
	if diag.CodeOf(err) != BadSamples || !strings.Contains(err.Error(), "would accept zeros for") {
		t.Errorf("Calibrate of zeros = %v", err)
	}
	for i := range samples {
		samples[i] = Sample{MaxAbs: 1, MaxWant: 1}
	}
	if _, err = Calibrate(dtype.Float32, samples); diag.CodeOf(err) != BadSamples {
		t.Errorf("Calibrate of zeros by their largest error alone = %v", err)
	}
	bad := relativeErrors(100)
	bad[3].Bins[2].MaxAbs = math.NaN()
	_, err = Calibrate(dtype.Float32, bad)
	if diag.CodeOf(err) != BadSamples || !strings.Contains(err.Error(), "sample 3") {
		t.Errorf("Calibrate with a bin of NaN = %v", err)
	}
}

func TestErrorBins(t *testing.T) {
	got := ErrorBins([]float64{0, 1.5, 1, math.NaN(), 3, math.Inf(1), -0.25}, []float64{0.25, 1, 1.75, 1, 3, 2, 0})
	want := []ErrorBin{{0, 0.25, 1}, {0.25, 0.25, 1}, {1, 0.75, 2}, {2, 0, 1}}
	if !slices.Equal(got, want) {
		t.Errorf("ErrorBins = %v, want %v", got, want)
	}
}
