package artifact

// This file implements the counting of instructions, which is the same for PTX and SASS.

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"gpuemu/internal/pattern"
)

// counter collects what instructions a kernel has.
type counter struct {
	dialect   pattern.Dialect
	result    Code
	mnemonics map[string]*Mnemonic
	accesses  map[Access]int // with Count 0
}

func newCounter(d pattern.Dialect) *counter {
	return &counter{dialect: d, result: Code{Opcodes: map[string]int{}, Classes: map[Class]int{}},
		mnemonics: map[string]*Mnemonic{}, accesses: map[Access]int{}}
}

// filler counts an instruction that is never executed, which assemblers put between others: no pattern finds it.
func (c *counter) filler(op string) {
	c.result.Total++
	c.result.Opcodes[op]++
	c.result.Classes[Other]++
}

// add counts an instruction. place is asked for while places are still kept.
func (c *counter) add(op, mnemonic string, class Class, predicated bool, access *Access, place func() Place) {
	c.result.Total++
	c.result.Opcodes[op]++
	c.result.Classes[class]++
	if predicated {
		c.result.Predicated++
	}
	if access != nil {
		c.accesses[*access]++
	}
	m := c.mnemonics[mnemonic]
	if m == nil {
		m = &Mnemonic{Name: mnemonic}
		c.mnemonics[mnemonic] = m
	}
	m.Count++
	if len(m.Places) < maxPlaces {
		if p := place(); p != (Place{}) {
			m.Places = append(m.Places, p)
		}
	}
}

// merge adds what another counter has counted.
func (c *counter) merge(other *counter) {
	c.result.Total += other.result.Total
	c.result.Predicated += other.result.Predicated
	for op, n := range other.result.Opcodes {
		c.result.Opcodes[op] += n
	}
	for class, n := range other.result.Classes {
		c.result.Classes[class] += n
	}
	for access, n := range other.accesses {
		c.accesses[access] += n
	}
	for name, theirs := range other.mnemonics {
		ours := c.mnemonics[name]
		if ours == nil {
			ours = &Mnemonic{Name: name}
			c.mnemonics[name] = ours
		}
		ours.Count += theirs.Count
		ours.Places = append(ours.Places, theirs.Places[:min(len(theirs.Places), maxPlaces-len(ours.Places))]...)
	}
}

// code is what was counted.
func (c *counter) code() *Code {
	r := &c.result
	for _, name := range slices.Sorted(maps.Keys(c.mnemonics)) {
		r.Mnemonics = append(r.Mnemonics, *c.mnemonics[name])
	}
	for a, n := range c.accesses {
		a.Count = n
		r.Memory = append(r.Memory, a)
	}
	slices.SortFunc(r.Memory, func(x, y Access) int {
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Space, y.Space), cmp.Compare(x.Bits, y.Bits))
	})
	for _, p := range wellKnown() {
		if slices.ContainsFunc(r.Mnemonics, func(m Mnemonic) bool { return p.Match(c.dialect, m.Name) }) {
			r.Patterns = append(r.Patterns, p.String())
		}
	}
	return r
}

// WellKnown are the patterns that every record answers for: wide and cached accesses, asynchronous copies, tensor
// cores, exchange between threads, local memory, slow arithmetic.
func WellKnown() []string {
	return []string{
		"ld.global.v2", "ld.global.v4", "ld.global.nc", "st.global.v2", "st.global.v4", "ld.shared.v4", "st.shared.v4",
		"ld.local", "st.local", "cp.async", "cp.async.bulk", "cp.async.bulk.tensor", "mma.*", "wgmma.mma_async", "wmma.*",
		"tcgen05.*", "ldmatrix", "stmatrix", "shfl.sync", "redux.sync", "atom.*", "red.*", "bar.sync", "barrier.cluster",
		"mbarrier.*", "ex2.approx", "div.full", "div.rn", "sqrt.rn", "*.f64", "call",
		"LDG.*.128", "STG.*.128", "LDS.128", "STS.128", "LDL", "STL", "LDGSTS", "UBLKCP", "UTMALDG", "UTMASTG", "HMMA",
		"IMMA", "DMMA", "QMMA", "HGMMA", "IGMMA", "QGMMA", "LDSM", "STSM", "SHFL", "REDUX", "ATOMG", "ATOMS", "REDG", "RED",
		"BAR.SYNC", "SYNCS", "MUFU", "DFMA", "CALL",
	}
}

var wellKnown = sync.OnceValue(func() []pattern.Pattern {
	var list []pattern.Pattern
	for _, t := range WellKnown() {
		p, err := pattern.Parse(t)
		if err != nil {
			panic("artifact: internal error: " + err.Error())
		}
		list = append(list, p)
	}
	return list
})
