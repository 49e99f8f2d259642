package main

// This file implements subjects: a base kernel or a mutant, ready to be launched on inputs that are made here. Nothing
// in it judges.

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gpuemu/internal/config"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/ptxvm"
	"gpuemu/internal/runner"
	"gpuemu/internal/tensor"
)

// launchBudget is how many instructions of warps a launch may take. The largest cases of base kernels take a few
// million; a mutant whose loop never ends is stopped after seconds instead of minutes.
const launchBudget = 1 << 27

// launchTimeout is the same in time, for a busy machine.
const launchTimeout = 60 * time.Second

// subject is a base kernel or a mutant.
type subject struct {
	id      string
	config  *config.Config // project with this one op
	entry   *oracle.Op     // what it should compute
	program *opspec.Program
	dtypes  []dtype.DType
	attrs   opspec.Attrs // attributes that the kernel fixes
}

// newSubject takes the only op of a project.
func newSubject(cfg *config.Config) (*subject, error) {
	if len(cfg.Ops) != 1 || cfg.Ops[0].Kernel == nil {
		return nil, fmt.Errorf("%s: want one op with a kernel, got %d ops", cfg.Path, len(cfg.Ops))
	}
	op := &cfg.Ops[0]
	op.Kernel.Budget = launchBudget
	op.Timeout = launchTimeout
	entry, ok := oracle.Lookup(op.SchemaName)
	if !ok {
		return nil, fmt.Errorf("%s: the catalogue has no operator %q", op.Name, op.SchemaName)
	}
	s := &subject{id: op.Name, config: cfg, entry: entry, dtypes: op.DTypes, attrs: opspec.Attrs{}}
	for name, value := range op.Attributes {
		attr, ok := entry.Schema.Attr(name)
		if !ok {
			return nil, fmt.Errorf("%s: %s has no attribute %q", op.Name, entry.Name, name)
		}
		v, err := attr.Normal(value)
		if err != nil {
			return nil, fmt.Errorf("%s: attribute %q: %w", op.Name, name, err)
		}
		s.attrs[name] = v
	}
	var err error
	s.program, err = entry.Program()
	return s, err
}

// kernel is a subject that can be launched.
type kernel struct {
	*subject
	runner runner.Runner
	launch *runner.Launch
}

// open loads the compiled kernel. Checks are those of the emulator; launches use one processor.
func (s *subject) open(checks ptxvm.Checks) (*kernel, error) {
	op := &s.config.Ops[0]
	l := op.Kernel.Launch
	l.Look, l.Schedules = checks, 1
	launch, err := runner.NewLaunch(&l, s.entry.Schema, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.id, err)
	}
	r, err := runner.NewKernel(runner.KernelSpec{Op: s.id, Launch: launch, Dir: s.config.Dir, DTypes: s.dtypes, Workers: 1,
		Timeout: op.Timeout})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.id, err)
	}
	return &kernel{subject: s, runner: r, launch: launch}, nil
}

// shape is one choice of sizes and attributes. Attributes that are not named have their defaults.
type shape struct {
	dims  map[string]int
	attrs opspec.Attrs
}

// trial is a shape with inputs in one number format.
type trial struct {
	dtype  dtype.DType
	dims   map[string]int // derived ones as well
	attrs  opspec.Attrs   // all of them
	inputs []tensor.Named
}

// allAttrs are the attributes of a launch: the kernel's own, those given, the defaults.
func (s *subject) allAttrs(given opspec.Attrs) opspec.Attrs {
	attrs := s.entry.Schema.DefaultAttrs()
	for _, m := range []opspec.Attrs{given, s.attrs} {
		for name, v := range m {
			if _, known := attrs[name]; known {
				attrs[name] = v
			}
		}
	}
	return attrs
}

// inputMap has the inputs by name, as the oracle takes them.
func (t *trial) inputMap() map[string]*tensor.Tensor {
	m := map[string]*tensor.Tensor{}
	for _, in := range t.inputs {
		m[in.Name] = in.Tensor
	}
	return m
}

// run launches the kernel on a trial. Zeroed memory is what fresh memory of a device mostly is.
func (k *kernel) run(ctx context.Context, t *trial, zeroed bool) (*runner.Reply, error) {
	call := &runner.Call{Op: k.id, DType: t.dtype, Inputs: t.inputs, Attrs: t.attrs, Zeroed: zeroed}
	_, shapes, err := k.program.Resolve(t.dims, t.attrs)
	if err != nil {
		return nil, err
	}
	for i := range k.entry.Schema.Dims {
		name := k.entry.Schema.Dims[i].Name
		call.Dims = append(call.Dims, opspec.DimValue{Name: name, Value: t.dims[name]})
	}
	for i := range k.entry.Schema.Outputs {
		o := &k.entry.Schema.Outputs[i]
		d, err := o.ElemType(t.dtype, t.attrs)
		if err != nil {
			return nil, err
		}
		call.Outputs = append(call.Outputs, runner.Output{Name: o.Name, DType: d, Shape: shapes[o.Name]})
	}
	return k.runner.Run(ctx, call)
}

// String describes a trial as the text of a case does: what the inputs hold is told by run, setting and number.
func (t *trial) String() string {
	text := "dtype=" + t.dtype.String()
	for _, name := range sortedKeys(t.dims) {
		text += fmt.Sprintf(" %s:%d", name, t.dims[name])
	}
	for _, name := range sortedKeys(t.attrs) {
		text += fmt.Sprintf(" %s:%v", name, t.attrs[name])
	}
	for _, in := range t.inputs {
		if !in.Tensor.IsContiguous() {
			text += fmt.Sprintf(" %s.strides:%v", in.Name, in.Tensor.Strides)
		}
	}
	return text
}

func sortedKeys[V any](m map[string]V) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
