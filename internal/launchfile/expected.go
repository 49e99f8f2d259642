package launchfile

import (
	"bytes"
	"fmt"
	"math"
	"strconv"

	"gpuemu/internal/dtype"
)

// This file implements what should come out of a kernel, and the comparison with what did.

// Expected is what a tensor holds after the launch.
type Expected struct {
	Name  string
	File  string
	Match string // bits, ulp or abs
	// NaNAny lets any NaN equal any NaN where bits are compared.
	NaNAny bool
	// ULP and Abs are limits; an element is right within either of them. NaN where a limit is not given.
	ULP, Abs float64

	want []byte
}

func (c *Case) addExpected(o *object) error {
	e := Expected{Match: "bits", ULP: math.NaN(), Abs: math.NaN()}
	var err error
	if e.Name, err = o.word("name"); err != nil {
		return err
	}
	if c.Arg(e.Name) == nil {
		return o.fault(BadKey, "name", "name a tensor of args", "is %q, which is no tensor", e.Name)
	}
	if e.File, err = o.dataFile(); err != nil {
		return err
	}
	if e.File == "" {
		return o.fault(BadKey, "file", "", "is missing")
	}
	if _, err := o.get("match", &e.Match); err != nil {
		return err
	}
	if _, err := o.get("nan_any", &e.NaNAny); err != nil {
		return err
	}
	for _, l := range []struct {
		key string
		dst *float64
	}{{"ulp", &e.ULP}, {"abs", &e.Abs}} {
		if _, err := o.get(l.key, l.dst); err != nil {
			return err
		} else if *l.dst < 0 {
			return o.fault(BadKey, l.key, "", "is %g, a limit is at least 0", *l.dst)
		}
	}
	switch e.Match {
	case "bits":
	case "ulp", "abs":
		if math.IsNaN(e.ULP) && math.IsNaN(e.Abs) {
			return o.fault(BadKey, e.Match, "say how far elements may be off", "is missing")
		}
	default:
		return o.fault(BadKey, "match", "use bits, ulp or abs", "is %q", e.Match)
	}
	c.Expected = append(c.Expected, e)
	return nil
}

// Rule is how elements are compared, in words.
func (e *Expected) Rule() string {
	switch {
	case e.Match == "bits" && e.NaNAny:
		return "equal bits, any NaN for a NaN"
	case e.Match == "bits":
		return "equal bits"
	case math.IsNaN(e.Abs):
		return fmt.Sprintf("within %g ulp", e.ULP)
	case math.IsNaN(e.ULP):
		return fmt.Sprintf("within %g", e.Abs)
	}
	return fmt.Sprintf("within %g ulp or %g", e.ULP, e.Abs)
}

// Comparison is how a tensor differs from what was expected.
type Comparison struct {
	Elems, Wrong int
	// Worst is the wrong element that is furthest off; its index is nil where no element is wrong.
	Index     []int
	Got, Want string
	ULP       uint64  // steps between the two; MaxUint64 from a NaN to a number
	Abs       float64 // distance; NaN where there is none
}

// Compare compares a tensor with what was expected of it.
func (e *Expected) Compare(a *Arg) Comparison {
	size := a.DType.Size()
	c := Comparison{Elems: len(a.Data) / size}
	if bytes.Equal(a.Data, e.want) {
		return c
	}
	for i := range c.Elems {
		got, want := a.DType.Load(a.Data[i*size:]), a.DType.Load(e.want[i*size:])
		if e.accepts(a.DType, got, want) {
			continue
		}
		c.Wrong++
		if ulp := a.DType.ULPDistance(got, want); c.Wrong == 1 || ulp > c.ULP {
			c.Index, c.ULP, c.Abs = a.Shape.Unravel(i), ulp, distance(a.DType, got, want)
			c.Got, c.Want = number(a.DType, got), number(a.DType, want)
		}
	}
	return c
}

// accepts decides about one element.
func (e *Expected) accepts(d dtype.DType, got, want uint64) bool {
	nans := d.IsNaN(got) && d.IsNaN(want)
	switch {
	case got == want:
		return true
	case e.Match == "bits":
		return nans && e.NaNAny
	case nans:
		return true
	case d.IsNaN(got) || d.IsNaN(want):
		return false
	}
	// Comparisons with the NaN of a limit that is not given are false.
	return float64(d.ULPDistance(got, want)) <= e.ULP || distance(d, got, want) <= e.Abs
}

// distance is |got - want|. Integers of 64 bits do not fit a float64, their difference is taken first.
func distance(d dtype.DType, got, want uint64) float64 {
	if !d.IsFloat() {
		return float64(d.ULPDistance(got, want))
	}
	return math.Abs(d.Float64(got) - d.Float64(want))
}

// number is a value with as many digits as tell it from its neighbours, and the bits of a NaN.
func number(d dtype.DType, bits uint64) string {
	switch {
	case d.IsNaN(bits):
		return fmt.Sprintf("NaN (%#x)", bits)
	case d == dtype.Float64:
		return strconv.FormatFloat(d.Float64(bits), 'g', -1, 64)
	case d.IsFloat():
		return strconv.FormatFloat(d.Float64(bits), 'g', -1, 32)
	case d == dtype.Bool:
		return fmt.Sprint(bits)
	case d.IsSigned():
		shift := 64 - 8*d.Size()
		return strconv.FormatInt(int64(bits<<shift)>>shift, 10)
	}
	return strconv.FormatUint(bits, 10)
}
