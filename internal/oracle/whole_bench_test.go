// This file implements the benchmarks of whole cases, step by step.

package oracle_test

import (
	"fmt"
	"testing"

	"gpuemu/internal/compare"
	"gpuemu/internal/dtype"
	"gpuemu/internal/gen"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/tensor"
)

// BenchmarkWholeCase times what a campaign does for each case but for the candidate, and each step of it.
func BenchmarkWholeCase(b *testing.B) {
	for _, name := range []string{"softmax", "layernorm", "gelu_tanh"} {
		for _, dims := range [][3]int{{4, 16, 257}, {8, 128, 1025}} {
			b.Run(fmt.Sprintf("%s/%d", name, dims[0]*dims[1]*dims[2]), func(b *testing.B) { wholeCase(b, name, dims) })
		}
	}
}

func wholeCase(b *testing.B, name string, dims [3]int) {
	op, _ := oracle.Lookup(name)
	attrs := op.Schema.DefaultAttrs()
	c := opspec.Case{Op: name, DType: dtype.Float32, Seed: 42, Gen: opspec.GenVersion}
	of := map[string]int{"B": dims[0], "S": dims[1], "H": dims[2]}
	for i := range op.Schema.Dims {
		name := op.Schema.Dims[i].Name
		c.Dims = append(c.Dims, opspec.DimValue{Name: name, Value: of[name]})
	}
	c.Attrs = op.Schema.CaseAttrs(attrs)
	shapes, _, err := op.Schema.Resolve(of, attrs)
	if err != nil {
		b.Fatal(err)
	}
	for i := range op.Schema.Inputs {
		name := op.Schema.Inputs[i].Name
		c.Inputs = append(c.Inputs, opspec.CaseInput{
			Name: name, DType: c.DType, Shape: shapes[name], Layout: tensor.Contiguous, Values: "normal",
		})
	}
	var in map[string]*tensor.Tensor
	var wants map[string]*compare.Want
	var got *tensor.Tensor
	steps := []struct {
		name string
		f    func() error
	}{
		{"inputs", func() (err error) { in, err = gen.Inputs(op.Schema, c); return err }},
		{"evaluate", func() (err error) { wants, err = oracle.Evaluate(op, in, attrs, c.DType); return err }},
		{"compare", func() error { _, err := compare.Compare(got, wants["output"], compare.DefaultOptions()); return err }},
	}
	for i := range steps {
		if i == 2 {
			got = tensor.FromFloat64s(c.DType, wants["output"].Shape, wants["output"].Value)
		}
		if err := steps[i].f(); err != nil {
			b.Fatal(err)
		}
	}
	run := func(name string, f func() error) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
			n := float64(dims[0] * dims[1] * dims[2])
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/elem")
		})
	}
	for _, s := range steps {
		run(s.name, s.f)
	}
	run("all", func() error {
		for _, s := range steps {
			if err := s.f(); err != nil {
				return err
			}
		}
		return nil
	})
}
