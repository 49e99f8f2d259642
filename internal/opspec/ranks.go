// This file implements shapes of other ranks than a schema names, and axes in another order.

package opspec

import (
	"slices"
	"strconv"
	"strings"

	"gpuemu/internal/diag"
	"gpuemu/internal/tensor"
)

// Ranks says which shapes an operator takes beside those that its inputs and outputs name. The zero value: no others.
//
// A tensor takes part if its dims begin with Lead, or end with Tail. All others, such as a weight, have the shape that
// their dims say.
type Ranks struct {
	// Lead are dimensions that any number of leading axes stand for. More axes than names: the first of them fold into
	// one. Fewer: the names in front are 1.
	Lead []string
	// Tail is a dimension that any number of trailing axes fold into, none included.
	Tail string
	// Axis is the last dimension of what takes part. The attribute "axis" says which axis it is.
	Axis string
	// Channels: the dimension after Lead (with Tail: the second one) holds channels. The attribute "channels" says
	// whether they stand there or last.
	Channels bool
	// Broadcast: leading axes broadcast as in NumPy.
	Broadcast bool
}

// Attributes that say where axes stand.
const (
	AxisAttr     = "axis"     // int: the axis of Ranks.Axis, negative from the end
	KeepDimsAttr = "keepdims" // bool: an axis that a reduction removes stays, of size 1
	ChannelsAttr = "channels" // string: "first" or "last"
)

// PlacesAxes reports whether an attribute of that name says where axes stand, where a schema has a rule for it.
func PlacesAxes(name string) bool {
	return name == AxisAttr || name == KeepDimsAttr || name == ChannelsAttr
}

// Any reports whether the operator takes other shapes than those its dims name.
func (r *Ranks) Any() bool { return len(r.Lead) > 0 || r.Tail != "" }

// lead reports whether a tensor of these dims takes part with its leading axes.
func (r *Ranks) lead(dims []string) bool {
	return len(r.Lead) > 0 && len(dims) >= len(r.Lead) && slices.Equal(dims[:len(r.Lead)], r.Lead)
}

// tail reports whether a tensor of these dims takes part with its trailing axes.
func (r *Ranks) tail(dims []string) bool {
	return r.Tail != "" && len(dims) > 0 && dims[len(dims)-1] == r.Tail
}

// Least returns the smallest rank that a tensor of these dims may have, and whether larger ones than len(dims) may be.
func (r *Ranks) Least(dims []string) (least int, more bool) {
	switch {
	case r.lead(dims):
		return len(dims) - len(r.Lead), true
	case r.tail(dims):
		return len(dims) - 1, true
	}
	return len(dims), false
}

// String says in words which shapes there are beside those of the dims; "" where there are none.
func (r *Ranks) String() string {
	var words []string
	switch {
	case len(r.Lead) > 0:
		words = append(words, "any axes for "+strings.Join(r.Lead, ", "))
	case r.Tail != "":
		words = append(words, "any axes for "+r.Tail)
	default:
		return ""
	}
	if r.Broadcast {
		words = append(words, "which broadcast")
	}
	if r.Axis != "" {
		words = append(words, AxisAttr+" says where "+r.Axis+" is")
	}
	if r.Channels {
		words = append(words, ChannelsAttr+" first or last")
	}
	return strings.Join(words, ", ")
}

// Placed is how the schema sees a tensor of a caller: its axes permuted, broadcast, then folded.
type Placed struct {
	Shape  tensor.Shape // the caller's
	Perm   []int        // axis i of the next step is axis Perm[i] of Shape; nil: all in their place
	Expand tensor.Shape // the permuted axes broadcast to this; nil: they are of that size
	Inner  tensor.Shape // as the schema has it
}

// View returns the tensor as the schema has it. It copies where strides allow no view.
func (p *Placed) View(t *tensor.Tensor) (*tensor.Tensor, error) {
	var err error
	if p.Perm != nil {
		if t, err = t.Transpose(p.Perm...); err != nil {
			return nil, err
		}
	}
	if p.Expand != nil {
		if t, err = t.Expand(p.Expand); err != nil {
			return nil, err
		}
	}
	if t.Shape.Equal(p.Inner) {
		return t, nil
	}
	view, err := t.Reshape(p.Inner)
	if err != nil {
		return t.Contiguous().Reshape(p.Inner)
	}
	return view, nil
}

// Source returns, for each element of the caller's tensor, which element of the schema's it is; nil where all are in
// their place. It is for outputs, which nothing broadcasts.
func (p *Placed) Source() []int {
	if p.Perm == nil {
		return nil
	}
	permuted := make(tensor.Shape, len(p.Shape))
	for i, a := range p.Perm {
		permuted[i] = p.Shape[a]
	}
	inner, steps := permuted.Strides(), make([]int, len(p.Shape))
	for i, a := range p.Perm {
		steps[a] = inner[i]
	}
	from := make([]int, p.Shape.Elems())
	index, at := make([]int, len(p.Shape)), 0
	for i := range from {
		from[i] = at
		for k := len(index) - 1; k >= 0; k-- {
			index[k]++
			at += steps[k]
			if index[k] < p.Shape[k] {
				break
			}
			at -= steps[k] * index[k]
			index[k] = 0
		}
	}
	return from
}

// Arrangement is how the schema sees the inputs and outputs of one call.
type Arrangement struct {
	Dims            map[string]int
	Inputs, Outputs map[string]Placed
}

// arranger is one inference of an Arrangement.
type arranger struct {
	p        *Program
	r        *Ranks
	axis     int // as the caller says it
	keep     bool
	last     bool         // channels stand last
	leading  tensor.Shape // leading axes of the caller, after Axis was moved; nil: as the schema has them
	trailing tensor.Shape // trailing axes of the caller; nil: as the schema has them
}

func (p *Program) arranger(attrs Attrs) *arranger {
	a := &arranger{p: p, r: &p.schema.Ranks, axis: -1}
	if a.r.Axis != "" {
		if v, ok := attrs.intValue(AxisAttr); ok {
			a.axis = int(v)
		}
		a.keep = attrs.Bool(KeepDimsAttr)
	}
	a.last = a.r.Channels && attrs.Str(ChannelsAttr) == "last"
	return a
}

// plain reports whether all axes stand where the dims of the schema have them.
func (a *arranger) plain() bool { return a.axis == -1 && !a.keep && !a.last }

// Arrange infers every dimension from the shapes of given inputs, of any rank that the operator takes, and says how
// these and the outputs are seen by the schema. Its errors are those of Bind.
func (p *Program) Arrange(shapes map[string]tensor.Shape, attrs Attrs) (*Arrangement, error) {
	a := p.arranger(attrs)
	if err := p.checkNames(shapes); err != nil {
		return nil, err
	}
	out := &Arrangement{Inputs: map[string]Placed{}, Outputs: map[string]Placed{}}
	inner := make(map[string]tensor.Shape, len(shapes))
	dims, err := map[string]int(nil), error(nil)
	if a.plain() && (!a.r.Any() || p.ranksFit(shapes)) {
		dims, err = p.Bind(shapes, attrs)
		if err != nil && !a.r.Broadcast {
			return nil, err
		}
	}
	if dims == nil {
		if err := a.inputs(shapes, out.Inputs); err != nil {
			return nil, err
		}
		for name, placed := range out.Inputs {
			inner[name] = placed.Inner
		}
		if dims, err = p.Bind(inner, attrs); err != nil {
			return nil, err
		}
	} else {
		for name, s := range shapes {
			out.Inputs[name] = Placed{Shape: s, Inner: s}
		}
	}
	out.Dims = dims
	_, outputs, err := p.resolve(dims, attrs)
	if err != nil {
		return nil, err
	}
	for i := range p.schema.Outputs {
		o := &p.schema.Outputs[i]
		if out.Outputs[o.Name], err = a.placed(o.DimsOf(attrs), outputs[o.Name]); err != nil {
			return nil, at(err, "output %q", o.Name)
		}
	}
	return out, nil
}

// ranksFit reports whether all inputs have the rank that their dims name.
func (p *Program) ranksFit(shapes map[string]tensor.Shape) bool {
	for i := range p.schema.Inputs {
		if in := &p.schema.Inputs[i]; len(shapes[in.Name]) != len(in.Dims) {
			return false
		}
	}
	return true
}

// inputs places all inputs.
func (a *arranger) inputs(shapes map[string]tensor.Shape, placed map[string]Placed) error {
	from := ""
	for i := range a.p.schema.Inputs {
		in := &a.p.schema.Inputs[i]
		s := shapes[in.Name]
		least, more := a.r.Least(in.Dims)
		if len(s) < least || !more && len(s) != least {
			return rankError(in, s, least, more)
		}
		p := Placed{Shape: s, Inner: s}
		if more {
			var err error
			if p.Perm, err = a.perm(in.Dims, len(s)); err != nil {
				return at(err, "input %q", in.Name)
			}
			if err := a.take(in, permuted(s, p.Perm), &from); err != nil {
				return err
			}
		}
		placed[in.Name] = p
	}
	for i := range a.p.schema.Inputs { // now that the leading axes of all are known
		in := &a.p.schema.Inputs[i]
		p := placed[in.Name]
		s := permuted(p.Shape, p.Perm)
		switch {
		case a.r.lead(in.Dims):
			rest := s[len(s)-(len(in.Dims)-len(a.r.Lead)):]
			if whole := slices.Concat(a.leading, rest); !whole.Equal(s) {
				p.Expand = whole
			}
			p.Inner = append(fold(a.leading, len(a.r.Lead)), rest...)
		case a.r.tail(in.Dims):
			p.Inner = append(slices.Clone(s[:len(in.Dims)-1]), s[len(in.Dims)-1:].Elems())
		default:
			continue
		}
		placed[in.Name] = p
	}
	return nil
}

// take notes the axes of an input that stand for Lead or Tail. from is the first input that has such.
func (a *arranger) take(in *Input, s tensor.Shape, from *string) error {
	if a.r.tail(in.Dims) {
		a.trailing = append(tensor.Shape{}, s[len(in.Dims)-1:]...)
		return nil
	}
	lead := s[:len(s)-(len(in.Dims)-len(a.r.Lead))]
	switch {
	case *from == "":
		a.leading, *from = append(tensor.Shape{}, lead...), in.Name
	case a.r.Broadcast:
		joined, ok := broadcast(a.leading, lead)
		if !ok {
			return diag.Errorf(BindFailed, "axes broadcast where they are equal or one of them is 1",
				"leading axes %s of input %q do not broadcast with %s of input %q", lead, in.Name, a.leading, *from)
		}
		a.leading = joined
	case !lead.Equal(a.leading):
		return diag.Errorf(BindFailed, "", "input %q has the leading axes %s, input %q has %s",
			in.Name, lead, *from, a.leading)
	}
	return nil
}

func rankError(in *Input, s tensor.Shape, least int, more bool) error {
	want := strconv.Itoa(least)
	if more {
		want += " or more"
	}
	return diag.Errorf(BindFailed, "reshape it; axes of size 1 may stand for those it does not have",
		"input %q has shape %s of rank %d, want rank %s [%s]", in.Name, s, len(s), want, strings.Join(in.Dims, ","))
}

// perm returns the order of a caller's axes in which a tensor of these dims and this rank is folded; nil: as they are.
func (a *arranger) perm(dims []string, rank int) ([]int, error) {
	from, to := rank-1, rank-1 // the axis that moves, and where it goes
	rest := dims[min(len(a.r.Lead), len(dims)):]
	switch {
	case a.last && a.r.tail(dims):
		to = 1
	case a.last && len(rest) > 0:
		to = rank - len(rest)
	case len(rest) == 1 && rest[0] == a.r.Axis:
		var err error
		if from, err = a.place(rank); err != nil {
			return nil, err
		}
	}
	if from == to || rank == 0 {
		return nil, nil
	}
	order := upTo(rank)
	return slices.Insert(slices.Delete(order, from, from+1), to, from), nil
}

// place is the attribute "axis" as a place among that many axes.
func (a *arranger) place(rank int) (int, error) {
	at := a.axis
	if at < 0 {
		at += rank
	}
	if at < 0 || at >= rank {
		return 0, diag.Errorf(BindFailed, "count from 0, or from -1 at the end", "axis %d of a tensor of rank %d", a.axis,
			rank)
	}
	return at, nil
}

// placed returns how a tensor of these dims, which has the shape inner in the schema, looks to the caller.
func (a *arranger) placed(dims []string, inner tensor.Shape) (Placed, error) {
	whole := inner
	switch {
	case a.r.lead(dims):
		n, lead := len(a.r.Lead), a.leading
		if lead == nil {
			lead = inner[:n]
		}
		whole = slices.Concat(lead, inner[n:])
		if len(dims) == n && a.r.Axis != "" && a.keep { // a reduction
			at, err := a.place(len(whole) + 1)
			return Placed{Shape: slices.Insert(whole, at, 1), Inner: inner}, err
		}
	case a.r.tail(dims):
		if a.trailing != nil {
			whole = slices.Concat(inner[:len(inner)-1], a.trailing)
		}
	default:
		return Placed{Shape: inner, Inner: inner}, nil
	}
	perm, err := a.perm(dims, len(whole))
	if err != nil || perm == nil {
		return Placed{Shape: whole, Inner: inner}, err
	}
	s := make(tensor.Shape, len(whole))
	for i, from := range perm {
		s[from] = whole[i]
	}
	return Placed{Shape: s, Perm: perm, Inner: inner}, nil
}

// permuted returns a shape in another order of its axes.
func permuted(s tensor.Shape, perm []int) tensor.Shape {
	if perm == nil {
		return s
	}
	out := make(tensor.Shape, len(s))
	for i, a := range perm {
		out[i] = s[a]
	}
	return out
}

// fold makes n axes of leading ones: the first of many become one, and ones stand for those that are not there.
func fold(s tensor.Shape, n int) tensor.Shape {
	if len(s) < n {
		return slices.Concat(slices.Repeat(tensor.Shape{1}, n-len(s)), s)
	}
	first := len(s) - n + 1
	return slices.Concat(tensor.Shape{s[:first].Elems()}, s[first:])
}

// broadcast joins two shapes as NumPy does.
func broadcast(x, y tensor.Shape) (tensor.Shape, bool) {
	if len(x) < len(y) {
		x, y = y, x
	}
	out := slices.Clone(x)
	for i, n := range y {
		at := len(x) - len(y) + i
		switch {
		case n == x[at] || n == 1:
		case x[at] == 1:
			out[at] = n
		default:
			return nil, false
		}
	}
	return out, true
}

func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}
