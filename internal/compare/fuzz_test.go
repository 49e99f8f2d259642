package compare

import (
	"encoding/binary"
	"math"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

// FuzzCompare compares arbitrary bytes as outputs, values, bounds and options with the naive comparison. Only a bound
// that is none may be an error, and nothing may panic.
func FuzzCompare(f *testing.F) {
	oneAndNaN, one := []byte("\x00\x00\x80\x3f\x00\x00\xc0\x7f"), []byte("\x00\x00\x00\x00\x00\x00\xf0\x3f")
	f.Add(uint8(2), uint8(0), oneAndNaN, one, 1e-5, 1e-5)
	big, near := []byte("\x01\x00\x00\x00\x00\x00\x20\x00"), []byte("\x00\x00\x00\x00\x00\x00\x40\x43")
	f.Add(uint8(10), uint8(255), big, near, 0.0, 0.0)
	f.Add(uint8(5), uint8(3), []byte{0x7f, 0x7e, 0xff, 0}, []byte("\x00\x00\x00\x00\x00\x00\x7d\x40"), 0.0, 0.1)
	f.Fuzz(func(t *testing.T, kind, flags uint8, got, values []byte, atol, rtol float64) {
		all := dtype.All()
		d := all[int(kind)%len(all)]
		n := min(len(got)/d.Size(), 300)
		shape := tensor.MustShape(n)
		out, err := tensor.FromBytes(d, shape, got[:n*d.Size()])
		if err != nil {
			t.Fatal(err)
		}
		value := func(i int) float64 {
			var b [8]byte
			if len(values) > 0 {
				copy(b[:], values[i*8%len(values):])
			}
			return math.Float64frombits(binary.LittleEndian.Uint64(b[:]))
		}
		w := &Want{DType: d, Shape: shape, Value: make([]float64, n), Saturating: flags&1 != 0}
		opt := Options{CheckNaN: flags&2 == 0, CheckInf: flags&4 == 0, Regime: Fixed, Tol: Tolerance{atol, rtol}}
		if flags&8 != 0 {
			opt.NonFinite = Forbid
		}
		badBound := false
		for i := range w.Value {
			w.Value[i] = value(i)
			if d.IsInteger() && d.Size() == 8 {
				w.Value[i] = math.Floor(math.Mod(w.Value[i], 1<<62)) // see TestCompareAgainstNaive
			}
			if flags&16 != 0 {
				w.Bound = append(w.Bound, math.Abs(value(i+1)))
				badBound = badBound || math.IsNaN(w.Bound[i])
			}
			if flags&32 != 0 {
				w.Undetermined = append(w.Undetermined, i%3 == 0)
			}
		}
		if w.Bound != nil {
			opt.Regime = Bound
		}
		if flags&64 != 0 {
			opt.WantDType = dtype.Float16
		}
		rep, err := Compare(out, w, opt)
		if opt.Tol.Check("") != nil || badBound {
			if rep != nil && rep.Verdict == Pass && opt.Tol.Check("") != nil {
				t.Fatalf("tolerance %+v passed", opt.Tol)
			}
			return
		}
		if err != nil {
			t.Fatalf("Compare = %v", err)
		}
		checkAgainstNaive(t, "fuzz", out, w, opt)
		_ = rep.Text(true)
	})
}
