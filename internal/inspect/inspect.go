// Package inspect looks at compiled kernels: it finds the files of a project's kernels, reads or compiles them, holds
// each kernel to its policy, and compares all of them with an earlier state.
//
// What a figure means and whether it is allowed is decided in package artifact, what changed in the code in package
// ptxdiff; nothing is printed or stored here. The main types are Target, what to look at, Document, what was found, and
// Snapshot, what is kept of it.
package inspect

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"gpuemu/internal/artifact"
	"gpuemu/internal/cudatool"
	"gpuemu/internal/diag"
	"gpuemu/internal/ptx"
)

// This file implements looking at targets.

// Format is the version of the JSON form of a Document.
const Format = 1

// Target is something to look at: an entry of [[kernels]], files named by a user, or a text that was sent.
type Target struct {
	Name string // of the entry in gpuemu.toml; "" for files
	// Files hold the same kernels in several forms; relative ones are relative to Dir.
	Files []string
	Dir   string
	// Text is PTX that came instead of files.
	Text *string
	// Entry is the kernel to look at, mangled or not; "": the one called Name, or all where there is none.
	Entry  string
	Policy artifact.Policy
	// Known are kernels of gpuemu.toml: one of Files or Text that is called as one of them has its name and policy.
	Known []Target
	// Arch and Flags are what a source is compiled for and with; "": the default.
	Arch  string
	Flags []string
	// Disassemble asks for the instructions of machine code, where a program for that is installed.
	Disassemble bool
}

// Document is what was found. Its JSON form is described in docs/formats/lint.md.
type Document struct {
	Format  int      `json:"gpuemu_lint"`
	Version string   `json:"version,omitempty"` // of gpuemu
	Counts           // of all kernels
	Kernels []Kernel `json:"kernels"`
	Unread  []Unread `json:"unread"`

	// Texts are the PTX texts of the kernels by digest (artifact.Source.Digest).
	Texts map[string]string `json:"-"`
}

// Counts are numbers of kernels and violations.
type Counts struct {
	Total  int `json:"total"`  // kernels that were looked at
	Passed int `json:"passed"` // of those, how many have no error
	Errors int `json:"errors"` // violations that fail the run
	Notes  int `json:"notes"`  // violations that do not
}

// Kernel is what was found of one kernel for one architecture.
type Kernel struct {
	Name       string               `json:"name,omitempty"` // of the entry in gpuemu.toml
	Kernel     string               `json:"kernel"`         // as in the file
	Arch       string               `json:"arch,omitempty"`
	Passed     bool                 `json:"passed"`
	Violations []artifact.Violation `json:"violations"`
	Policy     artifact.Policy      `json:"policy"`
	Metrics    *artifact.Metrics    `json:"metrics,omitempty"` // nil in the short form
}

// Label is what reports call the kernel: its name in gpuemu.toml, else the one in the file.
func (k *Kernel) Label() string {
	if k.Name != "" {
		return k.Name
	}
	return k.Kernel
}

// Unread is a target that could not be looked at.
type Unread struct {
	Name    string `json:"name,omitempty"`
	Code    string `json:"code"`
	Message string `json:"message"` // with its place
	Hint    string `json:"hint,omitempty"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`

	Err error `json:"-"` // as it came up
}

// Label is what reports call the target.
func (u *Unread) Label() string {
	if u.Name != "" {
		return u.Name
	}
	return u.File
}

// ExitCode is that of gpuemu lint: 1 if a kernel breaks a rule, else 3 if something was not looked at, or nothing was.
func (d *Document) ExitCode() int {
	switch {
	case d.Errors > 0:
		return 1
	case len(d.Unread) > 0 || d.Total == 0:
		return 3
	}
	return 0
}

// Short returns the document without what kernels contain: who passed, and what is wrong.
func (d *Document) Short() *Document {
	short := *d
	short.Kernels, short.Texts = slices.Clone(d.Kernels), nil
	for i := range short.Kernels {
		short.Kernels[i].Metrics = nil
	}
	return &short
}

// Looker looks at targets. The zero Looker finds its programs itself.
type Looker struct {
	Tools *cudatool.Tools // nil: those that are installed, looked for when one is needed
	Env   []string        // to look for them and to call them with, as NAME=value; nil: that of the process
}

// Look looks at targets one by one. What cannot be read is part of the document; an error means that ctx has ended.
func (l Looker) Look(ctx context.Context, targets []Target) (*Document, error) {
	doc := &Document{Format: Format, Kernels: []Kernel{}, Unread: []Unread{}, Texts: map[string]string{}}
	tools := sync.OnceValue(func() *cudatool.Tools {
		if l.Tools != nil {
			return l.Tools
		}
		return cudatool.FindFor(ctx, l.Env)
	})
	for i := range targets {
		t := &targets[i]
		found, err := t.read(ctx, tools)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			doc.Unread = append(doc.Unread, unread(t, err))
			continue
		}
		for j := range found.records {
			as, err := t.knownAs(&found.records[j])
			if err != nil {
				doc.Unread = append(doc.Unread, unread(t, err))
				continue
			}
			doc.add(as, &found.records[j])
		}
		maps.Copy(doc.Texts, found.texts)
	}
	return doc, nil
}

// add lints a kernel and counts what is found.
func (d *Document) add(t *Target, m *artifact.Metrics) {
	result := artifact.Lint(m, t.Policy)
	k := Kernel{Name: t.Name, Kernel: m.Kernel, Arch: m.Arch, Passed: result.Passed(), Violations: result.Violations,
		Policy: t.Policy, Metrics: m}
	d.Kernels = append(d.Kernels, k)
	d.Total++
	if k.Passed {
		d.Passed++
	}
	for _, v := range k.Violations {
		if v.Severity == artifact.Fault {
			d.Errors++
		} else {
			d.Notes++
		}
	}
}

// found is what a target's files hold.
type found struct {
	records []artifact.Metrics
	texts   map[string]string
}

// read reads the files of a target, compiling sources, and chooses its kernels.
func (t *Target) read(ctx context.Context, tools func() *cudatool.Tools) (*found, error) {
	var files []*artifact.File
	out := &found{texts: map[string]string{}}
	if t.Text != nil {
		f, err := artifact.Read(t.label(), []byte(*t.Text))
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	for _, path := range t.Files {
		f, err := t.load(ctx, path, tools)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	for _, f := range files {
		maps.Copy(out.texts, f.Texts)
	}
	records, err := artifact.Together(files...)
	if err != nil {
		return nil, err
	}
	for i := range records {
		t.relabel(&records[i])
	}
	out.records, err = t.choose(records, files[0].Name)
	return out, err
}

// label is what messages call a text that came without a file.
func (t *Target) label() string {
	if t.Name != "" {
		return t.Name + ".ptx"
	}
	return "text.ptx"
}

// load reads one file.
func (t *Target) load(ctx context.Context, path string, tools func() *cudatool.Tools) (*artifact.File, error) {
	o := artifact.Options{Tools: tools, Arch: t.Arch, Flags: t.Flags, Disassemble: t.Disassemble}
	return artifact.Load(ctx, t.abs(path), o)
}

func (t *Target) abs(path string) string {
	if t.Dir == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(t.Dir, path)
}

// relabel calls files as the user does: relative to Dir.
func (t *Target) relabel(m *artifact.Metrics) {
	m.Sources = slices.Clone(m.Sources)
	for i := range m.Sources {
		m.Sources[i].File = t.relative(m.Sources[i].File)
	}
}

func (t *Target) relative(path string) string {
	if t.Dir == "" {
		return path
	}
	rel, err := filepath.Rel(t.Dir, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return path
	}
	return filepath.ToSlash(rel)
}

// calls reports whether the target asks for a kernel: by its name in the file or, loosely, by that in its source.
func (t *Target) calls(symbol string, loosely bool) bool {
	want := t.Entry
	if want == "" {
		want = t.Name
	}
	return want == symbol || loosely && want == ptx.SourceName(symbol)
}

// knownAs is the target whose name and policy a kernel has: the known one that asks for it, else t.
func (t *Target) knownAs(m *artifact.Metrics) (*Target, error) {
	for _, loosely := range []bool{false, true} {
		var names []string
		as := t
		for i := range t.Known {
			if k := &t.Known[i]; k.calls(m.Kernel, loosely) {
				as, names = k, append(names, k.Name)
			}
		}
		switch len(names) {
		case 0:
			continue
		case 1:
			return as, nil
		}
		return nil, diag.Errorf(AmbiguousKernel, "give one of these names with the text: "+strings.Join(names, ", "),
			"gpuemu.toml has %d kernels that are called %.200q in their files", len(names), m.Kernel)
	}
	return t, nil
}

// choose picks the kernels of a target.
func (t *Target) choose(records []artifact.Metrics, file string) ([]artifact.Metrics, error) {
	if t.Entry == "" && t.Name == "" {
		return records, nil
	}
	for _, loosely := range []bool{false, true} {
		var chosen []artifact.Metrics
		for i := range records {
			if t.calls(records[i].Kernel, loosely) {
				chosen = append(chosen, records[i])
			}
		}
		if len(chosen) > 0 {
			return chosen, nil
		}
	}
	if t.Entry == "" {
		return records, nil
	}
	var names []string
	for i := range records {
		if !slices.Contains(names, records[i].Kernel) {
			names = append(names, records[i].Kernel)
		}
	}
	const most = 10 // a library has hundreds
	list := strings.Join(names[:min(most, len(names))], ", ")
	return nil, diag.Errorf(artifact.NoKernel, diag.Suggest(t.Entry, names, "it has "+list), "there is no kernel %.200q",
		t.Entry).At(diag.Pos{File: file})
}

// unread is what a document says of a target that could not be looked at.
func unread(t *Target, err error) Unread {
	u := Unread{Name: t.Name, Code: string(diag.CodeOf(err)), Message: err.Error(), Hint: diag.HintOf(err), Err: err}
	if len(t.Files) > 0 {
		u.File = t.Files[0]
	}
	var at *fs.PathError
	if errors.As(err, &at) {
		u.File = t.relative(at.Path) // of several files the one that is not there
	}
	var e *diag.Error
	if errors.As(err, &e) {
		if e.Pos.File != "" {
			u.File, u.Line = t.relative(e.Pos.File), e.Pos.Line
		}
		u.Message = strings.TrimSuffix(u.Message, " ["+u.Code+"]")
	}
	if t.Dir != "" {
		u.Message = strings.ReplaceAll(u.Message, t.Dir+string(filepath.Separator), "")
	}
	return u
}
