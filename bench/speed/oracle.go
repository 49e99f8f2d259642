// This file implements the rows of the oracle.

package main

import (
	"fmt"
	"runtime"

	"gpuemu/internal/dtype"
	"gpuemu/internal/gemm"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/tensor"
)

// oracleRows are the matrix product as the oracle evaluates it: inputs decoded, value and bound of every element.
func oracleRows() []Row {
	cores := runtime.GOMAXPROCS(0)
	return []Row{
		evaluateMatmul(dtype.Float64, 1024, cores),
		evaluateMatmul(dtype.Float32, 1024, cores),
	}
}

// evaluateMatmul compares the oracle's matmul, with bound, with our product alone, which the rows of gemm.go compare
// with numpy's.
func evaluateMatmul(d dtype.DType, n, threads int) Row {
	setup := func(*Bench) (Side, Side, error) {
		op, ok := oracle.Lookup("matmul")
		if !ok {
			return nil, nil, fmt.Errorf("no op matmul")
		}
		x, y, c := pattern(n*n, 1), pattern(n*n, 2), make([]float64, n*n)
		s := tensor.MustShape(n, n)
		in := map[string]*tensor.Tensor{"a": tensor.FromFloat64s(d, s, x), "b": tensor.FromFloat64s(d, s, y)}
		attrs := op.Schema.DefaultAttrs()
		product := func() { gemm.Mul(c, x, y, n, n, n, gemm.Options{Threads: threads}) }
		product()
		wants, err := oracle.Evaluate(op, in, attrs, d)
		if err != nil {
			return nil, nil, err
		}
		if err := agree("sum of |c|", sumOfMagnitudes(wants["output"].Value), sumOfMagnitudes(c), 0); err != nil {
			return nil, nil, err
		}
		ours := timeOf(func() { _, _ = oracle.Evaluate(op, in, attrs, d) })
		return ours, timeOf(product), nil
	}
	return Row{
		Name: fmt.Sprintf("oracle matmul %d³ %s, value and bound, over product alone, %s", n, d, threadsName(threads)),
		Goal: Goal{Cost: 2.2}, Setup: setup,
		Note: "All of oracle.Evaluate: inputs decoded, value, bound and marks of every element in new arrays.",
		Why: "The two products take 2.0 times the one (gemm.MulAbs over gemm.Mul above). The rest are passes over operands " +
			"and results by all cores: decoding, one look for subnormal, huge and non-finite operands, the bound; and new " +
			"memory, which one core clears.",
	}
}

// newCase returns a case of op with contiguous inputs of one distribution.
func newCase(op *oracle.Op, d dtype.DType, values string, dims map[string]int) (opspec.Case, error) {
	attrs := op.Schema.DefaultAttrs()
	shapes, _, err := op.Schema.Resolve(dims, attrs)
	if err != nil {
		return opspec.Case{}, err
	}
	c := opspec.Case{Op: op.Schema.Name, DType: d, Seed: 42, Gen: opspec.GenVersion}
	for i := range op.Schema.Dims {
		name := op.Schema.Dims[i].Name
		c.Dims = append(c.Dims, opspec.DimValue{Name: name, Value: dims[name]})
	}
	c.Attrs = op.Schema.CaseAttrs(attrs)
	for i := range op.Schema.Inputs {
		in := &op.Schema.Inputs[i]
		c.Inputs = append(c.Inputs, opspec.CaseInput{
			Name: in.Name, DType: d, Shape: shapes[in.Name], Layout: tensor.Contiguous, Values: values,
		})
	}
	return c, nil
}
