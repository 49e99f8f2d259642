package runner

// This file implements builtin:NAME, the catalogue's own references.

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gpuemu/internal/compare"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// builtinRunner runs the reference of one operator in this process.
type builtinRunner struct{ op *oracle.Op }

func newBuiltin(name string) (Runner, error) {
	op, ok := oracle.Lookup(name)
	if !ok {
		return nil, diag.Errorf(BuiltinUnknown, diag.Suggest(name, oracle.Names(), "gpuemu ops lists the names"),
			"builtin:%s: the catalogue has no operator %q", name, name)
	}
	return &builtinRunner{op}, nil
}

func (r *builtinRunner) Close() error { return nil }

// Run evaluates the reference. A candidate's outputs are rounded once to their types; a reference's stay float64.
// Attributes that the operator does not have are of no concern to it.
func (r *builtinRunner) Run(ctx context.Context, call *Call) (*Reply, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	begin := time.Now()
	inputs, err := r.inputs(call)
	if err != nil {
		return nil, err
	}
	wants, err := oracle.Evaluate(r.op, inputs, r.attrs(call), call.DType)
	if err != nil {
		return nil, &Failure{Reason: verdict.Unsupported, Msg: err.Error(), Hint: diag.HintOf(err)}
	}
	reply := &Reply{Modified: []string{}}
	for i := range r.op.Schema.Outputs {
		name := r.op.Schema.Outputs[i].Name
		reply.Outputs = append(reply.Outputs, tensor.Named{Name: name, Tensor: outputOf(wants[name], call.Reference)})
	}
	reply.Outputs = nameOutputs(call, false, reply.Outputs)
	reply.Time = time.Since(begin)
	return reply, ctx.Err()
}

// inputs gives the operator its inputs by name; a single one matches under any name.
func (r *builtinRunner) inputs(call *Call) (map[string]*tensor.Tensor, error) {
	s := r.op.Schema
	inputs := make(map[string]*tensor.Tensor, len(call.Inputs))
	if len(s.Inputs) == 1 && len(call.Inputs) == 1 {
		inputs[s.Inputs[0].Name] = call.Inputs[0].Tensor
		return inputs, nil
	}
	for _, in := range call.Inputs {
		inputs[in.Name] = in.Tensor
	}
	names := make([]string, len(s.Inputs))
	fits := len(inputs) == len(s.Inputs)
	for i := range s.Inputs {
		names[i] = s.Inputs[i].Name
		fits = fits && inputs[names[i]] != nil
	}
	if !fits {
		given := make([]string, len(call.Inputs))
		for i, in := range call.Inputs {
			given[i] = in.Name
		}
		return nil, &Failure{Reason: verdict.Unsupported, Msg: fmt.Sprintf("builtin:%s takes %s, got %s",
			s.Name, strings.Join(names, ", "), strings.Join(given, ", ")), Hint: "set input_names of the op"}
	}
	return inputs, nil
}

// attrs are all attributes of the operator: those of the call, else the defaults.
func (r *builtinRunner) attrs(call *Call) opspec.Attrs {
	attrs := r.op.Schema.DefaultAttrs()
	for name := range attrs {
		if v, ok := call.Attrs[name]; ok {
			attrs[name] = v
		}
	}
	return attrs
}

// outputOf makes an output of what the oracle says.
func outputOf(w *compare.Want, reference bool) *tensor.Tensor {
	switch {
	case w.Exact != nil:
		return w.Exact.Clone()
	case w.Stored != nil:
		return w.Stored.Clone()
	}
	d := w.DType
	if reference && (d.IsFloat() || w.Ties == nil) {
		d = dtype.Float64
	}
	t := tensor.New(d, w.Shape)
	if w.Saturating && d == w.DType {
		dtype.EncodeSaturating(t.Data, d, w.Value)
	} else {
		dtype.Encode(t.Data, d, w.Value)
	}
	return t
}
