package main

// This file implements the run "equivalence": whether a mutant computes the same bits as its base on many inputs. The
// generator is its own, with plain random numbers, and knows nothing of what the product's generator looks for; no
// judgement of the product takes part. Both start from the same memory, outputs with poison in them.
//
// What a launch does to memory alone (an access out of bounds that changes no output) does not decide. It is looked
// for on some samples and noted, and so are launches that do not come to their end.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"gpuemu/bench/detection/record"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/ptxvm"
	"gpuemu/internal/runner"
	"gpuemu/internal/tensor"
)

// Sizes of samples, as products of all free dimensions, which are about the work of a launch: most are small, so that
// thousands take seconds, and one in fewLarge is large enough for many tiles along every axis.
const (
	usualWork = 1 << 13
	largeWork = 1 << 20
	fewLarge  = 32
)

// watchEvery is how many samples are launched for each that is also looked at for accesses out of bounds.
const watchEvery = 8

// mostLost is how many launches of a mutant may not come to their end before it is given up: each takes seconds.
const mostLost = 3

// comparison is a mutant beside its base.
type comparison struct {
	base, mutant, watched *kernel
	dtypes                []dtype.DType // those of both
}

// compareBits runs a mutant and its base on the same inputs until their outputs differ, on up to so many samples.
func compareBits(ctx context.Context, base, mutant *subject, samples int, seed uint64) (*record.Record, error) {
	c := &comparison{}
	for _, d := range mutant.dtypes {
		if slices.Contains(base.dtypes, d) {
			c.dtypes = append(c.dtypes, d)
		}
	}
	if len(c.dtypes) == 0 {
		return nil, fmt.Errorf("%s and %s have no number format in common", mutant.id, base.id)
	}
	var err error
	for _, open := range []struct {
		of     *subject
		checks ptxvm.Checks
		into   **kernel
	}{{base, ptxvm.NoChecks, &c.base}, {mutant, ptxvm.NoChecks, &c.mutant}, {mutant, ptxvm.CheckBounds, &c.watched}} {
		if *open.into, err = open.of.open(open.checks); err != nil {
			return nil, err
		}
	}
	rec := &record.Record{Run: record.Equivalence, ID: mutant.id, Seed: fmt.Sprint(seed)}
	for i := range samples {
		// The same samples for all mutants of a base.
		r := rand.New(rand.NewPCG(seed^stream(base.id), uint64(i)))
		t, err := c.sample(r)
		if err != nil {
			return nil, fmt.Errorf("%s: sample %d: %w", mutant.id, i, err)
		}
		rec.Cases++
		if err := c.judge(ctx, t, rec, i%watchEvery == 0); err != nil {
			return nil, fmt.Errorf("%s: sample %d: %w", mutant.id, i, err)
		}
		if rec.First > 0 || rec.NotRun >= mostLost {
			break
		}
	}
	return rec, nil
}

// judge launches both on a sample and notes what came of it.
func (c *comparison) judge(ctx context.Context, t *trial, rec *record.Record, watch bool) error {
	want, err := c.base.run(ctx, t, false)
	if err != nil {
		return fmt.Errorf("base: %w", err)
	}
	got, err := c.mutant.run(ctx, t, false)
	var f *runner.Failure
	switch {
	case errors.As(err, &f):
		rec.NotRun++
		rec.Message = shortened(t.String() + ": " + f.Msg)
		return nil
	case err != nil:
		return err
	}
	if watch {
		if reply, err := c.watched.run(ctx, t, false); err == nil {
			noteFindings(rec, reply)
		}
	}
	noteFindings(rec, got)
	for i := range want.Outputs {
		if text := firstDifference(want.Outputs[i], got.Outputs[i]); text != "" {
			rec.Failed, rec.First, rec.FailDType = 1, rec.Cases, t.dtype.String()
			rec.Case, rec.Reason, rec.Message = t.String(), "bits", text
			return nil
		}
	}
	return nil
}

// noteFindings adds the kinds of findings that are not there yet.
func noteFindings(rec *record.Record, reply *runner.Reply) {
	for _, f := range reply.Findings {
		if !slices.Contains(rec.Findings, f.Kind) {
			rec.Findings = append(rec.Findings, f.Kind)
			slices.Sort(rec.Findings)
		}
	}
}

// firstDifference says where two outputs differ by a bit; "" where they do not.
func firstDifference(base, mutant tensor.Named) string {
	want, got := base.Tensor.Bytes(), mutant.Tensor.Bytes()
	if bytes.Equal(want, got) {
		return ""
	}
	size := base.Tensor.DType.Size()
	for i := 0; i < len(want); i += size {
		if !bytes.Equal(want[i:i+size], got[i:i+size]) {
			d := base.Tensor.DType
			return fmt.Sprintf("%s%v: base %#x, mutant %#x", base.Name, base.Tensor.Shape.Unravel(i/size), d.Load(want[i:]),
				d.Load(got[i:]))
		}
	}
	return "sizes differ"
}

// sample draws number format, attributes, sizes, layouts and values.
func (c *comparison) sample(r *rand.Rand) (*trial, error) {
	s := c.base.subject
	work := usualWork
	if r.IntN(fewLarge) == 0 {
		work = largeWork
	}
	for range 1000 {
		sh := shape{dims: map[string]int{}, attrs: opspec.Attrs{}}
		for i := range s.entry.Schema.Attrs {
			a := &s.entry.Schema.Attrs[i]
			values := a.NormalValues()
			sh.attrs[a.Name] = values[r.IntN(len(values))]
		}
		for i := range s.entry.Schema.Dims {
			if d := &s.entry.Schema.Dims[i]; !d.Derived() {
				sh.dims[d.Name] = drawSize(r, d)
			}
		}
		spared := "" // every other time one axis keeps its length: many tiles along it, for little work
		if names := sortedKeys(sh.dims); r.IntN(2) == 0 && len(names) > 0 {
			spared = names[r.IntN(len(names))]
		}
		shrink(r, s.entry.Schema, sh.dims, work, spared)
		if _, err := s.program.Derive(sh.dims, s.allAttrs(sh.attrs)); err != nil {
			continue // sizes that do not go together: draw again
		}
		d := c.dtypes[r.IntN(len(c.dtypes))]
		memory := dense
		if c.base.launch.TakesStrides() {
			memory = func(d dtype.DType, s tensor.Shape) (*tensor.Tensor, error) { return anyLayout(r, d, s) }
		}
		return s.draw(r, d, sh, memory, anySource)
	}
	return nil, errors.New("no sizes that go together in 1000 draws")
}

// drawSize is a size from 1 to the largest of a dimension: any, an odd one, a small one, or a power of two, for which
// kernels may have code of their own.
func drawSize(r *rand.Rand, d *opspec.Dim) int {
	low, most := max(1, d.Min), largest(d)
	n := low + r.IntN(most-low+1)
	switch r.IntN(4) {
	case 0:
		n = min(most, n|1)
	case 1: // by its logarithm
		n = int(math.Exp(r.Float64() * math.Log(float64(most)+0.5)))
	case 2:
		n = 1 << r.IntN(bits.Len(uint(most)))
	}
	return max(low, n)
}

// shrink halves sizes, a random one at a time, until their product is at most work. One size may be spared as long as
// others can be halved.
func shrink(r *rand.Rand, schema *opspec.Schema, dims map[string]int, work int, spared string) {
	for {
		product := 1
		for _, n := range dims {
			product *= n
		}
		var names []string // that can be halved
		for i := range schema.Dims {
			if d := &schema.Dims[i]; dims[d.Name]/2 >= max(1, d.Min) {
				names = append(names, d.Name)
			}
		}
		if i := slices.Index(names, spared); i >= 0 && len(names) > 1 {
			names = slices.Delete(names, i, i+1)
		}
		if product <= work || len(names) == 0 {
			return
		}
		dims[names[r.IntN(len(names))]] /= 2
	}
}

// anyLayout is contiguous, strided or transposed memory.
func anyLayout(r *rand.Rand, d dtype.DType, s tensor.Shape) (*tensor.Tensor, error) {
	layout := []tensor.Layout{tensor.Contiguous, tensor.Contiguous, tensor.Strided, tensor.Transposed}[r.IntN(4)]
	if !layout.Supports(s) {
		layout = tensor.Contiguous
	}
	p := tensor.LayoutParams{}
	if layout == tensor.Strided {
		p.Axis, p.Gap = r.IntN(len(s)), 1+r.IntN(3)
	}
	return tensor.Allocate(d, s, layout, p)
}

// specials are values that code treats in its own way.
var specials = []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), 65504, 3e38, -3e38,
	1e-38, 6e-8, 1e-45}

// anySource chooses how the values of one tensor are drawn.
func anySource(r *rand.Rand, _ *opspec.Input, s tensor.Shape) source {
	switch r.IntN(9) {
	case 0:
		return uniform10
	case 1: // another magnitude
		scale := math.Pow(10, 10*r.Float64()-6)
		return func(r *rand.Rand) float64 { return scale * r.NormFloat64() }
	case 2: // a mean far from 0
		mean := 100 * r.NormFloat64()
		return func(r *rand.Rand) float64 { return mean + r.NormFloat64() }
	case 3: // a few different values
		return func(r *rand.Rand) float64 { return math.Round(2 * r.NormFloat64()) }
	case 4:
		return func(r *rand.Rand) float64 {
			if r.IntN(20) == 0 {
				return specials[r.IntN(len(specials))]
			}
			return r.NormFloat64()
		}
	case 5: // mostly zeros
		return func(r *rand.Rand) float64 {
			if r.IntN(8) == 0 {
				return r.NormFloat64()
			}
			return 0
		}
	case 6: // of a row, or of whole rows: keys whose scores are -Inf
		return masked(rowOf(s, 1+r.IntN(2)))
	case 7: // none is negative
		return rand01
	}
	return randn
}

// masked draws rows of normal values of which every other one has -Inf at its begin or its end, as scores behind a mask
// are: on any length, whole tiles and whole rows among them.
func masked(row int) source {
	at, from, to := 0, 0, 0 // place in the row; where the run of this row begins and ends
	return func(r *rand.Rand) float64 {
		if at == 0 {
			from, to = 0, 0
			switch n := 1 + r.IntN(row); r.IntN(4) {
			case 0:
				to = n
			case 1:
				from, to = row-n, row
			case 2: // nothing of the row is left
				if r.IntN(8) == 0 {
					to = row
				}
			}
		}
		i := at
		at = (at + 1) % row
		if i >= from && i < to {
			return math.Inf(-1)
		}
		return r.NormFloat64()
	}
}
