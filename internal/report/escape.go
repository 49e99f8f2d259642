// This file implements the escaping of text from outside: what a kernel printed must neither steer a terminal nor end
// an XML element.

package report

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean makes control characters, direction marks and bytes that are not UTF-8 visible (\x1b, \u202e); a newline
// becomes \n and a tab four spaces. The result is one line that is safe on a terminal and valid in XML 1.0.
func clean(s string) string {
	i := 0
	for i < len(s) && s[i] >= ' ' && s[i] < 0x7f {
		i++
	}
	if i == len(s) {
		return s
	}
	var b strings.Builder
	b.WriteString(s[:i])
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\t':
			b.WriteString("    ")
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x80 && !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\x%02x`, r)
		case !unicode.IsPrint(r) && r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		case !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		i += n
	}
	return b.String()
}

// cleanLines returns the lines of s, each cleaned, without empty ones at the end.
func cleanLines(s string) []string {
	s = strings.TrimRight(s, "\r\n\t ")
	if s == "" {
		return nil
	}
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = clean(strings.TrimSuffix(line, "\r"))
	}
	return lines
}

// tail returns the last lines of s, cleaned, and how many there are before them.
func tail(s string, most int) (lines []string, before int) {
	lines = cleanLines(s)
	if before = len(lines) - most; before > 0 {
		return lines[before:], before
	}
	return lines, 0
}

var xmlText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")

// xmlLine returns one line for XML, as text or as an attribute in double quotes.
func xmlLine(s string) string { return xmlText.Replace(clean(s)) }

// xmlLines returns several lines for the text of an element.
func xmlLines(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(xmlLine(line))
		b.WriteByte('\n')
	}
	return b.String()
}

// shell quotes a word for a POSIX shell where it needs it.
func shell(word string) string {
	plain := word != ""
	for _, r := range word {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_./:=,@+-", r)) {
			plain = false
		}
	}
	if plain && word[0] != '-' {
		return word
	}
	return "'" + strings.ReplaceAll(clean(word), "'", `'\''`) + "'"
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
