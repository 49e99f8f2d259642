package runner

// This file implements launches of compiled kernels: the expressions of a configuration, compiled once for an op and
// computed for each case.

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"gpuemu/internal/config"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/formula"
	"gpuemu/internal/launchfile"
	"gpuemu/internal/opspec"
	"gpuemu/internal/ptxvm"
	"gpuemu/internal/tensor"
)

// Launch says how a kernel is launched on the cases of one op.
type Launch struct {
	config.Launch
	inputs, outputs []string
	alias           map[string]string // other names of tensors
	grid, block     []expression
	shared          *expression
	args            []expression
	strided         map[string]bool          // inputs whose strides are asked for
	also            map[string][]dtype.DType // types that outputs may have instead of their own
	cast            map[string]dtype.DType   // outputs that have another type, as in int32(indices)
	derived         *opspec.Program          // computes dimensions that follow from others; nil: the schema has none
}

// expression is one expression of a launch.
type expression struct {
	*formula.Program
	config.Expr
	what string // grid, block, shared, args[2]
}

// NewLaunch compiles the expressions of a launch. Names are the dimensions, attributes, inputs and outputs of the
// schema, and further arguments of the op.
func NewLaunch(l *config.Launch, schema *opspec.Schema, kwargs opspec.Attrs) (*Launch, error) {
	out := &Launch{Launch: *l, alias: map[string]string{}, strided: map[string]bool{},
		also: map[string][]dtype.DType{}, cast: map[string]dtype.DType{}}
	out.Grid, out.Block, out.Args = placed(l.Grid), placed(l.Block), placed(l.Args)
	out.Shared = placed([]config.Expr{l.Shared})[0]
	names, err := out.names(schema, kwargs)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(schema.Dims, func(d opspec.Dim) bool { return d.Derived() }) {
		if out.derived, err = schema.Compile(); err != nil {
			return nil, err
		}
	}
	list := func(what string, exprs []config.Expr, kind formula.Kind) ([]expression, error) {
		var out []expression
		for i, e := range exprs {
			x, err := compile(fmt.Sprintf("%s[%d]", what, i), e, names)
			if err != nil {
				return nil, err
			}
			if kind == formula.Int && (x.Kind != formula.Int || x.DType != dtype.Invalid || x.Memory != "") {
				return nil, badLaunch(x.Pos, "sizes are whole numbers", "%s is %q, which is %s", x.what, e.Text, x.Kind)
			}
			out = append(out, x)
		}
		return out, nil
	}
	if out.grid, err = list("grid", out.Grid, formula.Int); err != nil {
		return nil, err
	}
	if out.block, err = list("block", out.Block, formula.Int); err != nil {
		return nil, err
	}
	if l.Shared.Text != "" {
		shared, err := list("shared", []config.Expr{out.Shared}, formula.Int)
		if err != nil {
			return nil, err
		}
		out.shared = &shared[0]
	}
	if out.args, err = list("args", out.Args, formula.KindUnset); err != nil {
		return nil, err
	}
	return out, out.checkArgs()
}

// placed gives expressions places without directories: results say the same wherever the project lies.
func placed(list []config.Expr) []config.Expr {
	list = slices.Clone(list)
	for i := range list {
		if list[i].Pos.File != "" {
			list[i].Pos.File = filepath.Base(list[i].Pos.File)
		}
	}
	return list
}

// badLaunch is a fault of the configuration.
func badLaunch(pos diag.Pos, hint, format string, args ...any) error {
	return diag.Errorf(BadLaunch, hint, format, args...).At(pos)
}

func compile(what string, e config.Expr, names map[string]formula.Kind) (expression, error) {
	f, err := formula.Parse(e.Text)
	if err != nil {
		return expression{}, formula.Place(err, e.Pos)
	}
	p, err := f.Compile(names)
	if err != nil {
		return expression{}, formula.Place(err, e.Pos)
	}
	return expression{p, e, what}, nil
}

// names are what expressions may use.
func (l *Launch) names(schema *opspec.Schema, kwargs opspec.Attrs) (map[string]formula.Kind, error) {
	names := map[string]formula.Kind{}
	pos := diag.Pos{}
	if len(l.Grid) > 0 {
		pos = l.Grid[0].Pos
	}
	var clash string
	add := func(name string, kind formula.Kind) {
		if old, twice := names[name]; twice && (old == formula.Tensor || kind == formula.Tensor) {
			clash = name
		}
		names[name] = kind
	}
	for name, value := range kwargs {
		if kind, ok := kindOf(value); ok {
			add(name, kind)
		}
	}
	for i := range schema.Attrs {
		a := &schema.Attrs[i]
		if kind, ok := kindOf(schema.DefaultAttrs()[a.Name]); ok && !a.Quiet { // a case may leave it out
			add(a.Name, kind)
		}
	}
	for i := range schema.Dims {
		add(schema.Dims[i].Name, formula.Int)
	}
	for i := range schema.Inputs {
		l.inputs = append(l.inputs, schema.Inputs[i].Name)
		add(schema.Inputs[i].Name, formula.Tensor)
	}
	for i := range schema.Outputs {
		l.outputs = append(l.outputs, schema.Outputs[i].Name)
		l.also[schema.Outputs[i].Name] = schema.Outputs[i].Alternatives()
		add(schema.Outputs[i].Name, formula.Tensor)
	}
	switch {
	case clash != "":
		return nil, badLaunch(pos, "give the op a schema with other names ([ops.schema])",
			"%q is a tensor of the op and something else as well", clash)
	case len(l.outputs) == 0:
		return nil, badLaunch(pos, `set schema = "NAME" (gpuemu ops), or give the op a table [ops.schema]`,
			"the outputs of the op are not known, so there is no memory for them")
	case len(l.outputs) == 1:
		for _, other := range []string{"out", "output"} {
			if _, taken := names[other]; !taken {
				names[other] = formula.Tensor
				l.alias[other] = l.outputs[0]
			}
		}
	}
	return names, nil
}

// kindOf is the kind of an attribute.
func kindOf(value any) (formula.Kind, bool) {
	switch value.(type) {
	case int64, int:
		return formula.Int, true
	case float64:
		return formula.Float, true
	case bool:
		return formula.Bool, true
	case string:
		return formula.Text, true
	}
	return formula.KindUnset, false
}

// checkArgs checks what can be known of arguments before a kernel is: that outputs are among them, each tensor once.
func (l *Launch) checkArgs() error {
	pos := l.Grid[0].Pos
	if len(l.args) > 0 {
		pos = l.args[0].Pos
	}
	seen := map[string]bool{}
	for i := range l.args {
		x := &l.args[i]
		switch {
		case x.Kind == formula.Text:
			return badLaunch(x.Pos, `compare it: mode == "fast" ? 1 : 0`, "%s is a text, which no kernel takes", x.what)
		case x.Kind != formula.Tensor:
			continue
		case x.DType != dtype.Invalid && !slices.Contains(l.also[l.tensor(x.Name)], x.DType):
			return badLaunch(x.Pos, l.castHint(x), "%s is %q: a tensor has no other type", x.what, x.Text)
		case seen[l.tensor(x.Name)]:
			return badLaunch(x.Pos, "name each tensor once", "%s: %s is an argument before, too", x.what, x.Name)
		}
		seen[l.tensor(x.Name)] = true
		if x.DType != dtype.Invalid {
			l.cast[l.tensor(x.Name)] = x.DType
		}
	}
	for _, name := range l.outputs {
		if !seen[name] {
			return badLaunch(pos, "name it where the kernel takes its address", "output %q is not among the arguments", name)
		}
	}
	for _, list := range [][]expression{l.grid, l.block, l.args} {
		for i := range list {
			for _, name := range list[i].Strides {
				l.strided[l.tensor(name)] = true
			}
		}
	}
	return nil
}

// castHint says which types the tensor of an argument may have.
func (l *Launch) castHint(x *expression) string {
	hint := "tensors are passed as they are"
	for _, d := range l.also[l.tensor(x.Name)] {
		hint += fmt.Sprintf("; %s(%s) is permitted", d, x.Name)
	}
	return hint
}

// typed gives outputs the types that the kernel writes them in.
func (l *Launch) typed(call *Call) *Call {
	if len(l.cast) == 0 {
		return call
	}
	c := *call
	c.Outputs = slices.Clone(call.Outputs)
	for i := range c.Outputs {
		if d, ok := l.cast[c.Outputs[i].Name]; ok {
			c.Outputs[i].DType = d
		}
	}
	return &c
}

// tensor is the name of a tensor in the schema.
func (l *Launch) tensor(name string) string {
	if own, ok := l.alias[name]; ok {
		return own
	}
	return name
}

// TakesStrides reports whether the kernel is told strides: else its inputs are contiguous.
func (l *Launch) TakesStrides() bool {
	return slices.ContainsFunc(l.inputs, func(name string) bool { return l.strided[name] })
}

// launch is a launch of one case, and the copies of its tensors.
type launch struct {
	launchfile.Case
	inputs map[string]*tensor.Tensor // as given to the kernel
}

// of computes the launch of a call. A *Failure says why there is none.
func (l *Launch) of(call *Call, prog *ptxvm.Program) (*launch, error) {
	out := &launch{Case: launchfile.Case{PTX: l.PTX, Entry: l.Entry, Grid: [3]int{1, 1, 1}, Block: [3]int{1, 1, 1}},
		inputs: map[string]*tensor.Tensor{}}
	call = l.typed(call)
	env, err := l.env(call, out)
	if err != nil {
		return nil, err
	}
	for _, s := range []struct {
		what  string
		exprs []expression
		dst   *[3]int
		low   int64 // a grid of no blocks is no launch
	}{{"grid", l.grid, &out.Grid, 0}, {"block", l.block, &out.Block, 1}} {
		for i := range s.exprs {
			n, err := s.exprs[i].size(env, s.low)
			if err != nil {
				return nil, err
			}
			s.dst[i] = n
		}
	}
	if l.shared != nil {
		if out.DynamicShared, err = l.shared.size(env, 0); err != nil {
			return nil, err
		}
	}
	for i := range l.args {
		x := &l.args[i]
		if x.Kind == formula.Tensor {
			out.Args = append(out.Args, out.tensorArg(l.tensor(x.Name), call))
			continue
		}
		if x.Memory != "" {
			a, err := x.memory(env, call.Zeroed)
			if err != nil {
				return nil, err
			}
			out.Args = append(out.Args, a)
			continue
		}
		v, err := x.Eval(env)
		if err != nil {
			return nil, unsupported(formula.Place(err, x.Pos))
		}
		value, err := scalar(v, x.DType, &prog.Params[i], prog.Kernel.Params[i].Type)
		if err != nil {
			return nil, unsupported(diag.Errorf(BadLaunch, diag.HintOf(err), "%s = %q: %w", x.what, x.Text, err).At(x.Pos))
		}
		out.Args = append(out.Args, launchfile.Arg{Name: x.Text, DType: x.DType, Value: value})
	}
	return out, out.check(l)
}

// check holds sizes to the limits of GPUs.
func (c *launch) check(l *Launch) error {
	var err error
	pos := l.Grid[0].Pos
	if !c.empty() {
		err = launchfile.CheckSize("grid", c.Grid)
	}
	if err == nil {
		if err = launchfile.CheckSize("block", c.Block); err != nil {
			pos = l.Block[0].Pos
		} else if err = launchfile.CheckShared(c.DynamicShared); err != nil {
			pos = l.Shared.Pos
		}
	}
	if e, ok := err.(*diag.Error); ok {
		return unsupported(e.At(pos))
	}
	return nil
}

// empty reports a grid of no blocks.
func (c *launch) empty() bool { return c.Grid[0] == 0 || c.Grid[1] == 0 || c.Grid[2] == 0 }

// size computes a size from low to what 32 bits hold.
func (x *expression) size(env formula.Env, low int64) (int, error) {
	v, err := x.Eval(env)
	if err != nil {
		return 0, unsupported(formula.Place(err, x.Pos))
	}
	if v.Int < low || v.Int > math.MaxInt32 {
		return 0, unsupported(badLaunch(x.Pos, "", "%s = %q is %d in this case, want %d to %d", x.what, x.Text, v.Int, low,
			math.MaxInt32))
	}
	return int(v.Int), nil
}

// maxScratch is how many bytes of one argument scratch and zeros give. The largest tensors of cases have a few MiB, and
// many cases run at once.
const maxScratch = 256 << 20

// memory is what a kernel needs beside the tensors of the op: with nothing in it, or with zeros.
func (x *expression) memory(env formula.Env, zeroed bool) (launchfile.Arg, error) {
	n, err := x.size(env, 0)
	a := launchfile.Arg{Name: x.Text, Role: launchfile.InOut, DType: dtype.Uint8, Shape: tensor.Shape{n}}
	switch {
	case err != nil:
		return a, err
	case n > maxScratch:
		return a, unsupported(badLaunch(x.Pos, "use smaller shapes", "%s = %q is %d bytes in this case, at most %d are given",
			x.what, x.Text, n, maxScratch))
	}
	a.Fill()
	if zeroed || x.Memory == "zeros" {
		zero(&a)
	}
	return a, nil
}

// zero sets memory to zeros, which is not the same as nothing in it: a file says that it was given.
func zero(a *launchfile.Arg) {
	clear(a.Data)
	a.File = "zeros"
}

// dims are the dimensions of a call, with those that follow from others: a case's text has the free ones alone. For a
// case that does not belong to the schema nothing follows; it has no outputs, which env refuses.
func (l *Launch) dims(call *Call) map[string]int {
	free := make(map[string]int, len(call.Dims))
	for _, d := range call.Dims {
		free[d.Name] = d.Value
	}
	if l.derived != nil {
		if all, err := l.derived.Derive(free, call.Attrs); err == nil {
			return all
		}
	}
	return free
}

// env gives the values of a call. Cases that do not belong to the op's schema have other dimensions, and no outputs.
func (l *Launch) env(call *Call, out *launch) (formula.Env, error) {
	values := map[string]formula.Value{}
	for name, v := range call.Attrs {
		switch v := v.(type) {
		case int64:
			values[name] = formula.Value{Kind: formula.Int, Int: v}
		case int:
			values[name] = formula.Value{Kind: formula.Int, Int: int64(v)}
		case float64:
			values[name] = formula.Value{Kind: formula.Float, Float: v}
		case bool:
			values[name] = formula.Value{Kind: formula.Bool}
			if v {
				values[name] = formula.Value{Kind: formula.Bool, Int: 1}
			}
		case string:
			values[name] = formula.Value{Kind: formula.Text, Text: v}
		}
	}
	for name, v := range l.dims(call) {
		values[name] = formula.Value{Kind: formula.Int, Int: int64(v)}
	}
	memory := func(name string, d dtype.DType, shape, strides []int) {
		values[name] = formula.Value{Kind: formula.Tensor, Tensor: &formula.Memory{Name: name, DType: d, Shape: shape,
			Strides: strides}}
	}
	for _, in := range call.Inputs {
		t := in.Tensor
		if !l.strided[in.Name] && !t.IsContiguous() {
			if !l.TakesStrides() {
				return nil, unsupported(badLaunch(l.Grid[0].Pos, "pass x.strides[0] and so on where the kernel takes strides",
					"input %q is not contiguous, and the launch tells the kernel no strides", in.Name))
			}
			t = t.Contiguous()
		}
		out.inputs[in.Name] = t
		memory(in.Name, t.DType, t.Shape, t.Strides)
	}
	for _, o := range call.Outputs {
		memory(o.Name, o.DType, o.Shape, o.Shape.Strides())
	}
	for other, name := range l.alias {
		values[other] = values[name]
	}
	if len(call.Outputs) != len(l.outputs) || len(call.Inputs) != len(l.inputs) {
		return nil, unsupported(badLaunch(l.Grid[0].Pos, "", "the case has other tensors than the op's schema, so it is not "+
			"known how to launch it"))
	}
	return func(name string) formula.Value { return values[name] }, nil
}

// tensorArg is the memory of a tensor. The kernel works on a copy.
func (c *launch) tensorArg(name string, call *Call) launchfile.Arg {
	for _, o := range call.Outputs {
		if o.Name == name {
			a := launchfile.Arg{Name: name, Role: launchfile.Out, DType: o.DType, Shape: o.Shape}
			a.Fill()
			if call.Zeroed {
				zero(&a)
			}
			return a
		}
	}
	t := c.inputs[name]
	return launchfile.Arg{Name: name, Role: launchfile.In, DType: t.DType, Shape: t.Shape, File: "case",
		Data: append([]byte{}, t.Data...), Offset: t.Offset * t.DType.Size(), Valid: validParts(t)}
}

// maxParts is how many parts of an input are told apart.
const maxParts = 4096

// validParts are the parts of a storage that the elements of a tensor lie in, in elements: what lies before them and
// between them belongs to others. Of more than maxParts the smallest gaps count as covered.
func validParts(t *tensor.Tensor) [][2]int {
	type dim struct{ n, stride int }
	var dims []dim
	first, parts := t.Offset, 1
	for i, n := range t.Shape {
		stride := t.Strides[i]
		if n == 0 {
			return nil
		}
		if stride < 0 {
			first += (n - 1) * stride
			stride = -stride
		}
		if n > 1 {
			dims = append(dims, dim{n, stride})
			parts *= n
		}
	}
	slices.SortFunc(dims, func(a, b dim) int { return a.stride - b.stride })
	size := 1
	for len(dims) > 0 && (dims[0].stride <= size || parts > maxParts) {
		size += (dims[0].n - 1) * dims[0].stride
		parts /= dims[0].n
		dims = dims[1:]
	}
	if size*t.DType.Size() == len(t.Data) {
		return nil // all of it, as most are
	}
	out := [][2]int{{first, size}}
	for _, d := range dims {
		for _, part := range slices.Clone(out) {
			for i := 1; i < d.n; i++ {
				out = append(out, [2]int{part[0] + i*d.stride, size})
			}
		}
	}
	return out
}
