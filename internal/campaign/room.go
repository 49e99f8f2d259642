package campaign

import (
	"context"

	"gpuemu/internal/diag"
	"gpuemu/internal/opspec"
)

// This file implements how large the case of a request may be, and who is asked for its memory.

const (
	// MaxCaseBytes is the largest case that is made because a request names it, inputs and outputs together: a hundred
	// times what generators make, and small enough for a machine that also holds the expected values in float64.
	MaxCaseBytes = 1 << 30
	// judged is how many bytes are in memory for a byte of a case that is judged: in the narrowest common type, of two
	// bytes, the value itself, the expected value and its bound in float64, and what the comparison keeps.
	judged = 10
)

// Hold gives n bytes of memory to a case, before they are allocated, until the result is called. Without it there is
// no limit on all cases together.
type Hold func(n int64) (release func(), err error)

// bytes is the size of a case: inputs and outputs. It is an error where that is more than MaxCaseBytes.
func (s *subject) bytes(c opspec.Case) (int64, error) {
	n := int64(0)
	for i := range c.Inputs {
		in := &c.Inputs[i]
		n += int64(in.Shape.Elems()) * int64(in.DType.Size())
	}
	if shapes, types, err := s.outputs(c); err == nil { // what the schema does not allow is refused by whoever needs it
		for i := range shapes {
			n += int64(shapes[i].Elems()) * int64(types[i].Size())
		}
	}
	if n > MaxCaseBytes {
		return n, diag.Errorf(CaseTooLarge, "use smaller dimensions, or a narrower dtype",
			"inputs and outputs of the case have %d bytes, at most %d are allowed", n, int64(MaxCaseBytes))
	}
	return n, nil
}

// hold asks for the memory of a case, times a factor.
func (e *Engine) hold(s *subject, c opspec.Case, factor int64) (release func(), err error) {
	n, err := s.bytes(c)
	if err != nil {
		return nil, err
	}
	if e.Hold == nil {
		return func() {}, nil
	}
	return e.Hold(factor * n)
}

// holdFor is hold for as long as a request lasts.
func (e *Engine) holdFor(ctx context.Context, s *subject, c opspec.Case, factor int64) error {
	release, err := e.hold(s, c, factor)
	if err == nil {
		context.AfterFunc(ctx, release)
	}
	return err
}
