// Package record has the records of the detection study: what was executed and what came out, one JSON object a line.
// The study writes them, the report reads them. It judges nothing and computes no figure.
//
// A file has one Header and then Records. Every run of the study uses the same Record; which of its fields a run fills
// is said at the names of the runs.
package record

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Format is the version of the records.
const Format = 1

// The runs of the study. A record of each has ID, Setting, Cases and Seconds.
const (
	// FalseAlarms: base kernels; Setting is the value strategy (mixed, adversarial), DType the one that was run.
	FalseAlarms = "false-alarms"
	// Ours: mutants, with the default strategy; one record per seed.
	Ours = "ours"
	// Strategies: mutants and base kernels; Setting is the strategy.
	Strategies = "strategies"
	// Regimes: mutants and base kernels; Setting is fixed, fixed-default, calibrated or bound, and each with /normal.
	Regimes = "regimes"
	// Baselines: mutants and base kernels; Setting is the harness. A case is one comparison of its rule.
	Baselines = "baselines"
	// Equivalence: mutants; a case is one sample, and First the first sample that differs from the base by a bit.
	Equivalence = "equivalence"
	// Device: mutants and base kernels on a GPU, on the cases of the runs ours and false-alarms.
	Device = "device"
	// Sanitizer: mutants and their bases under compute-sanitizer; Setting is its tool, Failed says how many launches it
	// complained of.
	Sanitizer = "sanitizer"
	// DeviceEquivalence is Equivalence on a GPU.
	DeviceEquivalence = "device-equivalence"
)

// Runs are all of them, in the order of the pages.
var Runs = []string{FalseAlarms, Ours, Strategies, Regimes, Baselines, Equivalence, Device, Sanitizer,
	DeviceEquivalence}

// Header is the first line of a file.
type Header struct {
	Format  int    `json:"format"`
	Command string `json:"command"`
	Commit  string `json:"commit"`
	Machine string `json:"machine"`
	Date    string `json:"date"`
	Budget  int    `json:"budget,omitempty"` // cases that a subject may take
	HeldOut bool   `json:"held_out"`         // held-out operators were run
	Note    string `json:"note,omitempty"`   // what a reader must know: a run cut short, say
}

// Record is what one run found of one subject under one setting.
type Record struct {
	Run     string `json:"run"`
	ID      string `json:"id"` // of the base kernel or mutant
	Setting string `json:"setting,omitempty"`
	DType   string `json:"dtype,omitempty"` // where the run has one number format a record
	Seed    string `json:"seed,omitempty"`  // the run's master seed: text, because JSON numbers lose bits

	Cases     int `json:"cases"` // executed, whatever came out
	Failed    int `json:"failed,omitempty"`
	NotRun    int `json:"not_run,omitempty"`
	Undecided int `json:"undecided,omitempty"`
	// FailedValues are failed cases whose values alone are wrong.
	FailedValues int `json:"failed_values,omitempty"`
	// Elements of outputs were compared, or were not because the contract does not decide on them.
	Elements     int `json:"elements,omitempty"`
	Undetermined int `json:"undetermined,omitempty"`

	// First is the number of the first failing case, counted from 1; 0 where none failed.
	First int `json:"first,omitempty"`
	// FirstValues is the same by the outputs' values alone, without findings of the emulator's checks or of guards.
	// Only runs strategies and regimes go on until it is known, so it means something there alone.
	FirstValues int `json:"first_values,omitempty"`

	// Of the first failing case.
	FailDType string   `json:"fail_dtype,omitempty"`
	Case      string   `json:"case,omitempty"`     // its text
	Reason    string   `json:"reason,omitempty"`   // as verdict.Reason has it; for a sanitizer the kind of error
	Findings  []string `json:"findings,omitempty"` // kinds, each once
	Message   string   `json:"message,omitempty"`  // one sentence, shortened

	Seconds float64 `json:"seconds"` // until the first failing case, or for all where none failed
}

// Writer writes a file of records.
type Writer struct {
	enc *json.Encoder
	zip *gzip.Writer
}

// NewWriter writes the header and gives what writes the rest. The same records give the same bytes.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	h.Format = Format
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	out := &Writer{enc: json.NewEncoder(z), zip: z}
	out.enc.SetEscapeHTML(false)
	return out, out.enc.Encode(h)
}

// Write writes one record.
func (w *Writer) Write(r *Record) error { return w.enc.Encode(r) }

// Close ends the compressed stream, and not the file below it.
func (w *Writer) Close() error { return w.zip.Close() }

// File is what one file says.
type File struct {
	Header  Header
	Records []Record
}

// ReadFile reads a file of records, compressed where its name ends in .gz.
func ReadFile(name string) (*File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		z, err := gzip.NewReader(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		r = z
	}
	file, err := Read(r)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", name, err)
	}
	return file, nil
}

// Read reads a header and the records behind it. Unknown fields are faults: a misspelt one would be a figure lost.
func Read(r io.Reader) (*File, error) {
	file := &File{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		if n == 1 {
			if err := decode(lines.Bytes(), &file.Header); err != nil {
				return nil, fmt.Errorf("1: header: %w", err)
			}
			if file.Header.Format != Format {
				return nil, fmt.Errorf("1: format is %d, want %d", file.Header.Format, Format)
			}
			continue
		}
		var rec Record
		if err := decode(lines.Bytes(), &rec); err != nil {
			return nil, fmt.Errorf("%d: %w", n, err)
		}
		if err := rec.check(); err != nil {
			return nil, fmt.Errorf("%d: %w", n, err)
		}
		file.Records = append(file.Records, rec)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf(" after %d records: %w", len(file.Records), err)
	}
	if file.Header.Format == 0 {
		return nil, errors.New(" no header: the file is empty")
	}
	return file, nil
}

func decode(line []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// check holds a record against what every run keeps to.
func (r *Record) check() error {
	known := false
	for _, run := range Runs {
		known = known || run == r.Run
	}
	switch {
	case !known:
		return fmt.Errorf("run %q is none of %s", r.Run, strings.Join(Runs, ", "))
	case r.ID == "":
		return errors.New("a record without id")
	case r.Cases < 0 || r.First < 0 || r.First > r.Cases || r.FirstValues < 0 || r.FirstValues > r.Cases:
		return fmt.Errorf("%s %s: first failing case %d (by values %d) of %d cases", r.Run, r.ID, r.First, r.FirstValues,
			r.Cases)
	case r.Failed+r.NotRun+r.Undecided > r.Cases:
		return fmt.Errorf("%s %s: %d failed, %d not run and %d undecided of %d cases", r.Run, r.ID, r.Failed, r.NotRun,
			r.Undecided, r.Cases)
	}
	return nil
}
