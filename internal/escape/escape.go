// Package escape makes text from outside safe for the place that it is written to: a terminal, the log of a CI system,
// XML, JSON, SARIF, Markdown, a shell. Names, paths, exception messages and what a kernel printed may hold anything;
// whoever writes them calls the function of the sink, and nobody has rules of their own.
//
// What is escaped stays visible (\x1b, \u202e), and what is escaped once is not changed by a second call: a whole line
// may be escaped again after its parts were.
//
// It does not decide what is shown, or how long it may be.
package escape

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text is text as part of a line on a terminal or in a log. Control characters, marks that turn the direction of text,
// characters without a width and bytes that are not UTF-8 are written out; a newline becomes \n, a tab four spaces. So
// does the second of two "#", with which begin the commands that a CI system finds anywhere in a line:
// "##[set-output name=x;]y" of GitHub's runner, "##vso[…" of Azure's agent, "##teamcity[…".
func Text(s string) string {
	i := 0
	for i < len(s) && s[i] >= ' ' && s[i] < 0x7f && s[i] != '#' {
		i++
	}
	if i == len(s) {
		return s
	}
	var b strings.Builder
	b.WriteString(s[:i])
	sharp := false // whether a # was written last
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\t':
			b.WriteString("    ")
		case r == '#' && sharp:
			b.WriteString(`\x23`)
		case hidden(r):
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		default:
			b.WriteRune(r)
		}
		sharp = r == '#' && !sharp
		i += n
	}
	return b.String()
}

// hidden reports whether a character is seen as something else than itself, or not at all.
func hidden(r rune) bool {
	return !unicode.IsPrint(r) || r > unicode.MaxLatin1 &&
		(unicode.Is(unicode.Variation_Selector, r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r))
}

// Line is Text for a line of its own. One that begins with "::" after blanks is a command to GitHub's runner.
func Line(s string) string { return noCommand(Text(s)) }

func noCommand(line string) string {
	rest := strings.TrimLeftFunc(line, unicode.IsSpace)
	if strings.HasPrefix(rest, "::") {
		return line[:len(line)-len(rest)] + `\x3a` + rest[1:]
	}
	return line
}

// Lines are the lines of s, each by Line, without empty ones at the end.
func Lines(s string) []string {
	s = strings.TrimRight(s, "\r\n\t ")
	if s == "" {
		return nil
	}
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = Line(strings.TrimSuffix(line, "\r"))
	}
	return lines
}

// Block is several lines of our own with text from outside in them, which may have lines, too.
func Block(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = Line(strings.TrimSuffix(line, "\r"))
	}
	return strings.Join(lines, "\n")
}

var color = regexp.MustCompile("\x1b\\[[0-9;]*m")

// Painted is Block for text that has colors of ours. The parts from outside went through Text before: their colors are
// written out already.
func Painted(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		var b strings.Builder
		at := 0
		for _, found := range color.FindAllStringIndex(line, -1) {
			b.WriteString(part(&b, line[at:found[0]]))
			b.WriteString(line[found[0]:found[1]])
			at = found[1]
		}
		b.WriteString(part(&b, line[at:]))
		lines[i] = b.String()
	}
	return strings.Join(lines, "\n")
}

// part is the text between two colors. Only colors stand before the first one, which a log may not have.
func part(before *strings.Builder, text string) string {
	if strings.TrimSpace(color.ReplaceAllString(before.String(), "")) == "" {
		return Line(text)
	}
	return Text(text)
}

var entities = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")

// XML is Line for the text of an element or an attribute in double quotes, in XML 1.0 and HTML.
func XML(s string) string { return entities.Replace(Line(s)) }

// SARIF is Text for the text of a message, where viewers make links of [text](address).
func SARIF(s string) string { return strings.ReplaceAll(Text(s), "](", "] (") }

// Markdown's special characters, and where GitHub makes a link of plain text.
const marks = "\\`*_{}[]()<>#+!|~&@$^="

var links = strings.NewReplacer("://", "&#58;//", "www.", "www&#46;")

// Markdown is Line for Markdown: no markup, no links, no tags, no mentions.
func Markdown(s string) string {
	var b strings.Builder
	for _, r := range Line(s) {
		if r < utf8.RuneSelf && strings.ContainsRune(marks, r) {
			fmt.Fprintf(&b, "&#%d;", r)
			continue
		}
		b.WriteRune(r)
	}
	return links.Replace(b.String())
}

// JSON escapes what an encoder of JSON leaves as it is: the same characters as Text, in encoded JSON, where they stand
// inside strings. What the text says to a reader of JSON does not change.
func JSON(encoded []byte) []byte {
	i := 0
	for i < len(encoded) && encoded[i] < 0x7f && encoded[i] != '#' {
		i++
	}
	if i == len(encoded) {
		return encoded
	}
	out := bytes.NewBuffer(append(make([]byte, 0, len(encoded)+16), encoded[:i]...))
	sharp := false
	for i < len(encoded) {
		r, n := utf8.DecodeRune(encoded[i:])
		switch {
		case r == '#' && sharp, r > unicode.MaxASCII && r <= 0xffff && hidden(r), r == 0x7f:
			fmt.Fprintf(out, `\u%04x`, r)
		case r > 0xffff && hidden(r):
			const first, low, mask = 0x10000, 10, 0x3ff // UTF-16, as JSON has it
			fmt.Fprintf(out, `\u%04x\u%04x`, 0xd800+(r-first)>>low, 0xdc00+(r-first)&mask)
		default:
			out.Write(encoded[i : i+n])
		}
		sharp = r == '#' && !sharp
		i += n
	}
	return out.Bytes()
}

// Shell is text as one word of a POSIX shell, for commands that a user copies. Hidden characters are written out, so
// that what is copied is what is seen.
func Shell(word string) string {
	plain := word != "" && word[0] != '-'
	for _, r := range word {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_./:=,@+-%", r)) {
			plain = false
		}
	}
	if plain {
		return word
	}
	return "'" + strings.ReplaceAll(Text(word), "'", `'\''`) + "'"
}
