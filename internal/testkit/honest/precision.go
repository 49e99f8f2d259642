// This file implements the precisions that a contract may name beside float32: storage and TF32.

package honest

import (
	"math"

	"gpuemu/internal/dtype"
)

// TF32 says how the operands of float32 products become TF32 values of 10 explicit mantissa bits.
type TF32 uint8

// Roundings to TF32. The zero value is none: products in float32.
const (
	NoTF32      TF32 = iota
	TruncTF32        // the low bits are not read: mma.tf32 on plain float32 registers
	NearestTF32      // cvt.rna.tf32: to nearest, ties away from zero
)

// PrecisionStyles returns styles that keep a contract of that name (the attribute compute) and need not keep the
// default one.
func PrecisionStyles(compute string) []Style {
	switch compute {
	case "storage":
		return []Style{
			{Name: "eager", Storage: true},
			{Name: "eager-fma", FMA: true, Storage: true, Variant: AltDiv | AltNorm},
			{Name: "eager-warp", Order: Blocked, Storage: true, RoundIntermediates: true, Variant: AltMain | AltPad},
			{Name: "eager-folded", Order: Pairwise, Approx: Random, Storage: true, Variant: AltFold | AltMain | AltTile},
			{Name: "eager-ftz", FTZ: true, Approx: High, Storage: true, Variant: AltMain | AltDiv},
			{Name: "eager-low", Order: Reversed, Approx: Low, Storage: true, Variant: AltPad | AltDiv},
			{Name: "eager-ampere", FMA: true, TensorCore: Ampere, Storage: true, RoundIntermediates: true},
			{Name: "mixed", Approx: Random, Variant: AltMain}, // what keeps float32 keeps storage
		}
	case "tf32":
		return []Style{
			{Name: "tf32-truncated", TF32: TruncTF32, RoundIntermediates: true},
			{Name: "tf32-nearest", TF32: NearestTF32, FMA: true, RoundIntermediates: true, Variant: AltMain},
			{Name: "tf32-ampere", TF32: NearestTF32, TensorCore: Ampere, RoundIntermediates: true, Variant: AltMain | AltFold},
			{Name: "tf32-hopper", TF32: TruncTF32, TensorCore: Hopper, Order: Blocked, RoundIntermediates: true,
				Variant: AltPad},
			{Name: "tf32-split-k", TF32: TruncTF32, Order: Pairwise, Approx: Random, RoundIntermediates: true, Variant: AltNorm},
			{Name: "tf32-ftz", TF32: NearestTF32, FTZ: true, Approx: High, RoundIntermediates: true, Variant: AltTile},
			{Name: "float32", FMA: true},
		}
	}
	return nil
}

// setPrecision takes from the style what applies to cases of type t.
func (m *Machine) setPrecision(t dtype.DType) {
	m.storage = m.style.Storage && (t == dtype.Float16 || t == dtype.BFloat16)
	m.tf32 = NoTF32
	if t == dtype.Float32 && !m.f64 {
		m.tf32 = m.style.TF32
		if m.tf32 != NoTF32 {
			m.tc = m.style.TensorCore
		}
	}
	m.inner = 0
}

// keep is a result as it is stored: rounded to the case's dtype under Storage, unless it is a step inside of a larger
// operation.
func (m *Machine) keep(x float64) float64 {
	if m.storage && m.inner == 0 {
		return m.Cast(x, m.t)
	}
	return x
}

// whole evaluates f as one operation: only its result is stored.
func (m *Machine) whole(f func() float64) float64 {
	m.inner++
	x := f()
	m.inner--
	return m.keep(x)
}

// composite reports whether an operation of several steps has to go through whole.
func (m *Machine) composite() bool { return m.storage && m.inner == 0 }

// toTF32 returns the operand of a product.
func (m *Machine) toTF32(x float64) float64 {
	const low = 1<<(52-10) - 1
	b := math.Float64bits(x)
	switch {
	case x-x != 0:
		return x
	case x < minNormal32 && x > -minNormal32:
		unit := 0x1p-136 // spacing of TF32 subnormals
		if m.tf32 == TruncTF32 {
			return math.Trunc(x/unit) * unit
		}
		return math.Round(x/unit) * unit
	case m.tf32 == NearestTF32:
		b += 1 << (52 - 10 - 1)
	}
	x = math.Float64frombits(b &^ low)
	if math.Abs(x) > maxFloat32 {
		return math.Copysign(math.Inf(1), x)
	}
	return x
}

// allTF32 returns x as operands, in scratch memory.
func (m *Machine) allTF32(slot int, x []float64) []float64 {
	out := m.scratch(slot, len(x))
	for i, v := range x {
		out[i] = m.toTF32(v)
	}
	return out
}
