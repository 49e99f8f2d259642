package fingerprint

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gpuemu/internal/diag"
)

// This file implements scopes: which part of a repository a fingerprint is about.

// Limits of a scope: far above any sensible one, low enough that a hostile receipt costs nothing.
const (
	maxScopePaths = 1000
	maxPathLength = 4096 // bytes; PATH_MAX of Linux
)

// Scope is a set of folders and files by their plain paths from the top of the repository; "." is all of it. The zero
// Scope contains nothing and no function takes it.
type Scope struct {
	paths []string // clean, sorted, without doubles
}

// All is the scope of a whole repository.
func All() Scope { return Scope{paths: []string{"."}} }

// ParseScope checks paths and gives their scope. A path is a plain name of a folder or a file: what Git would take as
// a pattern, an option, or a place outside is refused, because the scope of a receipt comes from its signer.
func ParseScope(paths []string) (Scope, error) {
	if len(paths) == 0 {
		return Scope{}, diag.Errorf(EmptyScope, `name folders or files, or "." for the whole repository`,
			"the scope has no paths")
	}
	if len(paths) > maxScopePaths {
		return Scope{}, diag.Errorf(BadScope, "name the folder that holds them", "the scope has %d paths, limit %d",
			len(paths), maxScopePaths)
	}
	clean := make([]string, 0, len(paths))
	for _, p := range paths {
		c, err := cleanPath("scope", p)
		if err != nil {
			return Scope{}, err
		}
		clean = append(clean, c)
	}
	slices.Sort(clean)
	return Scope{paths: slices.Compact(clean)}, nil
}

// cleanPath checks one path of what ("scope", "output", …) and returns its shortest spelling.
func cleanPath(what, p string) (string, error) {
	fault := pathFault(p)
	if fault == "" {
		fault = pathFault(path.Clean(p)) // ./-x is -x
	}
	if fault != "" {
		return "", diag.Errorf(BadScope, `write a plain path from the top of the repository, such as "src/kernels"`,
			"%s path %s: %s", what, shortQuote(p), fault)
	}
	return path.Clean(p), nil
}

// shortQuote quotes a text from outside for a message, cut to a length that a terminal can take.
func shortQuote(s string) string {
	const most = 200
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strconv.QuoteToASCII(s)
}

// pathFault says why a path is no plain one, "" if it is.
func pathFault(p string) string {
	switch {
	case p == "":
		return "is empty"
	case len(p) > maxPathLength:
		return "is too long"
	case !utf8.ValidString(p):
		return "is not UTF-8"
	case strings.ContainsFunc(p, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }):
		return "has a control character"
	case strings.HasPrefix(p, "/") || strings.HasPrefix(p, "~") || len(p) > 1 && p[1] == ':':
		return "is not relative to the repository"
	case strings.HasPrefix(p, "-"):
		return "starts with a hyphen, as an option does"
	case strings.HasPrefix(p, ":"):
		return "starts with a colon, as Git's pattern magic does"
	case strings.ContainsAny(p, "*?[\\"):
		return "has a character of a pattern (* ? [ \\)"
	}
	for _, part := range strings.Split(p, "/") {
		switch {
		case part == "..":
			return `has ".."`
		case strings.EqualFold(part, ".git"):
			return "leads into Git's own folder"
		}
	}
	return ""
}

// Paths returns the paths, sorted.
func (s Scope) Paths() []string { return slices.Clone(s.paths) }

// String is the paths with commas, for messages.
func (s Scope) String() string { return strings.Join(s.paths, ",") }

// Equal reports whether two scopes have the same paths.
func (s Scope) Equal(o Scope) bool { return slices.Equal(s.paths, o.paths) }

// Contains reports whether a path, from the top of the repository, is in the scope.
func (s Scope) Contains(p string) bool {
	return slices.ContainsFunc(s.paths, func(dir string) bool { return within(dir, p) })
}

// within reports whether p is dir or lies in it.
func within(dir, p string) bool {
	if dir == "." {
		return p != ".." && !strings.HasPrefix(p, "../") && !strings.HasPrefix(p, "/")
	}
	return p == dir || len(p) > len(dir) && p[len(dir)] == '/' && p[:len(dir)] == dir
}
