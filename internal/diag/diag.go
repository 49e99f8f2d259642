// Package diag holds the one error type that users may see: a message with a place, a stable code and a next step.
//
// It does not decide how an error is printed beyond its one-line form; that is the command line's and the daemon's
// business. Codes are declared, each with a doc sentence, in the file codes.go of the package that reports them.
package diag

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Pos is a place in an input file. Lines and columns count from 1; the zero Pos means "no position", and a zero
// Line or Col means that this part is not known.
type Pos struct {
	File      string
	Line, Col int
}

// IsZero reports whether p holds no position at all.
func (p Pos) IsZero() bool { return p == Pos{} }

// String returns "file:line:col" without the parts that are not known.
func (p Pos) String() string {
	var parts []string
	if p.File != "" {
		parts = append(parts, p.File)
	}
	if p.Line > 0 {
		parts = append(parts, strconv.Itoa(p.Line))
		if p.Col > 0 {
			parts = append(parts, strconv.Itoa(p.Col))
		}
	}
	return strings.Join(parts, ":")
}

// Code names a kind of error for good: it is documented where it is declared, listed in docs/errors.md and never
// reused for something else. The form is package-what, for example "tensor-shape-limit".
type Code string

// Error is an error for the user: where, what happened, which kind, and what to do next.
type Error struct {
	Pos  Pos
	Code Code
	Msg  string // lower case, no full stop, without the position and without the code
	Hint string // the next step; "" when there is none worth saying
	Err  error  // the cause, whose text is already part of Msg; nil when there is none
}

// Errorf returns an Error without a position. The format takes %w as in fmt.Errorf; what it wraps becomes Err.
func Errorf(code Code, hint, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	e := &Error{Code: code, Msg: err.Error(), Hint: hint}
	switch err.(type) {
	case interface{ Unwrap() []error }:
		e.Err = err // several causes: keep the joined error, so that errors.Is sees each of them
	default:
		e.Err = errors.Unwrap(err)
	}
	return e
}

// At sets the position and returns e, so that it can close an expression: diag.Errorf(…).At(tok.Pos).
func (e *Error) At(pos Pos) *Error {
	e.Pos = pos
	return e
}

// Error returns "file:line:col: msg [code]" on one line; the hint is not part of it.
func (e *Error) Error() string {
	var b strings.Builder
	if pos := e.Pos.String(); pos != "" {
		b.WriteString(pos)
		b.WriteString(": ")
	}
	b.WriteString(e.Msg)
	if e.Code != "" {
		b.WriteString(" [")
		b.WriteString(string(e.Code))
		b.WriteString("]")
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// HintOf returns the outermost hint in err's chain, or "". Besides *Error it knows errors with a method
// Hint() string, so that a package that cannot import diag (internal/dtype) can still say what to do next.
func HintOf(err error) string {
	var hint string
	walk(err, func(err error) bool {
		switch e := err.(type) {
		case *Error:
			hint = e.Hint
		case interface{ Hint() string }:
			hint = e.Hint()
		}
		return hint != ""
	})
	return hint
}

// CodeOf returns the outermost code in err's chain, or "".
func CodeOf(err error) Code {
	var code Code
	walk(err, func(err error) bool {
		if e, ok := err.(*Error); ok {
			code = e.Code
		}
		return code != ""
	})
	return code
}

// walk visits err and what it wraps, depth first as errors.As does, until found says so. errors.As itself would stop
// at the first *Error even when that one has no hint and the one below it has.
func walk(err error, found func(error) bool) bool {
	for err != nil {
		if e, ok := err.(*Error); ok && e == nil {
			return false
		}
		if found(err) {
			return true
		}
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			for _, inner := range e.Unwrap() {
				if walk(inner, found) {
					return true
				}
			}
			return false
		default:
			return false
		}
	}
	return false
}
