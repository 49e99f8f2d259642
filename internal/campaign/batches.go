package campaign

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gpuemu/internal/diag"
	"gpuemu/internal/invariant"
	"gpuemu/internal/opspec"
	"gpuemu/internal/rng"
	"gpuemu/internal/runner"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// This file implements the executions that batch_invariant and permutation_equivariant need: the candidate runs again
// on some rows of the batch, or on all of them in another order.

// Names of the invariants that need them.
const (
	batchInvariant         = "batch_invariant"
	permutationEquivariant = "permutation_equivariant"
)

// batch is one further execution: rows of the inputs along a dimension, and what the candidate made of them.
type batch struct {
	dim      string
	rows     []int // row i is row rows[i] of the case
	permuted bool
	outputs  []tensor.Named
}

// asksBatches reports whether the op's invariants need executions on other batches.
func (s *subject) asksBatches() bool {
	return slices.Contains(s.invariants, batchInvariant) || slices.Contains(s.invariants, permutationEquivariant)
}

// checkBatchDims refuses an invariant of batches where nothing says which dimension is the batch: it would be checked
// on no case.
func (s *subject) checkBatchDims() error {
	if !s.asksBatches() {
		return nil
	}
	attrs := s.schema.DefaultAttrs()
	for name, v := range s.attrs {
		attrs[name] = v
	}
	for _, dim := range s.schema.BatchDims() {
		for i := range s.schema.Outputs {
			if slices.Contains(s.schema.Outputs[i].DimsOf(attrs), dim) {
				return nil
			}
		}
	}
	name := batchInvariant
	if !slices.Contains(s.invariants, name) {
		name = permutationEquivariant
	}
	return diag.Errorf(NoBatch, `mark it in [ops.schema]: dims = [{ name = "B", batch = true }], or remove the invariant`,
		"the invariant %s needs an output with a batch dimension, and %s has none", name, first(s.reference, s.name))
}

// batches are the executions for a case: of each batch dimension with several rows one row alone and the first half,
// and all rows in an order in which none keeps its place. Which, is a function of the seed of the case.
func (s *subject) batches(c opspec.Case) []batch {
	var list []batch
	if !s.axesAsDims(c) {
		return nil
	}
	sizes := c.DimMap()
	for _, dim := range s.schema.BatchDims() {
		n := sizes[dim]
		if n < 2 {
			continue
		}
		r := rng.New(c.Seed).Derive("v1/batch/" + dim)
		if slices.Contains(s.invariants, batchInvariant) {
			list = append(list, batch{dim: dim, rows: []int{r.Intn(n)}})
			if n > 2 {
				list = append(list, batch{dim: dim, rows: upTo((n + 1) / 2)})
			}
		}
		if slices.Contains(s.invariants, permutationEquivariant) {
			rows := upTo(n)
			for i := n - 1; i > 0; i-- { // Sattolo's algorithm: one cycle, in which no row keeps its place
				j := r.Intn(i)
				rows[i], rows[j] = rows[j], rows[i]
			}
			list = append(list, batch{dim: dim, rows: rows, permuted: true})
		}
	}
	return list
}

// axesAsDims reports whether each axis of the inputs of a case is what the dims of the schema have there.
func (s *subject) axesAsDims(c opspec.Case) bool {
	if !s.schema.Ranks.Any() {
		return true
	}
	attrs := s.allAttrs(c)
	for i := range s.schema.Attrs {
		if a := &s.schema.Attrs[i]; opspec.PlacesAxes(a.Name) && attrs[a.Name] != a.DefaultValue() {
			return false
		}
	}
	program, err := s.program()
	if err != nil {
		return false
	}
	shapes, _, err := program.Resolve(c.DimMap(), attrs)
	return err == nil && !slices.ContainsFunc(c.Inputs, func(in opspec.CaseInput) bool {
		return !shapes[in.Name].Equal(in.Shape)
	})
}

func upTo(n int) []int {
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	return rows
}

// of makes the case of a batch and its inputs. ok is false where the schema does not allow so few rows.
func (b *batch) of(s *subject, c opspec.Case, inputs map[string]*tensor.Tensor) (
	opspec.Case, map[string]*tensor.Tensor, bool, error,
) {
	part := c
	part.Dims, part.Inputs = slices.Clone(c.Dims), slices.Clone(c.Inputs)
	for i := range part.Dims {
		if part.Dims[i].Name == b.dim {
			part.Dims[i].Value = len(b.rows)
		}
	}
	if program, err := s.program(); err != nil {
		return part, nil, false, err
	} else if _, _, err := program.Resolve(part.DimMap(), s.allAttrs(part)); err != nil {
		return part, nil, false, nil // a relation does not hold for it
	}
	taken := map[string]*tensor.Tensor{}
	for i := range part.Inputs {
		in := &part.Inputs[i]
		taken[in.Name] = inputs[in.Name]
		spec, ok := s.schema.Input(in.Name)
		if !ok {
			continue
		}
		if axis := slices.Index(spec.Dims, b.dim); axis >= 0 {
			t, err := inputs[in.Name].Rows(axis, b.rows)
			if err != nil {
				return part, nil, false, fmt.Errorf("input %q: %w", in.Name, err)
			}
			taken[in.Name], in.Shape, in.Values = t, t.Shape, valuesStored
		}
	}
	return part, taken, true, nil
}

// runBatches executes the candidate on other batches of the case.
func (x *executor) runBatches(
	ctx context.Context, s *subject, c opspec.Case, inputs map[string]*tensor.Tensor,
) ([]batch, error) {
	if !s.asksBatches() {
		return nil, nil
	}
	list := []batch{}
	for _, b := range s.batches(c) {
		part, taken, ok, err := b.of(s, c, inputs)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		reply, err := invoke(ctx, x.candidate(s), s.call(part, taken, false))
		if f := new(runner.Failure); errors.As(err, &f) {
			own := *f
			own.Msg = fmt.Sprintf("on %d of %d rows of %s: %s", len(b.rows), c.DimMap()[b.dim], b.dim, f.Msg)
			return nil, &own
		}
		if err != nil {
			return nil, err
		}
		b.outputs = reply.Outputs
		list = append(list, b)
	}
	return list, nil
}

// rowsOf are the other batches as they concern one output; or why there are none.
func (s *subject) rowsOf(c opspec.Case, run observed, name string, number int) (rows []invariant.Rows, why string) {
	if !s.asksBatches() {
		return nil, ""
	}
	at := slices.IndexFunc(s.schema.Outputs, func(o opspec.Output) bool { return o.Name == name })
	if at < 0 && len(s.schema.Outputs) == 1 {
		at = 0 // a single output has any name
	}
	if at < 0 {
		return nil, "the schema does not declare this output"
	}
	dims := s.schema.Outputs[at].DimsOf(s.allAttrs(c))
	for _, b := range run.batches {
		axis := slices.Index(dims, b.dim)
		out := outputNamed(b.outputs, name, number)
		if axis >= 0 && out != nil {
			rows = append(rows, invariant.Rows{Permuted: b.permuted, Dim: b.dim, Axis: axis, From: b.rows, Output: out})
		}
	}
	return rows, "the output has no batch dimension, or the case has one row of it"
}

// unchecked lets a case that would pass be not_run where an invariant needs executions that only the client can make.
func (s *subject) unchecked(res *verdict.Result) {
	if !s.asksBatches() || res.Verdict != verdict.Pass {
		return
	}
	res.Verdict, res.Reason = verdict.NotRun, verdict.Unsupported
	res.Message = "the values are correct, but invariants of batches are not checked: they need further executions of a " +
		"kernel that runs on the client's side"
	res.Hint = `set candidate = "file.py:function" so that gpuemu executes it, or remove ` + batchInvariant + " and " +
		permutationEquivariant + " from the op's invariants"
}

// addBatches counts on how many outputs the invariants of batches were checked.
func (h *opHealth) addBatches(list []verdict.Invariance) {
	for _, i := range list {
		if i.Name != batchInvariant && i.Name != permutationEquivariant {
			continue
		}
		if h.batches == nil {
			h.batches = map[string]int{}
		}
		n := h.batches[i.Name]
		if i.Outcome != invariant.NotApplicable.String() {
			n++
		}
		h.batches[i.Name] = n
	}
}

// uncheckedBatches are the invariants of batches that no case could check.
func (h *opHealth) uncheckedBatches() []string {
	var names []string
	for _, name := range []string{batchInvariant, permutationEquivariant} {
		if n, asked := h.batches[name]; asked && n == 0 {
			names = append(names, name)
		}
	}
	return names
}
