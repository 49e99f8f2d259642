package inspect

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"

	"gpuemu/internal/artifact"
	"gpuemu/internal/diag"
)

// This file implements what is kept of kernels: records and, packed, the PTX texts that they were read from.

// SnapshotFormat is the version of the JSON form of a Snapshot.
const SnapshotFormat = 1

const (
	// maxKept is the longest PTX text that is kept. Texts of real kernels have up to some MB; a longer one is compared by
	// its figures and its digest alone.
	maxKept = 16 << 20
	// maxKeptAll is how much text a snapshot keeps, before packing.
	maxKeptAll = 128 << 20
)

// Snapshot is what is known of some kernels at one time. It is stored under the names of kernels and in baselines.
type Snapshot struct {
	Format  int      `json:"gpuemu_artifacts"`
	Kernels []Record `json:"kernels"`
	// Texts are PTX texts by digest (artifact.Source.Digest), packed with gzip.
	Texts map[string][]byte `json:"texts,omitempty"`
	// Dropped are the digests of texts that were too long to be kept.
	Dropped []string `json:"dropped,omitempty"`

	kept   int                // bytes of text so far
	places map[textPlace]bool // of the kernels that were added
}

// Record is one kernel.
type Record struct {
	Name    string           `json:"name,omitempty"` // of the entry in gpuemu.toml
	Metrics artifact.Metrics `json:"metrics"`
}

// Label is the name in gpuemu.toml, else that in the file.
func (r *Record) Label() string {
	if r.Name != "" {
		return r.Name
	}
	return r.Metrics.Kernel
}

// NewSnapshot returns an empty one.
func NewSnapshot() *Snapshot {
	return &Snapshot{Format: SnapshotFormat, Kernels: []Record{}, Texts: map[string][]byte{},
		places: map[textPlace]bool{}}
}

// Snapshot returns what is kept of a document.
func (d *Document) Snapshot() *Snapshot {
	s := NewSnapshot()
	for i := range d.Kernels {
		s.Add(d.Kernels[i].Name, *d.Kernels[i].Metrics, d.Texts)
	}
	return s
}

// ByLabel returns one snapshot per name, in the order of the document.
func (d *Document) ByLabel() (labels []string, by map[string]*Snapshot) {
	by = map[string]*Snapshot{}
	for i := range d.Kernels {
		label := d.Kernels[i].Label()
		if by[label] == nil {
			by[label] = NewSnapshot()
			labels = append(labels, label)
		}
		by[label].Add(d.Kernels[i].Name, *d.Kernels[i].Metrics, d.Texts)
	}
	return labels, by
}

// Add adds a kernel with its text.
func (s *Snapshot) Add(name string, m artifact.Metrics, texts map[string]string) {
	r := Record{Name: name, Metrics: m}
	if at, ok := r.textPlace(); ok {
		if s.places[at] {
			return // a fatbin may have the same text several times
		}
		s.places[at] = true
	}
	s.Kernels = append(s.Kernels, r)
	src, ok := m.Source(artifact.PTX)
	text, known := texts[src.Digest]
	if !ok || !known || s.Texts[src.Digest] != nil {
		return
	}
	if len(text) > maxKept || s.kept+len(text) > maxKeptAll {
		s.Dropped = append(s.Dropped, src.Digest)
		return
	}
	s.kept += len(text)
	s.Texts[src.Digest] = pack(text)
}

// Join adds the kernels of another snapshot.
func (s *Snapshot) Join(other *Snapshot) {
	s.Kernels = append(s.Kernels, other.Kernels...)
	for sum, packed := range other.Texts {
		s.Texts[sum] = packed
	}
	s.Dropped = append(s.Dropped, other.Dropped...)
}

// DropTexts drops the texts that no kernel was read from.
func (s *Snapshot) DropTexts() {
	used := map[string]bool{}
	for i := range s.Kernels {
		src, _ := s.Kernels[i].Metrics.Source(artifact.PTX)
		used[src.Digest] = true
	}
	maps.DeleteFunc(s.Texts, func(sum string, _ []byte) bool { return !used[sum] })
}

// Text returns the PTX text of a kernel, and whether it is kept.
func (s *Snapshot) Text(m *artifact.Metrics) (string, bool, error) {
	src, ok := m.Source(artifact.PTX)
	if !ok || s.Texts[src.Digest] == nil {
		return "", false, nil
	}
	text, err := unpack(s.Texts[src.Digest])
	if err != nil {
		return "", false, diag.Errorf(BadSnapshot, "store the kernels again: gpuemu lint",
			"the kept text of %.200q cannot be read: %w", m.Kernel, err)
	}
	return text, true, nil
}

// DecodeSnapshot reads the JSON form. what is what messages call it.
func DecodeSnapshot(what string, body []byte) (*Snapshot, error) {
	s := NewSnapshot()
	if err := json.Unmarshal(body, s); err != nil {
		return nil, diag.Errorf(BadSnapshot, "store the kernels again: gpuemu lint", "%s: stored kernels: %w", what, err)
	}
	if err := s.Check(what); err != nil {
		return nil, err
	}
	return s, nil
}

// Check says what is wrong with a snapshot that came from outside.
func (s *Snapshot) Check(what string) error {
	if s.Format != SnapshotFormat {
		return diag.Errorf(BadSnapshot, "update gpuemu, or store the kernels again: gpuemu lint",
			"%s: stored kernels have format %d, this program reads %d", what, s.Format, SnapshotFormat)
	}
	fault := func(format string, args ...any) error {
		return diag.Errorf(BadSnapshot, "store the kernels again: gpuemu lint", "%s: %s", what,
			fmt.Sprintf(format, args...))
	}
	seen := map[textPlace]bool{}
	for i := range s.Kernels {
		r := &s.Kernels[i]
		m := &r.Metrics
		if m.Kernel == "" || len(m.Sources) == 0 {
			return fault("stored kernel %d has no name or no source", i)
		}
		if name := negative(m); name != "" {
			return fault("stored kernel %d, %.200q, has fewer than 0 %s", i, m.Kernel, name)
		}
		if at, ok := r.textPlace(); ok {
			if seen[at] {
				return fault("stored kernel %d, %.200q, is there twice", i, m.Kernel)
			}
			seen[at] = true
		}
	}
	return nil
}

// textPlace is where a kernel of a PTX text stands: at one place there is one kernel. Machine code may have several of
// one name, since every object of an archive brings its own.
type textPlace struct {
	name, kernel, arch, file, digest string
	line                             int
}

// textPlace is the place of a kernel that was read from one PTX text and nothing else.
func (r *Record) textPlace() (at textPlace, ok bool) {
	m := &r.Metrics
	if m.Kind() != artifact.PTX {
		return at, false
	}
	src := &m.Sources[0]
	return textPlace{r.Name, m.Kernel, m.Arch, src.File, src.Digest, src.Line}, true
}

// negative names a figure that is below 0, as no kernel has it; "" if there is none.
func negative(m *artifact.Metrics) string {
	for _, f := range []struct {
		name string
		*artifact.Figure
	}{{"registers", m.Registers}, {"bytes of spill stores", m.SpillStores}, {"bytes of spill loads", m.SpillLoads},
		{"bytes of stack", m.Stack}, {"bytes of local memory", m.Local}, {"bytes of shared memory", m.SharedStatic},
		{"barriers", m.Barriers}} {
		if f.Figure != nil && f.Value < 0 {
			return f.name
		}
	}
	for i := range m.Constant {
		if m.Constant[i].Bytes.Value < 0 {
			return "bytes of constant memory"
		}
	}
	for _, c := range []*artifact.Code{m.PTXCode, m.SASSCode} {
		if c != nil && c.Total < 0 {
			return "instructions"
		}
	}
	return ""
}

// pack compresses a text.
func pack(text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, text)
	if closeErr := w.Close(); err != nil || closeErr != nil {
		panic(fmt.Sprintf("inspect: internal error: %v %v", err, closeErr)) // a buffer takes everything
	}
	return b.Bytes()
}

// unpack is the reverse; it reads no more than is ever packed.
func unpack(packed []byte) (string, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(r, maxKept+1))
	if err != nil {
		return "", err
	}
	if len(text) > maxKept {
		return "", fmt.Errorf("it has more than %d bytes", maxKept)
	}
	return string(text), nil
}
