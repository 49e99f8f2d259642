package runner

// This file implements scalar arguments of kernels: from the value of an expression to the bytes of a parameter.

import (
	"encoding/binary"
	"strings"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/formula"
	"gpuemu/internal/ptxvm"
)

// scalar is a value as the parameter takes it. Without a conversion the parameter's type decides: a float takes every
// number, rounded once; the others take whole numbers that fit, signed or not, because PTX does not always say.
func scalar(v formula.Value, d dtype.DType, p *ptxvm.Param, typ string) ([]byte, error) {
	bad := func(hint, format string, args ...any) ([]byte, error) {
		return nil, diag.Errorf(BadLaunch, hint, format, args...)
	}
	whole := v.Kind == formula.Int || v.Kind == formula.Bool
	if d == dtype.Invalid && strings.HasPrefix(typ, "f") {
		d = map[string]dtype.DType{"f16": dtype.Float16, "f32": dtype.Float32, "f64": dtype.Float64}[typ]
	}
	switch {
	case d != dtype.Invalid && d.Size() != p.Size:
		return bad("", "%s has %d bytes, parameter %s has %d", d, d.Size(), p.Name, p.Size)
	case d.IsFloat():
		x := v.Float
		if whole {
			x = float64(v.Int)
		}
		b := make([]byte, d.Size())
		d.Store(b, d.Bits(x))
		return b, nil
	case !whole:
		return bad("write float32(…) for a float, ceil(…) or floor(…) for a whole number",
			"parameter %s of type %s does not take a fraction", p.Name, typ)
	case p.Size != 1 && p.Size != 2 && p.Size != 4 && p.Size != 8:
		return bad("", "parameter %s has %d bytes, which no number has", p.Name, p.Size)
	}
	low, high := span(d, 8*p.Size)
	if v.Int < low || v.Int > 0 && uint64(v.Int) > high {
		return bad("", "%d does not fit parameter %s of %d bytes", v.Int, p.Name, p.Size)
	}
	b := binary.LittleEndian.AppendUint64(nil, uint64(v.Int))
	return b[:p.Size], nil
}

// span are the limits of whole numbers of some bits: of the type, or, without one, of both the signed and the
// unsigned type.
func span(d dtype.DType, bits int) (low int64, high uint64) {
	low, high = -1<<(bits-1), 1<<bits-1
	switch {
	case d == dtype.Bool:
		return 0, 1
	case d == dtype.Invalid:
	case d.IsSigned():
		high >>= 1
	default:
		low = 0
	}
	return low, high
}
