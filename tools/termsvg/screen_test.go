package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// seen gives what is on the screen, without colours.
func seen(s *screen) string {
	var lines []string
	for _, line := range s.lines {
		var b strings.Builder
		for _, c := range line {
			if c.r == 0 {
				c.r = ' '
			}
			b.WriteRune(c.r)
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	return strings.Join(lines, "\n")
}

func TestScreen(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"lines", "a\r\nb\r\n", "a\nb"},
		{"a bar that is drawn again", "10 %\r50 %\r\x1b[Kdone\r\n", "done"},
		{"shorter than before", "running\r\x1b[2Kok", "ok"},
		{"up and erase below", "one\r\ntwo\r\nthree\x1b[2A\r\x1b[J1", "1\n\n"},
		{"colours leave text", "\x1b[1;31mred\x1b[0m and \x1b[38;5;208morange\x1b[39m", "red and orange"},
		{"hidden cursor and title", "\x1b[?25l\x1b]0;title\x07x\x1b[?25h", "x"},
		{"too long a line", strings.Repeat("x", 25), strings.Repeat("x", 20) + "\n" + strings.Repeat("x", 5)},
		{"tab, back and column", "a\tb\b\bc\x1b[3Gd", "a d    cb"},
		{"not ASCII", "→ ✓", "→ ✓"},
	} {
		s := newScreen(20)
		if err := s.write(tt.in); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got := seen(s); got != tt.want {
			t.Errorf("%s: screen is %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestScreenRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"\x1b[5;5H":  `control sequence "5;5"H is not known here`,
		"\x1b[99m":   "rendition 99 is not known here",
		"\x1b(B":     "is not known here",
		"\x1b[":      "has no end",
		"a\x01":      "byte 1: control character 0x1",
		"\x1b[38;9m": "colour [9] is not known here",
		"\x1b[2J":    "erasing of the screen with mode 2",
	} {
		if err := newScreen(20).write(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("write(%q) = %v, want an error with %q", in, err, want)
		}
	}
}

// TestDraw: the picture is XML, its texts are those of the screen, and colours are the terminal's.
func TestDraw(t *testing.T) {
	s := newScreen(40)
	if err := s.write("$ gpuemu demo\r\n\x1b[31mFAIL\x1b[0m a < b\r\n\x1b[7minverse\x1b[0m " +
		"\x1b[48;2;1;2;3mground\x1b[0m\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	s.scroll(0)
	svg := s.draw("demo & more")
	var said []string
	d := xml.NewDecoder(bytes.NewReader(svg))
	inText := false
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not XML: %v\n%s", err, svg)
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			inText = tok.Name.Local == "text"
		case xml.CharData:
			if inText && strings.TrimSpace(string(tok)) != "" {
				said = append(said, string(tok))
			}
		}
	}
	if got, want := strings.Join(said, "|"), "demo & more|$ gpuemu demo|FAIL| a < b|inverse|ground"; got != want {
		t.Errorf("the picture says %q, want %q", got, want)
	}
	for _, want := range []string{`fill="#ff7b72"`, `fill="#010203"`, `fill="` + ink + `"/>`, "height=\"104\""} {
		if !bytes.Contains(svg, []byte(want)) {
			t.Errorf("the picture has no %s:\n%s", want, svg)
		}
	}
}

// TestScroll: the last lines stay; empty ones at the end are none.
func TestScroll(t *testing.T) {
	for rows, want := range map[int]string{0: "a\n\nb\nc", 2: "b\nc", 3: "\nb\nc", 9: "a\n\nb\nc"} {
		s := newScreen(20)
		if err := s.write("a\r\n\r\nb\r\nc\r\n \r\n"); err != nil {
			t.Fatal(err)
		}
		s.scroll(rows)
		if got := seen(s); got != want {
			t.Errorf("scroll(%d) leaves %q, want %q", rows, got, want)
		}
	}
}

func TestColours(t *testing.T) {
	for c, want := range map[int]string{ground: ink, 1: "#ff7b72", 16: "#000000", 208: "#ff8700", 231: "#ffffff",
		232: "#080808", 255: "#eeeeee", rgb | 0x0a0b0c: "#0a0b0c"} {
		if got := colour(c, ink); got != want {
			t.Errorf("colour(%d) = %s, want %s", c, got, want)
		}
	}
}
