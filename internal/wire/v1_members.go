package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// This file implements a scanner of the members of a JSON object that does not look into their values.

// maxMembers is how many members an object may have: no message has more than a few tens, and each costs memory.
const maxMembers = 1 << 12

// maxList is how many elements a list may have: shapes and candidates have tens. An element costs many times its text.
const maxList = 1 << 16

// maxDepth is how deep values may be nested: no message needs ten. encoding/json stops at 10,000.
const maxDepth = 100

// members returns the members of an object, values as they stand in raw and unchecked but for their extent. Whoever
// uses a value must check it. A name that comes twice is refused: two readers could take it for two things.
func members(raw []byte) (map[string][]byte, error) {
	s := scanner{raw: raw}
	if s.next() != '{' {
		return nil, errors.New("invalid type: expected an object")
	}
	s.at++
	out := map[string][]byte{}
	for first := true; ; first = false {
		switch c := s.next(); {
		case c == '}':
			s.at++
			if s.next(); s.at < len(raw) {
				return nil, fmt.Errorf("trailing characters at byte %d", s.at)
			}
			return out, nil
		case !first && c == ',':
			s.at++
			s.next()
		case !first:
			return nil, fmt.Errorf("expected `,` or `}` at byte %d", s.at)
		}
		if len(out) == maxMembers {
			return nil, fmt.Errorf("object with more than %d members", maxMembers)
		}
		name, value, err := s.member()
		if err != nil {
			return nil, err
		}
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("duplicate field `%s`", name)
		}
		out[name] = value
	}
}

type scanner struct {
	raw []byte
	at  int
}

// next skips white space and returns the byte that follows, 0 at the end.
func (s *scanner) next() byte {
	for ; s.at < len(s.raw); s.at++ {
		switch c := s.raw[s.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// member reads a name, a colon and a value.
func (s *scanner) member() (name string, value []byte, err error) {
	start := s.at
	if s.next() != '"' {
		return "", nil, fmt.Errorf("expected a key at byte %d", s.at)
	}
	if err := s.text(); err != nil {
		return "", nil, err
	}
	if err := json.Unmarshal(s.raw[start:s.at], &name); err != nil {
		return "", nil, fmt.Errorf("key at byte %d: %w", start, err)
	}
	if s.next() != ':' {
		return "", nil, fmt.Errorf("expected `:` at byte %d", s.at)
	}
	s.at++
	s.next()
	start = s.at
	if err := s.value(); err != nil {
		return "", nil, err
	}
	return name, bytes.TrimRight(s.raw[start:s.at], " \t\r\n"), nil
}

// text skips a string that begins here.
func (s *scanner) text() error {
	start := s.at
	for s.at++; ; s.at++ {
		n := bytes.IndexByte(s.raw[s.at:], '"')
		if n < 0 {
			return fmt.Errorf("EOF while parsing the string at byte %d", start)
		}
		s.at += n
		slashes := 0
		for i := s.at - 1; i > start && s.raw[i] == '\\'; i-- {
			slashes++
		}
		if slashes%2 == 0 {
			s.at++
			return nil
		}
	}
}

// value skips to the comma or brace behind a value.
func (s *scanner) value() error {
	start, depth := s.at, 0
	for s.at < len(s.raw) {
		switch c := s.raw[s.at]; c {
		case '"':
			if err := s.text(); err != nil {
				return err
			}
			continue
		case '{', '[':
			if depth++; depth > maxDepth {
				return fmt.Errorf("recursion limit of %d exceeded at byte %d", maxDepth, s.at)
			}
		case '}', ']', ',':
			if depth == 0 {
				if s.at == start {
					return fmt.Errorf("expected value at byte %d", s.at)
				}
				return nil
			}
			if c != ',' {
				depth--
			}
		}
		s.at++
	}
	return fmt.Errorf("EOF while parsing the value at byte %d", start)
}
