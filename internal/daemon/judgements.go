// This file implements the judgement of batches: outputs in a shared file come in, verdicts go out.

package daemon

import (
	"context"
	"fmt"
	"time"

	"gpuemu/internal/campaign"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
	"gpuemu/internal/wire"
)

const (
	// outputAlign is what outputs in a shared file begin at multiples of.
	outputAlign = 64
	// maxRead is how many bytes of outputs are read and judged at once, and maxTogether how many cases: less than the
	// caches of one core hold, and enough for the hand-over to another goroutine to cost nothing.
	maxRead     = 256 << 10
	maxTogether = 32
)

const judgeHint = "docs/formats/http.md describes batches"

// outputForm is a wire.OutputForm that was read.
type outputForm struct {
	op             string
	before, behind string
	outputs        []tableOutput
	size           int64 // bytes of all outputs
}

// tableOutput is an output within those of its case.
type tableOutput struct {
	name       string
	dtype      dtype.DType
	shape      tensor.Shape
	begin, end int64
}

// judgements handles POST /v1/judgements.
func (s *Server) judgements(ctx context.Context, req *wire.JudgeRequest) (*wire.JudgeReply, error) {
	forms, err := checkJudge(req)
	if err != nil {
		return nil, err
	}
	common := campaign.Submission{Tolerance: toleranceOf(req.Tolerance)}
	if common.Store, err = storedBy(req.Store); err != nil {
		return nil, err
	}
	project, err := s.project(req.Config, req.Python, req.Env)
	if err != nil {
		return nil, err
	}
	shared, err := openShared(ctx, req.Shared, false)
	if err != nil {
		return nil, err
	}
	defer shared.Close()
	d := s.newDesk(ctx)
	defer d.close()
	t := &judgeTable{req: req, forms: forms, common: common, project: project, desk: d}
	for from := 0; from < len(req.Form); {
		upTo := t.together(from)
		if err := t.take(shared, from, upTo); err != nil {
			return nil, err
		}
		from = upTo
	}
	if err := d.finish(); err != nil {
		return nil, err
	}
	return t.reply()
}

// checkJudge refuses columns that contradict each other, and reads the forms.
func checkJudge(req *wire.JudgeRequest) ([]outputForm, error) {
	bad := func(format string, args ...any) ([]outputForm, error) {
		return nil, diag.Errorf(BadRequest, judgeHint, format, args...)
	}
	n := len(req.Form)
	switch {
	case n == 0 || n > maxParts:
		return bad("%d cases are to be judged, want 1 to %d", n, maxParts)
	case len(req.Seeds) != n || len(req.Begin) != n || len(req.TimeNS) != n && req.TimeNS != nil:
		return bad("the columns have %d forms, %d seeds, %d beginnings and %d times", n, len(req.Seeds), len(req.Begin),
			len(req.TimeNS))
	}
	forms := make([]outputForm, len(req.Forms))
	for i := range forms {
		var err error
		if forms[i], err = readForm(&req.Forms[i]); err != nil {
			return nil, fmt.Errorf("form %d: %w", i, err)
		}
	}
	end := int64(0)
	for i, f := range req.Form {
		if f < 0 || f >= len(forms) {
			return bad("case %d has form %d, there are %d", i, f, len(forms))
		}
		begin := req.Begin[i]
		switch {
		case begin < end || begin > maxShared:
			return bad("the outputs of case %d begin at %d, those before it end at %d", i, begin, end)
		case begin%outputAlign != 0:
			return bad("the outputs of case %d begin at %d, which is no multiple of %d", i, begin, outputAlign)
		}
		end = begin + forms[f].size
	}
	return forms, nil
}

// maxShared bounds places in a shared file, so that sums of them do not overflow.
const maxShared = 1 << 50

func readForm(f *wire.OutputForm) (outputForm, error) {
	out := outputForm{}
	if len(f.Case) != 2 {
		return out, diag.Errorf(BadRequest, judgeHint, "the text of a case has %d pieces, want 2", len(f.Case))
	}
	out.before, out.behind = f.Case[0], f.Case[1]
	c, err := opspec.ParseCase(out.before + "0" + out.behind)
	if err != nil {
		return out, err
	}
	out.op = c.Op
	for _, o := range f.Outputs {
		d, err := dtype.Parse(o.DType)
		if err != nil {
			return out, badName(err)
		}
		shape, err := tensor.ParseShape(o.Shape)
		if err != nil {
			return out, err
		}
		if err := shape.CheckBytes(d); err != nil {
			return out, err
		}
		begin := (out.size + outputAlign - 1) / outputAlign * outputAlign
		out.size = begin + int64(shape.Elems())*int64(d.Size())
		out.outputs = append(out.outputs, tableOutput{o.Name, d, shape, begin, out.size})
	}
	if out.size > maxTensors {
		return out, diag.Errorf(TooLarge, "use smaller tensors", "outputs have %d bytes, at most %d are allowed", out.size,
			int64(maxTensors))
	}
	return out, nil
}

// judgeTable is a batch that is being judged.
type judgeTable struct {
	req     *wire.JudgeRequest
	forms   []outputForm
	common  campaign.Submission
	project campaign.Project
	desk    *desk
}

// together returns the end of the cases that are judged together, from one on.
func (t *judgeTable) together(from int) int {
	bytes := int64(0)
	for i := from; i < len(t.req.Form); i++ {
		size := t.forms[t.req.Form[i]].size
		// What lies between two outputs is read with them, and need not be little.
		bytes = t.req.Begin[i] + size - t.req.Begin[from]
		if i > from && (bytes > maxRead || i-from == maxTogether) {
			return i
		}
	}
	return len(t.req.Form)
}

// take reads the outputs of some cases and has them judged. The error is one of the whole request.
func (t *judgeTable) take(shared *sharedFile, from, upTo int) error {
	d := t.desk
	if err := d.ctx.Err(); err != nil {
		return err
	}
	at := span{begin: t.req.Begin[from], end: t.req.Begin[upTo-1] + t.forms[t.req.Form[upTo-1]].size}
	d.free <- struct{}{} // before the outputs are read: no more of them are in memory than are judged
	leave := func() { <-d.free }
	if err := d.s.hold(at.end - at.begin); err != nil {
		leave()
		return err
	}
	image, err := shared.read(at)
	if err != nil {
		d.s.drop(at.end - at.begin)
		leave()
		return err
	}
	parts := make([]submittedPart, upTo-from)
	for i := range parts {
		d.parts = append(d.parts, &parts[i])
	}
	d.judge(func() {
		defer func() {
			freeImage(image)
			d.s.drop(at.end - at.begin)
			leave()
		}()
		for i := range parts {
			row := from + i
			parts[i].judged, parts[i].err = t.judge(row, image[t.req.Begin[row]-at.begin:])
		}
	})
	return nil
}

// judge judges one case. data begins with its outputs.
func (t *judgeTable) judge(row int, data []byte) (*campaign.Judged, error) {
	form := &t.forms[t.req.Form[row]]
	sub := t.common
	sub.Op, sub.Case = form.op, form.before+t.req.Seeds[row]+form.behind
	if t.req.TimeNS != nil {
		sub.Time = time.Duration(t.req.TimeNS[row])
	}
	sub.Outputs = make([]tensor.Named, len(form.outputs))
	for i := range form.outputs {
		o := &form.outputs[i]
		x, err := tensor.FromBytes(o.dtype, o.shape, data[o.begin:o.end:o.end])
		if err != nil {
			return nil, fmt.Errorf("output %q: %w", o.name, err)
		}
		sub.Outputs[i] = tensor.Named{Name: o.name, Tensor: x}
	}
	return t.desk.judging.Judge(t.desk.ctx, t.project, &sub)
}

// reply is the answer. Brief: of cases that passed nothing but that they did; thousands of them are sent to be counted,
// and what is stored is whole.
func (t *judgeTable) reply() (*wire.JudgeReply, error) {
	reply := &wire.JudgeReply{Results: make([]*wire.Submitted, len(t.desk.parts))}
	for i, p := range t.desk.parts {
		switch {
		case p.err != nil:
			reply.Results[i] = &wire.Submitted{Error: toWire(p.err)}
		case !t.req.Brief || p.judged.Result.Verdict != verdict.Pass:
			text, err := encodeResult(p.judged.Result)
			if err != nil {
				return nil, err
			}
			reply.Results[i] = &wire.Submitted{Result: text}
		}
	}
	return reply, nil
}
