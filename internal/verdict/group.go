package verdict

import "slices"

// This file implements groups: failures that look like one bug. Package report makes them.

// Group is failures of one op that look like one bug: of one kind, or set apart from what passes by one pattern.
type Group struct {
	Op     string   `json:"op"`
	DTypes []string `json:"dtypes"`
	Kinds  []string `json:"kinds"` // of the failures; see Kind
	// Pattern says when the op fails, such as "H is not a multiple of 4"; "": no pattern holds for every case of the group
	// and no passing case of these dtypes.
	Pattern string `json:"pattern,omitempty"`
	Cases   int    `json:"cases"` // that fail
	// Tested is how many of the cases the pattern was tested on: those whose text can be read.
	Tested int `json:"tested,omitempty"`
	Passed int `json:"passed"` // cases of the op and these dtypes that pass and have elements
	// PassedEmpty passed without any element, which they do whatever their sizes: they are not among Passed.
	PassedEmpty int    `json:"passed_empty,omitempty"`
	First       string `json:"first"` // text of the first failing case
	// Minimal is the smallest case that fails in the same way; nil: none was looked for, for the reason that Unminimized
	// says.
	Minimal     *Result `json:"minimal,omitempty"`
	Unminimized string  `json:"unminimized,omitempty"`
}

// Has reports whether a failure belongs to the group.
func (g *Group) Has(r *Result) bool {
	return g.Op == r.Op && slices.Contains(g.DTypes, r.DType) && slices.Contains(g.Kinds, r.Kind().String())
}

// Group returns the group of a failure, nil where none was made.
func (s *Summary) Group(r *Result) *Group {
	if !r.Verdict.Failed() {
		return nil
	}
	for i := range s.Groups {
		if s.Groups[i].Has(r) {
			return &s.Groups[i]
		}
	}
	return nil
}
