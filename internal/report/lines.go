// This file implements lines of text from outside, and lines that fit a terminal.

package report

import (
	"strings"
	"unicode/utf8"

	"gpuemu/internal/escape"
)

// tail returns the last lines of s, cleaned, and how many there are before them.
func tail(s string, most int) (lines []string, before int) {
	lines = escape.Lines(s)
	if before = len(lines) - most; before > 0 {
		return lines[before:], before
	}
	return lines, 0
}

// xmlLines returns several lines for the text of an element.
func xmlLines(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(escape.XML(line))
		b.WriteByte('\n')
	}
	return b.String()
}

// wrap breaks a line at spaces so that it fits into width columns with the indent in front; 0 means no limit. The first
// line is not indented. Words longer than the width stay whole.
func wrap(line string, indent string, width int) string {
	if width <= 0 {
		return line
	}
	var b strings.Builder
	column := len(indent)
	for i, word := range strings.Split(line, " ") {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > width && column > len(indent):
			b.WriteString("\n" + indent)
			column = len(indent)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}
