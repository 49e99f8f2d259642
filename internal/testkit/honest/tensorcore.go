// This file implements tensor-core accumulation as measured on NVIDIA hardware (spec/ptx.md 3.3, after MMA-Sim,
// arXiv 2511.10909): products are not normalised, every term of a block is truncated to a fixed number of fractional
// bits below the largest exponent, the sum is exact and its float32 result truncated.

package honest

import (
	"math"

	"gpuemu/internal/dtype"
)

// core is what distinguishes one generation and operand format from another.
type core struct {
	frac  int // fractional bits kept of each term, relative to the largest exponent
	block int // terms per truncation
	emin  int // exponent of the operand format's subnormals
	out   int // fractional bits of the result: 23, or 13 for fp8 on Hopper
}

// maxBlock is the longest block of any core.
const maxBlock = 32

// accumulator exponents start here: zero has the exponent of a float32 subnormal.
const emin32 = -126

func operandEmin(d dtype.DType) int {
	switch d {
	case dtype.BFloat16, dtype.Float32: // Float32: TF32
		return -126
	case dtype.Float8E4M3FN:
		return -6
	}
	return -14 // float16, float8_e5m2
}

// coreOf returns the machine's tensor core for the case's dtype.
func (m *Machine) coreOf() core {
	c := core{emin: operandEmin(m.t), out: 23}
	fp8 := m.t.Size() == 1
	switch m.tc {
	case Volta:
		c.frac, c.block = 23, 4
	case Ampere:
		c.frac, c.block = 24, 8
		if fp8 {
			c.block = 16
		}
	default:
		c.frac, c.block = 25, 16
		if fp8 {
			c.block = 32
		}
	}
	return c
}

// tensorDot returns c + x·y. Pairwise and Blocked split the sum (split-K) in 2 and 4 parts that are added in float32.
func (m *Machine) tensorDot(c float64, x, y []float64) float64 {
	t := m.coreOf()
	parts := 1
	switch m.style.Order {
	case Pairwise:
		parts = 2
	case Blocked:
		parts = 4
	case Reversed:
		return t.reversed(c, x, y)
	}
	size := (len(x) + parts - 1) / parts
	if parts == 1 || size < t.block {
		return t.chain(c, x, y)
	}
	for i := 0; i < len(x); i += size {
		j := min(i+size, len(x))
		part := t.chain(0, x[i:j], y[i:j])
		if i == 0 && c == 0 {
			c = part
			continue
		}
		c = m.Add(c, part)
	}
	return c
}

// chain feeds block after block into the accumulator.
func (t *core) chain(c float64, x, y []float64) float64 {
	for len(x) > t.block {
		c = t.fuse(c, x[:t.block], y[:t.block])
		x, y = x[t.block:], y[t.block:]
	}
	if len(x) == 0 {
		return c
	}
	return t.fuse(c, x, y)
}

func (t *core) reversed(c float64, x, y []float64) float64 {
	for len(x) > 0 {
		i := (len(x) - 1) / t.block * t.block
		c = t.fuse(c, x[i:], y[i:])
		x, y = x[:i], y[:i]
	}
	return c
}

// exponent returns the exponent of a finite float64 that is no subnormal of float64.
func exponent(x float64) int { return int(math.Float64bits(x)>>52&0x7ff) - 1023 }

// fuse returns c + x·y for one block.
func (t *core) fuse(c float64, x, y []float64) float64 {
	var prod [maxBlock]float64
	top := emin32
	special := c - c
	for i, a := range x {
		b := y[i]
		p := float64(a * b)
		prod[i] = p
		special += p - p
		if p != 0 {
			top = max(top, max(exponent(a), t.emin)+max(exponent(b), t.emin))
		}
	}
	if special != 0 { // an infinity or a NaN: the IEEE sum decides
		s := c
		for _, p := range prod[:len(x)] {
			s += p
		}
		return s
	}
	if c != 0 {
		top = max(top, exponent(c))
	}
	scale := math.Float64frombits(uint64(1023+t.frac-top) << 52)
	sum := int64(c * scale) // conversion truncates
	for _, p := range prod[:len(x)] {
		sum += int64(p * scale)
	}
	// |sum| < 2^(2+25)·33, so that it and the product are exact.
	return truncate(float64(sum)*math.Float64frombits(uint64(1023+top-t.frac)<<52), t.out)
}

// truncate rounds towards zero to float32 with frac fractional bits; overflow is an infinity.
func truncate(x float64, frac int) float64 {
	if math.Abs(x) >= 0x1p128 {
		return math.Copysign(math.Inf(1), x)
	}
	if math.Abs(x) < minNormal32 {
		unit := math.Ldexp(1, emin32-frac)
		return math.Trunc(x/unit) * unit
	}
	return math.Float64frombits(math.Float64bits(x) &^ (1<<(52-frac) - 1))
}

// promoteEvery is after how many terms fp8 kernels move the partial sum to a float32 register.
const promoteEvery = 128

// dotFP8 returns x·y of fp8 operands. Hopper keeps 13 fractional bits, Ada (Ampere with AltFold) too; without
// fastAccum the partial sums of 128 terms are added in float32.
func (m *Machine) dotFP8(x, y []float64, fastAccum bool) float64 {
	short := m.tc == Hopper || m.tc == Ampere && m.alt(AltFold)
	if !short || m.fault == NarrowAcc {
		return m.Dot(x, y, true)
	}
	if m.fault != NoFault {
		x, y = m.faulty(1, x), m.faulty(2, y)
	}
	t := m.coreOf()
	t.frac, t.out = 13, 13
	if fastAccum {
		return t.chain(0, x, y)
	}
	s := 0.0
	for i := 0; i < len(x); i += promoteEvery {
		j := min(i+promoteEvery, len(x))
		s = m.Add(s, t.chain(0, x[i:j], y[i:j]))
	}
	return s
}
