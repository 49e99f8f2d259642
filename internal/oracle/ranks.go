// This file implements which ranks the operators take, and how a call sees tensors of other ranks than its schema has.

package oracle

import (
	"maps"
	"slices"

	"gpuemu/internal/diag"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
)

// ranks are the rules of the operators whose family has none: see opspec.Ranks.
var ranks = map[string]opspec.Ranks{
	"groupnorm": {Tail: "L", Channels: true}, "batchnorm": {Tail: "L", Channels: true},
	"matmul": {Lead: []string{"M"}}, "matmul_bias_act": {Lead: []string{"M"}}, "int8_matmul": {Lead: []string{"M"}},
	"fp8_matmul": {Lead: []string{"M"}}, "batched_matmul": {Lead: []string{"B"}, Broadcast: true},
	"topk": {Lead: []string{"R"}}, "moe_routing": {Lead: []string{"R"}}, "cross_entropy": {Lead: []string{"R"}},
	"embedding": {Lead: []string{"R"}}, "gather": {Lead: []string{"R"}}, "scatter_add": {Lead: []string{"R"}},
}

// familyRanks are the rules of families.
var familyRanks = map[string]opspec.Ranks{
	"activation": {Lead: bsh()},
	"binary":     {Lead: bsh(), Broadcast: true},
	"reduce":     {Lead: []string{"B", "S"}, Axis: "H"},
	"softmax":    {Lead: []string{"B", "S"}, Axis: "H"},
	"norm":       {Lead: []string{"B", "S"}, Axis: "H"},
	"attention":  {Lead: []string{"B"}},
	"conv":       {Lead: []string{"B"}, Channels: true},
	"pool":       {Lead: []string{"B"}, Channels: true},
	"quant":      {Lead: []string{"R"}},
}

// markRanks sets the rule of an operator, and adds the attributes that say where axes stand.
func markRanks(op *Op) {
	r, ok := ranks[op.Name]
	if !ok {
		r = familyRanks[op.Family]
	}
	op.Schema.Ranks = r
	add := func(a opspec.Attr) {
		a.Fixed, a.Quiet = true, true
		op.Schema.Attrs = append(op.Schema.Attrs, a)
	}
	if r.Axis != "" {
		add(opspec.Attr{Name: opspec.AxisAttr, Kind: opspec.Int, Default: int64(-1),
			Doc: "the axis of " + r.Axis + "; negative from the end"})
		reduced := slices.ContainsFunc(op.Schema.Outputs, func(o opspec.Output) bool { return len(o.Dims) == len(r.Lead) })
		if reduced {
			add(opspec.Attr{Name: opspec.KeepDimsAttr, Kind: opspec.Bool, Default: false,
				Doc: "the reduced axis stays, of size 1"})
		}
	}
	if r.Channels {
		add(opspec.Attr{Name: opspec.ChannelsAttr, Kind: opspec.String, Values: []any{"first", "last"},
			Doc: "first: N, C, then the other axes; last: C behind them, of inputs and outputs that are no weights"})
	}
}

// stacked is the form of matmul whose second operand has a batch, too.
const stacked = "batched_matmul"

// form returns the operator that computes a call on these inputs: for matmul of stacks of matrices, as NumPy and
// PyTorch have it, that of batches; else op itself.
func (op *Op) form(inputs map[string]*tensor.Tensor) *Op {
	if b := inputs["b"]; op.Name == "matmul" && len(b.Shape) > 2 {
		return catalogue().byName[stacked]
	}
	return op
}

// vectorOperand is the operand of a product that may be a vector: that of one column, which the result then lacks.
const vectorOperand = "b"

// takesVector reports whether a product has such an operand.
func (op *Op) takesVector(s tensor.Shape) bool { return op.Name == "matmul" && len(s) == 1 }

// withMatrix returns the shapes with a vector on the right of a product as a matrix of one column.
func (op *Op) withMatrix(shapes map[string]tensor.Shape) map[string]tensor.Shape {
	if b := shapes[vectorOperand]; op.takesVector(b) {
		shapes = maps.Clone(shapes)
		shapes[vectorOperand] = tensor.Shape{b[0], 1}
	}
	return shapes
}

// withVector gives such a vector its own shape back, and takes the axis of the column off the result.
func (op *Op) withVector(a *opspec.Arrangement, inputs map[string]*tensor.Tensor) {
	b := inputs[vectorOperand]
	if b == nil || !op.takesVector(b.Shape) {
		return
	}
	in, out := a.Inputs[vectorOperand], a.Outputs["output"]
	in.Shape = b.Shape
	out.Shape = out.Shape[:len(out.Shape)-1]
	a.Inputs[vectorOperand], a.Outputs["output"] = in, out
}

// Arrange says how an operator sees inputs of any rank that it takes, and which operator of the catalogue computes
// them: op itself, but for matmul of stacks of matrices. Attributes are complete.
func Arrange(
	op *Op, inputs map[string]*tensor.Tensor, attrs opspec.Attrs,
) (*Op, *opspec.Arrangement, error) {
	attrs, err := checkAttrs(op, attrs)
	if err != nil {
		return nil, nil, err
	}
	if err := checkTensors(op, inputs); err != nil {
		return nil, nil, err
	}
	form := op.form(inputs)
	s, err := form.sizesOf(inputs, attrs)
	if err != nil {
		return nil, nil, err
	}
	return form, s.arranged, nil
}

// finish gives the outputs the shape that the caller's inputs lead to.
func (c *call) finish() {
	for name, r := range c.outs {
		placed := c.arranged.Outputs[name]
		r.Shape = slices.Clone(placed.Shape)
		from := placed.Source()
		if from == nil {
			continue
		}
		r.Value, r.Bound = reordered(r.Value, from), reordered(r.Bound, from)
		r.Undetermined, r.Several = reordered(r.Undetermined, from), reordered(r.Several, from)
		r.Unit = 0 // the elements of a unit do not follow each other any more
		if r.Ties != nil {
			panic("oracle: internal error: ties of an output whose axes move")
		}
	}
}

// reordered returns the elements of x in another order; nil for nil.
func reordered[T any](x []T, from []int) []T {
	if x == nil {
		return nil
	}
	out := make([]T, len(from))
	for i, at := range from {
		out[i] = x[at]
	}
	return out
}

// checkPlaces refuses a shape of an output that is too large.
func checkPlaces(op *Op, a *opspec.Arrangement) error {
	for name, placed := range a.Outputs {
		if _, err := tensor.ParseShape(placed.Shape); err != nil {
			return diag.Errorf(InputMismatch, "", "op %s: output %q: %w", op.Name, name, err)
		}
	}
	return nil
}
