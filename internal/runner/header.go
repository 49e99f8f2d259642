package runner

// This file implements the headers of the worker protocol: length-prefixed JSON. See docs/formats/worker-v1.md.

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// protocolVersion is what a worker must answer to the first request.
const protocolVersion = 1

// maxHeader limits the header of a reply. A traceback of 16 KiB is the longest thing in ours; names of outputs add up
// to less.
const maxHeader = 16 << 20

// replyHeader is what a worker answers.
type replyHeader struct {
	ID      uint64 `json:"id"`
	OK      bool   `json:"ok"`
	Version int    `json:"version"` // of a load

	Image    int64    `json:"image"` // bytes of the output image
	TimeNS   int64    `json:"time_ns"`
	Modified []string `json:"modified"`

	// Launch, where set, makes it no reply but a launch that is to be executed meanwhile, on the tensors of the image.
	Launch json.RawMessage `json:"launch"`

	Reason  string `json:"reason"` // where not ok
	Message string `json:"message"`
	Hint    string `json:"hint"`
	Trace   string `json:"trace"`
}

// workerReasons are the reasons that a worker may give.
var workerReasons = []verdict.Reason{
	verdict.Raised, verdict.MemoryLimit, verdict.OutputLimit, verdict.BadReply, verdict.WrongOutputs, verdict.WrongShape,
	verdict.WrongDType, verdict.NotStarted, verdict.MissingPackage, verdict.Unsupported,
}

// parseReplyHeader reads the JSON of a reply.
func parseReplyHeader(b []byte) (*replyHeader, error) {
	var h replyHeader
	if err := json.Unmarshal(b, &h); err != nil {
		return nil, fmt.Errorf("header is not JSON of a reply: %w", err)
	}
	switch {
	case h.Image < 0 || h.TimeNS < 0:
		return nil, fmt.Errorf("image %d and time_ns %d must not be negative", h.Image, h.TimeNS)
	case h.OK, h.Launch != nil:
		return &h, nil
	case !slices.Contains(workerReasons, verdict.Reason(h.Reason)):
		return nil, fmt.Errorf("reason %q is none of the protocol", h.Reason)
	}
	return &h, nil
}

// failure is what a reply that is not ok says of the case.
func (h *replyHeader) failure(limits Limits) *Failure {
	f := &Failure{Reason: verdict.Reason(h.Reason), Msg: h.Message, Hint: h.Hint, Stderr: h.Trace}
	if f.Msg == "" {
		f.Msg = "the worker gave no message"
	}
	if f.Reason == verdict.MemoryLimit {
		f.Reason = verdict.Raised // without a limit of ours it is an exception like any other
	}
	return f.withMemory(limits, f.Msg)
}

// time is what the worker says it spent in the user's code, if anything.
func (h *replyHeader) time(whole time.Duration) time.Duration {
	if h.TimeNS > 0 {
		return time.Duration(h.TimeNS)
	}
	return whole
}

// readFrame reads one length-prefixed header.
func readFrame(r io.Reader, limit int) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(size[:])
	if int64(n) > int64(limit) {
		return nil, fmt.Errorf("header of %d bytes is over the limit of %d", n, limit)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return b, nil
}

// frame puts the length before a header.
func frame(header []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(make([]byte, 0, 4+len(header)), uint32(len(header))), header...)
}

// loadHeader is the first request to a worker. file and function are "" for a worker that is a program of its own.
// library, where it is not "", is the directory of the Python client, with which launches are sent back.
func loadHeader(id uint64, file, function, library string) []byte {
	b := fmt.Appendf(nil, `{"type":"load","id":%d,"version":%d,"file":`, id, protocolVersion)
	b = appendString(b, file)
	b = append(b, `,"function":`...)
	b = appendString(b, function)
	if library != "" {
		b = appendString(append(b, `,"emulate":`...), library)
	}
	return append(b, '}')
}

// imageRange is where the storage of an input lies in the input image.
type imageRange struct{ begin, end int64 }

// callHeader is the request of one call.
func callHeader(id uint64, call *Call, raw bool, ranges []imageRange, maxImage int64) []byte {
	b := make([]byte, 0, 1024)
	b = fmt.Appendf(b, `{"type":"call","id":%d,"op":`, id)
	b = appendString(b, call.Op)
	b = append(b, `,"case":`...)
	b = appendString(b, call.Case)
	b = fmt.Appendf(b, `,"seed":"%d","dtype":"%s","reference":%v,"max_image":%d,"inputs":[`,
		call.Seed, call.DType, call.Reference, maxImage)
	for i, in := range call.Inputs {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"name":`...)
		b = appendString(b, in.Name)
		t := in.Tensor
		b = fmt.Appendf(b, `,"dtype":"%s","shape":%s,"strides":%s,"offset":%d,"bytes":[%d,%d]}`,
			sentDType(t.DType, raw), t.Shape, tensor.Shape(t.Strides), t.Offset, ranges[i].begin, ranges[i].end)
	}
	b = append(b, `],"attrs":`...)
	b = appendAttrs(b, call.Attrs)
	b = append(b, `,"outputs":[`...)
	for i, o := range call.Outputs {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"name":`...)
		b = appendString(b, o.Name)
		shape := "null"
		if o.Shape != nil {
			shape = o.Shape.String()
		}
		b = fmt.Appendf(b, `,"dtype":"%s","shape":%s}`, sentDType(o.DType, raw), shape)
	}
	return append(appendWorking(append(b, ']'), call.Working), '}')
}

// appendWorking adds how a call in the working precision is evaluated. Only worker.py is ever sent it.
func appendWorking(b []byte, w *Working) []byte {
	if w == nil {
		return b
	}
	return fmt.Appendf(b, `,"working":{"widest":"%s","seed":"%d"}`, w.Widest, w.Seed)
}

// sentDType is the dtype under which a tensor is handed to user code: with raw = true, numpy's own types only.
func sentDType(d dtype.DType, raw bool) dtype.DType {
	if !raw {
		return d
	}
	switch d {
	case dtype.BFloat16:
		return dtype.Uint16
	case dtype.Float8E4M3FN, dtype.Float8E5M2:
		return dtype.Uint8
	}
	return d
}

// nameOutputs gives replies their names: a single output is called "output" whatever the code called it, and with raw =
// true the unsigned integers of a declared bfloat16 or float8 output get their real type back.
func nameOutputs(call *Call, raw bool, outputs []tensor.Named) []tensor.Named {
	declared := func(i int) *Output {
		if len(outputs) == 1 && len(call.Outputs) == 1 {
			return &call.Outputs[0]
		}
		for j := range call.Outputs {
			if call.Outputs[j].Name == outputs[i].Name {
				return &call.Outputs[j]
			}
		}
		return nil
	}
	for i := range outputs {
		if d := declared(i); raw && d != nil && outputs[i].Tensor.DType == sentDType(d.DType, true) {
			outputs[i].Tensor.DType = d.DType
		}
	}
	if len(outputs) == 1 && len(call.Outputs) <= 1 {
		outputs[0].Name = "output"
	}
	return outputs
}

// AttrsJSON returns attributes with the types that a call sends them in, as JSON that every reader takes: an infinity
// is a number that is too large, NaN is null.
func AttrsJSON(attrs opspec.Attrs) []byte {
	out := make(opspec.Attrs, len(attrs))
	for name, v := range attrs {
		out[name] = standard(v)
	}
	return appendAttrs(nil, out)
}

// standard replaces what JSON has no number for.
func standard(v any) any {
	switch v := v.(type) {
	case float64:
		switch {
		case math.IsNaN(v):
			return nil
		case math.IsInf(v, 1):
			return json.RawMessage("1e999")
		case math.IsInf(v, -1):
			return json.RawMessage("-1e999")
		}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = standard(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for name := range v {
			out[name] = standard(v[name])
		}
		return out
	}
	return v
}

// appendAttrs writes attributes, sorted by name. A float keeps its type (1.0, not 1), and one that is not finite is
// written as Python's json module does, because JSON has no way to.
func appendAttrs(b []byte, attrs opspec.Attrs) []byte {
	names := make([]string, 0, len(attrs))
	for name := range attrs {
		names = append(names, name)
	}
	slices.Sort(names)
	b = append(b, '{')
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, name), ':')
		b = appendValue(b, attrs[name])
	}
	return append(b, '}')
}

func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case float64:
		switch {
		case math.IsNaN(v):
			return append(b, "NaN"...)
		case math.IsInf(v, 1):
			return append(b, "Infinity"...)
		case math.IsInf(v, -1):
			return append(b, "-Infinity"...)
		}
		text := strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(text, ".e") {
			text += ".0"
		}
		return append(b, text...)
	case string:
		return appendString(b, v)
	case json.RawMessage:
		return append(b, v...)
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendValue(b, e)
		}
		return append(b, ']')
	case map[string]any:
		return appendAttrs(b, v)
	case nil, bool, int, int64, uint64:
		return fmt.Append(b, jsonScalar(v))
	default:
		panic(fmt.Sprintf("runner: internal error: attribute of type %T", v))
	}
}

func jsonScalar(v any) any {
	if v == nil {
		return "null"
	}
	return v
}

// appendString appends s as a JSON string; <, > and & stay as they are.
func appendString(b []byte, s string) []byte {
	plain := true
	for i := 0; i < len(s) && plain; i++ {
		plain = s[i] >= ' ' && s[i] < 0x7f && s[i] != '"' && s[i] != '\\'
	}
	if plain {
		return append(append(append(b, '"'), s...), '"')
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic("runner: internal error: a string does not encode: " + err.Error())
	}
	return append(b, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...)
}
