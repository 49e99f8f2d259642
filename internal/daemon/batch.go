// This file implements batches for clients that execute kernels themselves: cases in columns, inputs in a shared file.

package daemon

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"gpuemu/internal/campaign"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
	"gpuemu/internal/wire"
)

const (
	// blockAlign is what storages in a batch begin at multiples of: the strictest alignment that a device asks for.
	blockAlign = 256
	// maxZone bounds the bytes around a storage.
	maxZone = 4096
	// maxBatch is how many cases one batch has: what the answer says of them is in memory together.
	maxBatch = 10_000
)

// batch handles POST /v1/batches.
func (s *Server) batch(ctx context.Context, req *wire.BatchRequest) (*wire.Batch, error) {
	if err := checkCases(&req.CasesRequest, maxBatch); err != nil {
		return nil, err
	}
	out, err := newBatchOut(req)
	if err != nil {
		return nil, err
	}
	defer func() { freeImage(out.images) }()
	batch, err := s.handOut(ctx, &req.CasesRequest)
	if err != nil {
		return nil, err
	}
	defer func() { batch.Close(ctx.Err() != nil) }()
	if out.shared, err = openShared(ctx, req.Shared, true); err != nil {
		return nil, err
	}
	defer out.shared.Close()
	for i := req.Start; i < req.Start+req.Count; i++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c, inputs, err := batch.Case(ctx, i)
		if err != nil {
			out.reply.Error = toWire(err)
			break
		}
		if err := out.put(batch, c, inputs); err != nil {
			return nil, err
		}
		if req.MaxBytes > 0 && out.end() >= req.MaxBytes {
			break
		}
	}
	return &out.reply, out.flush()
}

// batchOut is the answer to a request for a batch.
type batchOut struct {
	reply  wire.Batch
	forms  map[string]int // of the reply, by key
	key    []byte         // of the form of a case
	shared *sharedFile
	zone   int
	fill   map[dtype.DType][]byte // patterns; at least zone + blockAlign bytes of those that were used

	// What is still to be written to the shared file, from byte begin on.
	images []byte
	begin  int64
}

func newBatchOut(req *wire.BatchRequest) (*batchOut, error) {
	bad := func(hint, format string, args ...any) (*batchOut, error) {
		return nil, diag.Errorf(BadRequest, hint, format, args...)
	}
	if req.Shared == "" {
		return bad("send the path of a file that takes the inputs", "a batch is asked for without a shared file")
	}
	if req.Zone < 0 || req.Zone > maxZone || req.Zone%blockAlign != 0 {
		return bad(fmt.Sprintf("use a multiple of %d up to %d", blockAlign, maxZone), "zone is %d", req.Zone)
	}
	out := &batchOut{forms: map[string]int{}, zone: req.Zone, fill: map[dtype.DType][]byte{},
		images: newImage(maxGathered)[:0]}
	for name, text := range req.Fill {
		d, err := dtype.Parse(name)
		if err != nil {
			return nil, badName(err)
		}
		pattern, err := hex.DecodeString(text)
		if err != nil || len(pattern) == 0 || len(pattern)%d.Size() != 0 || len(pattern) > blockAlign {
			return bad("send the bytes of whole elements, hexadecimal", "fill of %s is %q", name, cut(text, 40))
		}
		out.fill[d] = pattern
	}
	out.reply = wire.Batch{Forms: []wire.CaseForm{}, Form: []int{}, Seeds: []string{}, Begin: []int64{}}
	return out, nil
}

// end is where the next case begins.
func (o *batchOut) end() int64 { return o.begin + int64(len(o.images)) }

// put adds a case. Storages lie between zones, each from a multiple of blockAlign on.
func (o *batchOut) put(batch *campaign.Batch, c opspec.Case, inputs map[string]*tensor.Tensor) error {
	text := c.String()
	begin, end := seedIn(text)
	form := o.form(batch, c, inputs, text[:begin], text[end:])
	size := o.reply.Forms[form].Size
	if o.end()+size > maxTensors {
		return diag.Errorf(TooLarge, "set max_bytes, or ask for fewer cases at once",
			"the inputs have more than %d bytes", int64(maxTensors))
	}
	o.reply.Form = append(o.reply.Form, form)
	o.reply.Seeds = append(o.reply.Seeds, text[begin:end])
	o.reply.Begin = append(o.reply.Begin, o.end())
	for _, in := range c.Inputs {
		t := inputs[in.Name]
		fill := o.around(t.DType)
		for _, piece := range [][]byte{fill[:o.zone], t.Data, fill[:pad(len(t.Data), blockAlign)-len(t.Data)+o.zone]} {
			if err := o.write(piece); err != nil {
				return err
			}
		}
	}
	return nil
}

// around returns what lies around a storage, zone + blockAlign bytes or more.
func (o *batchOut) around(d dtype.DType) []byte {
	fill := o.fill[d]
	if fill == nil {
		return zeros[:]
	}
	if most := o.zone + blockAlign; len(fill) < most {
		fill = bytes.Repeat(fill, (most+len(fill)-1)/len(fill))
		o.fill[d] = fill
	}
	return fill
}

// zeros are around storages that have no pattern.
var zeros [maxZone + blockAlign]byte

// write adds bytes to the shared file. Small pieces are gathered.
func (o *batchOut) write(b []byte) error {
	if len(o.images)+len(b) > maxGathered {
		if err := o.flush(); err != nil {
			return err
		}
	}
	if len(b) <= maxGathered {
		o.images = append(o.images, b...)
		return nil
	}
	if _, err := o.shared.WriteAt(b, o.begin); err != nil {
		return o.shared.fault("write", err)
	}
	o.begin += int64(len(b))
	return nil
}

// pad rounds up to a multiple.
func pad(n, to int) int { return (n + to - 1) / to * to }

// seedIn returns begin and end of the seed in the text of a case. Everything before it is in quotes or has no space.
func seedIn(text string) (begin, end int) {
	const name, next = " seed=", " gen="
	begin = strings.LastIndex(text, name) + len(name)
	return begin, begin + strings.Index(text[begin:], next)
}

// form returns the place of the form of a case in the answer.
func (o *batchOut) form(
	batch *campaign.Batch, c opspec.Case, inputs map[string]*tensor.Tensor, before, behind string,
) int {
	key := append(append(o.key[:0], before...), behind...)
	for _, in := range c.Inputs {
		t := inputs[in.Name] // strides and offset need not follow from the text
		key = binary.AppendVarint(binary.AppendVarint(key, int64(len(t.Data))), int64(t.Offset))
		for _, n := range t.Strides {
			key = binary.AppendVarint(key, int64(n))
		}
	}
	o.key = key
	if at, ok := o.forms[string(key)]; ok {
		return at
	}
	h, storages := caseHeader(0, c, inputs)
	attrs, outputs := batch.Asked(c)
	describe(h, attrs, outputs)
	f := wire.CaseForm{Op: h.Op, Case: []string{before, behind}, DType: h.DType, Inputs: h.Inputs, Places: [][]int64{},
		Attrs: h.Attrs, Outputs: h.Outputs}
	for _, st := range storages {
		begin, n := f.Size+int64(o.zone), len(st.Tensor.Data)
		f.Places = append(f.Places, []int64{begin, begin + int64(n)})
		f.Size = begin + int64(pad(n, blockAlign)+o.zone)
	}
	o.reply.Forms = append(o.reply.Forms, f)
	o.forms[string(key)] = len(o.reply.Forms) - 1
	return len(o.reply.Forms) - 1
}

// flush writes what was gathered.
func (o *batchOut) flush() error {
	if len(o.images) == 0 {
		return nil
	}
	if _, err := o.shared.WriteAt(o.images, o.begin); err != nil {
		return o.shared.fault("write", err)
	}
	o.begin = o.end()
	o.images = o.images[:0]
	return nil
}
