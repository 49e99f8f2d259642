package artifact

// This file implements the view of one kernel from several files.

import (
	"slices"
	"strings"
)

// Merge joins records of the same kernel: PTX, cubin and listing. Of each figure the best source is kept: a cubin knows
// better than a listing, a listing better than PTX. Records of one kernel for different architectures stay apart; PTX
// then joins those for the architecture that it was written for, and is a record of its own where there is none.
func Merge(records []Metrics) []Metrics {
	byName := map[string][]Metrics{}
	var names []string
	for _, m := range records {
		if _, seen := byName[m.Kernel]; !seen {
			names = append(names, m.Kernel)
		}
		byName[m.Kernel] = append(byName[m.Kernel], m)
	}
	var merged []Metrics
	for _, name := range names {
		merged = append(merged, mergeKernel(byName[name])...)
	}
	slices.SortStableFunc(merged, order)
	return merged
}

// mergeKernel joins the records of one kernel.
func mergeKernel(records []Metrics) []Metrics {
	var done, texts []Metrics
	for _, kind := range []SourceKind{Both, Cubin, SASS} {
		for _, m := range records {
			if m.Kind() != kind {
				continue
			}
			i := slices.IndexFunc(done, func(d Metrics) bool { return joins(&d, &m) && sameArch(d.Arch, m.Arch) })
			if i < 0 {
				done = append(done, m)
			} else {
				done[i] = join(done[i], m)
			}
		}
	}
	for _, m := range records {
		if m.Kind() == PTX {
			texts = append(texts, m)
		}
	}
	for _, m := range texts {
		used := false
		for i := range done {
			if joins(&done[i], &m) && (len(done) == 1 && len(texts) == 1 || sameArch(done[i].Arch, m.Arch)) {
				done[i], used = join(done[i], m), true
			}
		}
		if !used {
			done = append(done, m)
		}
	}
	return done
}

// joins reports whether two records have no kind of source in common.
func joins(x, y *Metrics) bool {
	return !slices.ContainsFunc(x.Sources, func(s Source) bool {
		_, has := y.Source(s.Kind)
		return has
	})
}

// sameArch reports whether two architectures are the same one, known by name or not: sm_90 and sm_90a are.
func sameArch(x, y string) bool {
	base := func(arch string) string { return strings.TrimRight(arch, "af") }
	return x == "" || y == "" || base(x) == base(y)
}

// rank orders origins: of two figures the one with the higher rank is kept.
func rank(o Origin) int {
	return slices.Index([]Origin{Estimated, Declared, FromSASS, FromPtxas, FromCubin}, o)
}

// join makes one record of two.
func join(x, y Metrics) Metrics {
	if len(x.Sources) > 0 && x.Sources[0].Kind == PTX { // the architecture of machine code counts
		x, y = y, x
	}
	if x.Arch == "" {
		x.Arch = y.Arch
	}
	if x.SASSCode != nil && x.SpillStores == nil && y.Local != nil && y.Local.Origin == Declared {
		// With what PTX declares, accesses to local memory can be told: arrays or spills.
		var frame *int
		if x.Stack != nil && x.Stack.Origin == FromCubin {
			frame = &x.Stack.Value
		}
		x.spillsOf(frame, &y.Local.Value)
	}
	x.Sources = slices.Concat(x.Sources, y.Sources)
	kinds := []SourceKind{PTX, Cubin, SASS}
	slices.SortStableFunc(x.Sources, func(a, b Source) int {
		return slices.Index(kinds, a.Kind) - slices.Index(kinds, b.Kind)
	})
	x.Params = joinParams(x.Params, y.Params)
	for _, f := range []struct{ into, from **Figure }{
		{&x.Registers, &y.Registers}, {&x.SpillStores, &y.SpillStores}, {&x.SpillLoads, &y.SpillLoads},
		{&x.Stack, &y.Stack}, {&x.Local, &y.Local}, {&x.SharedStatic, &y.SharedStatic}, {&x.Barriers, &y.Barriers},
	} {
		if *f.into == nil || *f.from != nil && rank((*f.from).Origin) > rank((*f.into).Origin) {
			*f.into = *f.from
		}
	}
	for _, e := range []struct{ into, from **Extent }{{&x.MaxThreads, &y.MaxThreads}, {&x.ReqThreads, &y.ReqThreads}} {
		if *e.into == nil || *e.from != nil && rank((*e.from).Origin) > rank((*e.into).Origin) {
			*e.into = *e.from
		}
	}
	x.Notes = slices.Concat(x.Notes, y.Notes)
	if x.SharedDynamic == nil {
		x.SharedDynamic = y.SharedDynamic
	}
	if len(x.Constant) == 0 {
		x.Constant = y.Constant
	}
	if x.PTXCode == nil {
		x.PTXCode = y.PTXCode
	}
	if x.SASSCode == nil {
		x.SASSCode = y.SASSCode
	}
	return x
}

// joinParams adds what PTX knows (names, types) to what a cubin knows (offsets), if they are of the same list.
func joinParams(x, y []Param) []Param {
	if len(x) != len(y) {
		if len(x) == 0 {
			return y
		}
		return x
	}
	list := slices.Clone(x)
	for i, p := range y {
		if p.Size != list[i].Size {
			return x
		}
		if list[i].Name == "" {
			p.Offset = list[i].Offset
			list[i] = p
		} else if list[i].Offset == nil {
			list[i].Offset = p.Offset
		}
	}
	return list
}
