package tensor

// This file implements the reading of many small images.

import "sync"

const (
	// maxForms is how many headers are remembered, and maxForm the bytes of the longest of them: half a megabyte at most.
	maxForms = 1024
	maxForm  = 512
)

// Images reads images that come in great numbers and few forms, such as the outputs of a batch of cases: a header that
// was seen before is not parsed again, which takes longer than all that is done with a small tensor. The zero value is
// ready for use, by any number of goroutines.
type Images struct {
	mu    sync.RWMutex
	forms map[string][]entry // by header; guarded by mu, the entries are never changed
}

// Parse is ParseSafetensors without the metadata.
func (m *Images) Parse(b []byte) ([]Named, error) {
	raw, data, err := divide(b)
	if err != nil {
		return nil, err
	}
	m.mu.RLock()
	entries, known := m.forms[string(raw)]
	m.mu.RUnlock()
	if known {
		return tensorsOf(entries, data)
	}
	p := newHeaderParser(raw)
	if err := p.parse(); err != nil {
		return nil, err
	}
	m.remember(raw, p.entries)
	return tensorsOf(p.entries, data)
}

func (m *Images) remember(raw []byte, entries []entry) {
	if len(raw) > maxForm {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.forms == nil || len(m.forms) == maxForms { // other work has other forms: they have to get in
		m.forms = map[string][]entry{}
	}
	m.forms[string(raw)] = entries
}
