package cubin

// This file implements the LZ4 block format: sequences of literals and of copies of earlier output.

import "errors"

var (
	errLZ4Short  = errors.New("the input is cut off")
	errLZ4Long   = errors.New("more bytes come out than the image should have")
	errLZ4Offset = errors.New("a copy starts before the output")
	errLZ4Size   = errors.New("fewer bytes come out than the image should have")
)

// lz4Ratio is how many bytes one byte of input can make at most: a length byte of 255.
const lz4Ratio = 255

// unpackLZ4 decodes a block that makes size bytes. A sequence is a token (4 bits for the number of literals, 4 for the
// length of the copy less 4; 15 means that bytes follow which are added, the last one below 255), the literals, and the
// distance of the copy in 16 bits. The last sequence ends after its literals.
func unpackLZ4(in []byte, size int) ([]byte, error) {
	if size > len(in)*lz4Ratio {
		return nil, errLZ4Size
	}
	out := make([]byte, 0, size)
	for {
		if len(in) == 0 {
			return nil, errLZ4Short
		}
		token := in[0]
		literals, rest, err := lz4Length(int(token>>4), in[1:])
		if err != nil {
			return nil, err
		}
		if literals > len(rest) {
			return nil, errLZ4Short
		}
		if literals > size-len(out) {
			return nil, errLZ4Long
		}
		out, in = append(out, rest[:literals]...), rest[literals:]
		if len(in) == 0 {
			break
		}
		if len(in) < 2 {
			return nil, errLZ4Short
		}
		distance := int(in[0]) | int(in[1])<<8
		length, rest, err := lz4Length(int(token&15), in[2:])
		if err != nil {
			return nil, err
		}
		length, in = length+4, rest
		if distance == 0 || distance > len(out) {
			return nil, errLZ4Offset
		}
		if length > size-len(out) {
			return nil, errLZ4Long
		}
		// A copy may overlap what it writes: the pattern repeats, and there is twice as much of it each time.
		for from := len(out) - distance; length > 0; {
			n := min(length, len(out)-from)
			out = append(out, out[from:from+n]...)
			length -= n
		}
	}
	if len(out) != size {
		return nil, errLZ4Size
	}
	return out, nil
}

// lz4Length reads the rest of a length whose first 4 bits are given.
func lz4Length(length int, in []byte) (int, []byte, error) {
	if length < 15 {
		return length, in, nil
	}
	for i, b := range in {
		length += int(b)
		if b < 255 {
			return length, in[i+1:], nil
		}
	}
	return 0, nil, errLZ4Short
}
