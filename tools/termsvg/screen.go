package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// style is how a character looks. Colours are indices of the terminal's 256, or rgb+0xRRGGBB; ground is the default.
type style struct {
	fg, bg                                 int
	bold, faint, italic, underline, invert bool
}

const (
	ground = -1
	rgb    = 1 << 24
)

var plain = style{fg: ground, bg: ground}

// cell is one place of the screen; a zero rune is an empty one.
type cell struct {
	r rune
	style
}

// screen is a terminal that keeps what has scrolled away, until scroll says how high it is.
type screen struct {
	columns  int
	lines    [][]cell
	row, col int
	style    style
}

func newScreen(columns int) *screen { return &screen{columns: columns, style: plain} }

// empty reports whether nothing can be seen.
func (s *screen) empty() bool {
	for _, line := range s.lines {
		for _, c := range line {
			if c.r > ' ' {
				return false
			}
		}
	}
	return true
}

// scroll drops what a terminal of so many lines would no longer show at the end; 0 drops nothing.
func (s *screen) scroll(rows int) {
	last := len(s.lines)
	for last > 0 && !slices.ContainsFunc(s.lines[last-1], func(c cell) bool { return c.r > ' ' }) {
		last--
	}
	if s.lines = s.lines[:last]; rows > 0 && last > rows {
		s.lines = s.lines[last-rows:]
	}
}

// line gives a line of the screen, which grows downwards.
func (s *screen) line(row int) []cell {
	for len(s.lines) <= row {
		s.lines = append(s.lines, make([]cell, s.columns))
	}
	return s.lines[row]
}

// write obeys what was printed. What it does not know it refuses: a picture with rubbish in it would be no recording.
func (s *screen) write(text string) error {
	for at := 0; at < len(text); {
		r, n := utf8.DecodeRuneInString(text[at:])
		if r == 0x1b {
			used, err := s.escape(text[at:])
			if err != nil {
				return fmt.Errorf("byte %d: %w", at, err)
			}
			at += used
			continue
		}
		at += n
		switch {
		case r == '\r':
			s.col = 0
		case r == '\n':
			s.row++
		case r == '\b':
			s.col = max(0, s.col-1)
		case r == '\t':
			s.col = min(s.columns-1, (s.col/8+1)*8)
		case r == 0x07: // a bell is not seen
		case r < ' ' || r == utf8.RuneError:
			return fmt.Errorf("byte %d: control character %#x", at-n, r)
		default:
			s.put(r)
		}
	}
	return nil
}

// put prints a character. One that is past the last column starts a new line, as terminals have it.
func (s *screen) put(r rune) {
	if s.col >= s.columns {
		s.row, s.col = s.row+1, 0
	}
	s.line(s.row)[s.col] = cell{r, s.style}
	s.col++
}

// escape obeys one escape sequence (ECMA-48, 5.4) and says how long it is.
func (s *screen) escape(text string) (int, error) {
	if len(text) < 2 {
		return 0, fmt.Errorf("the escape sequence ends too soon")
	}
	switch text[1] {
	case ']': // a command of the operating system, such as a title: up to BEL or ESC \
		if end := strings.IndexByte(text, 0x07); end > 0 {
			return end + 1, nil
		}
		if end := strings.Index(text, "\x1b\\"); end > 0 {
			return end + 2, nil
		}
		return 0, fmt.Errorf("the escape sequence %.20q has no end", text)
	case '[':
	default:
		return 0, fmt.Errorf("escape sequence %.4q is not known here", text)
	}
	end := 2
	for end < len(text) && text[end] >= 0x20 && text[end] <= 0x3f {
		end++
	}
	if end == len(text) {
		return 0, fmt.Errorf("the escape sequence %.20q has no end", text)
	}
	return end + 1, s.control(text[2:end], text[end])
}

// control obeys a control sequence: its parameters and the byte that ends it.
func (s *screen) control(params string, final byte) error {
	if strings.HasPrefix(params, "?") && (final == 'h' || final == 'l') {
		return nil // modes: a hidden cursor, say
	}
	var n []int
	for field := range strings.SplitSeq(params, ";") {
		v := 0
		if field != "" {
			var err error
			if v, err = strconv.Atoi(field); err != nil {
				return fmt.Errorf("parameters %q of a control sequence", params)
			}
		}
		n = append(n, v)
	}
	times := max(1, n[0])
	switch final {
	case 'm':
		return s.render(n)
	case 'A':
		s.row = max(0, s.row-times)
	case 'B':
		s.row += times
	case 'C':
		s.col = min(s.columns-1, s.col+times)
	case 'D':
		s.col = max(0, s.col-times)
	case 'E':
		s.row, s.col = s.row+times, 0
	case 'F':
		s.row, s.col = max(0, s.row-times), 0
	case 'G':
		s.col = min(s.columns-1, times-1)
	case 'K':
		return s.eraseLine(n[0])
	case 'J':
		return s.eraseBelow(n[0])
	default:
		return fmt.Errorf("control sequence %q%c is not known here", params, final)
	}
	return nil
}

func (s *screen) eraseLine(mode int) error {
	line := s.line(s.row)
	switch mode {
	case 0:
		clear(line[min(s.col, len(line)):])
	case 1:
		clear(line[:min(s.col+1, len(line))])
	case 2:
		clear(line)
	default:
		return fmt.Errorf("erasing of line with mode %d", mode)
	}
	return nil
}

func (s *screen) eraseBelow(mode int) error {
	if mode != 0 {
		return fmt.Errorf("erasing of the screen with mode %d", mode)
	}
	for row := s.row + 1; row < len(s.lines); row++ {
		clear(s.lines[row])
	}
	return s.eraseLine(0)
}

// render sets how the next characters look (SGR, ECMA-48, 8.3.117).
func (s *screen) render(n []int) error {
	for i := 0; i < len(n); i++ {
		switch v := n[i]; {
		case v == 0:
			s.style = plain
		case v == 1:
			s.style.bold = true
		case v == 2:
			s.style.faint = true
		case v == 3:
			s.style.italic = true
		case v == 4:
			s.style.underline = true
		case v == 7:
			s.style.invert = true
		case v == 22:
			s.style.bold, s.style.faint = false, false
		case v == 23:
			s.style.italic = false
		case v == 24:
			s.style.underline = false
		case v == 27:
			s.style.invert = false
		case v >= 30 && v <= 37:
			s.style.fg = v - 30
		case v >= 90 && v <= 97:
			s.style.fg = v - 90 + 8
		case v == 39:
			s.style.fg = ground
		case v >= 40 && v <= 47:
			s.style.bg = v - 40
		case v >= 100 && v <= 107:
			s.style.bg = v - 100 + 8
		case v == 49:
			s.style.bg = ground
		case v == 38 || v == 48:
			colour, used, err := extended(n[i+1:])
			if err != nil {
				return err
			}
			if v == 38 {
				s.style.fg = colour
			} else {
				s.style.bg = colour
			}
			i += used
		default:
			return fmt.Errorf("rendition %d is not known here", v)
		}
	}
	return nil
}

// extended reads a colour of 256, or of red, green and blue.
func extended(n []int) (colour, used int, err error) {
	switch {
	case len(n) >= 2 && n[0] == 5 && n[1] >= 0 && n[1] <= 255:
		return n[1], 2, nil
	case len(n) >= 4 && n[0] == 2:
		return rgb | (n[1]&255)<<16 | (n[2]&255)<<8 | n[3]&255, 4, nil
	}
	return 0, 0, fmt.Errorf("colour %v is not known here", n)
}
