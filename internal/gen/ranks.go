// This file implements the choice of ranks: the last step of a case, which changes neither its dimensions nor its
// values.

package gen

import (
	"slices"

	"gpuemu/internal/diag"
	"gpuemu/internal/opspec"
	"gpuemu/internal/rng"
	"gpuemu/internal/tensor"
)

// checkRanks refuses ranks that no tensor has.
func checkRanks(ranks []int) error {
	for _, r := range ranks {
		if r < 0 || r > tensor.MaxRank {
			return diag.Errorf(BadStrategy, "give a list such as 1,2,3,4,5", "ranks: got %d, want 0..%d", r, tensor.MaxRank)
		}
	}
	return nil
}

// spread gives the tensors of a case that may have any rank one of the strategy's. It splits or merges the axes that
// fold (opspec.Ranks): their product, the dimensions of the case and the values in row-major order stay the same. Ranks
// that the operator or this case cannot have are not drawn. attrs are complete.
func (s *Stream) spread(root *rng.RNG, c opspec.Case, attrs opspec.Attrs) opspec.Case {
	rule := &s.schema.Ranks
	at := slices.IndexFunc(s.schema.Inputs, func(in opspec.Input) bool { _, more := rule.Least(in.Dims); return more })
	if len(s.strategy.Ranks) == 0 || at < 0 || s.fixesLead() {
		return c
	}
	least, _ := rule.Least(s.schema.Inputs[at].Dims)
	elems, err := s.prog.Folded(&c)
	if err != nil {
		return c
	}
	var ranks []int
	for _, r := range s.strategy.Ranks {
		if r > least || r == least && elems == 1 {
			ranks = append(ranks, r)
		}
	}
	if len(ranks) == 0 {
		return c
	}
	r := root.Derive("v1/rank")
	rank := ranks[r.Intn(len(ranks))]
	if rank == len(s.schema.Inputs[at].Dims) {
		return c
	}
	out, err := s.prog.Spread(c, attrs, factors(r, elems, rank-least))
	if err != nil {
		return c // an empty axis where none may be, or a second input of too high a rank
	}
	return out
}

// fixesLead reports whether the sizes of axes that fold are asked for, or limited.
func (s *Stream) fixesLead() bool {
	for _, name := range append(slices.Clone(s.schema.Ranks.Lead), s.schema.Ranks.Tail) {
		_, listed := s.strategy.Dims[name]
		if _, limited := s.strategy.Most[name]; listed || limited {
			return true
		}
	}
	return false
}

// factors returns n sizes whose product is that one.
func factors(r *rng.RNG, product, n int) tensor.Shape {
	axes := slices.Repeat(tensor.Shape{1}, n)
	if n == 0 {
		return axes
	}
	if product == 0 {
		for i := range axes {
			axes[i] = 1 + r.Intn(3)
		}
		axes[r.Intn(n)] = 0
		return axes
	}
	for p := 2; product > 1; p++ {
		if p*p > product {
			p = product // what is left is prime
		}
		for ; product%p == 0; product /= p {
			axes[r.Intn(n)] *= p
		}
	}
	return axes
}
