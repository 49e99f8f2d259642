// This file implements reading the JSON form back. The file may come from anywhere: a cache of a CI service, an edited
// baseline, a half-written file.

package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"gpuemu/internal/diag"
	"gpuemu/internal/escape"
	"gpuemu/internal/verdict"
)

// Limits of what is read. Campaigns have at most 10 million cases (campaign.MaxCases).
const (
	MaxBytes       = 1 << 30
	MaxResults     = 10_000_000
	maxResultBytes = 4 << 20 // one result: its case has at most 1 MiB, what a kernel printed a few KiB
	maxOutputs     = 64      // of one case; schemas have at most 16
	maxWorst       = 1000    // elements listed for one output
)

type limits struct {
	bytes   int64
	results int
}

// ReadFile reads a report from a file. A file that does not exist is an error for which errors.Is(err, os.ErrNotExist)
// holds.
func ReadFile(path string) (*Document, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, unreadable(path, errors.New("it is no regular file")) // a pipe would be waited for
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer f.Close()
	return Read(f, path)
}

// Read reads a report with all its results. name is the file in messages.
func Read(r io.Reader, name string) (*Document, error) {
	return read(r, name, limits{MaxBytes, MaxResults})
}

func read(r io.Reader, name string, max limits) (*Document, error) {
	var results []verdict.Result
	doc, err := scan(r, name, max, func(res *verdict.Result) error {
		results = append(results, *res)
		return nil
	})
	if err != nil {
		return nil, err
	}
	doc.Results = results
	if doc.Results == nil {
		doc.Results = []verdict.Result{}
	}
	return doc, nil
}

// Scan reads a report and hands its results to visit one by one; the document it returns has none. What was visited is
// only worth something if Scan returns no error.
func Scan(r io.Reader, name string, visit func(*verdict.Result) error) (*Document, error) {
	return scan(r, name, limits{MaxBytes, MaxResults}, visit)
}

// limited reads at most left bytes and remembers why reading ended, which an error of the decoder does not tell.
type limited struct {
	r    io.Reader
	left int64
	over bool  // there is more
	err  error // of r, other than its end
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		var one [1]byte
		if n, _ := io.ReadFull(l.r, one[:]); n > 0 {
			l.over = true
			return 0, errors.New("too large")
		}
		return 0, io.EOF
	}
	if int64(len(p)) > l.left {
		p = p[:l.left]
	}
	n, err := l.r.Read(p)
	l.left -= int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		l.err = err
	}
	return n, err
}

// scanner is the state of one Scan.
type scanner struct {
	name  string
	in    *limited
	dec   *json.Decoder
	max   limits
	doc   Document
	seen  map[string]bool
	tally verdict.Tally
	visit func(*verdict.Result) error
	count int
}

func scan(r io.Reader, name string, max limits, visit func(*verdict.Result) error) (*Document, error) {
	s := &scanner{name: name, in: &limited{r: r, left: max.bytes}, max: max, seen: map[string]bool{}, visit: visit}
	buffered := bufio.NewReader(s.in)
	start, err := buffered.Peek(3)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, unreadable(name, err)
	}
	switch {
	case len(start) == 0:
		return nil, s.notAReport("the file is empty")
	case bytes.Equal(start, []byte{0xef, 0xbb, 0xbf}): // written by an editor or a shell of Windows
		buffered.Discard(3)
	case len(start) >= 2 && (start[0] == 0xff && start[1] == 0xfe || start[0] == 0xfe && start[1] == 0xff):
		return nil, s.notAReport("the file is UTF-16, want UTF-8; -o FILE writes it right where > does not")
	}
	s.dec = json.NewDecoder(buffered)
	if err := s.document(); err != nil {
		return nil, err
	}
	s.doc.Name = name
	return &s.doc, s.consistent()
}

// document reads the one object that the file is.
func (s *scanner) document() error {
	if err := s.delim('{'); err != nil {
		return err
	}
	for s.dec.More() {
		token, err := s.dec.Token()
		if err != nil {
			return s.fault(err)
		}
		key, _ := token.(string) // the decoder accepts nothing else here
		if s.seen[key] {
			return s.notAReport(fmt.Sprintf("the key %q stands there twice", key))
		}
		s.seen[key] = true
		if err := s.field(key); err != nil {
			return err
		}
	}
	if err := s.delim('}'); err != nil {
		return err
	}
	if _, err := s.dec.Token(); !errors.Is(err, io.EOF) {
		if err != nil {
			return s.fault(err)
		}
		return s.notAReport(fmt.Sprintf("something follows after the report, at byte %d", s.dec.InputOffset()))
	}
	for _, key := range []string{"gpuemu_report", "summary", "results"} {
		if !s.seen[key] {
			return s.notAReport(fmt.Sprintf("it has no %q", key))
		}
	}
	return nil
}

func (s *scanner) field(key string) error {
	switch key {
	case "gpuemu_report":
		if err := s.decode(&s.doc.Format); err != nil {
			return err
		}
		if s.doc.Format != Format {
			return diag.Errorf(BadVersion, "write it again with this gpuemu, or use the gpuemu that wrote it",
				"report of format %d, this gpuemu reads format %d", s.doc.Format, Format).At(diag.Pos{File: s.name})
		}
		return nil
	case "version":
		return s.decode(&s.doc.Version)
	case "summary":
		return s.decode(&s.doc.Summary)
	case "baseline":
		return s.decode(&s.doc.Baseline)
	case "notes":
		return s.decode(&s.doc.Notes)
	case "artifacts":
		if err := s.decode(&s.doc.Artifacts); err != nil || s.doc.Artifacts == nil {
			return err
		}
		return s.doc.Artifacts.Check(s.name)
	case "results":
		return s.results()
	}
	var skipped json.RawMessage // a later gpuemu may write more; what it adds changes nothing of what is here
	return s.decode(&skipped)
}

func (s *scanner) results() error {
	if err := s.delim('['); err != nil {
		return err
	}
	var raw json.RawMessage
	for s.dec.More() {
		if s.count++; s.count > s.max.results {
			return diag.Errorf(TooLarge, "", "more than %d results", s.max.results).At(diag.Pos{File: s.name})
		}
		if err := s.decode(&raw); err != nil {
			return err
		}
		if len(raw) > maxResultBytes {
			return diag.Errorf(TooLarge, "", "result %d has %d bytes, at most %d are allowed", s.count, len(raw),
				maxResultBytes).At(diag.Pos{File: s.name})
		}
		var r verdict.Result
		if err := json.Unmarshal(raw, &r); err != nil {
			return s.badResult(err.Error(), err)
		}
		if fault := resultFault(&r); fault != "" {
			return s.badResult(fault, nil)
		}
		s.tally.Add(&r)
		if err := s.visit(&r); err != nil {
			return err
		}
	}
	return s.delim(']')
}

// resultFault says what is wrong with a result, "" if nothing is.
func resultFault(r *verdict.Result) string {
	switch {
	case r.Op == "":
		return "it names no op"
	case r.Index < 0:
		return fmt.Sprintf("index %d is negative", r.Index)
	case r.Duration < 0 || r.CandidateTime < 0 || r.ReferenceTime < 0:
		return "a duration is negative"
	case len(r.Outputs) > maxOutputs:
		return fmt.Sprintf("it has %d outputs, at most %d are allowed", len(r.Outputs), maxOutputs)
	}
	for i := range r.Outputs {
		o := &r.Outputs[i]
		switch {
		case o.Elements < 0 || o.Mismatched < 0 || o.Mismatched > o.Elements || o.Undetermined < 0 || o.Ignored < 0 ||
			o.Vacuous < 0 || o.Vacuous > o.Elements:
			return fmt.Sprintf("output %q has %d wrong of %d elements", o.Name, o.Mismatched, o.Elements)
		case o.MaxAbs < 0 || o.MaxRel < 0 || o.MaxRatio < 0:
			return fmt.Sprintf("output %q has a negative error", o.Name)
		case len(o.Worst) > maxWorst:
			return fmt.Sprintf("output %q lists %d elements, at most %d are allowed", o.Name, len(o.Worst), maxWorst)
		}
	}
	return ""
}

// consistent compares the summary with the results: a report that was cut short must not pass for a smaller one.
func (s *scanner) consistent() error {
	sum := &s.doc.Summary
	wrong := func(what string, got, want verdict.Counts) error {
		return diag.Errorf(Inconsistent, "write it again: gpuemu ci --format json -o FILE",
			"the results %s(%s) are not those of the summary (%s)", what, countsText(got), countsText(want)).
			At(diag.Pos{File: s.name})
	}
	if got := s.tally.Counts(); got != sum.Counts {
		return wrong("", got, sum.Counts)
	}
	ops := s.tally.Ops()
	listed := map[string]verdict.Counts{}
	for _, op := range sum.Ops {
		listed[op.Op] = op.Counts
	}
	for _, op := range ops {
		if listed[op.Op] != op.Counts {
			return wrong(fmt.Sprintf("of op %q ", op.Op), op.Counts, listed[op.Op])
		}
	}
	if len(listed) != len(ops) || len(sum.Ops) != len(ops) {
		return diag.Errorf(Inconsistent, "write it again: gpuemu ci --format json -o FILE",
			"the summary lists %d ops, the results have %d", len(sum.Ops), len(ops)).At(diag.Pos{File: s.name})
	}
	for i := range sum.Groups {
		if small := sum.Groups[i].Minimal; small != nil {
			if fault := resultFault(small); fault != "" {
				return diag.Errorf(Inconsistent, "write it again: gpuemu ci --format json -o FILE",
					"the smallest case of group %d of the summary: %s", i+1, escape.Text(fault)).At(diag.Pos{File: s.name})
			}
		}
	}
	if sum.Planned < 0 || sum.PlannedTotal < 0 || sum.Regressions < 0 || sum.Duration < 0 {
		return diag.Errorf(Inconsistent, "", "the summary has a negative count").At(diag.Pos{File: s.name})
	}
	return nil
}

func (s *scanner) delim(want json.Delim) error {
	token, err := s.dec.Token()
	if err != nil {
		return s.fault(err)
	}
	if token != want {
		return s.notAReport(fmt.Sprintf("%v at byte %d, want %v", token, s.dec.InputOffset(), want))
	}
	return nil
}

func (s *scanner) decode(v any) error {
	if err := s.dec.Decode(v); err != nil {
		return s.fault(err)
	}
	return nil
}

// fault turns an error of the decoder or of the reader below it into one for the user.
func (s *scanner) fault(err error) error {
	var syntax *json.SyntaxError
	switch {
	case s.in.over:
		return diag.Errorf(TooLarge, "", "the file has more than %d bytes", s.max.bytes).At(diag.Pos{File: s.name})
	case s.in.err != nil:
		return unreadable(s.name, s.in.err)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return s.notAReport("the file ends in the middle of the report")
	case errors.As(err, &syntax):
		return s.notAReport(fmt.Sprintf("%v, at byte %d", err, s.dec.InputOffset()))
	}
	return s.notAReport(err.Error()) // a value of another kind than ours has there
}

func (s *scanner) notAReport(why string) error {
	return diag.Errorf(NotAReport, "a report is what gpuemu ci --format json -o FILE writes", "not a report of gpuemu: %s",
		escape.Text(why)).At(diag.Pos{File: s.name})
}

func (s *scanner) badResult(why string, cause error) error {
	e := diag.Errorf(BadResult, "write it again: gpuemu ci --format json -o FILE", "result %d: %s", s.count,
		escape.Text(why))
	e.Err = cause
	return e.At(diag.Pos{File: s.name})
}

func unreadable(name string, err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		err = path.Err // the name stands in front anyway
	}
	return diag.Errorf(Unreadable, "gpuemu ci --format json -o FILE writes one", "cannot read the report: %w", err).
		At(diag.Pos{File: name})
}
