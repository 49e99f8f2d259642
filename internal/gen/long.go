// This file implements long reduced axes in the default shape strategy, and what is usual among shapes.

package gen

import (
	"gpuemu/internal/rng"
)

const (
	// longCases: one case in so many has a long reduced axis. Kernels have another path for rows that do not fit into
	// one block or into shared memory, and sums lose digits with length.
	longCases = 20
	// longLeast is the shortest long axis: one beyond the rows that kernels of one pass usually take. longMost is one
	// beyond 2^16, a limit of 16-bit indices and of a CUDA grid's y and z dimension.
	longLeast, longMost = 4097, 65537
	longOctaves         = 4 // from 4096 to 65536
	// longWork bounds the product of all dimensions of such a case, which is what a product or attention computes. It is
	// a quarter of the largest tensor: a campaign takes about a sixth longer with these cases than without.
	longWork = 1 << 18
	// unusualCases: one case in so many need not be usual (opspec.Schema.Usual).
	unusualCases = 50
)

// longAxis returns the dimension that is long in this case, "" in most.
func (sh *shaper) longAxis(root *rng.RNG) string {
	if sh.strategy.Name != "default" || len(sh.reduced) == 0 || sh.maxElems < 2*longLeast {
		return ""
	}
	r := root.Derive("v1/long")
	if r.Intn(longCases) != 0 {
		return ""
	}
	return sh.reduced[r.Intn(len(sh.reduced))]
}

// stretch makes one dimension long and the others as small as that needs. It reports whether it could; where it could
// not, dims are as they were.
func (sh *shaper) stretch(root *rng.RNG, prefix string, dims map[string]int, name string) bool {
	if name == "" {
		return false
	}
	work := min(longWork, sh.maxElems)
	size := sh.longSize(root.Derive(prefix+"long/"+name), name, work/2)
	if size == 0 {
		return false
	}
	own := make(map[string]int, len(dims))
	for _, other := range sh.free {
		own[other] = dims[other]
	}
	for dims[name] = size; product(dims) > work; {
		if !sh.shrink(dims, name) {
			for other, v := range own {
				dims[other] = v
			}
			return false
		}
	}
	return true
}

// longSize draws a length of at most most that the dimension allows: one past a power of two, one below, the power, or
// anything, in each octave alike. 0: it allows none.
func (sh *shaper) longSize(r *rng.RNG, name string, most int) int {
	d, _ := sh.schema.Dim(name)
	for range 64 {
		octave := (longLeast - 1) << r.Intn(longOctaves+1)
		size := octave + []int{0, 1, -1}[r.Intn(3)]
		if r.Bool(0.5) {
			size = octave + r.Intn(octave)
		}
		if size >= longLeast && size <= min(most, longMost) && sh.allows(d, size) {
			return size
		}
	}
	return 0
}

// product saturates far above every limit.
func product(dims map[string]int) int {
	p := 1
	for _, v := range dims {
		p = min(p*max(v, 1), 1<<30)
	}
	return p
}

// usual reports whether a choice is usual, or need not be.
func (sh *shaper) usual(root *rng.RNG, c *choice) bool {
	if len(sh.schema.Usual) == 0 || sh.strategy.Name == "zero_size" {
		return true
	}
	all, err := sh.prog.Derive(c.dims, c.attrs)
	return err == nil && sh.prog.IsUsual(all, c.attrs) || root.Derive("v1/unusual").Intn(unusualCases) == 0
}
