package litmus

import "math/bits"

// This file implements sets of small numbers and relations between them.

const (
	setWords = 5
	setLimit = 64 * setWords // events of an execution, and pieces of memory that accesses have in common
)

// set is a set of numbers below setLimit.
type set [setWords]uint64

func (s *set) add(i int)      { s[i/64] |= 1 << (i % 64) }
func (s *set) has(i int) bool { return s[i/64]>>(i%64)&1 != 0 }

func (s set) union(t set) set {
	for i := range s {
		s[i] |= t[i]
	}
	return s
}

func (s set) meets(t set) bool {
	for i := range s {
		if s[i]&t[i] != 0 {
			return true
		}
	}
	return false
}

func (s set) empty() bool { return s == set{} }

// all yields the members, the smallest first.
func (s set) all(yield func(int) bool) {
	for i, w := range s {
		for ; w != 0; w &= w - 1 {
			if !yield(64*i + bits.TrailingZeros64(w)) {
				return
			}
		}
	}
}

// relation has for each number those that it precedes.
type relation []set

func newRelation(n int) relation { return make(relation, n) }

func (r relation) clone() relation { return append(relation(nil), r...) }

// close makes it transitive.
func (r relation) close() {
	for k := range r {
		if r[k].empty() {
			continue
		}
		for i := range r {
			if r[i].has(k) {
				r[i] = r[i].union(r[k])
			}
		}
	}
}

// cyclic reports whether the relation, which is transitive, has a cycle.
func (r relation) cyclic() bool {
	for i := range r {
		if r[i].has(i) {
			return true
		}
	}
	return false
}
