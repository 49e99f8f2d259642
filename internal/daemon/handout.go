// This file implements cases for clients that execute kernels themselves.

package daemon

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"

	"gpuemu/internal/campaign"
	"gpuemu/internal/diag"
	"gpuemu/internal/opspec"
	"gpuemu/internal/runner"
	"gpuemu/internal/tensor"
	"gpuemu/internal/wire"
)

const (
	// maxHandOut is how many cases one request may ask for; the next request begins where it ended.
	maxHandOut = 1_000_000
	// imageAlign is what the images in a shared file begin at multiples of: the cache line of every CPU we know.
	imageAlign = 64
	// maxGathered is how many bytes of images are written to a shared file at once, with one call of the system.
	maxGathered = 256 << 10
)

// cases handles POST /v1/cases: one part per case, and a header of length 0 at the end.
func (s *Server) cases(w http.ResponseWriter, r *http.Request) error {
	var req wire.CasesRequest
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	if err := checkCases(&req, maxHandOut); err != nil {
		return err
	}
	batch, err := s.handOut(r.Context(), &req)
	if err != nil {
		return err
	}
	defer func() { batch.Close(r.Context().Err() != nil) }()
	out := &handOut{w: bufio.NewWriterSize(w, 1<<16)}
	if req.Shared != "" {
		if out.shared, err = openShared(r.Context(), req.Shared, true); err != nil {
			return err
		}
		defer out.shared.Close()
	}
	w.Header().Set("Content-Type", casesType)
	w.WriteHeader(http.StatusOK)
	for i := req.Start; i < req.Start+req.Count; i++ {
		if err := r.Context().Err(); err != nil {
			return err
		}
		c, inputs, err := batch.Case(r.Context(), i)
		if err != nil {
			return out.refuse(i, err)
		}
		header, storages := caseHeader(i, c, inputs)
		attrs, outputs := batch.Asked(c)
		describe(header, attrs, outputs)
		if err := out.put(header, storages); err != nil {
			return err
		}
		if req.MaxBytes > 0 && out.bytes >= req.MaxBytes || out.ended {
			break
		}
	}
	return out.end()
}

// checkCases refuses a request for cases that cannot be meant, or for more than most.
func checkCases(req *wire.CasesRequest, most int) error {
	if req.Case != "" && req.Count == 0 {
		req.Count = 1
	}
	switch {
	case req.Count < 1 || req.Count > most:
		return diag.Errorf(BadRequest, fmt.Sprintf("use 1 to %d", most), "%d cases asked for", req.Count)
	case req.Start < 0 || req.Start > campaign.MaxCases:
		return diag.Errorf(BadRequest, fmt.Sprintf("use 0 to %d", campaign.MaxCases), "start is %d", req.Start)
	case req.Case != "" && (req.Count != 1 || len(req.Attrs) > 0):
		return diag.Errorf(BadRequest, "send the case alone: its text says everything",
			"a case is given, and a count of %d and %d attributes beside it", req.Count, len(req.Attrs))
	case req.MaxBytes < 0:
		return diag.Errorf(BadRequest, "use 0 for no limit", "max_bytes is %d", req.MaxBytes)
	}
	return nil
}

func (s *Server) handOut(ctx context.Context, req *wire.CasesRequest) (*campaign.Batch, error) {
	p, err := s.project(req.Config, req.Python, req.Env)
	if err != nil {
		return nil, err
	}
	o, err := options(req.Values, req.Shapes, req.DTypes, req.Layouts, req.Dims)
	if err != nil {
		return nil, err
	}
	if o.Ranks, err = ranks(req.Ranks); err != nil {
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
	return s.engine.HandOut(ctx, p, campaign.HandOut{Op: req.Op, Schema: schema, Options: o, Attrs: req.Attrs,
		Case: req.Case})
}

// handOut is the answer to a request for cases.
type handOut struct {
	w      *bufio.Writer
	shared *sharedFile // nil: images are in the answer
	bytes  int64       // of images so far
	next   int64       // where the next image may begin in the shared file
	ended  bool        // an error was the last part

	// Images that are still to be written to the shared file, from byte begin on, and what the answer says of them. The
	// first is that of case first.
	images []byte
	begin  int64
	heads  []byte
	first  int
}

// put writes a case. Its image is in the shared file before its header is sent.
func (o *handOut) put(h *wire.CaseHeader, storages []tensor.Named) error {
	if o.shared != nil {
		return o.share(h, storages)
	}
	head, size, err := partHead(h, storages)
	if err != nil {
		return err
	}
	o.bytes += size
	if _, err := o.w.Write(head); err != nil {
		return err
	}
	return tensor.WriteSafetensors(o.w, storages, nil)
}

// share is put where there is a shared file. Small images are gathered.
func (o *handOut) share(h *wire.CaseHeader, storages []tensor.Named) error {
	data := int64(0)
	for _, st := range storages {
		data += int64(len(st.Tensor.Data))
	}
	if int64(len(o.images))+data > maxGathered {
		if err := o.flush(); err != nil || o.ended {
			return err
		}
	}
	begin := (o.next + imageAlign - 1) / imageAlign * imageAlign
	if begin+data > maxTensors {
		return o.refuse(h.Index, diag.Errorf(TooLarge, "set max_bytes, or ask for fewer cases at once",
			"the images have more than %d bytes", int64(maxTensors)))
	}
	if data > maxGathered {
		to := &offsetWriter{o.shared, begin}
		if err := tensor.WriteSafetensors(to, storages, nil); err != nil {
			return o.refuse(h.Index, o.shared.fault("write", err))
		}
		o.next = to.at
	} else {
		if len(o.images) == 0 {
			o.images, o.begin, o.first = newImage(maxGathered + maxGathered/4)[:0], begin, h.Index // headers and gaps
		}
		o.images = append(o.images, make([]byte, begin-o.begin-int64(len(o.images)))...)
		var err error
		if o.images, err = tensor.AppendSafetensors(o.images, storages); err != nil {
			return err
		}
		o.next = o.begin + int64(len(o.images))
	}
	o.bytes += o.next - begin
	h.Bytes = []int64{begin, o.next}
	text, err := marshal(h)
	if err != nil {
		return err
	}
	o.heads = append(binary.LittleEndian.AppendUint32(o.heads, uint32(len(text))), text...)
	o.heads = binary.LittleEndian.AppendUint64(o.heads, 0) // not even an image without tensors
	return nil
}

// flush writes what was gathered.
func (o *handOut) flush() error {
	images, heads := o.images, o.heads
	o.images, o.heads = nil, o.heads[:0]
	defer freeImage(images)
	if len(images) > 0 {
		if _, err := o.shared.WriteAt(images, o.begin); err != nil {
			return o.refuse(o.first, o.shared.fault("write", err))
		}
	}
	_, err := o.w.Write(heads)
	return err
}

// offsetWriter writes to a file from a place on, and says where it ended.
type offsetWriter struct {
	io.WriterAt
	at int64
}

func (w *offsetWriter) Write(b []byte) (int, error) {
	n, err := w.WriteAt(b, w.at)
	w.at += int64(n)
	return n, err
}

// refuse ends a hand-out with an error. The cases before it are handed out.
func (o *handOut) refuse(i int, err error) error {
	if flushed := o.flush(); flushed != nil || o.ended {
		return flushed
	}
	text, err := marshal(wire.CaseHeader{Index: i, Error: toWire(err)})
	if err != nil {
		return err
	}
	if _, err := o.w.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(text)))); err != nil {
		return err
	}
	if _, err := o.w.Write(text); err != nil {
		return err
	}
	o.ended = true
	return o.w.Flush()
}

// end says that all cases were handed out.
func (o *handOut) end() error {
	if err := o.flush(); err != nil || o.ended {
		return err
	}
	if _, err := o.w.Write(make([]byte, 4)); err != nil {
		return err
	}
	return o.w.Flush()
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

// describe adds what a candidate is given and asked for.
func describe(h *wire.CaseHeader, attrs opspec.Attrs, outputs []runner.Output) {
	h.Attrs = runner.AttrsJSON(attrs)
	for _, o := range outputs {
		h.Outputs = append(h.Outputs, wire.OutputSpec{Name: o.Name, DType: o.DType.String(), Shape: int64s(o.Shape)})
	}
}

func int64s(list []int) []int64 {
	out := make([]int64, len(list))
	for i, n := range list {
		out[i] = int64(n)
	}
	return out
}
