// This file implements submissions: what clients computed comes in, verdicts go out.

package daemon

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"gpuemu/internal/campaign"
	"gpuemu/internal/compare"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/runner"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
	"gpuemu/internal/wire"
)

// Prefixes of the names of tensors in a submission. Without one it is an output.
const (
	inputPrefix    = "inputs/"
	outputPrefix   = "outputs/"
	againPrefix    = "again/"
	expectedPrefix = "expected/"
)

const (
	// maxParts is how many submissions one request may have: their results are in memory together.
	maxParts = 100_000
	// maxSentence and maxTrace bound what a client says of an execution, which is stored and printed. They are bytes.
	maxSentence = 4 << 10
	maxTrace    = 64 << 10
)

const submitHint = "docs/formats/http.md describes submissions"

// submit handles POST /v1/submit: one part, without an end mark.
func (s *Server) submit(w http.ResponseWriter, r *http.Request) error {
	d := s.newDesk(r.Context())
	defer d.close()
	body := bufio.NewReaderSize(r.Body, 1<<16)
	header, err := readHeader(body)
	if err == nil && header == nil {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		err = d.take(header, body)
	}
	if err != nil {
		return tooEarly(err)
	}
	if err := d.finish(); err != nil {
		return err
	}
	if err := d.parts[0].err; err != nil {
		return err
	}
	reply, err := submitted(d.parts[0].judged.Result)
	if err != nil {
		return err
	}
	return sendJSON(w, http.StatusOK, reply)
}

// submissions handles POST /v1/submissions: any number of parts, and a header of length 0 at the end.
func (s *Server) submissions(w http.ResponseWriter, r *http.Request) error {
	d := s.newDesk(r.Context())
	defer d.close()
	body := bufio.NewReaderSize(r.Body, 1<<16)
	for {
		header, err := readHeader(body)
		if err == nil && header == nil {
			break
		}
		if err == nil {
			err = d.take(header, body)
		}
		if err != nil {
			return tooEarly(err)
		}
	}
	if err := d.finish(); err != nil {
		return err
	}
	reply := &wire.SubmissionsReply{Results: make([]wire.Submitted, len(d.parts))}
	for i, p := range d.parts {
		if p.err != nil {
			reply.Results[i].Error = toWire(p.err)
			continue
		}
		text, err := answer(p.judged.Result, d.first.Brief)
		if err != nil {
			return err
		}
		reply.Results[i].Result = text
	}
	return sendJSON(w, http.StatusOK, reply)
}

// answer is what a client is told of a result. Brief: of one that passed little; thousands of them are sent to be
// counted, and what is stored is whole.
func answer(r *verdict.Result, brief bool) (json.RawMessage, error) {
	if !brief || r.Verdict != verdict.Pass {
		return encodeResult(r)
	}
	return marshal(struct {
		Op      string          `json:"op"`
		Seed    verdict.Seed    `json:"seed"`
		Verdict verdict.Verdict `json:"verdict"`
	}{r.Op, r.Seed, r.Verdict})
}

// tooEarly says what the end of a body within a part means.
func tooEarly(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return diag.Errorf(BadRequest, submitHint, "the body ends too early: %w", err)
	}
	return err
}

// desk takes the parts of one request. They are judged by several goroutines while later ones are read, and stored
// together at the end. All fields but busy and free belong to the goroutine of the request.
type desk struct {
	s        *Server
	ctx      context.Context
	judging  *campaign.Judging
	first    *wire.SubmitHeader // whose configuration, op and interpreter the others have by default
	parts    []*submittedPart
	kept     int64                          // bytes held for results
	projects map[[3]string]campaign.Project // by path, interpreter and environment
	env      string                         // of first
	// ownSchema is that of the last part which has one, and ownText its text.
	ownSchema *opspec.Schema
	ownText   string
	files     map[string]*sharedFile
	taken     map[string][]span // of the files, by parts before; in order
	free      chan struct{}     // has room for another judgement
	work      chan func()       // judgements, for the judges
	judges    int
	busy      sync.WaitGroup // judges
}

// submittedPart is a part and what came of it. It belongs to the goroutine that judges it until that has ended.
type submittedPart struct {
	judged *campaign.Judged
	err    error
}

// span is a range of bytes, those of a part.
type span struct {
	begin, end int64
	part       int
}

// insert adds a span to a list in order, which may be long, unless it overlaps another, which is then returned.
func insert(list []span, s span) (_ []span, other *span) {
	i, _ := slices.BinarySearchFunc(list, s.begin, func(x span, begin int64) int { return cmp.Compare(x.begin, begin) })
	switch {
	case i > 0 && list[i-1].end > s.begin:
		return list, &list[i-1]
	case i < len(list) && list[i].begin < s.end:
		return list, &list[i]
	}
	return slices.Insert(list, i, s), nil
}

func (s *Server) newDesk(ctx context.Context) *desk {
	return &desk{s: s, ctx: ctx, judging: s.engine.NewJudging(), projects: map[[3]string]campaign.Project{},
		files: map[string]*sharedFile{}, taken: map[string][]span{}, free: make(chan struct{}, runtime.GOMAXPROCS(0)),
		work: make(chan func())}
}

// judge has f called by one of the judges. They serve for the whole request: a goroutine for each part would grow its
// stack each time.
func (d *desk) judge(f func()) {
	if d.judges < cap(d.free) {
		d.judges++
		work := d.work // the field is the request's
		d.busy.Go(func() {
			for f := range work {
				f()
			}
		})
	}
	d.work <- f
}

// wait returns when everything is judged. Nothing can be judged any more then.
func (d *desk) wait() {
	if d.work != nil {
		close(d.work)
		d.work = nil
	}
	d.busy.Wait()
}

// close gives back what the desk holds. It waits for what is being judged.
func (d *desk) close() {
	d.wait()
	d.s.drop(d.kept)
	d.judging.Close()
	for _, f := range d.files {
		f.Close()
	}
}

// take reads the image of a part, whose header was read, and has it judged. The error is one of the whole request; what
// is wrong with this part alone is kept for its place in the answer.
func (d *desk) take(header []byte, body io.Reader) error {
	if len(d.parts) == maxParts {
		return diag.Errorf(TooLarge, "send several requests", "the request has more than %d parts", maxParts)
	}
	if err := d.ctx.Err(); err != nil {
		return err
	}
	// Of a part a result is kept that is no longer than what the client says of it, and some numbers.
	if err := d.s.hold(int64(len(header))); err != nil {
		return err
	}
	d.kept += int64(len(header))
	d.free <- struct{}{} // before the image is read: no more images are in memory than are judged
	var held int64
	var image []byte
	leave := func() {
		freeImage(image) // results have texts, no tensors
		d.s.drop(held)
		<-d.free
	}
	hold := func(n int64) error {
		err := d.s.hold(n)
		if err == nil {
			held += n
		}
		return err
	}
	var err error
	if image, err = readImage(body, hold); err != nil {
		leave()
		return err
	}
	p := &submittedPart{}
	d.parts = append(d.parts, p)
	var h *wire.SubmitHeader
	var project campaign.Project
	h, project, image, err = d.open(header, image, hold)
	if err != nil {
		leave()
		if d.first == nil { // the others depend on it
			return err
		}
		p.err = err
		return nil
	}
	schema, err := d.schema(h)
	d.judge(func() {
		defer leave()
		if err != nil {
			p.err = err
			return
		}
		sub, err := submission(h, image, &d.s.images)
		if err == nil {
			sub.Schema = schema
			p.judged, err = d.judging.Judge(d.ctx, project, sub)
		}
		p.err = err
	})
	return nil
}

// open reads a header and finds what it refers to.
func (d *desk) open(header, image []byte, hold func(int64) error) (
	*wire.SubmitHeader, campaign.Project, []byte, error,
) {
	none := campaign.Project{}
	h := new(wire.SubmitHeader)
	if err := json.Unmarshal(header, h); err != nil {
		return nil, none, nil, diag.Errorf(BadRequest, submitHint, "the header is not a submission: %w", err)
	}
	env := d.env
	if h.Env != nil || d.first == nil {
		env = fmt.Sprint(h.Env == nil) + strings.Join(h.Env.List(), "\x00")
	} else {
		h.Env = d.first.Env
	}
	if d.first == nil {
		d.first, d.env = h, env
	} else if err := d.inherit(h); err != nil {
		return nil, none, nil, err
	}
	key := [3]string{h.Config, h.Python, env}
	project, ok := d.projects[key]
	if !ok {
		var err error
		if project, err = d.s.project(h.Config, h.Python, h.Env); err != nil {
			return nil, none, nil, err
		}
		d.projects[key] = project
	}
	if h.Shared == "" && h.Bytes == nil {
		return h, project, image, nil
	}
	image, err := d.sharedImage(h, len(image), hold)
	return h, project, image, err
}

// schema reads the schema of a part, once where many have the same.
func (d *desk) schema(h *wire.SubmitHeader) (*opspec.Schema, error) {
	if len(h.Schema) == 0 {
		return nil, nil
	}
	if h.Case == "" {
		return nil, diag.Errorf(BadRequest, submitHint, "a schema is given without the case that was made from it")
	}
	if d.ownSchema == nil || string(h.Schema) != d.ownText {
		s, err := opspec.ParseSchema(h.Schema)
		if err != nil {
			return nil, err
		}
		d.ownSchema, d.ownText = s, string(h.Schema)
	}
	return d.ownSchema, nil
}

// inherit sets what the header leaves to the first one. The text of a case has its op.
func (d *desk) inherit(h *wire.SubmitHeader) error {
	if h.Config == "" {
		h.Config = d.first.Config
	}
	if h.Python == "" {
		h.Python = d.first.Python
	}
	if len(h.Schema) == 0 && h.Case != "" {
		h.Schema = d.first.Schema
	}
	if h.Op != "" || h.Case != "" {
		return nil
	}
	h.Op = d.first.Op
	if h.Op == "" && d.first.Case != "" {
		c, err := opspec.ParseCase(d.first.Case)
		h.Op = c.Op
		return err
	}
	return nil
}

// imageSpan checks where an image is to lie in a shared file. Inline is the length of the one in the part.
func imageSpan(shared string, bytes []int64, inline int) (span, error) {
	bad := func(hint, format string, args ...any) (span, error) {
		return span{}, diag.Errorf(BadRequest, hint, format, args...)
	}
	switch {
	case shared == "":
		return bad("send the path of the file as well", "bytes are given without a shared file")
	case inline > 0:
		return bad("send one of them", "an image is in the part and in a shared file")
	case len(bytes) != 2 || bytes[0] < 0 || bytes[1] < bytes[0]:
		return bad("send [begin, end]", "bytes of the shared file are %v", bytes)
	case bytes[1]-bytes[0] > maxTensors:
		return span{}, diag.Errorf(TooLarge, "use smaller tensors", "an image has %d bytes, at most %d are allowed",
			bytes[1]-bytes[0], int64(maxTensors))
	}
	return span{begin: bytes[0], end: bytes[1]}, nil
}

// sharedImage reads an image out of the shared file. Two parts with the same bytes are a mistake of the client's.
func (d *desk) sharedImage(h *wire.SubmitHeader, inline int, hold func(int64) error) ([]byte, error) {
	at, err := imageSpan(h.Shared, h.Bytes, inline)
	if err != nil {
		return nil, err
	}
	at.part = len(d.parts) - 1
	taken, other := insert(d.taken[h.Shared], at)
	if other != nil {
		return nil, diag.Errorf(BadRequest, "give every part bytes of its own",
			"bytes %v of the shared file overlap those of part %d, [%d %d]",
			h.Bytes, other.part, other.begin, other.end)
	}
	f := d.files[h.Shared]
	if f == nil {
		var err error
		if f, err = openShared(d.ctx, h.Shared, false); err != nil {
			return nil, err
		}
		d.files[h.Shared] = f
	}
	if err := hold(at.end - at.begin); err != nil {
		return nil, err
	}
	d.taken[h.Shared] = taken
	return f.read(at)
}

// finish waits for all judgements and stores them.
func (d *desk) finish() error {
	d.wait()
	if err := d.ctx.Err(); err != nil {
		return err
	}
	var list []*campaign.Judged
	for _, p := range d.parts {
		if p.err == nil {
			list = append(list, p.judged)
		}
	}
	return d.s.engine.Keep(d.ctx, list)
}

// submission divides the tensors of an image by their prefixes, and converts the header.
func submission(h *wire.SubmitHeader, image []byte, images *tensor.Images) (*campaign.Submission, error) {
	sub := &campaign.Submission{Op: h.Op, Case: h.Case, Attrs: h.Kwargs, Time: time.Duration(h.TimeNS)}
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
	var err error
	if h.DType != "" {
		if sub.DType, err = dtype.Parse(h.DType); err != nil {
			return nil, badName(err)
		}
	}
	if sub.Store, err = storedBy(h.Store); err != nil {
		return nil, err
	}
	if f := h.Failure; f != nil {
		sub.Failure = &runner.Failure{Reason: verdict.Reason(cut(f.Reason, 40)), Msg: cut(f.Message, maxSentence),
			Hint: cut(f.Hint, maxSentence), Stderr: tailOf(f.Trace, maxTrace)}
		if f.Message == "" {
			sub.Failure.Msg = "the client gave no message"
		}
	}
	for _, f := range h.Findings {
		sub.Findings = append(sub.Findings, verdict.Finding{Kind: cut(f.Kind, 40), Name: cut(f.Name, maxSentence),
			Sentence: cut(f.Sentence, maxSentence)})
	}
	sub.Tolerance = toleranceOf(h.Tolerance)
	if len(image) == 0 && sub.Failure != nil {
		return sub, nil
	}
	tensors, err := images.Parse(image)
	divide(sub, tensors)
	return sub, err
}

// storedBy reads what is to be stored.
func storedBy(word string) (campaign.Stored, error) {
	switch word {
	case "", "all":
		return campaign.StoreAll, nil
	case "failures":
		return campaign.StoreFailures, nil
	case "none":
		return campaign.StoreNone, nil
	}
	return 0, diag.Errorf(BadRequest, "use all, failures or none", "store is %q", cut(word, 40))
}

func toleranceOf(t *wire.CaseTolerance) *compare.Tolerance {
	if t == nil {
		return nil
	}
	return &compare.Tolerance{Abs: t.ATol, Rel: t.RTol}
}

// divide gives tensors their places in a submission.
func divide(sub *campaign.Submission, tensors []tensor.Named) {
	places := []struct {
		prefix string
		list   *[]tensor.Named
	}{{inputPrefix, &sub.Inputs}, {againPrefix, &sub.Again}, {expectedPrefix, &sub.Expected}, {outputPrefix, &sub.Outputs},
		{"", &sub.Outputs}}
	for _, t := range tensors {
		for _, p := range places {
			if name, ok := strings.CutPrefix(t.Name, p.prefix); ok {
				*p.list = append(*p.list, tensor.Named{Name: name, Tensor: t.Tensor})
				break
			}
		}
	}
}

// tailOf returns the end of a text, where traces say what happened.
func tailOf(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	text = text[len(text)-limit:]
	for len(text) > 0 && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return fmt.Sprintf("…%s", text)
}
