// This file implements the JSON form as it is written.

package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"

	"gpuemu/internal/escape"
	"gpuemu/internal/inspect"
	"gpuemu/internal/verdict"
)

// head is what stands before the results. Its fields are those of Document; a test keeps them equal.
type head struct {
	Format   int             `json:"gpuemu_report"`
	Version  string          `json:"version"`
	Summary  verdict.Summary `json:"summary"`
	Baseline *Comparison     `json:"baseline,omitempty"`
	Notes    []string        `json:"notes,omitempty"`

	Artifacts *inspect.Snapshot `json:"artifacts,omitempty"`
}

// JSON writes the report as one JSON object, every result on a line of its own, in the order of Each. Fields stand in a
// fixed order, so that equal reports are equal bytes. After an error the output is no valid JSON.
func JSON(w io.Writer, s Source) error {
	ops := append([]verdict.OpSummary{}, s.Summary.Ops...) // a list, never null
	for i := range ops {
		ops[i].MaxAbs, ops[i].MaxRatio = finite(ops[i].MaxAbs), finite(ops[i].MaxRatio)
	}
	s.Summary.Ops = ops
	top, err := encode(head{Format, s.Version, s.Summary, s.Baseline, s.Notes, s.Artifacts}, "  ")
	if err != nil {
		return fmt.Errorf("report: summary: %w", err)
	}
	out := bufio.NewWriterSize(w, 1<<16)
	out.Write(bytes.TrimSuffix(top, []byte("\n}")))
	out.WriteString(",\n  \"results\": [")
	separator := "\n    "
	err = s.tallied(func(r *verdict.Result) error {
		line, err := encodeResult(r)
		if err != nil {
			return fmt.Errorf("report: result %d of %s: %w", r.Index, r.Op, err)
		}
		out.WriteString(separator)
		separator = ",\n    "
		_, err = out.Write(line)
		return err
	})
	if err != nil {
		out.Flush() // what is there helps to find the fault
		return err
	}
	if separator != "\n    " {
		out.WriteString("\n  ")
	}
	out.WriteString("]\n}\n")
	return out.Flush()
}

// finite keeps an error within what JSON can say; see verdict.Result.Saturated.
func finite(x float64) float64 {
	if x <= math.MaxFloat64 {
		return x
	}
	return math.MaxFloat64
}

// encodeResult writes a result. One with numbers that JSON does not have is written with the nearest that it has: a
// report must not fail for one odd number.
func encodeResult(r *verdict.Result) ([]byte, error) {
	line, err := encode(r, "")
	if _, odd := err.(*json.UnsupportedValueError); odd {
		return encode(r.Saturated(), "")
	}
	return line, err
}

// encode returns v in JSON without a newline at the end. Letters such as < stay as they are.
func encode(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return escape.JSON(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}
