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

	kept int // bytes of text so far
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
	return &Snapshot{Format: SnapshotFormat, Kernels: []Record{}, Texts: map[string][]byte{}}
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
	s.Kernels = append(s.Kernels, Record{Name: name, Metrics: m})
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
	for i := range s.Kernels {
		if m := &s.Kernels[i].Metrics; m.Kernel == "" || len(m.Sources) == 0 {
			return diag.Errorf(BadSnapshot, "store the kernels again: gpuemu lint",
				"%s: stored kernel %d has no name or no source", what, i)
		}
	}
	return nil
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
