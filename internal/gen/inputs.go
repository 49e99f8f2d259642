// This file implements the inputs of a case.

package gen

import (
	"runtime"
	"slices"
	"sync"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/rng"
	"gpuemu/internal/tensor"
)

// chunkElems is how many values are made at a time: 32 KiB of float64, which stay in the first-level cache.
const chunkElems = 4096

// Inputs makes the inputs of a case, each in its layout. They depend on the case's text and the schema alone.
func Inputs(s *opspec.Schema, c opspec.Case) (map[string]*tensor.Tensor, error) {
	prog, err := s.Compile()
	if err != nil {
		return nil, err
	}
	if err := checkCase(s, prog, c); err != nil {
		return nil, err
	}
	return inputs(s, prog, c)
}

// Check refuses a case that the schema would never have given. Inputs does, too.
func Check(s *opspec.Schema, c opspec.Case) error {
	prog, err := s.Compile()
	if err != nil {
		return err
	}
	return checkCase(s, prog, c)
}

// Inputs is the function of that name for a case that the stream has given: there is nothing to check in it.
func (s *Stream) Inputs(c opspec.Case) (map[string]*tensor.Tensor, error) {
	return inputs(s.schema, s.prog, c)
}

func inputs(s *opspec.Schema, prog *opspec.Program, c opspec.Case) (map[string]*tensor.Tensor, error) {
	dims, err := prog.Derive(c.DimMap(), c.AttrMap())
	if err != nil {
		return nil, err
	}
	named, err := namedShapes(s, prog, c)
	if err != nil {
		return nil, err
	}
	root := rng.New(c.Seed)
	out := make(map[string]*tensor.Tensor, len(c.Inputs))
	for i := range c.Inputs {
		ci, in := &c.Inputs[i], &s.Inputs[i]
		if err := checkIndex(prog, i, in, ci.Shape, dims, c.AttrMap()); err != nil {
			return nil, err
		}
		below, _, err := prog.Below(i, dims, c.AttrMap())
		if err != nil {
			return nil, err
		}
		shape := ci.Shape
		if named != nil {
			shape = named[in.Name]
		}
		t, err := makeInput(root, in, ci, shape, below)
		if err != nil {
			return nil, err
		}
		out[in.Name] = t
	}
	return out, nil
}

// namedShapes returns the shapes that the dimensions of a case give its inputs, nil where they have them.
func namedShapes(s *opspec.Schema, prog *opspec.Program, c opspec.Case) (map[string]tensor.Shape, error) {
	for i := range c.Inputs {
		if len(c.Inputs[i].Shape) != len(s.Inputs[i].Dims) {
			shapes, _, err := prog.Resolve(c.DimMap(), withDefaults(s, c.Attrs))
			return shapes, err
		}
	}
	return nil, nil
}

// checkCase refuses a case that the schema would never have given, whoever wrote its text.
func checkCase(s *opspec.Schema, prog *opspec.Program, c opspec.Case) error {
	fail := func(format string, args ...any) error {
		return diag.Errorf(CaseMismatch, "use the schema the case was made from", format, args...)
	}
	if c.Op != s.Name {
		return fail("case of operator %q used with the schema of %q", c.Op, s.Name)
	}
	if c.Gen != opspec.GenVersion {
		return diag.Errorf(CaseVersion, "use the gpuemu version that printed the case",
			"case of generator version %d, this is version %d", c.Gen, opspec.GenVersion)
	}
	if !slices.Contains(s.AllowedDTypes(), c.DType) {
		return fail("operator %q does not take dtype %s", s.Name, c.DType)
	}
	listed := s.CaseAttrs(withDefaults(s, c.Attrs))
	if len(c.Attrs) != len(listed) || len(c.Inputs) != len(s.Inputs) {
		return fail("case has %d attributes and %d inputs, the schema %d and %d",
			len(c.Attrs), len(c.Inputs), len(listed), len(s.Inputs))
	}
	for i, got := range c.Attrs {
		a, ok := s.Attr(listed[i].Name)
		if !ok || got.Name != a.Name || !kindMatches(a.EffectiveKind(), got.Value) {
			return fail("attribute %d is %q = %v, want %q of type %s",
				i, got.Name, got.Value, a.Name, a.EffectiveKind())
		}
	}
	shapes, _, err := prog.Shapes(&c, withDefaults(s, c.Attrs))
	if err != nil {
		return err
	}
	for i := range s.Inputs {
		in, got := &s.Inputs[i], &c.Inputs[i]
		elem, err := in.ElemType(c.DType, c.AttrMap())
		if err != nil {
			return err
		}
		if got.Name != in.Name || got.DType != elem || !got.Shape.Equal(shapes[in.Name]) {
			return fail("input %d is %s:%s%s, want %s:%s%s",
				i, got.Name, got.DType, got.Shape, in.Name, elem, shapes[in.Name])
		}
		if effectiveLayout(got.Layout, got.Shape, in) != got.Layout {
			return fail("input %q: layout %s does not exist for shape %s", in.Name, got.Layout, got.Shape)
		}
		if err := checkValues(in, got); err != nil {
			return err
		}
	}
	return nil
}

// withDefaults returns every attribute of the schema: as the case gives it, else its default.
func withDefaults(s *opspec.Schema, given []opspec.AttrValue) opspec.Attrs {
	all := s.DefaultAttrs()
	for _, a := range given {
		if _, ok := all[a.Name]; ok {
			all[a.Name] = a.Value
		}
	}
	return all
}

func kindMatches(k opspec.AttrKind, v any) bool {
	switch v.(type) {
	case int64:
		return k == opspec.Int
	case float64:
		return k == opspec.Float
	case bool:
		return k == opspec.Bool
	case string:
		return k == opspec.String
	}
	return false
}

// makeInput allocates one input in its layout and fills it in logical row-major order, so that the values do not
// depend on the layout (but for Broadcast, whose slices along the axis all equal the first). They are those of a tensor
// of the shape named, which has as many elements.
func makeInput(
	root *rng.RNG, in *opspec.Input, ci *opspec.CaseInput, named tensor.Shape, below int64,
) (*tensor.Tensor, error) {
	var params tensor.LayoutParams
	if ci.Layout != tensor.Contiguous {
		params = layoutParams(root.Derive("v1/layoutparams/"+in.Name), ci.Layout, ci.Shape, in)
	}
	t, err := tensor.Allocate(ci.DType, ci.Shape, ci.Layout, params)
	if err != nil {
		return nil, err
	}
	n := ci.Shape.Elems()
	if n == 0 {
		return t, nil
	}
	filled := *ci
	filled.Shape = named
	logical := t.Data
	if ci.Layout != tensor.Contiguous {
		logical = make([]byte, n*ci.DType.Size())
	}
	r := root.Derive("v1/values/" + in.Name)
	if in.Role == opspec.RoleIndex {
		if top := ci.DType.MaxFinite(); float64(below-1) > top {
			return nil, diag.Errorf(EmptyDomain, "", "input %q: index %d does not fit %s", in.Name, below-1, ci.DType)
		}
		fillRows(logical, &filled, indexFill(r, n, below, in.Domain), nil)
	} else if err := fillValues(logical, r, in, &filled); err != nil {
		return nil, err
	}
	if ci.Layout != tensor.Contiguous {
		t.SetBytes(logical)
	}
	return t, nil
}

func fillValues(dst []byte, r *rng.RNG, in *opspec.Input, ci *opspec.CaseInput) error {
	d, finite := findDistribution(ci.Values)
	lim, err := newLimits(ci.DType, in.Domain, finite)
	if err != nil {
		e, _ := err.(*diag.Error)
		e.Msg = "input " + in.Name + ": " + e.Msg
		return e
	}
	s := &source{limits: lim, r: r, shape: ci.Shape, n: 1, inner: 1, often: in.Often}
	if rank := len(ci.Shape); rank > 0 {
		s.n = ci.Shape[rank-1]
		if rank > 1 {
			s.inner = ci.Shape[rank-2]
		}
	}
	fill := d.start(s)
	finish := func(vals []float64) {
		if d.finish != nil {
			d.finish(s, vals)
		}
		s.fit(vals)
	}
	if d.rowwise {
		fillRows(dst, ci, fill, finish)
		return nil
	}
	n, size := ci.Shape.Elems(), ci.DType.Size()
	inChunks((n+chunkElems-1)/chunkElems, min(chunkElems, n+1), func(k int, buf []float64) []float64 {
		left := n - k*chunkElems
		vals := buf[:min(chunkElems, left+left%2)] // normal values come in pairs, of which the last one may be dropped
		fill(vals, k)
		return vals
	}, func(k int, vals []float64) {
		finish(vals)
		lo := k * chunkElems
		vals = vals[:min(len(vals), n-lo)]
		dtype.Encode(dst[lo*size:(lo+len(vals))*size], ci.DType, vals)
	})
	return nil
}

// fillRows makes whole rows, several at a time where they are short. finish may be nil.
func fillRows(dst []byte, ci *opspec.CaseInput, fill fillFunc, finish func([]float64)) {
	n := 1
	if rank := len(ci.Shape); rank > 0 {
		n = ci.Shape[rank-1]
	}
	rows := ci.Shape.Elems() / n
	group := min(max(chunkElems/n, 1), rows)
	size := ci.DType.Size()
	inChunks((rows+group-1)/group, group*n, func(k int, buf []float64) []float64 {
		first := k * group
		vals := buf[:min(group, rows-first)*n]
		for row := range len(vals) / n {
			fill(vals[row*n:(row+1)*n], first+row)
		}
		return vals
	}, func(k int, vals []float64) {
		if finish != nil {
			finish(vals)
		}
		lo := k * group * n
		dtype.Encode(dst[lo*size:(lo+len(vals))*size], ci.DType, vals)
	})
}

// inChunks draws the values of a tensor chunk after chunk, each into a buffer of the given length, and finishes them.
// Only the draws have an order: whoever holds the lock draws the next chunk, and finishes it when the lock is free for
// others, so that the values do not depend on the number of goroutines.
func inChunks(chunks, length int, draw func(k int, buf []float64) []float64, finish func(k int, vals []float64)) {
	var lock sync.Mutex
	next := 0
	work := func() {
		buf := chunkBuffer(length)
		for {
			lock.Lock()
			k := next
			if k >= chunks {
				lock.Unlock()
				if cap(*buf) <= maxBuffer {
					buffers.Put(buf)
				}
				return
			}
			next++
			vals := draw(k, (*buf)[:length])
			lock.Unlock()
			finish(k, vals)
		}
	}
	var helpers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), chunks/2) - 1 { // a start pays off from a few chunks on
		helpers.Go(work)
	}
	work()
	helpers.Wait()
}

// buffers are those of chunks that are done. New memory would have to be cleared, and a draw sets every element.
var buffers sync.Pool

// maxBuffer bounds the elements of a buffer that is kept: one of long rows is rare, and kept memory is nobody else's.
const maxBuffer = 8 * chunkElems

// chunkBuffer returns a buffer of at least that length, with anything in it.
func chunkBuffer(length int) *[]float64 {
	if b, _ := buffers.Get().(*[]float64); b != nil && cap(*b) >= length {
		*b = (*b)[:cap(*b)]
		return b
	}
	b := make([]float64, length)
	return &b
}
