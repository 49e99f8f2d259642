package tensor

// This file implements writing of safetensors.

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"unicode/utf8"

	"gpuemu/internal/diag"
)

// WriteSafetensors writes tensors, in the order given, and metadata, sorted by key: the same arguments give the
// same bytes. A tensor that is not contiguous is written in logical order, like any other.
//
// The format allows no padding between tensors. To keep all of them aligned for readers that map the file, put
// wider dtypes first.
func WriteSafetensors(w io.Writer, ts []Named, meta map[string]string) error {
	header, err := safetensorsHeader(ts, meta)
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

func writeError(err error) error {
	return diag.Errorf(FileWrite, "check the path, its permissions and the free space", "%w", err)
}

// safetensorsHeader returns the length and the JSON header, padded with spaces so that data starts at a multiple
// of 8 bytes.
func safetensorsHeader(ts []Named, meta map[string]string) ([]byte, error) {
	b := make([]byte, 8, 256+128*len(ts))
	b = append(b, '{')
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
		if len(b) > len("00000000{") {
			b = append(b, ',')
		}
		end := at + t.Tensor.Elems()*t.Tensor.DType.Size()
		b = fmt.Appendf(appendJSON(b, t.Name), `:{"dtype":"%s","shape":%s,"data_offsets":[%d,%d]}`,
			safetensorsNames[t.Tensor.DType], t.Tensor.Shape, at, end)
		at = end
	}
	b = append(b, '}')
	for len(b)%8 != 0 {
		b = append(b, ' ')
	}
	if n := len(b) - 8; n > MaxSafetensorsHeader {
		return nil, diag.Errorf(SafetensorsHeader, "write fewer tensors into one file",
			"safetensors: header of %d bytes is over the limit of %d", n, MaxSafetensorsHeader)
	}
	binary.LittleEndian.PutUint64(b, uint64(len(b)-8))
	return b, nil
}

// appendJSON appends s as a JSON string. Names are not for HTML, so <, > and & stay as they are.
func appendJSON(b []byte, s string) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic("tensor: internal error: a string does not encode: " + err.Error())
	}
	return append(b, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...)
}
