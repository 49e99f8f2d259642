// Package formula reads the expressions of gpuemu.toml that say how a kernel is launched: ceil(N / 256) blocks, the
// argument float32(eps).
//
// The syntax is that of github.com/expr-lang/expr, of which only the parser is used. What is allowed of it is listed in
// compile.go and nothing else is: names, numbers, arithmetic, comparisons, a choice, sizes of tensors and a few
// functions. Whole numbers stay whole: they have 64 bits, a / b rounds down as it does in [ops.schema], and what does
// not fit is an error. Every part of a text is computed at most once, so that a launch costs no more than its text is
// long.
//
// The main types are Formula, a text that was read, and Program, a formula whose names are known. It knows no files:
// errors have the column in the text, and Place gives them their line.
package formula

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
)

// MaxLen is how long a text may be, in bytes. The longest of a real launch has some 60.
const MaxLen = 512

// Kind is what a value is.
type Kind uint8

// Kinds.
const (
	KindUnset Kind = iota
	Int            // 64 bits
	Float          // float64
	Bool
	Text
	Tensor
)

var kindNames = [...]string{"nothing", "a whole number", "a number with a fraction", "true or false", "a text",
	"a tensor"}

// String says it in words.
func (k Kind) String() string { return kindNames[k] }

// Value is what a formula gives.
type Value struct {
	Kind   Kind
	Int    int64 // of Bool: 1 is true
	Float  float64
	Text   string
	Tensor *Memory
}

// Memory is what a formula may ask of a tensor.
type Memory struct {
	Name    string
	DType   dtype.DType
	Shape   []int
	Strides []int // in elements
}

// Formula is a text that was read. Its names are not known yet.
type Formula struct {
	text string
	root ast.Node
}

// Parse reads a text.
func Parse(text string) (*Formula, error) {
	f := &Formula{text: text}
	switch {
	case len(text) > MaxLen:
		return nil, diag.Errorf(Syntax, "use fewer words", "an expression of %d bytes, at most %d are read", len(text),
			MaxLen)
	case !utf8.ValidString(text) || strings.ContainsAny(text, "\n\r"):
		return nil, f.fault(Syntax, 0, "write it in one line", "it is not a line of text")
	}
	for _, comment := range []string{"//", "/*"} { // to the parser the rest would be a comment, and the division gone
		if i := strings.Index(text, comment); i >= 0 {
			return nil, f.fault(Syntax, utf8.RuneCountInString(text[:i]), "a / b rounds down, ceil(a / b) rounds up",
				"there is no operator %s", comment)
		}
	}
	tree, err := new(parser.Parser).Parse(text, nil)
	if err != nil {
		at, msg := 0, err.Error()
		var e *file.Error
		if errors.As(err, &e) {
			at, msg = e.From, e.Message
		}
		return nil, f.fault(Syntax, at, "write it as ceil(N / 256) or x.shape[0] * 4", "%s", msg)
	}
	f.root = tree.Node
	return f, nil
}

// String is the text.
func (f *Formula) String() string { return f.text }

// fault is an error at a character of the text, counted from 0.
func (f *Formula) fault(code diag.Code, at int, hint, format string, args ...any) *diag.Error {
	e := diag.Errorf(code, hint, format, args...)
	e.Msg = "in \"" + f.text + "\": " + e.Msg
	e.Pos.Col = at + 1
	return e
}

// Place gives an error of this package its place, where the text begins at pos.
func Place(err error, pos diag.Pos) error {
	var e *diag.Error
	if errors.As(err, &e) && e.Pos.Line == 0 {
		if col := e.Pos.Col; col > 0 && pos.Col > 0 {
			pos.Col += col - 1
		}
		e.Pos = pos
	}
	return err
}
