// This file implements numbers as known answers write them.

package testkit

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// U64 is a 64-bit integer that a vector writes as a decimal string: JSON numbers lose bits beyond 2^53.
type U64 uint64

// UnmarshalJSON reads a decimal string.
func (u *U64) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("64-bit integer %s: want a decimal string", b)
	}
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return fmt.Errorf("64-bit integer %q: want a decimal string", s)
	}
	*u = U64(v)
	return nil
}

// Bits is a bit pattern that a vector writes as a hexadecimal string with all its digits, such as "0x3f800000".
type Bits struct {
	U     uint64
	Width int // 8, 16, 32 or 64
}

// UnmarshalJSON reads "0x" and 2, 4, 8 or 16 digits.
func (x *Bits) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("bits %s: want a string", b)
	}
	digits, ok := strings.CutPrefix(s, "0x")
	width := 4 * len(digits)
	u, err := strconv.ParseUint(digits, 16, 64)
	if !ok || err != nil || width != 8 && width != 16 && width != 32 && width != 64 {
		return fmt.Errorf("bits %q: want 0x and 2, 4, 8 or 16 digits", s)
	}
	*x = Bits{U: u, Width: width}
	return nil
}

// F64 returns the value of 64 bits as a float64, or of 32 bits as a float32. Other widths are a fault of the test.
func (x Bits) F64() float64 {
	switch x.Width {
	case 64:
		return math.Float64frombits(x.U)
	case 32:
		return float64(math.Float32frombits(uint32(x.U)))
	}
	panic(fmt.Sprintf("testkit: %v is not a float64 or float32", x))
}

// String writes the bits as the vector does.
func (x Bits) String() string { return fmt.Sprintf("0x%0*x", x.Width/4, x.U) }
