// This file implements the rows of the comparison.

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"

	"gpuemu/internal/compare"
	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

// compareElems is the size of the comparison rows: two buffers of 64 MiB, beyond every cache.
const compareElems = 1 << 24

// compareRows are the comparisons of two float32 buffers, 10, 0.5 and 2 being goals of the design. One worker, as
// numpy has; the rows of all cores are for information.
func compareRows() []Row {
	rows := []Row{quickOverAllclose(1, 10), quickOverRead(), fullOverChunked(1, 2)}
	if cores := runtime.GOMAXPROCS(0); cores > 1 {
		rows = append(rows, quickOverAllclose(cores, 0), fullOverChunked(cores, 0))
	}
	return rows
}

// compareTol is the tolerance of both sides.
const compareTol = 1e-5

func workersName(n int) string {
	if n == 1 {
		return "1 worker"
	}
	return fmt.Sprintf("%d workers", n)
}

// buffers32 returns two float32 buffers, the same as numpy_side.py: uniform values in [-2, 2), and the same values
// with relative errors up to 2^-19, which is 16 units in the last place at most and within the tolerance.
func buffers32(n int) (got, want []byte) {
	got, want = make([]byte, 4*n), make([]byte, 4*n)
	for i := range n {
		u := uint64(i) * 0x9E3779B97F4A7C15
		u = (u ^ u>>29) * 0xBF58476D1CE4E5B9
		u ^= u >> 32
		w := float64(int64(u>>40)-1<<23) * 0x1p-22
		g := w + float64(w*float64(float64(int16(u))*0x1p-34))
		binary.LittleEndian.PutUint32(want[4*i:], math.Float32bits(float32(w)))
		binary.LittleEndian.PutUint32(got[4*i:], math.Float32bits(float32(g)))
	}
	return got, want
}

// comparison is the same question for both of our comparisons.
type comparison struct {
	got  *tensor.Tensor
	want *compare.Want
	opt  compare.Options
}

func newComparison(workers int) (*comparison, error) {
	s := tensor.MustShape(compareElems)
	gotBytes, wantBytes := buffers32(compareElems)
	got, err := tensor.FromBytes(dtype.Float32, s, gotBytes)
	if err != nil {
		return nil, err
	}
	ref, err := tensor.FromBytes(dtype.Float32, s, wantBytes)
	if err != nil {
		return nil, err
	}
	c := &comparison{got: got, want: &compare.Want{DType: dtype.Float32, Shape: s, Stored: ref}}
	c.opt = compare.DefaultOptions()
	c.opt.Workers = workers
	c.opt.Regime, c.opt.Tol = compare.Fixed, compare.Tolerance{Abs: compareTol, Rel: compareTol}
	return c, nil
}

type compareFunc func(*tensor.Tensor, *compare.Want, compare.Options) (*compare.Report, error)

// start runs a comparison once, which must pass, and returns its report and the call to time.
func (c *comparison) start(f compareFunc) (*compare.Report, func(), error) {
	rep, err := f(c.got, c.want, c.opt)
	if err != nil {
		return nil, nil, err
	}
	if rep.Verdict != compare.Pass {
		return nil, nil, fmt.Errorf("verdict %v, want pass", rep.Verdict)
	}
	return rep, func() { _, _ = f(c.got, c.want, c.opt) }, nil
}

// compareGigabytes is what a comparison reads, in billions of bytes.
const compareGigabytes = 2 * 4 * compareElems / 1e9

func compareArgs() map[string]any { return map[string]any{"n": compareElems, "tol": compareTol} }

func quickOverAllclose(workers int, goal float64) Row {
	setup := func(b *Bench) (Side, Side, error) {
		c, err := newComparison(workers)
		if err != nil {
			return nil, nil, err
		}
		rep, call, err := c.start(compare.Quick)
		if err != nil {
			return nil, nil, err
		}
		theirs, check, err := b.Numpy(1, "allclose", compareArgs())
		if err != nil {
			return nil, nil, err
		}
		return timeOf(call), theirs, agree("largest error", rep.Stats.MaxAbs, check, 0)
	}
	return Row{
		Name: "compare quick, float32 2^24, over allclose, " + workersName(workers), Goal: Goal{Speed: goal},
		Work: compareGigabytes, Unit: "B", Setup: setup,
		Note: "Verdict, counts and maxima (absolute, relative, ULP, error over tolerance); numpy gives the verdict alone.",
	}
}

// quickOverRead compares with the fastest plain read of the same two buffers there is in Go: whether they are equal,
// 64 bytes a step in assembly. They are copies of each other for it, so that it reads both to the end.
func quickOverRead() Row {
	setup := func(*Bench) (Side, Side, error) {
		c, err := newComparison(1)
		if err != nil {
			return nil, nil, err
		}
		_, call, err := c.start(compare.Quick)
		if err != nil {
			return nil, nil, err
		}
		x, y := c.got.Data, bytes.Clone(c.got.Data)
		if !bytes.Equal(x, y) {
			return nil, nil, fmt.Errorf("a copy differs")
		}
		return timeOf(call), timeOf(func() { bytes.Equal(x, y) }), nil
	}
	return Row{
		Name: "compare quick, float32 2^24, over memory bandwidth, 1 worker", Goal: Goal{Speed: 0.5},
		Work: compareGigabytes, Unit: "B", Setup: setup,
		Note: "The bandwidth of one core is that of bytes.Equal on two equal buffers of the same size: assembly that " +
			"reads both to the end and does nothing else.",
	}
}

func fullOverChunked(workers int, goal float64) Row {
	setup := func(b *Bench) (Side, Side, error) {
		c, err := newComparison(workers)
		if err != nil {
			return nil, nil, err
		}
		rep, call, err := c.start(compare.Compare)
		if err != nil {
			return nil, nil, err
		}
		theirs, check, err := b.Numpy(1, "statistics", compareArgs())
		if err != nil {
			return nil, nil, err
		}
		s := &rep.Stats
		sum := s.MaxAbs + s.MaxRel + float64(s.MaxULP) + s.MeanAbs + s.MeanRel + s.MeanULP
		// Our percentiles are the lower edges of buckets that are 1/256 wide.
		sum += s.P50Abs + s.P90Abs + s.P99Abs
		return timeOf(call), theirs, agree("sum of the statistics", sum, check, 1e-7)
	}
	return Row{
		Name: "compare full, float32 2^24, over chunked numpy, " + workersName(workers), Goal: Goal{Speed: goal},
		Work: compareGigabytes, Unit: "B", Setup: setup,
		Note: "Both: count of mismatches, maxima and means of absolute, relative and ULP errors, three percentiles. " +
			"Ours also: largest error over tolerance, worst elements, classes of non-finite values.",
	}
}
