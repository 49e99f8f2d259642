package ptx

import (
	"fmt"
	"strings"

	"gpuemu/internal/diag"
)

// This file implements the division of a text into tokens.

// kind is what a token is. Punctuation that is one byte has that byte as its kind.
type kind uint8

const (
	tokEOF    kind = iota
	tokIdent       // a name: foo, %r1, $L__BB0_2, _
	tokDot         // a directive or modifier with its dot: .reg, .v4, .shared::cta
	tokInt         // 12, 0x1F, 017, 0b11, 12U
	tokFloat       // 1.5, 2e3
	tokF32         // 0f3F800000
	tokF64         // 0d3FF0000000000000
	tokString      // "text", with its quotes
	tokShl         // <<
	tokShr         // >>
	tokLE          // <=
	tokGE          // >=
	tokEQ          // ==
	tokNE          // !=
	tokAndAnd      // &&
	tokOrOr        // ||
)

// token is a piece of the text. Its text is src[pos:end].
type token struct {
	kind     kind
	pos, end int32
}

// Classes of bytes.
const (
	clsSpace   = 1 << iota
	clsBegin   // begins a name
	clsFollow  // continues a name
	clsDigit   // 0 to 9
	clsHex     // 0 to 9, a to f
	clsSingle  // is a token of its own
	clsNewline // ends a line
)

var class = func() (t [256]uint8) {
	for _, c := range " \t\r\v\f\n" {
		t[c] |= clsSpace
	}
	t['\n'] |= clsNewline
	for c := '0'; c <= '9'; c++ {
		t[c] |= clsDigit | clsHex | clsFollow
	}
	for c := 'a'; c <= 'z'; c++ {
		t[c] |= clsBegin | clsFollow
		t[c-'a'+'A'] |= clsBegin | clsFollow
	}
	for c := 'a'; c <= 'f'; c++ {
		t[c] |= clsHex
		t[c-'a'+'A'] |= clsHex
	}
	t['_'] |= clsBegin | clsFollow
	t['$'] |= clsBegin | clsFollow
	t['%'] |= clsBegin
	for _, c := range ";,[]{}()+-*/&|^~!?:@=<>" {
		t[c] |= clsSingle
	}
	return t
}()

// lexer divides a text into tokens.
type lexer struct {
	name string
	src  string
	at   int32
}

// next returns the next token. Comments and white space are no tokens.
func (l *lexer) next() (token, error) {
	if err := l.skipSpace(); err != nil {
		return token{}, err
	}
	src, at := l.src, int(l.at)
	if at >= len(src) {
		return token{kind: tokEOF, pos: l.at, end: l.at}, nil
	}
	c := src[at]
	end := at + 1
	k := kind(c)
	switch {
	case class[c]&clsBegin != 0:
		for end < len(src) && class[src[end]]&clsFollow != 0 {
			end++
		}
		if k = tokIdent; c == '%' && end == at+1 {
			k = '%'
		}
	case c == '.':
		end = dotEnd(src, end)
		if end == at+1 {
			return token{}, l.fault(BadLiteral, at, "", "a dot stands alone")
		}
		k = tokDot
	case class[c]&clsDigit != 0:
		var err error
		if k, end, err = l.number(at); err != nil {
			return token{}, err
		}
	case c == '"':
		for end < len(src) && src[end] != '"' && src[end] != '\n' {
			if src[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(src) || src[end] != '"' {
			return token{}, l.fault(BadLiteral, at, "close it with \" on the same line", "a string has no end")
		}
		end++
		k = tokString
	case class[c]&clsSingle != 0:
		if end < len(src) {
			if two := pair(c, src[end]); two != 0 {
				k = two
				end++
			}
		}
	case c == '#':
		return token{}, l.fault(Syntax, at, "run the preprocessor first", "preprocessor lines are not read")
	default:
		return token{}, l.fault(Syntax, at, "", "%s cannot stand here", quoteByte(c))
	}
	l.at = int32(end)
	return token{k, int32(at), int32(end)}, nil
}

// dotEnd is where a directive or modifier ends whose dot stands before at. Parts are joined by "::".
func dotEnd(src string, at int) int {
	for at < len(src) {
		switch {
		case class[src[at]]&clsFollow != 0:
			at++
		case src[at] == ':' && at+2 < len(src) && src[at+1] == ':' && class[src[at+2]]&clsFollow != 0:
			at += 2
		default:
			return at
		}
	}
	return at
}

func pair(a, b byte) kind {
	switch {
	case a == '<' && b == '<':
		return tokShl
	case a == '>' && b == '>':
		return tokShr
	case a == '<' && b == '=':
		return tokLE
	case a == '>' && b == '=':
		return tokGE
	case a == '=' && b == '=':
		return tokEQ
	case a == '!' && b == '=':
		return tokNE
	case a == '&' && b == '&':
		return tokAndAnd
	case a == '|' && b == '|':
		return tokOrOr
	}
	return 0
}

func (l *lexer) skipSpace() error {
	src, at := l.src, int(l.at)
	for at < len(src) {
		c := src[at]
		switch {
		case class[c]&clsSpace != 0:
			at++
		case c == '/' && strings.HasPrefix(src[at:], "//"):
			n := strings.IndexByte(src[at:], '\n')
			if n < 0 {
				n = len(src) - at
			}
			at += n
		case c == '/' && strings.HasPrefix(src[at:], "/*"):
			n := strings.Index(src[at+2:], "*/")
			if n < 0 {
				return l.fault(Syntax, at, "close it with */", "a comment has no end")
			}
			at += n + 4
		default:
			l.at = int32(at)
			return nil
		}
	}
	l.at = int32(at)
	return nil
}

// number finds kind and end of a number that begins at at.
func (l *lexer) number(at int) (kind, int, error) {
	src, k, end := l.src, tokInt, at+1
	bad := func(format string, args ...any) (kind, int, error) {
		return 0, 0, l.fault(BadLiteral, at, "", format, args...)
	}
	var second byte
	if src[at] == '0' && end < len(src) {
		second = src[end] | 0x20
	}
	digits := func(cls uint8) int {
		begin := end
		for end < len(src) && class[src[end]]&cls != 0 {
			end++
		}
		return end - begin
	}
	switch second {
	case 'x':
		end++
		if digits(clsHex) == 0 {
			return bad("a hexadecimal number has no digits")
		}
	case 'b':
		end++
		if digits(clsDigit) == 0 {
			return bad("a binary number has no digits")
		}
	case 'f':
		end++
		if n := digits(clsHex); n != 8 {
			return bad("0f is followed by %d hexadecimal digits, not 8", n)
		}
		k = tokF32
	case 'd':
		end++
		if n := digits(clsHex); n != 16 {
			return bad("0d is followed by %d hexadecimal digits, not 16", n)
		}
		k = tokF64
	default:
		digits(clsDigit)
		// As in C, digits may follow the point or not: Triton's softplus compares with "20.".
		if end+1 < len(src) && src[end] == '.' && (class[src[end+1]]&clsDigit != 0 || class[src[end+1]]&clsFollow == 0) {
			k = tokFloat
			end++
			digits(clsDigit)
		}
		if end < len(src) && src[end]|0x20 == 'e' {
			k = tokFloat
			if end++; end < len(src) && (src[end] == '+' || src[end] == '-') {
				end++
			}
			if digits(clsDigit) == 0 {
				return bad("an exponent has no digits")
			}
		}
	}
	if k == tokInt && end < len(src) && src[end] == 'U' {
		end++
	}
	if end < len(src) && class[src[end]]&clsFollow != 0 {
		return bad("a number is followed by %s", quoteByte(src[end]))
	}
	return k, end, nil
}

// raw returns the text up to the closing brace of a debug section, which is not looked into. The lexer stands behind
// the opening brace, and then behind the closing one.
func (l *lexer) raw(open int32) (string, error) {
	begin := l.at
	for {
		n := strings.IndexAny(l.src[l.at:], "}\"/")
		if n < 0 {
			return "", l.fault(Syntax, int(open), "close it with }", "a section has no end")
		}
		l.at += int32(n)
		switch l.src[l.at] {
		case '}':
			text := l.src[begin:l.at]
			l.at++
			return text, nil
		case '/':
			if at := l.at; l.at == at {
				if err := l.skipSpace(); err != nil {
					return "", err
				}
				if l.at == at { // a slash that begins no comment
					l.at++
				}
			}
		default:
			if _, err := l.next(); err != nil {
				return "", err
			}
		}
	}
}

// line returns the rest of a line that begins at at, and steps over it.
func (l *lexer) line(at int32) string {
	n := strings.IndexByte(l.src[at:], '\n')
	if n < 0 {
		n = len(l.src) - int(at)
	}
	l.at = at + int32(n)
	return strings.TrimRight(l.src[at:l.at], " \t\r")
}

// fault is an error at an offset.
func (l *lexer) fault(code diag.Code, at int, hint, format string, args ...any) error {
	return diag.Errorf(code, hint, format, args...).At(position(l.name, l.src, Pos(at)))
}

func quoteByte(c byte) string {
	if c >= 0x80 {
		return fmt.Sprintf("byte 0x%02x", c)
	}
	return fmt.Sprintf("%q", rune(c))
}

// position counts lines and columns. It is for errors and reports: it reads the text from the beginning.
func position(name, src string, at Pos) diag.Pos {
	before := src[:min(max(int(at), 0), len(src))]
	line := strings.Count(before, "\n") + 1
	return diag.Pos{File: name, Line: line, Col: len(before) - strings.LastIndexByte(before, '\n')}
}
