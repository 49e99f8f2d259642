// This file implements the pattern of sizes and options that sets failing cases apart from passing ones.

package report

import (
	"fmt"
	"slices"

	"gpuemu/internal/opspec"
)

// A pattern of few cases is a coincidence: so many must fail, and so many pass, for one to be stated.
const minEvidence = 3

// divisors are what sizes of tiles and vectors divide by.
var divisors = [...]int{2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}

// traits are what is known of the failing and the passing cases of an op. Their size does not grow with the cases.
type traits struct {
	failed, passed int
	dims           []string // in the order in which cases have them
	sizes          map[string]*[2]sizes
	options        []string // attributes, layouts, distributions
	values         map[string]*[2]values
}

// sizes are those of one dimension. Bits stand for divisors.
type sizes struct {
	cases          int
	least, largest int
	multiple, rest uint32 // some size is a multiple of the divisor; some is not
}

// values are those of an option, as far as they are few.
type values struct {
	cases int
	seen  []string
}

// maxValues is how many values of an option are told apart: an option with more explains nothing by one of them.
const maxValues = 16

// maxNames is how many dimensions and how many options are looked at: no operator has as many.
const maxNames = 64

// Where the cases of each side stand in pairs.
const (
	failing = iota
	passes
)

func (t *traits) add(c *opspec.Case, failed bool) {
	side := passes
	if failed {
		side = failing
		t.failed++
	} else {
		t.passed++
	}
	if t.sizes == nil {
		t.sizes, t.values = map[string]*[2]sizes{}, map[string]*[2]values{}
	}
	for _, d := range c.Dims {
		if t.sizes[d.Name] == nil && len(t.dims) == maxNames {
			continue
		}
		if t.sizes[d.Name] == nil {
			t.sizes[d.Name] = &[2]sizes{}
			t.dims = append(t.dims, d.Name)
		}
		t.sizes[d.Name][side].add(d.Value)
	}
	for _, a := range c.Attrs {
		t.option(a.Name+" is", fmt.Sprint(a.Value), side)
	}
	for i := range c.Inputs {
		in := &c.Inputs[i]
		t.option("the layout of "+in.Name+" is", in.Layout.String(), side)
		t.option("the values of "+in.Name+" are", in.Values, side)
	}
}

func (t *traits) option(name, value string, side int) {
	if t.values[name] == nil && len(t.options) == maxNames {
		return
	}
	if t.values[name] == nil {
		t.values[name] = &[2]values{}
		t.options = append(t.options, name)
	}
	v := &t.values[name][side]
	v.cases++
	if len(v.seen) < maxValues && !slices.Contains(v.seen, value) {
		v.seen = append(v.seen, value)
	}
}

func (s *sizes) add(n int) {
	if s.cases == 0 {
		s.least, s.largest = n, n
	}
	s.cases++
	s.least, s.largest = min(s.least, n), max(s.largest, n)
	for bit, d := range divisors {
		if n%d == 0 {
			s.multiple |= 1 << bit
		} else {
			s.rest |= 1 << bit
		}
	}
}

// merge adds the cases of another dtype.
func (t *traits) merge(other *traits) {
	t.failed, t.passed = t.failed+other.failed, t.passed+other.passed
	if t.sizes == nil {
		t.sizes, t.values = map[string]*[2]sizes{}, map[string]*[2]values{}
	}
	for _, name := range other.dims {
		if t.sizes[name] == nil {
			t.sizes[name] = &[2]sizes{}
			t.dims = append(t.dims, name)
		}
		for side := range other.sizes[name] {
			t.sizes[name][side].merge(&other.sizes[name][side])
		}
	}
	for _, name := range other.options {
		for side := range other.values[name] {
			for _, value := range other.values[name][side].seen {
				t.option(name, value, side)
			}
			if t.values[name] != nil {
				t.values[name][side].cases += other.values[name][side].cases - len(other.values[name][side].seen)
			}
		}
	}
}

func (s *sizes) merge(other *sizes) {
	if other.cases == 0 {
		return
	}
	if s.cases == 0 {
		s.least, s.largest = other.least, other.largest
	}
	s.cases += other.cases
	s.least, s.largest = min(s.least, other.least), max(s.largest, other.largest)
	s.multiple, s.rest = s.multiple|other.multiple, s.rest|other.rest
}

// pattern returns the first pattern that holds for every failing and for no passing case, "" where there is none: a
// remainder, a limit, a divisor, then the value of an option. Of several divisors the one that claims least is taken.
func (t *traits) pattern() string {
	if t.failed < minEvidence || t.passed < minEvidence {
		return ""
	}
	for _, find := range []func(name string, f, p *sizes) string{remainder, limit, divisor} {
		for _, name := range t.dims {
			f, p := &t.sizes[name][failing], &t.sizes[name][passes]
			if f.cases != t.failed || p.cases != t.passed {
				continue // not all cases have that dimension
			}
			if text := find(name, f, p); text != "" {
				return text
			}
		}
	}
	for _, name := range t.options {
		f, p := &t.values[name][failing], &t.values[name][passes]
		if f.cases == t.failed && p.cases == t.passed && len(f.seen) == 1 && len(p.seen) < maxValues &&
			!slices.Contains(p.seen, f.seen[0]) {
			return name + " " + f.seen[0]
		}
	}
	return ""
}

func remainder(name string, f, p *sizes) string {
	for bit, d := range divisors {
		if f.multiple>>bit&1 == 0 && p.rest>>bit&1 == 0 {
			return fmt.Sprintf("%s is not a multiple of %d", name, d)
		}
	}
	return ""
}

func limit(name string, f, p *sizes) string {
	switch {
	case f.least > p.largest:
		return fmt.Sprintf("%s is %d or more", name, f.least)
	case f.largest < p.least:
		return fmt.Sprintf("%s is %d or less", name, f.largest)
	}
	return ""
}

func divisor(name string, f, p *sizes) string {
	for bit, d := range slices.Backward(divisors[:]) {
		if f.rest>>bit&1 == 0 && p.multiple>>bit&1 == 0 {
			return fmt.Sprintf("%s is a multiple of %d", name, d)
		}
	}
	return ""
}
