// This file implements the values of inputs whose role says what they are.

package gen

import (
	"math"

	"gpuemu/internal/opspec"
	"gpuemu/internal/rng"
)

// mask makes booleans. One row in eight is all true, one in sixteen all false (a fully masked row); the others have
// the density of the tensor.
func mask(s *source) fillFunc {
	density := []float64{0.5, 0.9, 0.1, 0.5}[s.r.Uint64()&3]
	return func(dst []float64, _ int) {
		u := s.r.Uint64()
		switch {
		case u&7 == 0:
			for i := range dst {
				dst[i] = 1
			}
		case u>>3&15 == 0:
			clear(dst)
		default:
			s.r.FillFloat64(dst)
			for i, x := range dst {
				dst[i] = 0
				if x < density {
					dst[i] = 1
				}
			}
		}
	}
}

// probability makes values of [0,1]: uniform, with the ends and tiny values in one draw of sixteen each.
func probability(s *source) fillFunc {
	return func(dst []float64, _ int) {
		for i := range dst {
			u := s.r.Uint64()
			switch u & 15 {
			case 0:
				dst[i] = 0
			case 1:
				dst[i] = 1
			case 2:
				dst[i] = s.tiny * (1 + unit(u))
			default:
				dst[i] = unit(u)
			}
			dst[i] = min(dst[i], 1)
		}
	}
}

// scale makes positive scales from 2^-8 to 2^4, half of them powers of two, whose products are exact. In one tensor of
// eight, by bits of the first draw, they are 2^8 times as large, so that products leave the range of float16.
func scale(s *source) fillFunc {
	lowest, first := -8, true
	return func(dst []float64, _ int) {
		for i := range dst {
			u := s.r.Uint64()
			if first && u>>32&7 == 0 {
				lowest = 0
			}
			first = false
			x := math.Ldexp(1, int(u>>1&0x3ff)%13+lowest)
			if u&1 != 0 {
				x *= 0.5 + float64(unit(u)/2)
			}
			dst[i] = max(x, s.tiny)
		}
	}
}

// indexFill makes row after row of indices below limit.
//
// Distinct rows are random choices without repetition. Others follow one of four plans per tensor: uniform with the
// first and last index and repeats of the one before mixed in, all the same, counting up, and the two ends only. Where
// there is a choice they are not all 0: lengths that are all 0 leave nothing to judge. Lengths are 0 in one tensor of
// eight only and 1 instead in the others: with one key a result is known whatever its score.
func indexFill(r *rng.RNG, elems int, limit int64, dom opspec.Domain) fillFunc {
	if dom.Distinct {
		return func(dst []float64, _ int) { distinctRow(r, dst, limit) }
	}
	n := uint64(limit)
	plan := r.Uint64() % 8
	same := r.Uint64() % n
	next := r.Uint64() % n
	if same == 0 {
		same = n - 1
	}
	zeros := 0
	positive := dom.Counts && n > 1 && r.Derive("counts").Intn(8) != 0
	return func(dst []float64, _ int) {
		for i := range dst {
			u := r.Uint64()
			v := u >> 8 % n
			switch plan {
			case 0:
				v = same
			case 1:
				v = next
				next = (next + 1) % n
			case 2:
				v = u & 1 * (n - 1)
			default:
				switch u & 7 {
				case 0:
					v = 0
				case 1:
					v = n - 1
				case 2:
					v = same
				}
				same = v
			}
			if v == 0 && positive {
				v = 1
			}
			if v == 0 && zeros == elems-1 {
				v = n - 1
			}
			if v == 0 {
				zeros++
			}
			dst[i] = float64(v)
		}
	}
}

// distinctRow draws len(dst) different indices: the head of a shuffled list where that is short, else by drawing
// again what was drawn before, which then happens for at most one draw in four.
func distinctRow(r *rng.RNG, dst []float64, limit int64) {
	if limit <= 4*int64(len(dst)) {
		list := make([]float64, limit)
		for i := range list {
			list[i] = float64(i)
		}
		for i := range dst {
			j := i + r.Intn(len(list)-i)
			list[i], list[j] = list[j], list[i]
			dst[i] = list[i]
		}
		return
	}
	seen := make(map[uint64]bool, len(dst))
	for i := range dst {
		v := r.Uint64() % uint64(limit)
		for seen[v] {
			v = r.Uint64() % uint64(limit)
		}
		seen[v] = true
		dst[i] = float64(v)
	}
}
