//go:build unix

package runner

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/verdict"
)

// FuzzReplyHeader: bytes from a worker give a header, or an error, and never more memory than they are long.
func FuzzReplyHeader(f *testing.F) {
	for _, s := range []string{`{"id":1,"ok":true,"image":80,"time_ns":5,"modified":["x"]}`, `{"ok":true,"version":1}`,
		`{"id":1,"ok":false,"reason":"raised","message":"m","hint":"h","trace":"t"}`, `{"ok":false,"reason":"pass"}`,
		`{"image":-1}`, `[]`, ``} {
		f.Add(frame([]byte(s)), []byte("\x08\x00\x00\x00\x00\x00\x00\x00{}      "))
	}
	f.Fuzz(func(t *testing.T, b, image []byte) {
		header, err := readFrame(bytes.NewReader(b), 1<<16)
		if err != nil {
			return
		}
		h, err := parseReplyHeader(header)
		if err != nil {
			return
		}
		if !h.OK {
			if fail := h.failure(Limits{}); fail.Msg == "" || fail.Reason == "" {
				t.Errorf("%q is a failure without reason or message", header)
			}
			return
		}
		outputs, _, err := readImage(bytes.NewReader(image), min(h.Image, int64(len(image))), 1<<20)
		var fail *Failure
		if err != nil && !errors.As(err, &fail) {
			t.Errorf("readImage = %v, want a *Failure", err)
		}
		for _, o := range outputs {
			o.Tensor.Float64s()
		}
	})
}

// FuzzScriptReply: whatever a script writes is outputs or a failure; lifting data out first changes nothing.
func FuzzScriptReply(f *testing.F) {
	call := &Call{Outputs: []Output{{Name: "b", DType: dtype.Int8}, {Name: "a", DType: dtype.Int8}}}
	long := `"` + string(bytes.Repeat([]byte("AAAA"), 100)) + `"`
	for _, s := range []string{
		`{"outputs":{"a":{"shape":[1],"dtype":"int8","data":"AA=="},"b":{"shape":[1],"dtype":"int8","data":"AQ=="}}}`,
		`{"shape":[3],"dtype":"int8","data":"AAAA","strides":[1]}`, `{"outputs":{"a":null}}`, `{"outputs":{}}`, `hello`,
		`{"outputs":{"a":{"shape":[300],"dtype":"int8", "data" : ` + long + `}}} `, `{"data":"#0"}`, `{"data":` + long,
		`{"shape":[2],"dtype":"bool","data":"\u0041AA="}`, `{"data":"\"","x":"\\"}`, "", "{", `{"a":1} x`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		outputs, err := parseScriptReply(b, call)
		var fail *Failure
		if err != nil && (!errors.As(err, &fail) || fail.Reason != verdict.BadReply) {
			t.Errorf("parseScriptReply = %v, want a bad reply", err)
		}
		for _, o := range outputs {
			o.Tensor.Float64s()
		}
		if short, blobs := liftData(bytes.TrimSpace(b)); len(blobs) > 0 {
			back := short
			for i, blob := range blobs {
				back = bytes.Replace(back, []byte(`"#`+string(appendValue(nil, i))+`"`), []byte(`"`+string(blob)+`"`), 1)
			}
			if bytes.IndexByte(b, '#') < 0 && !bytes.Equal(back, bytes.TrimSpace(b)) {
				t.Errorf("lifted %q, back %q", b, back)
			}
		}
		if err == nil && len(b) < 4096 && !json.Valid(b) && !bytes.ContainsAny(b, "\n\r") {
			t.Errorf("%q is no JSON, but a reply", b)
		}
	})
}
