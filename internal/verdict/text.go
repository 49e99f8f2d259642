// This file implements results as texts that are passed on: to decode one takes longer than to find it.

package verdict

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
)

var errNoResult = errors.New("the text is no JSON object")

// details are the members of a result that a list of results does without. They are nine tenths of it.
var details = []string{"outputs", "invariants", "findings", "stderr"}

// Outline returns the JSON of a result without its details. It shares no memory with the text.
func Outline(text []byte) (json.RawMessage, error) {
	out := make([]byte, 1, 1024)
	out[0] = '{'
	err := members(text, func(name, member, _ []byte) bool {
		if !slices.Contains(details, string(name)) {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, member...)
		}
		return true
	})
	return append(out, '}'), err
}

// CaseOf decodes what the JSON of a result says of its case, and nothing else: Op, DType, Case and Candidate.
func CaseOf(text []byte) (*Result, error) {
	r := new(Result)
	wanted := map[string]*string{"op": &r.Op, "dtype": &r.DType, "case": &r.Case, "candidate": &r.Candidate}
	var failed error
	err := members(text, func(name, _, value []byte) bool {
		if to := wanted[string(name)]; to != nil {
			delete(wanted, string(name))
			if err := json.Unmarshal(value, to); err != nil {
				failed = err
			}
		}
		return failed == nil && len(wanted) > 0
	})
	return r, errors.Join(err, failed)
}

// members calls yield with the members of an object until it returns false: the name without its quotes, the whole
// member, and the value. What it passes over is JSON that an encoder wrote: it is divided, not checked.
func members(text []byte, yield func(name, member, value []byte) bool) error {
	i := space(text, 0)
	if i == len(text) || text[i] != '{' {
		return errNoResult
	}
	for i = space(text, i+1); i < len(text) && text[i] == '"'; i = space(text, i+1) {
		begin := i
		name := stringEnd(text, i)
		at := space(text, max(name, 0))
		if name < 0 || at == len(text) || text[at] != ':' {
			return errNoResult
		}
		value := space(text, at+1)
		end := valueEnd(text, value)
		if end < 0 {
			return errNoResult
		}
		if !yield(text[begin+1:name-1], text[begin:end], text[value:end]) {
			return nil
		}
		if i = space(text, end); i == len(text) || text[i] != ',' {
			break
		}
	}
	if i >= len(text) || text[i] != '}' {
		return errNoResult
	}
	return nil
}

// space returns where the white space at i ends.
func space(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\n' || text[i] == '\t' || text[i] == '\r') {
		i++
	}
	return i
}

// stringEnd returns where the string that begins at i ends, -1 where it does not.
func stringEnd(text []byte, i int) int {
	for i++; ; i++ {
		n := bytes.IndexByte(text[min(i, len(text)):], '"')
		if n < 0 {
			return -1
		}
		i += n
		escapes := 0
		for text[i-1-escapes] == '\\' { // the quote at the beginning ends this
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
}

// valueEnd returns where the value that begins at i ends, -1 where it does not.
func valueEnd(text []byte, i int) int {
	depth := 0
	for i >= 0 && i < len(text) {
		switch text[i] {
		case '"':
			if i = stringEnd(text, i); depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth <= 0 {
				if depth < 0 {
					return i // of what the value is in
				}
				return i + 1
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return -1
}
