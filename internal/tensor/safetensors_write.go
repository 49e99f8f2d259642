package tensor

// This file implements writing of safetensors.

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"gpuemu/internal/diag"
)

// WriteSafetensors writes tensors, in the order given, and metadata, sorted by key: the same arguments give the
// same bytes. A tensor that is not contiguous is written in logical order, like any other.
//
// The format allows no padding between tensors. To keep all of them aligned for readers that map the file, put
// wider dtypes first.
func WriteSafetensors(w io.Writer, ts []Named, meta map[string]string) error {
	header, err := appendHeader(nil, ts, meta)
	if err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return writeError(err)
	}
	for _, t := range ts {
		if _, err := w.Write(t.Tensor.Bytes()); err != nil {
			return writeError(err)
		}
	}
	return nil
}

// AppendSafetensors appends what WriteSafetensors writes, without metadata, to b: for images so small that a call of
// the system for each costs more than the copy.
func AppendSafetensors(b []byte, ts []Named) ([]byte, error) {
	b, err := appendHeader(b, ts, nil)
	if err != nil {
		return nil, err
	}
	for _, t := range ts {
		b = append(b, t.Tensor.Bytes()...)
	}
	return b, nil
}

func writeError(err error) error {
	return diag.Errorf(FileWrite, "check the path, its permissions and the free space", "%w", err)
}

// appendHeader appends the length and the JSON header, padded with spaces so that data starts at a multiple of 8 bytes
// behind the end of b.
func appendHeader(b []byte, ts []Named, meta map[string]string) ([]byte, error) {
	start := len(b)
	b = append(slices.Grow(b, 256+128*len(ts)), "00000000{"...)
	if len(meta) > 0 {
		b = append(appendJSON(b, metadataKey), ':', '{')
		for i, k := range slices.Sorted(maps.Keys(meta)) {
			if !utf8.ValidString(k) || !utf8.ValidString(meta[k]) {
				return nil, diag.Errorf(SafetensorsName, "use text", "safetensors: metadata %s is not UTF-8", quote(k))
			}
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendJSON(b, k), ':')
			b = appendJSON(b, meta[k])
		}
		b = append(b, '}')
	}
	seen := map[string]bool{metadataKey: true}
	at := 0
	for _, t := range ts {
		if seen[t.Name] || !utf8.ValidString(t.Name) {
			return nil, diag.Errorf(SafetensorsName, "give every tensor its own name in UTF-8",
				"safetensors: name %s is given twice, reserved or not UTF-8", quote(t.Name))
		}
		seen[t.Name] = true
		if !knownDType(t.Tensor.DType) {
			return nil, inField(diag.Errorf(SafetensorsDType, "set the dtype of the tensor",
				"%s has no name in safetensors", t.Tensor.DType), t.Name, "dtype")
		}
		if len(b) > start+len("00000000{") {
			b = append(b, ',')
		}
		end := at + t.Tensor.Elems()*t.Tensor.DType.Size()
		b = append(append(appendJSON(b, t.Name), `:{"dtype":"`...), safetensorsNames[t.Tensor.DType]...)
		b = appendInts(append(b, `","shape":`...), t.Tensor.Shape)
		b = append(appendInts(append(b, `,"data_offsets":`...), []int{at, end}), '}')
		at = end
	}
	b = append(b, '}')
	for (len(b)-start)%8 != 0 {
		b = append(b, ' ')
	}
	n := len(b) - start - 8
	if n > MaxSafetensorsHeader {
		return nil, diag.Errorf(SafetensorsHeader, "write fewer tensors into one file",
			"safetensors: header of %d bytes is over the limit of %d", n, MaxSafetensorsHeader)
	}
	binary.LittleEndian.PutUint64(b[start:], uint64(n))
	return b, nil
}

// appendInts appends a JSON array.
func appendInts(b []byte, list []int) []byte {
	b = append(b, '[')
	for i, n := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return append(b, ']')
}

// appendJSON appends s as a JSON string. Names are not for HTML, so <, > and & stay as they are.
func appendJSON(b []byte, s string) []byte {
	if plain(s) {
		return append(append(append(b, '"'), s...), '"')
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic("tensor: internal error: a string does not encode: " + err.Error())
	}
	return append(b, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...)
}

// plain reports whether s stands in JSON as it is: almost every name does.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' || c == 0x7f {
			return false
		}
	}
	return true
}
