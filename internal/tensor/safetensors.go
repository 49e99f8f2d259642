package tensor

// This file implements reading of safetensors: 8 bytes of header length, a JSON header, then the data of all
// tensors without holes (https://github.com/huggingface/safetensors, section Format).

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
)

// MaxSafetensorsHeader is the largest JSON header in bytes, the limit of the reference implementation.
const MaxSafetensorsHeader = 100_000_000

// metadataKey is the one header key that is not a tensor.
const metadataKey = "__metadata__"

// Named is a tensor with its name in a container.
type Named struct {
	Name   string
	Tensor *Tensor
}

// safetensorsNames gives the name of each dtype in a safetensors header.
var safetensorsNames = [...]string{
	dtype.Float64: "F64", dtype.Float32: "F32", dtype.Float16: "F16", dtype.BFloat16: "BF16",
	dtype.Float8E4M3FN: "F8_E4M3", dtype.Float8E5M2: "F8_E5M2",
	dtype.Int8: "I8", dtype.Int16: "I16", dtype.Int32: "I32", dtype.Int64: "I64",
	dtype.Uint8: "U8", dtype.Uint16: "U16", dtype.Uint32: "U32", dtype.Uint64: "U64", dtype.Bool: "BOOL",
}

func parseSafetensorsDType(name string) (dtype.DType, bool) {
	i := slices.Index(safetensorsNames[:], name)
	return dtype.DType(max(i, 0)), i > 0
}

// entry is one tensor of a header before its data is looked at.
type entry struct {
	name       string
	dtype      dtype.DType
	shape      Shape
	begin, end int64
}

// ParseSafetensors returns the tensors of a safetensors file in the order of its header, and its metadata (nil
// when there is none). Tensors alias b where their data is aligned to the element size, and are copies elsewhere.
// It accepts no file that the format forbids: no duplicate names, no unknown fields, no holes, overlaps or
// trailing bytes. Errors name the tensor and the field.
func ParseSafetensors(b []byte) ([]Named, map[string]string, error) {
	raw, data, err := divide(b)
	if err != nil {
		return nil, nil, err
	}
	p := newHeaderParser(raw)
	if err := p.parse(); err != nil {
		return nil, nil, err
	}
	ts, err := tensorsOf(p.entries, data)
	return ts, p.metadata, err
}

// divide returns the JSON header of a file, and its data.
func divide(b []byte) (header, data []byte, err error) {
	if len(b) < 8 {
		return nil, nil, diag.Errorf(SafetensorsHeader, "check that this is a complete safetensors file",
			"safetensors: file has %d bytes, the header length alone takes 8", len(b))
	}
	n := binary.LittleEndian.Uint64(b)
	if n > MaxSafetensorsHeader {
		return nil, nil, diag.Errorf(SafetensorsHeader, "check that this is a safetensors file",
			"safetensors: header length %d is over the limit of %d bytes", n, MaxSafetensorsHeader)
	}
	if n > uint64(len(b)-8) {
		return nil, nil, diag.Errorf(SafetensorsHeader, "the file is truncated; write or copy it again",
			"safetensors: header length is %d, only %d bytes follow", n, len(b)-8)
	}
	return b[8 : 8+n], b[8+n:], nil
}

// tensorsOf gives the entries of a header their data.
func tensorsOf(entries []entry, data []byte) ([]Named, error) {
	if err := checkRanges(entries, int64(len(data))); err != nil {
		return nil, err
	}
	ts := make([]Named, len(entries))
	for i, e := range entries {
		t, err := FromBytes(e.dtype, e.shape, alignedTo(e.dtype.Size(), data[e.begin:e.end:e.end]))
		if err != nil {
			return nil, inField(err, e.name, "data_offsets")
		}
		ts[i] = Named{e.name, t}
	}
	return ts, nil
}

// alignedTo returns b, or a copy of it when its first byte is not at a multiple of size.
func alignedTo(size int, b []byte) []byte {
	if len(b) == 0 || uintptr(unsafe.Pointer(&b[0]))%uintptr(size) == 0 {
		return b
	}
	return bytes.Clone(b)
}

// inField puts the tensor and the field in front of the message of err.
func inField(err error, tensor, field string) error {
	return inContext(err, "safetensors: tensor "+quote(tensor)+": "+field+": ")
}

// inContext puts text in front of the message of err, which keeps its code and hint.
func inContext(err error, text string) error {
	var e *diag.Error
	if !errors.As(err, &e) {
		panic("tensor: internal error: an error without a code: " + err.Error())
	}
	return &diag.Error{Pos: e.Pos, Code: e.Code, Msg: text + e.Msg, Hint: e.Hint, Err: e.Err}
}

// quote is %q for text from a file, cut to what a message can bear.
func quote(s string) string {
	if c := cut(s); c != s {
		return strconv.Quote(strings.TrimSuffix(c, "...")) + "..."
	}
	return strconv.Quote(s)
}

// cut shortens s to what a message can bear.
func cut(s string) string {
	const limit = 64
	if len(s) > limit {
		return s[:limit] + "..."
	}
	return s
}

// checkRanges proves that the data ranges cover size bytes exactly once and that each has the length of its
// tensor. The length comes first: it is the likelier cause where both are wrong.
func checkRanges(entries []entry, size int64) error {
	const (
		hint  = "write the file again with a safetensors library"
		short = "the file is truncated or its header is wrong; write or copy it again"
	)
	fault := func(e entry, format string, args ...any) error {
		return inField(diag.Errorf(SafetensorsOffsets, hint, format, args...), e.name, "data_offsets")
	}
	for _, e := range entries {
		switch want := int64(e.shape.Elems()) * int64(e.dtype.Size()); {
		case e.begin > e.end:
			return fault(e, "begin %d is after end %d", e.begin, e.end)
		case e.end > size:
			return inField(diag.Errorf(SafetensorsOffsets, short, "end %d is past the %d bytes of data", e.end, size),
				e.name, "data_offsets")
		case e.end-e.begin != want:
			return inField(diag.Errorf(DataLength, hint, "%s of shape %s needs %d bytes, the range %d to %d has %d",
				e.dtype, e.shape, want, e.begin, e.end, e.end-e.begin), e.name, "data_offsets")
		}
	}
	sorted := slices.Clone(entries)
	slices.SortStableFunc(sorted, func(x, y entry) int {
		return cmp.Or(cmp.Compare(x.begin, y.begin), cmp.Compare(x.end, y.end))
	})
	at := int64(0)
	for i, e := range sorted {
		switch {
		case e.begin > at:
			return fault(e, "begin %d leaves a hole after byte %d", e.begin, at)
		case e.begin < at:
			return fault(e, "begin %d overlaps tensor %s, which ends at %d", e.begin, quote(sorted[i-1].name), at)
		}
		at = e.end
	}
	if at != size {
		return diag.Errorf(SafetensorsOffsets, hint,
			"safetensors: %d bytes of data follow the last tensor, which ends at %d", size-at, at)
	}
	return nil
}

// headerParser reads the JSON header token by token: unlike json.Unmarshal this sees duplicate keys, numbers
// that are not integers, and keys in another case.
type headerParser struct {
	raw      []byte
	dec      *json.Decoder
	names    map[string]bool
	entries  []entry
	metadata map[string]string
}

func newHeaderParser(raw []byte) *headerParser {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	return &headerParser{raw: raw, dec: dec, names: map[string]bool{}}
}

// fault is a malformed header; tensor may be "" when the fault is outside a tensor.
func (p *headerParser) fault(tensor, format string, args ...any) error {
	e := diag.Errorf(SafetensorsHeader, "write the file again with a safetensors library", format, args...)
	where := "safetensors: "
	if tensor != "" {
		where += "tensor " + quote(tensor) + ": "
	}
	e.Msg = where + e.Msg
	return e
}

// token returns the next token; the JSON faults of the header are reported here.
func (p *headerParser) token() (json.Token, error) {
	tok, err := p.dec.Token()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, p.fault("", "header is not JSON at byte %d: %w", p.dec.InputOffset(), err)
	}
	return tok, nil
}

// expect reads one delimiter.
func (p *headerParser) expect(want json.Delim, tensor, what string) error {
	tok, err := p.token()
	if err != nil {
		return err
	}
	if tok != want {
		return p.fault(tensor, "%s is %s, want %q", what, describe(tok), want.String())
	}
	return nil
}

// describe names a token in an error message.
func describe(tok json.Token) string {
	switch v := tok.(type) {
	case nil:
		return "null"
	case string:
		return quote(v)
	case json.Number:
		return cut(v.String())
	default:
		return fmt.Sprint(v)
	}
}

func (p *headerParser) parse() error {
	// The format asks for '{' as first byte, and the JSON decoder would replace bad UTF-8 without a word.
	if len(p.raw) == 0 || p.raw[0] != '{' {
		return p.fault("", "header does not start with '{'")
	}
	if !utf8.Valid(p.raw) {
		return p.fault("", "header is not UTF-8")
	}
	if err := p.expect('{', "", "header"); err != nil {
		return err
	}
	for p.dec.More() {
		name, err := p.key()
		if err != nil {
			return err
		}
		if p.names[name] {
			return diag.Errorf(SafetensorsName, "give every tensor its own name",
				"safetensors: name %s stands twice in the header", quote(name))
		}
		p.names[name] = true
		if name == metadataKey {
			err = p.parseMetadata()
		} else {
			err = p.parseEntry(name)
		}
		if err != nil {
			return err
		}
	}
	if err := p.expect('}', "", "end of header"); err != nil {
		return err
	}
	if rest := p.raw[p.dec.InputOffset():]; len(bytes.Trim(rest, " ")) != 0 {
		return p.fault("", "header has bytes other than spaces after its end at byte %d", p.dec.InputOffset())
	}
	return nil
}

// key reads an object key, which the decoder has made sure is a string.
func (p *headerParser) key() (string, error) {
	tok, err := p.token()
	if err != nil {
		return "", err
	}
	s, ok := tok.(string)
	if !ok {
		return "", p.fault("", "header key is %s, want a string", describe(tok))
	}
	return s, nil
}

func (p *headerParser) parseMetadata() error {
	if err := p.expect('{', "", metadataKey); err != nil {
		return err
	}
	p.metadata = map[string]string{}
	for p.dec.More() {
		k, err := p.key()
		if err != nil {
			return err
		}
		tok, err := p.token()
		if err != nil {
			return err
		}
		v, ok := tok.(string)
		if !ok {
			return p.fault("", "%s: value of %s is %s, want a string", metadataKey, quote(k), describe(tok))
		}
		if _, twice := p.metadata[k]; twice {
			return p.fault("", "%s: key %s stands there twice", metadataKey, quote(k))
		}
		p.metadata[k] = v
	}
	return p.expect('}', "", "end of "+metadataKey)
}

func (p *headerParser) parseEntry(name string) error {
	if err := p.expect('{', name, "entry"); err != nil {
		return err
	}
	e := entry{name: name}
	seen := map[string]bool{}
	for p.dec.More() {
		field, err := p.key()
		if err != nil {
			return err
		}
		if seen[field] {
			return p.fault(name, "field %s stands there twice", quote(field))
		}
		seen[field] = true
		switch field {
		case "dtype":
			err = p.parseDType(&e)
		case "shape":
			err = p.parseShape(&e)
		case "data_offsets":
			err = p.parseOffsets(&e)
		default:
			err = p.fault(name, "unknown field %s", quote(field))
		}
		if err != nil {
			return err
		}
	}
	if err := p.expect('}', name, "end of entry"); err != nil {
		return err
	}
	for _, field := range []string{"dtype", "shape", "data_offsets"} {
		if !seen[field] {
			return p.fault(name, "field %q is missing", field)
		}
	}
	if err := e.shape.CheckBytes(e.dtype); err != nil {
		return inField(err, name, "shape")
	}
	p.entries = append(p.entries, e)
	return nil
}

func (p *headerParser) parseDType(e *entry) error {
	tok, err := p.token()
	if err != nil {
		return err
	}
	s, ok := tok.(string)
	if !ok {
		return p.fault(e.name, "dtype: got %s, want a string", describe(tok))
	}
	if e.dtype, ok = parseSafetensorsDType(s); !ok {
		return inField(diag.Errorf(SafetensorsDType,
			"supported are F64 F32 F16 BF16 F8_E4M3 F8_E5M2 I8 I16 I32 I64 U8 U16 U32 U64 BOOL",
			"unknown dtype %s", quote(s)), e.name, "dtype")
	}
	return nil
}

func (p *headerParser) parseShape(e *entry) error {
	dims, err := p.parseInts(e.name, "shape", MaxRank)
	if err != nil {
		return err
	}
	if len(dims) > MaxRank {
		return inField(diag.Errorf(ShapeRank, "merge dimensions before testing",
			"more than %d dimensions", MaxRank), e.name, "shape")
	}
	if e.shape, err = ParseShape(dims); err != nil {
		return inField(err, e.name, "shape")
	}
	return nil
}

func (p *headerParser) parseOffsets(e *entry) error {
	v, err := p.parseInts(e.name, "data_offsets", 2)
	if err != nil {
		return err
	}
	if len(v) != 2 {
		return p.fault(e.name, "data_offsets: want 2 numbers")
	}
	for _, x := range v {
		if x < 0 {
			return inField(diag.Errorf(SafetensorsOffsets, "write the file again with a safetensors library",
				"offset %d is negative", x), e.name, "data_offsets")
		}
	}
	e.begin, e.end = v[0], v[1]
	return nil
}

// parseInts reads an array of integers. It gives up after limit+1 of them, so that a long array costs nothing;
// the caller refuses what is longer than limit.
func (p *headerParser) parseInts(name, field string, limit int) ([]int64, error) {
	if err := p.expect('[', name, field); err != nil {
		return nil, err
	}
	v := make([]int64, 0, limit+1)
	for p.dec.More() {
		if len(v) > limit {
			return v, nil
		}
		tok, err := p.token()
		if err != nil {
			return nil, err
		}
		num, ok := tok.(json.Number)
		if !ok {
			return nil, p.fault(name, "%s: got %s, want an integer", field, describe(tok))
		}
		x, err := strconv.ParseInt(num.String(), 10, 64)
		if err != nil {
			return nil, p.fault(name, "%s: %s is not an integer of 64 bits", field, cut(num.String()))
		}
		v = append(v, x)
	}
	return v, p.expect(']', name, "end of "+field)
}
