package tensor

// This file implements .npy files, versions 1.0 to 3.0 (NumPy: numpy.lib.format).

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
)

const (
	npyMagic = "\x93NUMPY"
	// MaxNPYHeader is the largest header text in bytes. Version 1.0 can hold no more, and the dtypes read here
	// never need more than a few hundred.
	MaxNPYHeader = 1<<16 - 1
	// npyStart is where the data begins in files written here.
	npyStart = 128
)

// npyNames gives the type of each dtype in a header, without its byte order; "" where NumPy has none.
var npyNames = [...]string{
	dtype.Float64: "f8", dtype.Float32: "f4", dtype.Float16: "f2",
	dtype.Int8: "i1", dtype.Int16: "i2", dtype.Int32: "i4", dtype.Int64: "i8",
	dtype.Uint8: "u1", dtype.Uint16: "u2", dtype.Uint32: "u4", dtype.Uint64: "u8", dtype.Bool: "b1",
}

// ParseNPY returns the array of an .npy file. The tensor aliases b unless the data is big-endian or not aligned,
// where it is a converted copy. An array in Fortran order becomes a tensor with such strides, without a copy.
func ParseNPY(b []byte) (*Tensor, error) {
	header, data, err := splitNPY(b)
	if err != nil {
		return nil, err
	}
	p := npyParser{text: header}
	h, err := p.parse()
	if err != nil {
		return nil, err
	}
	d, swap, err := parseNPYDType(h.descr)
	if err != nil {
		return nil, err
	}
	s, err := ParseShape(h.dims)
	if err != nil {
		return nil, inContext(err, "npy: shape: ")
	}
	if err := s.CheckBytes(d); err != nil {
		return nil, inContext(err, "npy: shape: ")
	}
	switch want := s.Elems() * d.Size(); {
	case len(data) < want:
		return nil, diag.Errorf(DataLength, "the file is truncated; write or copy it again",
			"npy: %s of shape %s needs %d bytes, only %d follow the header", d, s, want, len(data))
	case len(data) > want:
		return nil, diag.Errorf(DataLength, "write one array per file",
			"npy: %s of shape %s needs %d bytes, %d more follow", d, s, want, len(data)-want)
	}
	if swap {
		data = byteSwapped(data, d.Size())
	}
	t, err := FromBytes(d, s, alignedTo(d.Size(), data))
	if err != nil || !h.fortran {
		return t, err
	}
	reversed := slices.Clone(s)
	slices.Reverse(reversed)
	t.Strides = reversed.Strides()
	slices.Reverse(t.Strides)
	return t, nil
}

// splitNPY checks magic, version and header length, and returns header text and data.
func splitNPY(b []byte) (header string, data []byte, err error) {
	if len(b) < len(npyMagic)+2 || string(b[:len(npyMagic)]) != npyMagic {
		return "", nil, diag.Errorf(NPYHeader, "write it with numpy.save",
			"npy: file does not start with the .npy magic and version")
	}
	major, minor := b[6], b[7]
	if major < 1 || major > 3 || minor != 0 {
		return "", nil, diag.Errorf(NPYHeader, "write it with format version 1.0, 2.0 or 3.0",
			"npy: format version %d.%d is not known", major, minor)
	}
	b = b[8:]
	width := 4
	if major == 1 {
		width = 2
	}
	if len(b) < width {
		return "", nil, diag.Errorf(NPYHeader, "the file is truncated; write or copy it again",
			"npy: file ends in the header length")
	}
	n := uint64(binary.LittleEndian.Uint16(b))
	if width == 4 {
		n = uint64(binary.LittleEndian.Uint32(b))
	}
	b = b[width:]
	if n > MaxNPYHeader {
		return "", nil, diag.Errorf(NPYHeader, "save a plain array", "npy: header length %d is over the limit of %d bytes",
			n, MaxNPYHeader)
	}
	if n > uint64(len(b)) {
		return "", nil, diag.Errorf(NPYHeader, "the file is truncated; write or copy it again",
			"npy: header length is %d, only %d bytes follow", n, len(b))
	}
	return string(b[:n]), b[n:], nil
}

// parseNPYDType reads a type such as '<f4'; swap is set when the data is big-endian.
func parseNPYDType(descr string) (d dtype.DType, swap bool, err error) {
	const supported = "supported are f8 f4 f2 i1 i2 i4 i8 u1 u2 u4 u8 b1"
	unknown := func(hint string) (dtype.DType, bool, error) {
		return dtype.Invalid, false, diag.Errorf(NPYDType, hint, "npy: descr %s is not supported", quote(descr))
	}
	if len(descr) != 3 {
		return unknown(supported)
	}
	if descr[1] == 'V' {
		return unknown("NumPy saves bfloat16 and float8 as raw bytes without their type; use safetensors for them")
	}
	if !strings.Contains("<>|", descr[:1]) {
		return unknown("the byte order is one of < > |")
	}
	d = dtype.DType(max(slices.Index(npyNames[:], descr[1:]), 0))
	switch {
	case d == dtype.Invalid:
		return unknown(supported)
	case descr[0] == '|' && d.Size() > 1:
		return unknown("a type of several bytes needs its byte order, < or >")
	}
	return d, descr[0] == '>' && d.Size() > 1, nil
}

// byteSwapped returns a copy with the bytes of each element reversed.
func byteSwapped(b []byte, size int) []byte {
	out := make([]byte, len(b))
	switch size {
	case 2:
		for i := 0; i+2 <= len(b); i += 2 {
			binary.LittleEndian.PutUint16(out[i:], binary.BigEndian.Uint16(b[i:]))
		}
	case 4:
		for i := 0; i+4 <= len(b); i += 4 {
			binary.LittleEndian.PutUint32(out[i:], binary.BigEndian.Uint32(b[i:]))
		}
	case 8:
		for i := 0; i+8 <= len(b); i += 8 {
			binary.LittleEndian.PutUint64(out[i:], binary.BigEndian.Uint64(b[i:]))
		}
	default:
		copy(out, b)
	}
	return out
}

// WriteNPY writes t as an .npy file of version 1.0, little-endian, in C order whatever its strides. The header is
// byte for byte that of numpy.save. The format has no bfloat16 and no float8.
func WriteNPY(w io.Writer, t *Tensor) error {
	if !knownDType(t.DType) || npyNames[t.DType] == "" {
		return diag.Errorf(NPYDType, "write it as safetensors", "npy: %s does not exist in .npy files", t.DType)
	}
	order := "<"
	if t.DType.Size() == 1 {
		order = "|"
	}
	dims := make([]string, len(t.Shape))
	for i, d := range t.Shape {
		dims[i] = strconv.Itoa(d)
	}
	shape := strings.Join(dims, ", ")
	if len(dims) == 1 {
		shape += ","
	}
	text := fmt.Sprintf("{'descr': '%s%s', 'fortran_order': False, 'shape': (%s), }", order, npyNames[t.DType], shape)
	// NumPy adds room for the first dimension to grow before it pads to a multiple of 64. Within MaxRank and
	// MaxElems both come to the same length, 128 bytes with magic, version and length.
	const fixed = len(npyMagic) + 2 + 2
	text += strings.Repeat(" ", npyStart-fixed-len(text)-1) + "\n"
	var buf bytes.Buffer
	buf.WriteString(npyMagic)
	buf.Write([]byte{1, 0, byte(len(text)), byte(len(text) >> 8)})
	buf.WriteString(text)
	for _, part := range [][]byte{buf.Bytes(), t.Bytes()} {
		if _, err := w.Write(part); err != nil {
			return writeError(err)
		}
	}
	return nil
}
