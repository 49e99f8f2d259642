package demo

import (
	"context"
	"errors"
	"fmt"
	"math"

	"gpuemu/internal/compare"
	"gpuemu/internal/config"
	"gpuemu/internal/gen"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/runner"
	"gpuemu/internal/tensor"
)

// This file implements the check that most kernels get: one shape of powers of two, standard normal values, and
// allclose against a trusted result. It is executed like everything else, with all of the emulator's checks off.

// allcloseTol is atol and rtol: what KernelBench began with and many of its followers have kept.
const allcloseTol = 1e-2

// Allclose is what that check says of a kernel.
type Allclose struct {
	Accepts bool   `json:"accepts"`
	Case    string `json:"case"`
	Short   string `json:"short"`             // the case in a few words
	Wrong   int    `json:"wrong"`             // elements that are not close
	Message string `json:"message,omitempty"` // why the kernel gave no result
}

// shapes is one shape for each family of operators: powers of two with several tiles, as benchmarks have them. An
// operator takes the dimensions that it has.
var shapes = map[string]map[string]int{
	"activation": {"B": 2, "S": 16, "H": 1024},
	"binary":     {"B": 2, "S": 16, "H": 1024},
	"reduce":     {"B": 2, "S": 16, "H": 1024},
	"softmax":    {"B": 2, "S": 16, "H": 1024},
	"norm":       {"B": 2, "S": 16, "H": 1024, "N": 2, "C": 64, "L": 64},
	"matmul":     {"B": 2, "M": 128, "K": 128, "N": 128},
	"attention":  {"B": 1, "HQ": 2, "HKV": 2, "M": 64, "N": 64, "D": 64, "S": 64, "H": 4},
	"loss":       {"R": 64, "C": 512},
	"index":      {"V": 512, "D": 64, "R": 64, "C": 256, "K": 32, "N": 256, "E": 64},
	"conv":       {"B": 2, "CI": 8, "CO": 8, "C": 8, "L": 64, "H": 16, "W": 16, "KH": 4, "KW": 4},
	"pool":       {"B": 2, "C": 8, "H": 32, "W": 32},
	"quant":      {"R": 64, "C": 256},
}

// allclose runs the check. The error is that of ctx or a fault of the corpus.
func (r *run) allclose(ctx context.Context, row *Row) (Allclose, error) {
	op, entry, c, err := r.regular(row)
	if err != nil {
		return Allclose{}, fmt.Errorf("%s: %w", row.ID, err)
	}
	out := Allclose{Case: c.String(), Short: short(c)}
	inputs, err := gen.Inputs(entry.Schema, c)
	if err != nil {
		return out, fmt.Errorf("%s: %w", row.ID, err)
	}
	attrs := entry.Schema.DefaultAttrs()
	for name, v := range c.AttrMap() {
		attrs[name] = v
	}
	wants, err := oracle.Evaluate(entry, inputs, attrs, c.DType)
	if err != nil {
		return out, fmt.Errorf("%s: %w", row.ID, err)
	}
	reply, err := r.launch(ctx, op, entry, c, inputs, attrs)
	var f *runner.Failure
	switch {
	case errors.As(err, &f): // it hangs, or touches memory that is not there: any harness sees that
		out.Message = f.Msg
		return out, ctx.Err()
	case err != nil:
		return out, err
	}
	for _, o := range reply.Outputs {
		out.Wrong += farApart(o.Tensor, wants[o.Name])
	}
	for _, w := range wants {
		oracle.Release(w)
	}
	out.Accepts = out.Wrong == 0
	return out, nil
}

// regular is the op of a row and its case. The number format is the first of the kernel: float32 where it has that.
func (r *run) regular(row *Row) (*config.Op, *oracle.Op, opspec.Case, error) {
	op, _ := r.project.Config.Op(row.ID)
	entry, ok := oracle.Lookup(row.Op)
	if !ok {
		return nil, nil, opspec.Case{}, fmt.Errorf("the catalogue has no %q", row.Op)
	}
	attrs := entry.Schema.DefaultAttrs()
	for name, value := range op.Attributes {
		attr, ok := entry.Schema.Attr(name)
		if !ok {
			return nil, nil, opspec.Case{}, fmt.Errorf("%s has no attribute %q", row.Op, name)
		}
		v, err := attr.Normal(value)
		if err != nil {
			return nil, nil, opspec.Case{}, err
		}
		attrs[name] = v
	}
	dims := map[string][]int{}
	for i := range entry.Schema.Dims {
		d := &entry.Schema.Dims[i]
		if size, ok := shapes[entry.Family][d.Name]; ok && !d.Derived() {
			dims[d.Name] = []int{size}
		}
	}
	stream, err := gen.Cases(entry.Schema, gen.Strategy{Shapes: "regular", Values: "normal", Dims: dims,
		Layouts: []tensor.Layout{tensor.Contiguous}, DTypes: op.DTypes[:1], Attrs: attrs}, Seed)
	if err != nil {
		return nil, nil, opspec.Case{}, err
	}
	c, err := stream.Case(0)
	return op, entry, c, err
}

// launch executes the kernel of an op on a case, and looks for nothing.
func (r *run) launch(ctx context.Context, op *config.Op, entry *oracle.Op, c opspec.Case,
	inputs map[string]*tensor.Tensor, attrs opspec.Attrs) (*runner.Reply, error) {
	l := op.Kernel.Launch
	l.Look = 0
	compiled, err := runner.NewLaunch(&l, entry.Schema, nil)
	if err != nil {
		return nil, err
	}
	kernel, err := runner.NewKernel(runner.KernelSpec{Op: op.Name, Launch: compiled, Dir: r.opt.Dir, Workers: 1,
		Timeout: op.Timeout})
	if err != nil {
		return nil, err
	}
	defer kernel.Close()
	call := &runner.Call{Op: op.Name, Case: c.String(), Seed: c.Seed, DType: c.DType, Dims: c.Dims, Attrs: attrs,
		Zeroed: true} // as fresh memory of a device mostly is
	for _, in := range c.Inputs {
		call.Inputs = append(call.Inputs, tensor.Named{Name: in.Name, Tensor: inputs[in.Name]})
	}
	program, err := entry.Program()
	if err != nil {
		return nil, err
	}
	_, shapes, err := program.Resolve(c.DimMap(), c.AttrMap())
	if err != nil {
		return nil, err
	}
	for i := range entry.Schema.Outputs {
		o := &entry.Schema.Outputs[i]
		d, err := o.ElemType(c.DType, attrs)
		if err != nil {
			return nil, err
		}
		call.Outputs = append(call.Outputs, runner.Output{Name: o.Name, DType: d, Shape: shapes[o.Name]})
	}
	return kernel.Run(ctx, call)
}

// farApart counts the elements for which |got - want| <= atol + rtol * |want| does not hold, as torch.allclose has it:
// NaN is close to nothing. want is the exact result in the number format of the output, as a trusted kernel gives it.
func farApart(got *tensor.Tensor, w *compare.Want) int {
	want := w.Exact
	if want == nil {
		want = tensor.FromFloat64s(w.DType, w.Shape, w.Value)
	}
	n := 0
	trusted := want.Float64s()
	for i, x := range got.Float64s() {
		y := trusted[i]
		if w.Undetermined != nil && w.Undetermined[i] || x == y {
			continue
		}
		if !(math.Abs(x-y) <= allcloseTol+float64(allcloseTol*math.Abs(y))) || math.IsInf(x, 0) || math.IsInf(y, 0) {
			n++
		}
	}
	return n
}
