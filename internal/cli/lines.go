package cli

import (
	"bufio"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// This file implements reading lines of an interactive session: with history and completion on a terminal, plainly
// from anything else.

// lineReader reads lines. On a terminal it is in raw mode only while a line is read, so that Ctrl-C works in between.
type lineReader struct {
	plain *bufio.Scanner
	file  *os.File
	tty   *term.Terminal
}

// maxLine bounds a line of plain input: a case's text has at most about a megabyte.
const maxLine = 2 << 20

func newLineReader(in io.Reader, t *terminal, words []string) *lineReader {
	f, isFile := in.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) {
		s := bufio.NewScanner(in)
		s.Buffer(nil, maxLine)
		return &lineReader{plain: s}
	}
	tty := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{f, t.err}, "")
	tty.AutoCompleteCallback = func(line string, pos int, key rune) (string, int, bool) {
		if key != '\t' {
			return "", 0, false
		}
		done := completed(line[:pos], words)
		return done + line[pos:], len(done), done != line[:pos]
	}
	return &lineReader{file: f, tty: tty}
}

// completed extends the first word of a line as far as all words with that beginning agree.
func completed(line string, words []string) string {
	if strings.ContainsRune(line, ' ') {
		return line
	}
	var fits []string
	for _, w := range words {
		if strings.HasPrefix(w, line) {
			fits = append(fits, w)
		}
	}
	switch len(fits) {
	case 0:
		return line
	case 1:
		return fits[0] + " "
	}
	common := fits[0]
	for _, w := range fits[1:] {
		for !strings.HasPrefix(w, common) {
			common = common[:len(common)-1]
		}
	}
	return common
}

// next returns the next line; io.EOF ends the session.
func (l *lineReader) next(prompt string) (string, error) {
	if l.plain != nil {
		if l.plain.Scan() {
			return l.plain.Text(), nil
		}
		if err := l.plain.Err(); err != nil {
			return "", err
		}
		return "", io.EOF
	}
	state, err := term.MakeRaw(int(l.file.Fd()))
	if err != nil {
		return "", err
	}
	defer func() { _ = term.Restore(int(l.file.Fd()), state) }() // the terminal is gone if this fails
	l.tty.SetPrompt(prompt)
	return l.tty.ReadLine()
}
