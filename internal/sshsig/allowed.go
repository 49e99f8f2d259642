// This file implements files of allowed signers (ssh-keygen(1), ALLOWED SIGNERS): who may sign with which key, for
// which purpose, and when.

package sshsig

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpuemu/internal/diag"
)

const (
	// maxAllowedFile and maxAllowedLine limit a file of allowed signers: 1 MiB is some five thousand people, and the
	// longest line that makes sense is an RSA key of 16384 bits with a hundred names.
	maxAllowedFile = 1 << 20
	maxAllowedLine = 16 << 10
	// maxPattern is OpenSSH's limit for one pattern of a list; a longer one makes the whole list match nothing.
	maxPattern = 1022
)

// AllowedSigners is a file of allowed signers. Lines that are malformed allow nobody, as with ssh-keygen; Faults names
// them, so that a caller can be louder than ssh-keygen is.
//
// What is malformed here and not for ssh-keygen: control characters; days that are not in the calendar, which it takes
// for some in the next month; a comma before the first option; options where the names should be, which it takes for
// names (a line namespaces="git,*" KEY would allow everybody everything); keys that are too weak. A line with
// cert-authority is well-formed and allows nobody, because certificates are not supported.
type AllowedSigners struct {
	// Faults has one error, with its place, for each line that is not used.
	Faults []error

	file  string
	lines []allowedLine
}

// allowedLine is one line that can allow somebody.
type allowedLine struct {
	number        int
	principals    string // a list of patterns
	authority     bool   // cert-authority: the key signs certificates, and no receipts
	namespaces    string // a list of patterns; only if restricted
	restricted    bool
	after, before int64 // seconds since 1970; only if bounded
	hasAfter      bool
	hasBefore     bool
	key           PublicKey
}

// ParseAllowedSigners reads a file of allowed signers. Times without Z are in the local time zone, as ssh-keygen(1)
// says. The error is about the file as a whole; a line that is malformed is one of the Faults.
func ParseAllowedSigners(file string, b []byte) (*AllowedSigners, error) {
	return parseAllowedSigners(file, b, time.Local)
}

func parseAllowedSigners(file string, b []byte, zone *time.Location) (*AllowedSigners, error) {
	if len(b) > maxAllowedFile {
		return nil, diag.Errorf(AllowedLimit, "split the file", "the file has %d bytes, more than the %d that are read",
			len(b), maxAllowedFile).At(diag.Pos{File: file})
	}
	a := &AllowedSigners{file: file}
	number := 0
	for raw := range bytes.Lines(b) {
		number++
		text := strings.TrimLeft(strings.TrimRight(string(raw), " \t\r\n"), " \t\r")
		if text == "" || text[0] == '#' {
			continue
		}
		line, err := parseAllowedLine(text, zone)
		if err != nil {
			a.Faults = append(a.Faults, err.At(diag.Pos{File: file, Line: number}))
			continue
		}
		line.number = number
		a.lines = append(a.lines, line)
	}
	return a, nil
}

// parseAllowedLine reads "principals [options] key [comment]".
func parseAllowedLine(text string, zone *time.Location) (allowedLine, *diag.Error) {
	var l allowedLine
	if len(text) > maxAllowedLine {
		return l, badAllowed("the line has %d bytes, more than the %d that are read", len(text), maxAllowedLine)
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }); i >= 0 {
		return l, badAllowed("there is a control character (0x%02x) in column %d", text[i], i+1)
	}
	principals, rest, ok := cutPrincipals(text)
	if !ok {
		return l, badAllowed("a quote has no end")
	}
	if principals == "" || rest == "" {
		return l, badAllowed("a line has names, perhaps options, and a key")
	}
	for _, option := range []string{"cert-authority", "namespaces=", "valid-after=", "valid-before="} {
		if _, ok := cutFold(principals, option); ok {
			return l, badAllowed("it starts with the option %s, and names are missing before it", option)
		}
	}
	l.principals = principals
	// A key comes first, if there is one: only otherwise options are looked for. ssh-keygen does it in this order.
	if typ, _ := cutBlank(rest); !looksLikeKeyType(typ) {
		options, after, ok := cutOptions(rest)
		if !ok {
			return l, badAllowed("a quote in the options has no end")
		}
		if after == "" {
			return l, badAllowed("there is no key behind the options")
		}
		if err := l.parseOptions(options, zone); err != nil {
			return l, err
		}
		rest = after
	}
	key, err := parseKeyLine(rest)
	if err != nil {
		return l, err
	}
	l.key = key
	return l, nil
}

func badAllowed(text string, args ...any) *diag.Error {
	return diag.Errorf(AllowedSyntax,
		"write NAMES [OPTIONS] KEY as in ssh-keygen(1), ALLOWED SIGNERS, for example alice@example.com ssh-ed25519 AAAA…",
		"the line allows nobody: "+text, args...)
}

// looksLikeKeyType tells a type of key from options. No option looks like a type.
func looksLikeKeyType(word string) bool {
	for _, prefix := range []string{"ssh-", "ecdsa-sha2-", "sk-ssh-", "sk-ecdsa-", "rsa-sha2-"} {
		if strings.HasPrefix(word, prefix) {
			return true
		}
	}
	return false
}

// cutPrincipals cuts the list of names off. A quoted list may have blanks in it; quotes do not nest and have no escape.
func cutPrincipals(text string) (principals, rest string, ok bool) {
	i := strings.IndexAny(text, " \t\"")
	if i < 0 {
		return text, "", true
	}
	if text[i] != '"' {
		return text[:i], strings.TrimLeft(text[i:], " \t"), true
	}
	inside, after, found := strings.Cut(text[i+1:], `"`)
	return text[:i] + inside, strings.TrimLeft(after, " \t"), found
}

// cutOptions cuts at the first blank outside quotes; in quotes, \" is a quote.
func cutOptions(text string) (options, rest string, ok bool) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text) && text[i+1] == '"':
			i++
		case c == '"':
			quoted = !quoted
		case (c == ' ' || c == '\t') && !quoted:
			return text[:i], strings.TrimLeft(text[i:], " \t"), true
		}
	}
	return text, "", !quoted
}

// parseOptions reads the options, whose names may have any case.
func (l *allowedLine) parseOptions(text string, zone *time.Location) *diag.Error {
	for {
		var err *diag.Error
		if rest, ok := cutFold(text, "cert-authority"); ok {
			l.authority, text = true, rest
		} else if rest, ok := cutFold(text, "namespaces="); ok {
			if l.restricted {
				return badAllowed("namespaces= stands there twice")
			}
			l.restricted = true
			l.namespaces, text, err = cutQuoted("namespaces", rest)
		} else if rest, ok := cutFold(text, "valid-after="); ok {
			if l.hasAfter {
				return badAllowed("valid-after= stands there twice")
			}
			l.hasAfter = true
			l.after, text, err = cutTime("valid-after", rest, zone)
		} else if rest, ok := cutFold(text, "valid-before="); ok {
			if l.hasBefore {
				return badAllowed("valid-before= stands there twice")
			}
			l.hasBefore = true
			l.before, text, err = cutTime("valid-before", rest, zone)
		} else {
			return badAllowed("%q is not an option; options are cert-authority, namespaces=, valid-after=, valid-before=",
				clip(text))
		}
		if err != nil {
			return err
		}
		if text == "" {
			break
		}
		next, ok := strings.CutPrefix(text, ",")
		if !ok || next == "" {
			return badAllowed("%q stands where a comma and an option are wanted", clip(text))
		}
		text = next
	}
	if l.hasAfter && l.hasBefore && l.before <= l.after {
		return badAllowed("valid-before is not later than valid-after")
	}
	return nil
}

// cutFold cuts a prefix that may have any case.
func cutFold(s, prefix string) (rest string, ok bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

// cutQuoted reads a value between quotes, in which \" is a quote.
func cutQuoted(name, text string) (value, rest string, err *diag.Error) {
	if text == "" || text[0] != '"' {
		return "", "", badAllowed("the value of %s= stands between quotes", name)
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text) && text[i+1] == '"':
			i++
			b.WriteByte('"')
		case text[i] == '"':
			return b.String(), text[i+1:], nil
		default:
			b.WriteByte(text[i])
		}
	}
	return "", "", badAllowed("the value of %s= has no closing quote", name)
}

func cutTime(name, text string, zone *time.Location) (at int64, rest string, err *diag.Error) {
	value, rest, err := cutQuoted(name, text)
	if err != nil {
		return 0, "", err
	}
	at, ok := parseTime(value, zone)
	if !ok {
		return 0, "", badAllowed("%q is not a time; write YYYYMMDD, YYYYMMDDHHMM or YYYYMMDDHHMMSS, with Z for UTC",
			clip(value))
	}
	return at, rest, nil
}

// parseTime reads a time of ssh-keygen: YYYYMMDD[HHMM[SS]], local time, or UTC with Z behind it.
func parseTime(text string, zone *time.Location) (seconds int64, ok bool) {
	digits := text
	for _, suffix := range []string{"Z", "UTC"} {
		if n := len(text) - len(suffix); n > 0 && strings.EqualFold(text[n:], suffix) {
			digits, zone = text[:n], time.UTC
			break
		}
	}
	layout := map[int]string{8: "20060102", 12: "200601021504", 14: "20060102150405"}[len(digits)]
	if layout == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	at, err := time.ParseInLocation(layout, digits, zone)
	if err != nil {
		return 0, false
	}
	seconds = at.Unix() + summerTime(at)
	return seconds, seconds > 0
}

// summerTime returns by how many seconds clocks are ahead of the zone's standard time. OpenSSH takes local times for
// standard time all year round, and so do we: the same file must not mean two times.
func summerTime(at time.Time) int64 {
	_, offset := at.Zone()
	for month := 0; at.IsDST() && month < 12; month++ {
		at = at.AddDate(0, 1, 0)
	}
	_, standard := at.Zone()
	return int64(offset - standard)
}

// Find returns the names of the first line that allows key to sign for namespace at a time: a list of patterns, as
// ssh-keygen -Y find-principals prints it. The error says why each line with that key does not.
func (a *AllowedSigners) Find(key PublicKey, namespace string, at time.Time) (principals string, err error) {
	return a.find(nil, key, namespace, at)
}

// Permits reports, as ssh-keygen -Y verify -I principal does, whether key may sign for that name and namespace at a
// time.
func (a *AllowedSigners) Permits(principal string, key PublicKey, namespace string, at time.Time) error {
	_, err := a.find(&principal, key, namespace, at)
	return err
}

// Keys returns the keys of all lines, for signatures that do not bring their key along. What a key may do is for
// Permits to say.
func (a *AllowedSigners) Keys() []PublicKey {
	var keys []PublicKey
	for _, l := range a.lines {
		keys = append(keys, l.key)
	}
	return keys
}

// ShareName reports whether two keys may be one person's: a name of one of them is a name of the other. With names
// given only those count; otherwise any on the lines of the keys, where a pattern is held to be a name as it stands.
func (a *AllowedSigners) ShareName(key, other PublicKey, names []string) bool {
	shares := func(x, y allowedLine) bool {
		if len(names) > 0 {
			return slices.ContainsFunc(names, func(name string) bool {
				return matchList(name, x.principals) && matchList(name, y.principals)
			})
		}
		has := func(name string) bool { return matchList(name, y.principals) }
		return slices.ContainsFunc(strings.Split(x.principals, ","), has)
	}
	for _, x := range a.lines {
		for _, y := range a.lines {
			if x.key.Equal(key) && y.key.Equal(other) && (shares(x, y) || shares(y, x)) {
				return true
			}
		}
	}
	return false
}

func (a *AllowedSigners) find(principal *string, key PublicKey, namespace string, at time.Time) (string, error) {
	var reasons []string
	for _, l := range a.lines {
		if !l.key.Equal(key) {
			continue
		}
		reason := l.refuses(principal, namespace, at)
		if reason == "" {
			return l.principals, nil
		}
		reasons = append(reasons, fmt.Sprintf("%s: %s", diag.Pos{File: a.file, Line: l.number}, reason))
	}
	if len(reasons) == 0 {
		hint := "add a line for the key, if its owner may sign"
		if len(a.Faults) > 0 {
			hint = fmt.Sprintf("%d lines are malformed and not used, the first: %s", len(a.Faults), a.Faults[0])
		}
		return "", diag.Errorf(NotAllowed, hint, "the key %s is not among the allowed signers", describe(key)).
			At(diag.Pos{File: a.file})
	}
	return "", diag.Errorf(NotAllowed, "change the line, if its owner may sign, or sign with its name: sign --signer",
		"the key %s is not allowed: %s", describe(key), strings.Join(reasons, "; "))
}

// refuses says why a line with the right key does not allow it, "" if it does.
func (l *allowedLine) refuses(principal *string, namespace string, at time.Time) string {
	switch now := at.Unix(); {
	case principal != nil && !matchList(*principal, l.principals):
		return fmt.Sprintf("the name %q does not match %q", clip(*principal), clip(l.principals))
	case l.authority:
		return "the key is there as a certificate authority only, and certificates are not supported"
	case l.restricted && !matchList(namespace, l.namespaces):
		return fmt.Sprintf("it may be used for the namespaces %q only, not for %q", clip(l.namespaces), namespace)
	case l.hasAfter && now < l.after:
		return "it is valid from " + utc(l.after) + " on only, and the time is " + utc(now)
	case l.hasBefore && now > l.before:
		return "it was valid until " + utc(l.before) + ", and the time is " + utc(now)
	}
	return ""
}

func utc(seconds int64) string { return time.Unix(seconds, 0).UTC().Format("2006-01-02T15:04:05Z") }

// matchList reports whether a list of patterns, with commas between them, matches s: one matches, and none with !
// before it does (ssh_config(5), PATTERNS).
func matchList(s, list string) bool {
	found := false
	for list != "" {
		var pattern string
		pattern, list, _ = strings.Cut(list, ",")
		pattern, negated := strings.CutPrefix(pattern, "!")
		if len(pattern) > maxPattern {
			return false
		}
		if match(s, pattern) {
			if negated {
				return false
			}
			found = true
		}
	}
	return found
}

// match reports whether s matches a pattern of * and ?, byte by byte. On a mismatch only the last * is tried again
// with one byte more, which is enough for the leftmost match and keeps hostile patterns at len(s)·len(pattern) steps.
func match(s, pattern string) bool {
	i, j, star, mark := 0, 0, -1, 0
	for i < len(s) {
		switch {
		case j < len(pattern) && pattern[j] == '*':
			star, mark = j, i
			j++
		case j < len(pattern) && (pattern[j] == '?' || pattern[j] == s[i]):
			i++
			j++
		case star >= 0:
			mark++
			i, j = mark, star+1
		default:
			return false
		}
	}
	return strings.Trim(pattern[j:], "*") == ""
}
