package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// This file implements the check of testdata/script/hostile.txt.

// checkHarmless is the program harmless. It shares no code with package escape.
func checkHarmless() {
	files, err := filepath.Glob(filepath.Join(os.Args[1], "*"))
	fail(err)
	if len(files) == 0 {
		fail(fmt.Errorf("no file is in %s", os.Args[1]))
	}
	var faults []error
	for _, file := range files {
		b, err := os.ReadFile(file)
		fail(err)
		if fault := steers(string(b)); fault != "" {
			faults = append(faults, fmt.Errorf("%s: %s", filepath.Base(file), fault))
		}
		if filepath.Ext(file) == ".shows" && !bytes.Contains(b, []byte(os.Args[2])) {
			faults = append(faults, fmt.Errorf("%s does not show %s:\n%.600q", filepath.Base(file), os.Args[2], b))
		}
	}
	fail(errors.Join(faults...))
}

// steers says what a terminal or a CI system would obey in a text, or a reader would not see; "" if nothing is.
func steers(text string) string {
	if !utf8.ValidString(text) {
		return "it is not UTF-8: " + near(text, strings.IndexFunc(text, func(r rune) bool { return r == utf8.RuneError }))
	}
	for i, r := range text {
		if r != '\n' && unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co) {
			return fmt.Sprintf("%U stands in it: %s", r, near(text, i))
		}
	}
	for _, command := range []string{"##[", "##vso[", "##teamcity["} {
		if i := strings.Index(text, command); i >= 0 {
			return "a command stands in it: " + near(text, i)
		}
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "::") {
			return "a line is a command: " + near(line, 0)
		}
	}
	return ""
}

func near(text string, i int) string {
	return fmt.Sprintf("%q", text[max(0, i-80):min(len(text), i+80)])
}
