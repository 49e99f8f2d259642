// This file implements the client's side of execution by the client: cases come in, outputs go out.

package daemon

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
	"gpuemu/internal/wire"
)

// Cases asks for cases and calls each for every one, with its inputs in their layouts.
func (c *Client) Cases(
	ctx context.Context, req *wire.CasesRequest, each func(*wire.CaseHeader, []tensor.Named) error,
) error {
	resp, err := c.send(ctx, http.MethodPost, "/v1/cases", req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	in := bufio.NewReaderSize(resp.Body, 1<<16)
	for {
		text, err := readHeader(in)
		if err != nil {
			return lost(ctx, err)
		}
		if text == nil {
			return nil
		}
		var h wire.CaseHeader
		if err := json.Unmarshal(text, &h); err != nil {
			return diag.Errorf(Internal, "", "the daemon sent a case that cannot be read: %w", err)
		}
		if h.Error != nil {
			return fromWire(h.Error)
		}
		image, err := readImage(in, func(int64) error { return nil })
		if err != nil {
			return lost(ctx, err)
		}
		inputs, err := views(h.Inputs, image)
		if err != nil {
			return err
		}
		if err := each(&h, inputs); err != nil {
			return err
		}
	}
}

// views makes the tensors that a header describes.
func views(list []wire.View, image []byte) ([]tensor.Named, error) {
	storages, _, err := tensor.ParseSafetensors(image)
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{}
	for _, st := range storages {
		data[st.Name] = st.Tensor.Data
	}
	var out []tensor.Named
	for _, v := range list {
		d, err := dtype.Parse(v.DType)
		if err != nil {
			return nil, badName(err)
		}
		shape, err := tensor.ParseShape(v.Shape)
		if err != nil {
			return nil, err
		}
		strides := make([]int, len(v.Strides))
		for i, n := range v.Strides {
			strides[i] = int(n)
		}
		t, err := tensor.FromStorage(d, shape, strides, int(v.Offset), data[v.Storage])
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", v.Name, err)
		}
		out = append(out, tensor.Named{Name: v.Name, Tensor: t})
	}
	return out, nil
}

// Submit sends what a client computed and returns the judgement. inputs are nil where the header names a case.
func (c *Client) Submit(
	ctx context.Context, h *wire.SubmitHeader, inputs, outputs []tensor.Named,
) (*verdict.Result, error) {
	var tensors []tensor.Named
	for _, t := range inputs {
		tensors = append(tensors, tensor.Named{Name: inputPrefix + t.Name, Tensor: t.Tensor})
	}
	for _, t := range outputs {
		tensors = append(tensors, tensor.Named{Name: outputPrefix + t.Name, Tensor: t.Tensor})
	}
	head, size, err := partHead(h, tensors)
	if err != nil {
		return nil, err
	}
	body, w := io.Pipe()
	go func() { w.CloseWithError(tensor.WriteSafetensors(w, tensors, nil)) }() // ends when the other side stops reading
	defer body.Close()
	resp, err := c.sendBody(ctx, http.MethodPost, "/v1/submit", submitType,
		&sizedBody{io.MultiReader(bytes.NewReader(head), body), int64(len(head)) + size})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var reply wire.SubmitReply
	if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil {
		return nil, lost(ctx, err)
	}
	var out *verdict.Result
	return out, decode(reply.Result, &out)
}

// sizedBody is a body whose length is known: it travels as it is, not in chunks.
type sizedBody struct {
	io.Reader
	size int64
}
