// Package wire holds the types that cross a socket: those of the HTTP API and of protocol v1, with their JSON form. It
// imports nothing of ours and judges nothing; package daemon converts between these types and those of the domain.
//
// In the API seeds are strings, because JSON numbers lose bits above 2^53 in many languages. In protocol v1 they are
// numbers, because its published client demands it. Both sides of the API ignore fields that they do not know.
package wire

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// Protocol is the version of the HTTP API. It grows when a change breaks clients; new optional fields do not.
const Protocol = 2

// Seed is an unsigned 64-bit seed, a string of decimal digits in JSON. A JSON integer is read as well.
type Seed uint64

// MarshalJSON writes the seed as a string.
func (s Seed) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, strconv.FormatUint(uint64(s), 10)), nil
}

// UnmarshalJSON reads a string of decimal digits or an integer.
func (s *Seed) UnmarshalJSON(b []byte) error {
	text := string(b)
	if len(b) > 0 && b[0] == '"' {
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return fmt.Errorf("seed %q is not an unsigned 64-bit integer", text)
	}
	*s = Seed(n)
	return nil
}
