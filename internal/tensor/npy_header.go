package tensor

// This file implements the parser of .npy headers. The text is a Python dict literal; what is accepted is the
// subset that numpy.save writes for plain arrays, with keys in any order. Nothing is ever evaluated.

import (
	"strconv"
	"strings"

	"gpuemu/internal/diag"
)

// npyHeader is what a header says.
type npyHeader struct {
	descr   string
	fortran bool
	dims    []int64
}

// npyParser walks through the text of a header.
type npyParser struct {
	text string
	at   int
}

func (p *npyParser) fault(format string, args ...any) error {
	e := diag.Errorf(NPYHeader, "save a plain array with numpy.save", format, args...)
	e.Msg = "npy: header byte " + strconv.Itoa(p.at) + ": " + e.Msg
	return e
}

func (p *npyParser) skipSpaces() {
	for p.at < len(p.text) && p.text[p.at] == ' ' {
		p.at++
	}
}

// accept skips spaces and then tok, if it is next.
func (p *npyParser) accept(tok string) bool {
	p.skipSpaces()
	if !strings.HasPrefix(p.text[p.at:], tok) {
		return false
	}
	p.at += len(tok)
	return true
}

func (p *npyParser) expect(tok string) error {
	if !p.accept(tok) {
		return p.fault("got %s, want %q", p.next(), tok)
	}
	return nil
}

// next quotes a little of what comes next for an error message.
func (p *npyParser) next() string {
	rest := p.text[p.at:]
	if rest == "" {
		return "the end"
	}
	return strconv.Quote(rest[:min(len(rest), 12)])
}

func (p *npyParser) parse() (npyHeader, error) {
	var h npyHeader
	if err := p.expect("{"); err != nil {
		return h, err
	}
	seen := map[string]bool{}
	for !p.accept("}") {
		if err := p.item(&h, seen); err != nil {
			return h, err
		}
		if !p.accept(",") {
			if err := p.expect("}"); err != nil {
				return h, err
			}
			break
		}
	}
	for _, key := range []string{"descr", "fortran_order", "shape"} {
		if !seen[key] {
			return h, p.fault("key %q is missing", key)
		}
	}
	if err := p.expect("\n"); err != nil {
		return h, err
	}
	if p.at != len(p.text) {
		return h, p.fault("got %s after the end of the header", p.next())
	}
	return h, nil
}

// item reads one key and its value.
func (p *npyParser) item(h *npyHeader, seen map[string]bool) error {
	key, err := p.str()
	if err != nil {
		return err
	}
	if seen[key] {
		return p.fault("key %s stands there twice", quote(key))
	}
	seen[key] = true
	if err := p.expect(":"); err != nil {
		return err
	}
	switch key {
	case "descr":
		if p.accept("[") {
			return diag.Errorf(NPYDType, "save each field as an array of its own",
				"npy: structured arrays are not supported")
		}
		h.descr, err = p.str()
	case "fortran_order":
		switch {
		case p.accept("True"):
			h.fortran = true
		case !p.accept("False"):
			err = p.fault("got %s, want True or False", p.next())
		}
	case "shape":
		h.dims, err = p.tuple()
	default:
		err = p.fault("unknown key %s", quote(key))
	}
	return err
}

// str reads a string in either quote. Nothing read here needs an escape, so a backslash is an error.
func (p *npyParser) str() (string, error) {
	p.skipSpaces()
	start := p.at
	if start == len(p.text) || (p.text[start] != '\'' && p.text[start] != '"') {
		return "", p.fault("got %s, want a string", p.next())
	}
	end := strings.IndexByte(p.text[start+1:], p.text[start])
	if end < 0 {
		return "", p.fault("string has no end")
	}
	s := p.text[start+1 : start+1+end]
	if strings.ContainsAny(s, "\\\n") {
		return "", p.fault("string %s has an escape or a line break", quote(s))
	}
	p.at = start + end + 2
	return s, nil
}

// tuple reads (), (3,) or (3, 4) with an optional last comma. A single number without a comma is no tuple.
func (p *npyParser) tuple() ([]int64, error) {
	if err := p.expect("("); err != nil {
		return nil, err
	}
	dims := make([]int64, 0, MaxRank)
	for !p.accept(")") {
		d, err := p.integer()
		if err != nil {
			return nil, err
		}
		if len(dims) == MaxRank {
			return nil, diag.Errorf(ShapeRank, "merge dimensions before testing",
				"npy: shape has more than %d dimensions", MaxRank)
		}
		dims = append(dims, d)
		if !p.accept(",") {
			if len(dims) == 1 {
				return nil, p.fault("got %s, want \",\" after the only dimension", p.next())
			}
			if err := p.expect(")"); err != nil {
				return nil, err
			}
			break
		}
	}
	return dims, nil
}

// integer reads a decimal integer without leading zeros. A minus sign is read, so that a negative dimension gets
// the message it deserves from ParseShape.
func (p *npyParser) integer() (int64, error) {
	p.skipSpaces()
	end := p.at
	if end < len(p.text) && p.text[end] == '-' {
		end++
	}
	digits := end
	for end < len(p.text) && p.text[end] >= '0' && p.text[end] <= '9' {
		end++
	}
	if end == digits || (p.text[digits] == '0' && end > digits+1) {
		return 0, p.fault("got %s, want a dimension", p.next())
	}
	v, err := strconv.ParseInt(p.text[p.at:end], 10, 64)
	if err != nil {
		return 0, p.fault("dimension %s does not fit in 64 bits", cut(p.text[p.at:end]))
	}
	p.at = end
	return v, nil
}
