// This file implements Style: which of the permitted ways of computing a machine takes.

package honest

import "gpuemu/internal/rng"

// Order is the order in which the terms of a reduction are added.
type Order uint8

// Orders of summation. The zero value is the plain loop.
const (
	Sequential Order = iota // one accumulator, first term first
	Pairwise                // recursive halving
	Blocked                 // 32 strided lanes, then a tree: a warp
	Reversed                // one accumulator, last term first
)

// Approx says where inside its documented bound an approximate function lands (PTX ISA, spec/ptx.md 3.2).
type Approx uint8

// Places inside the bound. The zero value is no approximation at all.
const (
	Exact  Approx = iota // correctly rounded
	High                 // the largest value the bound allows
	Low                  // the smallest
	Random               // anywhere, drawn from the machine's seed
)

// TC is the tensor core that dot products of narrow operands use (spec/ptx.md 3.3).
type TC uint8

// Tensor cores by generation. The zero value is none.
const (
	NoTC   TC = iota
	Volta     // 23 fractional bits, blocks of 4
	Ampere    // 24, blocks of 8 (fp8: 16)
	Hopper    // 25, blocks of 16 (fp8: 13 bits, blocks of 32)
)

// Alternatives in Style.Variant, a set of bits. Each says what it means for the ops that have such a choice.
const (
	// AltMain takes the other algorithm: Welford for two passes, online for two-pass softmax and attention,
	// log1p for log(1+x), expm1 for exp(x)-1, log(sum)-(x-m) for (m+log(sum))-x.
	AltMain = 1 << iota
	// AltDiv divides through the reciprocal, a*rcp(b), and takes 1/sqrt(x) as rcp(sqrt(x)).
	AltDiv
	// AltFold folds constants: norms as x*(rstd*w)+(b-mean*rstd*w) or x*(rstd*w), attention with scale*log2(e) inside
	// exp2, tanh through exp, bias as the start of the accumulator, scales multiplied with each other first.
	AltFold
	// AltPad also multiplies what is masked or padded with zero, and forms products in the other order: norms as
	// ((x-mean)*w)*rstd+b.
	AltPad
	// AltNorm normalises the probabilities of attention before the product with v, not after it. Activations take their
	// stable forms: gelu through erfc, softplus through exp(-βx) where βx > 0, the limit 0 at -Inf, and logsumexp the
	// infinity that the maximum is.
	AltNorm
	// AltTile and AltTile2 are the tile size of attention: 16, 32, 64 or 128 keys.
	AltTile
	AltTile2
	// Variants is the number of values that Style.Variant can have.
	Variants = 1 << iota
)

// Style is one way of computing. The zero value is the plainest: sequential, nothing fused, nothing approximated.
// Under the attribute math="ieee" and for float64 arithmetic FTZ and TensorCore are ignored, and Approx bears on
// elementary functions alone.
type Style struct {
	Name               string
	Order              Order
	FMA                bool // a*b+c in one rounding
	Approx             Approx
	FTZ                bool // float32 subnormals are zero, as operand and as result
	TensorCore         TC
	RoundIntermediates bool // to the case's dtype: p in attention, silu in swiglu, the normalised x in layernorm
	Storage            bool // every result to the case's dtype, where that has 16 bits
	TF32               TF32 // operands of float32 products
	Variant            int  // set of Alt bits
	Fault              Fault
}

// Styles returns a set that together covers every order, every approximation, every tensor core and every
// alternative.
func Styles() []Style {
	return []Style{
		{Name: "sequential"},
		{Name: "sequential-fma", FMA: true, Variant: AltFold},
		{Name: "reversed", Order: Reversed, Variant: AltMain | AltPad},
		{Name: "pairwise", Order: Pairwise, Variant: AltMain},
		{Name: "warp-fma", Order: Blocked, FMA: true, Variant: AltMain | AltTile},
		{Name: "reciprocal", Order: Pairwise, FMA: true, Variant: AltDiv | AltNorm, RoundIntermediates: true},
		{Name: "high", FMA: true, Approx: High},
		{Name: "low", Order: Reversed, Approx: Low, Variant: AltMain | AltDiv},
		{Name: "high-reciprocal", Order: Blocked, Approx: High, Variant: AltDiv | AltFold | AltPad},
		{Name: "low-folded", Order: Pairwise, FMA: true, Approx: Low, Variant: AltFold | AltMain | AltTile2},
		{Name: "random", Order: Blocked, FMA: true, Approx: Random, Variant: AltMain | AltTile | AltTile2},
		{Name: "ftz", FTZ: true, Variant: AltPad},
		{Name: "fast-math-high", FMA: true, Approx: High, FTZ: true, Variant: AltMain | AltDiv | AltFold},
		{Name: "fast-math-low", Order: Blocked, FMA: true, Approx: Low, FTZ: true, RoundIntermediates: true},
		{Name: "fast-math-random", Order: Pairwise, FMA: true, Approx: Random, FTZ: true, Variant: AltMain | AltNorm},
		{Name: "rounded", RoundIntermediates: true, Variant: AltNorm | AltPad},
		{Name: "volta", FMA: true, TensorCore: Volta, RoundIntermediates: true, Variant: AltMain},
		{Name: "ampere", FMA: true, Approx: Random, TensorCore: Ampere, RoundIntermediates: true,
			Variant: AltMain | AltFold | AltTile},
		{Name: "ampere-split-k", Order: Blocked, TensorCore: Ampere, RoundIntermediates: true, Variant: AltMain | AltPad},
		{Name: "hopper", FMA: true, Approx: High, FTZ: true, TensorCore: Hopper, RoundIntermediates: true,
			Variant: AltMain | AltFold | AltTile2},
		{Name: "hopper-split-k", Order: Pairwise, Approx: Low, TensorCore: Hopper, Variant: AltDiv | AltPad},
	}
}

// RandomStyle draws a style from all there are, without a fault.
func RandomStyle(r *rng.RNG) Style {
	return Style{
		Name:               "drawn",
		Order:              Order(r.Intn(int(Reversed) + 1)),
		FMA:                r.Bool(0.5),
		Approx:             Approx(r.Intn(int(Random) + 1)),
		FTZ:                r.Bool(0.4),
		TensorCore:         TC(r.Intn(int(Hopper) + 1)),
		RoundIntermediates: r.Bool(0.5),
		Variant:            r.Intn(Variants),
	}
}
