package subtle

import (
	"math"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

func TestRounding(t *testing.T) {
	const ulp = 0x1p-7 // of bfloat16 in [1, 2)
	for _, tt := range []struct {
		x                     float32
		near, truncated, half float64
	}{
		{1, 1, 1, 1},
		{1 + ulp/2, 1, 1, 1 + ulp},                   // a tie: to even, down, up
		{1 + 3*ulp/2, 1 + 2*ulp, 1 + ulp, 1 + 2*ulp}, // a tie where all but truncation agree
		{-1 - ulp/2, -1, -1, -1 - ulp},
		{1 + ulp/4, 1, 1, 1},
		{1 - ulp/8, 1, 1 - ulp/2, 1}, // below a power of two the ulp is half as large
		{1 - 3*ulp/8, 1 - ulp/2, 1 - ulp/2, 1 - ulp/2},
		{0x1p-134, 0, 0, 0x1p-133}, // half the smallest subnormal
	} {
		for r, want := range []float64{tt.near, tt.truncated, tt.half} {
			d := dtype.BFloat16
			got := d.Float64(d.Bits(rounding(r).apply(tt.x, d)))
			if got != want {
				t.Errorf("rounding %d of %v = %v, want %v", r, tt.x, got, want)
			}
		}
	}
	if got := halfUp.apply(float32(math.Inf(1)), dtype.Float16); !math.IsInf(got, 1) {
		t.Errorf("halfUp of +Inf = %v", got)
	}
}

// TestFaults: the table has what it promises, and no fault twice.
func TestFaults(t *testing.T) {
	ops, seen := map[string]bool{}, map[string]bool{}
	for _, f := range Faults() {
		ops[f.Op] = true
		if key := f.Op + ": " + f.Name; seen[key] {
			t.Errorf("%s is in the table twice", key)
		} else {
			seen[key] = true
		}
		if f.Faulty == nil || f.Twin == nil || (f.Inside == "") != (f.Setting == nil) {
			t.Errorf("%s: %s: want two kernels, and a setting with each reason to be inside", f.Op, f.Name)
		}
	}
	if len(seen) < 30 || len(ops) < 20 {
		t.Errorf("%d faults in %d ops, want at least 30 in 20", len(seen), len(ops))
	}
}

// TestRunReportsMissingOutputs: a kernel that writes nothing must not look like one that passes.
func TestRunReportsMissingOutputs(t *testing.T) {
	specs := map[string]OutSpec{"output": {Shape: tensor.Shape{1}, DType: dtype.Float32}}
	if _, err := Run(func(*Call) {}, dtype.Float32, nil, nil, specs); err == nil {
		t.Error("Run of a kernel without outputs gives no error")
	}
}
