package runner

// This file implements the messages of one-shot scripts: JSON with base64. See docs/formats/script-v1.md.

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// headShown is how much of a reply that cannot be read stands in the message.
const headShown = 200

// scriptRequest is what a script reads from standard input. Tensors are row-major copies: a script sees values, not
// layouts.
func scriptRequest(call *Call, raw bool) []byte {
	size := 1024 + len(call.Case)
	for _, in := range call.Inputs {
		size += 256 + base64.StdEncoding.EncodedLen(in.Tensor.Elems()*in.Tensor.DType.Size())
	}
	b := make([]byte, 0, size)
	b = append(b, `{"op_name":`...)
	b = appendString(b, call.Op)
	b = append(b, `,"op":`...)
	b = appendString(b, call.Op)
	b = append(b, `,"inputs":{`...)
	for i, in := range call.Inputs {
		if i > 0 {
			b = append(b, ',')
		}
		t := in.Tensor
		b = append(appendString(b, in.Name), ':')
		b = fmt.Appendf(b, `{"shape":%s,"strides":%s,"dtype":"%s","data":"`,
			t.Shape, tensor.Shape(t.Shape.Strides()), sentDType(t.DType, raw))
		b = base64.StdEncoding.AppendEncode(b, t.Bytes())
		b = append(b, `"}`...)
	}
	b = append(b, `},"kwargs":`...)
	b = appendAttrs(b, call.Attrs)
	b = append(b, `,"case":`...)
	b = appendString(b, call.Case)
	return fmt.Appendf(b, `,"seed":"%d","dtype":"%s"}`, call.Seed, call.DType)
}

// scriptTensor is a tensor in a reply. Strides, which some scripts send, say nothing: data is row-major.
type scriptTensor struct {
	Shape *[]int64 `json:"shape"`
	DType *string  `json:"dtype"`
	Data  *string  `json:"data"`
}

// scriptReply is either form of a reply.
type scriptReply struct {
	Outputs map[string]*scriptTensor `json:"outputs"`
	scriptTensor
}

// parseScriptReply reads what a script wrote to standard output. Outputs come in the order of call.Outputs, others
// after them by name. The error is a *Failure.
func parseScriptReply(stdout []byte, call *Call) ([]tensor.Named, error) {
	text := bytes.TrimSpace(stdout)
	if len(text) == 0 {
		return nil, badReply("the script wrote nothing to standard output",
			`write {"outputs": {name: {"shape", "dtype", "data"}}}`)
	}
	if text[0] != '{' {
		return nil, badReply("standard output does not begin with the JSON of a reply"+headOf(text),
			"print to standard error: standard output is for the reply alone")
	}
	short, blobs := liftData(text)
	dec := json.NewDecoder(bytes.NewReader(short))
	var reply scriptReply
	if err := dec.Decode(&reply); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, badReply("the JSON on standard output ends in the middle"+headOf(text), "")
		}
		return nil, badReply(fmt.Sprintf("standard output is not the JSON of a reply: %v%s", err, headOf(text)), "")
	}
	if rest := bytes.TrimSpace(short[dec.InputOffset():]); len(rest) > 0 {
		return nil, badReply("standard output goes on after the reply"+headOf(rest),
			"print to standard error: standard output is for the reply alone")
	}
	if reply.Outputs == nil && reply.Data != nil {
		reply.Outputs = map[string]*scriptTensor{"output": &reply.scriptTensor}
	}
	if len(reply.Outputs) == 0 {
		return nil, badReply("the reply has no outputs"+headOf(text),
			`write {"outputs": {name: {"shape", "dtype", "data"}}}, or one such tensor alone`)
	}
	outputs := make([]tensor.Named, 0, len(reply.Outputs))
	for _, name := range orderedNames(reply.Outputs, call) {
		t, err := reply.Outputs[name].tensor(blobs)
		if err != nil {
			return nil, badReply(fmt.Sprintf("output %q: %v", name, err), "")
		}
		outputs = append(outputs, tensor.Named{Name: name, Tensor: t})
	}
	return outputs, nil
}

// orderedNames are the names of a reply: declared ones first, in their order.
func orderedNames(outputs map[string]*scriptTensor, call *Call) []string {
	rank := map[string]int{}
	for i, o := range call.Outputs {
		rank[o.Name] = i - len(call.Outputs)
	}
	names := make([]string, 0, len(outputs))
	for name := range outputs {
		names = append(names, name)
	}
	slices.Sort(names)
	slices.SortStableFunc(names, func(x, y string) int { return rank[x] - rank[y] })
	return names
}

// liftMin is the length above which data is lifted out of a reply before it is parsed.
const liftMin = 256

// liftData takes long values of the key "data" out of JSON text and puts "#0", "#1" … in their place, which no base64
// can be: package json reads 100 MB/s, and nearly all of a reply is data. Text that is no JSON stays none.
func liftData(text []byte) (short []byte, blobs [][]byte) {
	kept, key := 0, false // text before kept is in short; the string before was the key "data"
	for at := 0; ; {
		open := bytes.IndexByte(text[at:], '"')
		if open < 0 {
			break
		}
		isValue := key && string(bytes.TrimSpace(text[at:at+open])) == ":"
		begin := at + open + 1
		end := stringEnd(text, begin)
		if end < 0 {
			break
		}
		value := text[begin:end]
		if isValue && len(value) > liftMin && bytes.IndexByte(value, '\\') < 0 {
			short = fmt.Appendf(append(short, text[kept:begin]...), "#%d", len(blobs))
			blobs = append(blobs, value)
			kept = end
		}
		key = string(value) == "data"
		at = end + 1
	}
	return append(short, text[kept:]...), blobs
}

// stringEnd returns the index of the quote that ends the string whose content begins at at, or -1.
func stringEnd(text []byte, at int) int {
	for {
		i := bytes.IndexByte(text[at:], '"')
		if i < 0 {
			return -1
		}
		escapes := 0
		for j := at + i - 1; j >= at && text[j] == '\\'; j-- {
			escapes++
		}
		if at += i; escapes%2 == 0 {
			return at
		}
		at++
	}
}

func (s *scriptTensor) tensor(blobs [][]byte) (*tensor.Tensor, error) {
	switch {
	case s == nil:
		return nil, errors.New("it is null")
	case s.Shape == nil:
		return nil, errors.New("it has no shape")
	case s.DType == nil:
		return nil, errors.New("it has no dtype")
	case s.Data == nil:
		return nil, errors.New("it has no data")
	}
	d, err := dtype.Parse(*s.DType)
	if err != nil {
		return nil, err
	}
	shape, err := tensor.ParseShape(*s.Shape)
	if err != nil {
		return nil, err
	}
	encoded := []byte(*s.Data)
	if number, ok := strings.CutPrefix(*s.Data, "#"); ok {
		if i, err := strconv.Atoi(number); err == nil && i >= 0 && i < len(blobs) {
			encoded = blobs[i]
		}
	}
	data := make([]byte, base64.StdEncoding.DecodedLen(len(encoded)))
	n, err := base64.StdEncoding.Decode(data, encoded)
	if err != nil {
		return nil, fmt.Errorf("data of %d characters is not base64: %w", len(encoded), err)
	}
	data = data[:n]
	return tensor.FromBytes(d, shape, data)
}

func badReply(msg, hint string) *Failure {
	return &Failure{Reason: verdict.BadReply, Msg: msg, Hint: hint}
}

// headOf shows the beginning of what was written.
func headOf(b []byte) string {
	if len(b) > headShown {
		return fmt.Sprintf(": %q... (%d bytes)", b[:headShown], len(b))
	}
	return fmt.Sprintf(": %q", b)
}
