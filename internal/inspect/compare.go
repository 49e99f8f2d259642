package inspect

import (
	"cmp"
	"slices"

	"gpuemu/internal/artifact"
	"gpuemu/internal/diag"
	"gpuemu/internal/ptx"
	"gpuemu/internal/ptxdiff"
)

// This file implements the comparison of a project's kernels with an earlier state: their figures and what the code
// does.

// maxChanges is how many changes of a kernel's code are listed, those of the highest rank first: nobody reads more.
const maxChanges = 50

// Comparison is what became of the kernels of a baseline.
type Comparison struct {
	Common    int `json:"common"`    // kernels that both sides have
	Changed   int `json:"changed"`   // of those, how many differ in a figure or in their code
	Regressed int `json:"regressed"` // kernels of which a figure got worse by more than the threshold
	New       int `json:"new"`
	Vanished  int `json:"vanished"`
	// Threshold is the growth that is allowed of every figure but spills, which may not grow at all.
	Threshold float64  `json:"threshold"`
	Kernels   []Change `json:"kernels"` // those that did not change, too
}

// Change is what became of one kernel.
type Change struct {
	Name string `json:"name,omitempty"` // of the entry in gpuemu.toml
	artifact.Change
	Code *CodeChange `json:"code,omitempty"` // nil where one side's PTX text is not known, or nothing changed
}

// Label is the name in gpuemu.toml, else that in the file.
func (c *Change) Label() string {
	if c.Name != "" {
		return c.Name
	}
	return c.Kernel
}

// CodeChange is what changed in the code when names and registers do not count.
type CodeChange struct {
	Rank    string     `json:"rank"` // same, order, constants or structure
	Changes []CodeEdit `json:"changes,omitempty"`
	Omitted int        `json:"omitted,omitempty"` // changes that are not listed
	// Coarse: the texts are too different to be aligned well, so more is listed than changed.
	Coarse bool `json:"coarse,omitempty"`
	// Failed says why the texts could not be compared.
	Failed string `json:"failed,omitempty"`
}

// CodeEdit is one difference.
type CodeEdit struct {
	Kind    string    `json:"kind"` // constant, added, removed, modifier, operand, branch, directive, moved
	Rank    string    `json:"rank"`
	Message string    `json:"message"`
	Old     *CodeSpot `json:"old,omitempty"`
	New     *CodeSpot `json:"new,omitempty"`
}

// CodeSpot is an instruction or a declaration and where it stands.
type CodeSpot struct {
	File       string `json:"file,omitempty"`
	Line       int    `json:"line,omitempty"`
	SourceFile string `json:"source_file,omitempty"`
	SourceLine int    `json:"source_line,omitempty"`
	Text       string `json:"text,omitempty"`
}

// Compare compares kernels with those of a baseline, by their names in gpuemu.toml and in the files. threshold is the
// growth that is allowed: 0.1 is 10 %.
func Compare(baseline, current *Snapshot, threshold float64) *Comparison {
	c := &Comparison{Threshold: threshold, Kernels: []Change{}}
	var names []string
	split := func(s *Snapshot) map[string][]artifact.Metrics {
		by := map[string][]artifact.Metrics{}
		for i := range s.Kernels {
			by[s.Kernels[i].Name] = append(by[s.Kernels[i].Name], s.Kernels[i].Metrics)
			names = append(names, s.Kernels[i].Name)
		}
		return by
	}
	before, now := split(baseline), split(current)
	old, cur := &texts{from: baseline}, &texts{from: current}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		for _, change := range artifact.Diff(before[name], now[name], artifact.Thresholds{Relative: threshold}) {
			one := Change{Name: name, Change: change}
			one.judge(compareCode(old, cur, &change))
			c.add(one)
		}
	}
	return c
}

// judge takes over what the comparison of the texts showed, which knows more than their digests: operands that change
// places make another digest, and no difference.
func (c *Change) judge(code *CodeChange) {
	if code == nil {
		return
	}
	if code.Failed != "" {
		c.Code = code
		return
	}
	differs := code.Rank != ptxdiff.Same.String()
	if differs {
		c.Code = code
	}
	differs = differs || machineChanged(c.Baseline, c.Current)
	c.CodeChanged = &differs
	moved := func(f artifact.FigureChange) bool { return f.Delta != 0 }
	c.Status = artifact.Same
	if differs || slices.ContainsFunc(c.Figures, moved) {
		c.Status = artifact.Changed
	}
}

// machineChanged reports whether the digests of machine code differ.
func machineChanged(was, is *artifact.Metrics) bool {
	for _, kind := range []artifact.SourceKind{artifact.Cubin, artifact.SASS} {
		x, _ := was.Source(kind)
		if y, _ := is.Source(kind); x.Code != "" && y.Code != "" && x.Code != y.Code {
			return true
		}
	}
	return false
}

// add counts and lists a kernel.
func (c *Comparison) add(one Change) {
	switch one.Status {
	case artifact.New:
		c.New++
	case artifact.Vanished:
		c.Vanished++
	default:
		c.Common++
	}
	if one.Status == artifact.Changed {
		c.Changed++
	}
	if one.Regression {
		c.Regressed++
	}
	c.Kernels = append(c.Kernels, one)
}

// compareCode compares the PTX texts of a kernel, nil where one of them is not known.
func compareCode(old, cur *texts, change *artifact.Change) *CodeChange {
	if change.Baseline == nil || change.Current == nil {
		return nil
	}
	was, is := change.Baseline, change.Current
	oldSource, _ := was.Source(artifact.PTX)
	newSource, _ := is.Source(artifact.PTX)
	if oldSource.Digest == newSource.Digest && oldSource.Digest != "" {
		return nil // the same text
	}
	oldFile, err := old.parsed(was)
	if err != nil || oldFile == nil {
		return failed(err)
	}
	newFile, err := cur.parsed(is)
	if err != nil || newFile == nil {
		return failed(err)
	}
	result, err := ptxdiff.Compare(oldFile, newFile, was.Kernel, is.Kernel)
	if err != nil {
		return failed(err)
	}
	return codeChange(result)
}

// failed is a comparison that could not be made; nil where there was nothing to compare.
func failed(err error) *CodeChange {
	if err == nil {
		return nil
	}
	return &CodeChange{Rank: "unknown", Failed: err.Error()}
}

// maxParsed is how many bytes of text are kept parsed on each side: a tree has several times the size of its text.
const maxParsed = 32 << 20

// texts are the texts of a snapshot, each parsed once: a file may have thousands of kernels.
type texts struct {
	from  *Snapshot
	trees map[textKey]tree
	bytes int // of the texts of all trees
}

// textKey: files with the same text have their own names in messages.
type textKey struct{ digest, file string }

type tree struct {
	file *ptx.File
	err  error
}

// parsed is the text of a kernel, nil where it is not kept.
func (t *texts) parsed(m *artifact.Metrics) (*ptx.File, error) {
	src, _ := m.Source(artifact.PTX)
	key := textKey{src.Digest, src.File}
	if known, ok := t.trees[key]; ok {
		return known.file, known.err
	}
	text, ok, err := t.from.Text(m)
	if err != nil || !ok {
		return nil, err
	}
	if t.bytes += len(text); t.trees == nil || t.bytes > maxParsed {
		t.trees, t.bytes = map[textKey]tree{}, len(text)
	}
	var parsed tree
	parsed.file, parsed.err = ptx.Parse(src.File, text)
	t.trees[key] = parsed
	return parsed.file, parsed.err
}

func codeChange(r *ptxdiff.Result) *CodeChange {
	c := &CodeChange{Rank: r.Rank.String(), Coarse: r.Coarse, Omitted: r.Omitted}
	changes := slices.Clone(r.Changes)
	slices.SortStableFunc(changes, func(x, y ptxdiff.Change) int { return cmp.Compare(y.Rank, x.Rank) })
	for _, e := range changes[:min(maxChanges, len(changes))] {
		c.Changes = append(c.Changes, CodeEdit{Kind: e.Kind.String(), Rank: e.Rank.String(), Message: e.Message,
			Old: spot(e.Old), New: spot(e.New)})
	}
	c.Omitted += max(0, len(changes)-maxChanges)
	return c
}

func spot(p ptxdiff.Place) *CodeSpot {
	if p.Text == "" && p.Pos == (diag.Pos{}) {
		return nil
	}
	return &CodeSpot{File: p.Pos.File, Line: p.Pos.Line, SourceFile: p.Source.File, SourceLine: p.Source.Line,
		Text: p.Text}
}
