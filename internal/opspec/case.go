// This file implements the canonical text of a case.

package opspec

import (
	"math"
	"strconv"
	"strings"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

// GenVersion is the version of the rules by which a Case becomes input bytes. It is part of every case, so that
// an old case is refused, not silently regenerated differently, should the rules ever change.
const GenVersion = 1

// Case is one concrete choice of everything a schema leaves open. Together with the schema it determines the
// bytes of all inputs.
//
// Its text is one line:
//
//	softmax dtype=float32 dims=B:4,S:16,H:257 attrs=axis:-1 in=input:float32[4,16,257]:strided:offset seed=88 gen=1
//
// Fields are separated by one space and stand in this order; dims and attrs are left out when empty, and so is a quiet
// attribute that has its default (Schema.CaseAttrs); "in=" is repeated for each input (name, dtype, shape, layout,
// value distribution). Names that are not made of letters, digits and _ . / - alone are written as Go string literals.
// Floats are the shortest decimal that reads back to the same float64 and always have a point, an exponent or the word
// Inf, which tells them from integers.
type Case struct {
	Op     string
	DType  dtype.DType
	Dims   []DimValue
	Attrs  []AttrValue
	Inputs []CaseInput
	Seed   uint64
	Gen    int
}

// DimValue is the size of one dimension.
type DimValue struct {
	Name  string
	Value int
}

// AttrValue is the value of one attribute: int64, float64, bool or string.
type AttrValue struct {
	Name  string
	Value any
}

// CaseInput says how one input of a case is made.
type CaseInput struct {
	Name   string
	DType  dtype.DType
	Shape  tensor.Shape
	Layout tensor.Layout
	Values string // value distribution
}

// DimMap returns the dimensions by name.
func (c Case) DimMap() map[string]int {
	m := make(map[string]int, len(c.Dims))
	for _, d := range c.Dims {
		m[d.Name] = d.Value
	}
	return m
}

// AttrMap returns the attributes by name.
func (c Case) AttrMap() Attrs {
	m := make(Attrs, len(c.Attrs))
	for _, a := range c.Attrs {
		m[a.Name] = a.Value
	}
	return m
}

// Input returns the input of that name.
func (c Case) Input(name string) (CaseInput, bool) {
	for _, in := range c.Inputs {
		if in.Name == name {
			return in, true
		}
	}
	return CaseInput{}, false
}

// String returns the canonical text.
func (c Case) String() string {
	b := make([]byte, 0, 256)
	b = appendName(b, c.Op)
	b = append(b, " dtype="...)
	b = append(b, c.DType.String()...)
	for i, d := range c.Dims {
		b = appendSep(b, i, " dims=")
		b = appendName(b, d.Name)
		b = append(b, ':')
		b = strconv.AppendInt(b, int64(d.Value), 10)
	}
	for i, a := range c.Attrs {
		b = appendSep(b, i, " attrs=")
		b = appendName(b, a.Name)
		b = append(b, ':')
		b = appendAttr(b, a.Value)
	}
	for _, in := range c.Inputs {
		b = append(b, " in="...)
		b = appendName(b, in.Name)
		b = append(b, ':')
		b = append(b, in.DType.String()...)
		b = append(b, '[')
		for i, n := range in.Shape {
			b = appendSep(b, i, "")
			b = strconv.AppendInt(b, int64(n), 10)
		}
		b = append(b, "]:"...)
		b = append(b, in.Layout.String()...)
		b = append(b, ':')
		b = appendName(b, in.Values)
	}
	b = append(b, " seed="...)
	b = strconv.AppendUint(b, c.Seed, 10)
	b = append(b, " gen="...)
	b = strconv.AppendInt(b, int64(c.Gen), 10)
	return string(b)
}

// appendSep writes what stands in front of item i of a list.
func appendSep(b []byte, i int, first string) []byte {
	if i == 0 {
		return append(b, first...)
	}
	return append(b, ',')
}

func isBareByte(c byte) bool {
	return isNameByte(c, false) || c == '.' || c == '/' || c == '-'
}

// isBare reports whether s is written without quotes as a name: it starts with a letter or underscore, so that
// it cannot be taken for a number.
func isBare(s string) bool {
	if s == "" || !isNameByte(s[0], true) {
		return false
	}
	for i := 1; i < len(s); i++ {
		if !isBareByte(s[i]) {
			return false
		}
	}
	return true
}

func appendName(b []byte, s string) []byte {
	if isBare(s) {
		return append(b, s...)
	}
	return strconv.AppendQuoteToASCII(b, s)
}

func appendAttr(b []byte, v any) []byte {
	switch x := v.(type) {
	case int64:
		return strconv.AppendInt(b, x, 10)
	case int:
		return strconv.AppendInt(b, int64(x), 10)
	case bool:
		return strconv.AppendBool(b, x)
	case float64:
		return appendFloat(b, x)
	case string:
		if isWord(x) {
			return strconv.AppendQuoteToASCII(b, x)
		}
		return appendName(b, x)
	}
	return append(b, "invalid"...)
}

// isWord reports whether a bare s would be read as something else than a string.
func isWord(s string) bool { return s == "true" || s == "false" || s == "Inf" }

func appendFloat(b []byte, x float64) []byte {
	switch {
	case math.IsInf(x, 1):
		return append(b, "Inf"...)
	case math.IsInf(x, -1):
		return append(b, "-Inf"...)
	}
	start := len(b)
	b = strconv.AppendFloat(b, x, 'g', -1, 64)
	for _, c := range b[start:] {
		if c == '.' || c == 'e' {
			return b
		}
	}
	return append(b, ".0"...)
}

// MaxCaseBytes limits the text of a case; one with every limit of a schema exhausted stays below it.
const MaxCaseBytes = 1 << 20

// ParseCase reads the canonical text of a case. It accepts exactly what String writes.
func ParseCase(text string) (Case, error) {
	if len(text) > MaxCaseBytes {
		return Case{}, diag.Errorf(CaseSyntax, "", "case of %d bytes, limit %d", len(text), MaxCaseBytes)
	}
	p := &caseParser{text: text}
	c, err := p.parse()
	if err != nil {
		return Case{}, err
	}
	// One text per case: anything else (leading zeros, "1e5" for 100000.0, needless quotes) would make two
	// names for one thing in stores and receipts.
	if canonical := c.String(); canonical != text {
		i := 0
		for i < len(text) && i < len(canonical) && text[i] == canonical[i] {
			i++
		}
		p.pos = i
		return Case{}, p.errorf("not in canonical form, want %q", clip(canonical[i:]))
	}
	return c, nil
}

func clip(s string) string {
	const most = 40
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

type caseParser struct {
	text string
	pos  int
}

func (p *caseParser) errorf(format string, args ...any) error {
	e := diag.Errorf(CaseSyntax, "a case is the whole line that gpuemu printed, in one piece", format, args...)
	e.Pos = diag.Pos{File: "case", Line: 1, Col: p.pos + 1}
	return e
}

func (p *caseParser) parse() (Case, error) {
	var c Case
	var err error
	if c.Op, err = p.name(); err != nil {
		return c, err
	}
	if err = p.literal(" dtype="); err != nil {
		return c, err
	}
	if c.DType, err = p.dtype(); err != nil {
		return c, err
	}
	if err = p.list(" dims=", MaxDims, func() error { return p.dim(&c) }); err != nil {
		return c, err
	}
	if err = p.list(" attrs=", MaxAttrs, func() error { return p.attr(&c) }); err != nil {
		return c, err
	}
	for p.skip(" in=") {
		if len(c.Inputs) == MaxInputs {
			return c, p.errorf("more than %d inputs", MaxInputs)
		}
		if err = p.input(&c); err != nil {
			return c, err
		}
	}
	if err = p.literal(" seed="); err != nil {
		return c, err
	}
	start := p.pos
	if c.Seed, err = strconv.ParseUint(p.digits(), 10, 64); err != nil {
		p.pos = start
		return c, p.errorf("seed is not an unsigned 64-bit number")
	}
	if err = p.literal(" gen="); err != nil {
		return c, err
	}
	if c.Gen, err = p.int("generator version"); err != nil {
		return c, err
	}
	if p.pos != len(p.text) {
		return c, p.errorf("unexpected %q after the case", clip(p.text[p.pos:]))
	}
	return c, nil
}

func (p *caseParser) skip(lit string) bool {
	if strings.HasPrefix(p.text[p.pos:], lit) {
		p.pos += len(lit)
		return true
	}
	return false
}

func (p *caseParser) literal(lit string) error {
	if !p.skip(lit) {
		return p.errorf("got %q, want %q", clip(p.text[p.pos:]), lit)
	}
	return nil
}

// list reads comma-separated items after lit, or nothing if lit does not follow.
func (p *caseParser) list(lit string, most int, item func() error) error {
	if !p.skip(lit) {
		return nil
	}
	for n := 1; ; n++ {
		if n > most {
			return p.errorf("more than %d entries", most)
		}
		if err := item(); err != nil {
			return err
		}
		if !p.skip(",") {
			return nil
		}
	}
}

func (p *caseParser) name() (string, error) {
	rest := p.text[p.pos:]
	if strings.HasPrefix(rest, `"`) {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return "", p.errorf("string %q is not closed or has a bad escape", clip(rest))
		}
		s, err := strconv.Unquote(quoted)
		if err != nil {
			return "", p.errorf("string %q has a bad escape", clip(quoted))
		}
		p.pos += len(quoted)
		return s, nil
	}
	n := 0
	for n < len(rest) && isBareByte(rest[n]) {
		n++
	}
	if !isBare(rest[:n]) {
		return "", p.errorf("got %q, want a name", clip(rest))
	}
	p.pos += n
	return rest[:n], nil
}

func (p *caseParser) dtype() (dtype.DType, error) {
	start := p.pos
	name, err := p.name()
	if err != nil {
		return dtype.Invalid, err
	}
	d, err := dtype.Parse(name)
	if err != nil {
		p.pos = start
		return dtype.Invalid, p.errorf("unknown dtype %q", name)
	}
	return d, nil
}

func (p *caseParser) digits() string {
	start := p.pos
	for p.pos < len(p.text) && '0' <= p.text[p.pos] && p.text[p.pos] <= '9' {
		p.pos++
	}
	return p.text[start:p.pos]
}

func (p *caseParser) int(what string) (int, error) {
	start := p.pos
	v, err := strconv.ParseInt(p.digits(), 10, 64)
	if err != nil || v > MaxDimValue {
		p.pos = start
		return 0, p.errorf("%s is not a number in 0..%d", what, MaxDimValue)
	}
	return int(v), nil
}

func (p *caseParser) dim(c *Case) error {
	name, err := p.name()
	if err != nil {
		return err
	}
	for _, d := range c.Dims {
		if d.Name == name {
			return p.errorf("dim %q stands twice", name)
		}
	}
	if err := p.literal(":"); err != nil {
		return err
	}
	v, err := p.int("dimension")
	c.Dims = append(c.Dims, DimValue{name, v})
	return err
}

func (p *caseParser) attr(c *Case) error {
	name, err := p.name()
	if err != nil {
		return err
	}
	for _, a := range c.Attrs {
		if a.Name == name {
			return p.errorf("attribute %q stands twice", name)
		}
	}
	if err := p.literal(":"); err != nil {
		return err
	}
	v, err := p.attrValue()
	c.Attrs = append(c.Attrs, AttrValue{name, v})
	return err
}

func (p *caseParser) attrValue() (any, error) {
	rest := p.text[p.pos:]
	if strings.HasPrefix(rest, `"`) {
		return p.name()
	}
	n := 0
	for n < len(rest) && (isBareByte(rest[n]) || rest[n] == '+') {
		n++
	}
	word := rest[:n]
	switch {
	case word == "true" || word == "false":
		p.pos += n
		return word == "true", nil
	case word == "Inf" || word == "-Inf":
		p.pos += n
		return math.Inf(map[string]int{"Inf": 1, "-Inf": -1}[word]), nil
	case isBare(word):
		return p.name()
	}
	if !strings.ContainsAny(word, ".e") {
		if v, err := strconv.ParseInt(word, 10, 64); err == nil {
			p.pos += n
			return v, nil
		}
	} else if v, err := strconv.ParseFloat(word, 64); err == nil {
		p.pos += n
		return v, nil
	}
	return nil, p.errorf("got %q, want an attribute value", clip(rest))
}

func (p *caseParser) input(c *Case) error {
	var in CaseInput
	var err error
	if in.Name, err = p.name(); err != nil {
		return err
	}
	if _, dup := c.Input(in.Name); dup {
		return p.errorf("input %q stands twice", in.Name)
	}
	if err = p.literal(":"); err != nil {
		return err
	}
	if in.DType, err = p.dtype(); err != nil {
		return err
	}
	if in.Shape, err = p.shape(); err != nil {
		return err
	}
	if err = p.literal(":"); err != nil {
		return err
	}
	start := p.pos
	layout, err := p.name()
	if err != nil {
		return err
	}
	if in.Layout, err = tensor.ParseLayout(layout); err != nil {
		p.pos = start
		return p.errorf("unknown layout %q", layout)
	}
	if err = p.literal(":"); err != nil {
		return err
	}
	in.Values, err = p.name()
	c.Inputs = append(c.Inputs, in)
	return err
}

func (p *caseParser) shape() (tensor.Shape, error) {
	start := p.pos
	if err := p.literal("["); err != nil {
		return nil, err
	}
	var dims []int64
	for !p.skip("]") {
		if len(dims) > 0 {
			if err := p.literal(","); err != nil {
				return nil, err
			}
		}
		if len(dims) > tensor.MaxRank {
			return nil, p.errorf("more than %d dimensions", tensor.MaxRank)
		}
		v, err := p.int("dimension")
		if err != nil {
			return nil, err
		}
		dims = append(dims, int64(v))
	}
	s, err := tensor.ParseShape(dims)
	if err != nil {
		p.pos = start
		return nil, p.errorf("%s", message(err))
	}
	return s, nil
}
