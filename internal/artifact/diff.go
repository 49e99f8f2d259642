package artifact

// This file implements the comparison of kernels with those of a baseline.

import (
	"cmp"
	"slices"
)

// Status is what became of a kernel.
type Status string

// States of a kernel.
const (
	Same     Status = "same"    // every figure that both know is equal, and so is the code
	Changed  Status = "changed" // some figure or the code differs
	New      Status = "new"
	Vanished Status = "vanished"
)

// Change is what became of one kernel since the baseline.
type Change struct {
	Kernel string `json:"kernel"`
	Arch   string `json:"arch,omitempty"`
	Status Status `json:"status"`
	// Regression: some figure got worse by more than is allowed. A kernel that vanished is reported and is none.
	Regression bool           `json:"regression"`
	Figures    []FigureChange `json:"figures"` // those that both sides know in the same way, equal ones too
	Unmatched  []string       `json:"unmatched,omitempty"`
	// CodeChanged: the code differs even without names of registers and labels. nil where one side's code is not known.
	CodeChanged *bool    `json:"code_changed,omitempty"`
	Baseline    *Metrics `json:"-"` // nil of a new kernel
	Current     *Metrics `json:"-"` // nil of one that vanished
}

// FigureChange is a figure before and now.
type FigureChange struct {
	Name       string `json:"name"` // registers, spill_stores, …
	Old        int    `json:"old"`
	New        int    `json:"new"`
	Delta      int    `json:"delta"`
	Origin     Origin `json:"origin"` // of both
	Regression bool   `json:"regression"`
}

// Thresholds say how much worse a figure may get. Spills may not grow at all.
type Thresholds struct {
	// Relative is the growth of instructions, registers, stack, local and shared memory that is allowed: 0.1 is 10 %.
	Relative float64
}

// Diff compares kernels with those of a baseline by name and architecture, in the order of names.
func Diff(baseline, current []Metrics, t Thresholds) []Change {
	before, now := slices.SortedFunc(slices.Values(baseline), order), slices.SortedFunc(slices.Values(current), order)
	var changes []Change
	for _, p := range pair(before, now) {
		changes = append(changes, p.compare(t))
	}
	return changes
}

// Regressed reports whether any kernel got worse.
func Regressed(changes []Change) bool {
	return slices.ContainsFunc(changes, func(c Change) bool { return c.Regression })
}

// matched is a kernel of the baseline and of now; one of them may be nil.
type matched struct{ before, now *Metrics }

// pair finds for each kernel its former self: the same name and architecture or, where each side has one of that name
// alone, the same name. A new GPU is then a change of the kernel, not a new kernel.
func pair(before, now []Metrics) []matched {
	byName := func(list []Metrics) map[string][]*Metrics {
		m := map[string][]*Metrics{}
		for i := range list {
			m[list[i].Kernel] = append(m[list[i].Kernel], &list[i])
		}
		return m
	}
	old, cur := byName(before), byName(now)
	var pairs []matched
	for name, b := range old {
		c := cur[name]
		if len(b) == 1 && len(c) == 1 {
			pairs = append(pairs, matched{b[0], c[0]})
			continue
		}
		for _, x := range b {
			i := slices.IndexFunc(c, func(y *Metrics) bool { return y.Arch == x.Arch })
			if i < 0 {
				pairs = append(pairs, matched{x, nil})
				continue
			}
			pairs = append(pairs, matched{x, c[i]})
			c = slices.Delete(c, i, i+1)
		}
		cur[name] = c
		for _, y := range c {
			pairs = append(pairs, matched{nil, y})
		}
	}
	for name, c := range cur {
		if len(old[name]) == 0 {
			for _, y := range c {
				pairs = append(pairs, matched{nil, y})
			}
		}
	}
	slices.SortFunc(pairs, func(x, y matched) int {
		return cmp.Or(order(*x.any(), *y.any()), cmp.Compare(x.state(), y.state()))
	})
	return pairs
}

// any is the side that is there, the newer one first.
func (p matched) any() *Metrics {
	if p.now != nil {
		return p.now
	}
	return p.before
}

func (p matched) state() Status {
	switch {
	case p.before == nil:
		return New
	case p.now == nil:
		return Vanished
	}
	return Same
}

// compare compares the two sides.
func (p matched) compare(t Thresholds) Change {
	c := Change{Kernel: p.any().Kernel, Arch: p.any().Arch, Status: p.state(), Figures: []FigureChange{},
		Baseline: p.before, Current: p.now}
	if c.Status != Same {
		return c
	}
	old := figures(p.before)
	for i, now := range figures(p.now) {
		was := old[i]
		switch {
		case was.Figure == nil && now.Figure == nil:
		case was.Figure == nil || now.Figure == nil || was.Origin != now.Origin:
			c.Unmatched = append(c.Unmatched, now.name)
		default:
			f := FigureChange{Name: now.name, Old: was.Value, New: now.Value, Delta: now.Value - was.Value, Origin: now.Origin}
			f.Regression = worse(f, now.exact, t)
			c.Figures = append(c.Figures, f)
			c.Regression = c.Regression || f.Regression
			if f.Delta != 0 {
				c.Status = Changed
			}
		}
	}
	if c.CodeChanged = codeChanged(p.before, p.now); c.CodeChanged != nil && *c.CodeChanged {
		c.Status = Changed
	}
	return c
}

// namedFigure is a figure that is compared. exact: any growth is a regression.
type namedFigure struct {
	name string
	*Figure
	exact bool
}

// figures are those where less is better.
func figures(m *Metrics) []namedFigure {
	list := []namedFigure{
		{"registers", m.Registers, false}, {"spill_stores", m.SpillStores, true}, {"spill_loads", m.SpillLoads, true},
		{"stack", m.Stack, false}, {"local", m.Local, false}, {"shared_static", m.SharedStatic, false},
		{"ptx_instructions", nil, false}, {"sass_instructions", nil, false},
	}
	if m.PTXCode != nil {
		list[6].Figure = &Figure{m.PTXCode.Total, Declared}
	}
	if m.SASSCode != nil {
		list[7].Figure = &Figure{m.SASSCode.Total, FromSASS}
	}
	return list
}

// worse reports whether a figure grew by more than is allowed.
func worse(f FigureChange, exact bool, t Thresholds) bool {
	if f.Delta <= 0 {
		return false
	}
	return exact || float64(f.Delta) > t.Relative*float64(f.Old)
}

// codeChanged compares the digests of the code in every dialect that both sides have.
func codeChanged(before, now *Metrics) *bool {
	var known, changed bool
	for _, x := range before.Sources {
		for _, y := range now.Sources {
			if x.Kind == y.Kind && x.Code != "" && y.Code != "" {
				known, changed = true, changed || x.Code != y.Code
			}
		}
	}
	if !known {
		return nil
	}
	return &changed
}
