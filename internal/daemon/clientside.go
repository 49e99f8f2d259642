// This file implements work with clients that execute kernels themselves: cases go out, outputs come in. Both travel as
// parts: the length of a JSON header, the header, the length of a safetensors image, the image.

package daemon

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"gpuemu/internal/campaign"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
	"gpuemu/internal/wire"
)

const (
	// maxTensors is the largest image of one request: as much as one tensor may have.
	maxTensors = tensor.MaxBytes
	// maxTensorsHeld is how many bytes of images may be in memory at once, over all requests.
	maxTensorsHeld = 2 * maxTensors
	// maxHandOut is how many cases one request may ask for; the next request begins where it ended.
	maxHandOut = 1_000_000
	// eagerImage is how much of an image is allocated before any of it has arrived. What is larger grows with what
	// arrives, so that a length that lies costs nothing.
	eagerImage = 64 << 20
)

// Prefixes of the names of tensors in a submission.
const (
	inputPrefix  = "inputs/"
	outputPrefix = "outputs/"
)

// cases handles POST /v1/cases: one part per case, and a header of length 0 at the end.
func (s *Server) cases(w http.ResponseWriter, r *http.Request) error {
	var req wire.CasesRequest
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	switch {
	case req.Count < 1 || req.Count > maxHandOut:
		return diag.Errorf(BadRequest, fmt.Sprintf("use 1 to %d", maxHandOut), "%d cases asked for", req.Count)
	case req.Start < 0 || req.Start > campaign.MaxCases:
		return diag.Errorf(BadRequest, fmt.Sprintf("use 0 to %d", campaign.MaxCases), "start is %d", req.Start)
	}
	batch, err := s.handOut(&req)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, 1<<16)
	w.Header().Set("Content-Type", casesType)
	w.WriteHeader(http.StatusOK)
	for i := req.Start; i < req.Start+req.Count; i++ {
		if err := r.Context().Err(); err != nil {
			return err
		}
		c, inputs, err := batch.Case(i)
		if err != nil {
			return refusePart(out, i, err)
		}
		header, storages := caseHeader(i, c, inputs)
		if err := writePart(out, header, storages); err != nil {
			return err
		}
	}
	if _, err := out.Write(make([]byte, 4)); err != nil {
		return err
	}
	return out.Flush()
}

func (s *Server) handOut(req *wire.CasesRequest) (*campaign.Batch, error) {
	p, err := s.project(req.Config, "")
	if err != nil {
		return nil, err
	}
	o, err := options(req.Values, req.Shapes, req.DTypes, req.Layouts)
	if err != nil {
		return nil, err
	}
	seed := uint64(req.Seed)
	o.Seed = &seed
	var schema *opspec.Schema
	if len(req.Schema) > 0 {
		if schema, err = opspec.ParseSchema(req.Schema); err != nil {
			return nil, err
		}
	}
	return s.engine.HandOut(p, campaign.HandOut{Op: req.Op, Schema: schema, Options: o})
}

// refusePart ends a hand-out with an error.
func refusePart(out *bufio.Writer, i int, err error) error {
	text, err := marshal(wire.CaseHeader{Index: i, Error: toWire(err)})
	if err != nil {
		return err
	}
	if _, err := out.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(text)))); err != nil {
		return err
	}
	if _, err := out.Write(text); err != nil {
		return err
	}
	return out.Flush()
}

// caseHeader describes a case and the storages of its inputs. Storages are flat: layouts with gaps and strides reach
// the client as they are.
func caseHeader(i int, c opspec.Case, inputs map[string]*tensor.Tensor) (*wire.CaseHeader, []tensor.Named) {
	h := &wire.CaseHeader{Index: i, Op: c.Op, Case: c.String(), Seed: wire.Seed(c.Seed), DType: c.DType.String(),
		Inputs: []wire.View{}}
	var storages []tensor.Named
	for _, in := range inOrder(c, inputs) {
		t := in.Tensor
		h.Inputs = append(h.Inputs, wire.View{Name: in.Name, DType: t.DType.String(), Shape: int64s(t.Shape),
			Strides: int64s(t.Strides), Offset: int64(t.Offset), Storage: in.Name})
		elems := len(t.Data) / t.DType.Size()
		storages = append(storages, tensor.Named{Name: in.Name, Tensor: &tensor.Tensor{
			DType: t.DType, Shape: tensor.Shape{elems}, Strides: []int{1}, Data: t.Data}})
	}
	return h, storages
}

func int64s(list []int) []int64 {
	out := make([]int64, len(list))
	for i, n := range list {
		out[i] = int64(n)
	}
	return out
}

// counter counts bytes.
type counter struct{ n int64 }

func (c *counter) Write(b []byte) (int, error) {
	c.n += int64(len(b))
	return len(b), nil
}

// writePart writes a header and its image.
func writePart(w io.Writer, header any, tensors []tensor.Named) error {
	head, _, err := partHead(header, tensors)
	if err != nil {
		return err
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	return tensor.WriteSafetensors(w, tensors, nil)
}

// partHead returns what stands before the image of a part, and the length of the image, which is counted and not kept.
func partHead(header any, tensors []tensor.Named) (head []byte, image int64, err error) {
	text, err := marshal(header)
	if err != nil {
		return nil, 0, err
	}
	var size counter
	if err := tensor.WriteSafetensors(&size, tensors, nil); err != nil {
		return nil, 0, err
	}
	head = append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...)
	return binary.LittleEndian.AppendUint64(head, uint64(size.n)), size.n, nil
}

// part is one header with its image.
type part struct {
	header []byte
	image  []byte
}

// readHeader reads the header of a part; nil means the end.
func readHeader(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(size[:])
	switch {
	case n == 0:
		return nil, nil
	case n > maxJSON:
		return nil, diag.Errorf(TooLarge, "", "a header has %d bytes, at most %d are allowed", n, maxJSON)
	}
	return readGrowing(r, int(n))
}

// readImage reads the image of a part. admit is asked before anything is allocated.
func readImage(r io.Reader, admit func(n int64) error) ([]byte, error) {
	var size [8]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(size[:])
	if n > maxTensors {
		return nil, diag.Errorf(TooLarge, "use smaller tensors", "an image has %d bytes, at most %d are allowed", n,
			uint64(maxTensors))
	}
	if err := admit(int64(n)); err != nil {
		return nil, err
	}
	return readGrowing(r, int(n))
}

// readGrowing reads n bytes into a buffer that grows with what has arrived.
func readGrowing(r io.Reader, n int) ([]byte, error) {
	buf := make([]byte, min(n, eagerImage))
	for got := 0; ; {
		if _, err := io.ReadFull(r, buf[got:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if got = len(buf); got == n {
			return buf, nil
		}
		grown := make([]byte, min(n, 4*got))
		copy(grown, buf)
		buf = grown
	}
}

// hold counts the bytes of images in memory; drop must be called with the same number.
func (s *Server) hold(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held+n > maxTensorsHeld {
		return diag.Errorf(Busy, "try again when others are done", "%d bytes of tensors are being judged", s.held)
	}
	s.held += n
	return nil
}

func (s *Server) drop(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held -= n
}

const submitHint = "docs/formats/http.md describes submissions"

// submit handles POST /v1/submit: one part, without an end mark.
func (s *Server) submit(w http.ResponseWriter, r *http.Request) error {
	body := bufio.NewReaderSize(r.Body, 1<<16)
	var held int64
	defer func() { s.drop(held) }()
	p, err := readSubmission(body, func(n int64) error {
		err := s.hold(n)
		if err == nil {
			held = n
		}
		return err
	})
	if err != nil {
		return err
	}
	var h wire.SubmitHeader
	if err := json.Unmarshal(p.header, &h); err != nil {
		return diag.Errorf(BadRequest, submitHint, "the header is not a submission: %w", err)
	}
	project, err := s.project(h.Config, h.Python)
	if err != nil {
		return err
	}
	sub, err := submission(&h, p.image)
	if err != nil {
		return err
	}
	res, err := s.engine.Submit(r.Context(), project, *sub)
	if err != nil {
		return err
	}
	reply, err := submitted(res)
	if err != nil {
		return err
	}
	return sendJSON(w, http.StatusOK, reply)
}

// readSubmission reads the one part of a submission.
func readSubmission(r io.Reader, admit func(int64) error) (*part, error) {
	header, err := readHeader(r)
	if err == nil && header == nil {
		err = io.ErrUnexpectedEOF
	}
	var image []byte
	if err == nil {
		image, err = readImage(r, admit)
	}
	if err == nil {
		return &part{header, image}, nil
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, diag.Errorf(BadRequest, submitHint, "the body ends too early: %w", err)
	}
	return nil, err
}

// submission divides the tensors of an image into inputs and outputs.
func submission(h *wire.SubmitHeader, image []byte) (*campaign.Submission, error) {
	tensors, _, err := tensor.ParseSafetensors(image)
	if err != nil {
		return nil, err
	}
	sub := &campaign.Submission{Op: h.Op, Case: h.Case, Attrs: h.Kwargs}
	if h.Seed != nil {
		sub.Seed = uint64(*h.Seed)
	}
	if sub.Op == "" && h.Case != "" {
		c, err := opspec.ParseCase(h.Case)
		if err != nil {
			return nil, err
		}
		sub.Op = c.Op
	}
	for _, t := range tensors {
		if name, ok := strings.CutPrefix(t.Name, inputPrefix); ok {
			sub.Inputs = append(sub.Inputs, tensor.Named{Name: name, Tensor: t.Tensor})
			continue
		}
		sub.Outputs = append(sub.Outputs, tensor.Named{Name: strings.TrimPrefix(t.Name, outputPrefix), Tensor: t.Tensor})
	}
	if len(sub.Outputs) == 0 {
		return nil, diag.Errorf(BadRequest, "name outputs "+outputPrefix+"NAME", "the image has no outputs")
	}
	return sub, nil
}

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
