package ptxmath

import (
	"testing"

	"gpuemu/internal/testkit/recorded"
)

// BenchmarkScalar times the functions an emulator calls most.
func BenchmarkScalar(b *testing.B) {
	var sink uint32
	var operands [1024]uint32
	for i := range operands {
		operands[i] = 0x3f800000 + uint32(recorded.Mix(uint64(i)))&0x3ffffff
	}
	operand := func(i int) uint32 { return operands[i&1023] }
	for _, bench := range []struct {
		name string
		f    func(a, b, c uint32) uint32
	}{
		{"add.rn.f32", func(a, b, _ uint32) uint32 { return AddRN32(a, b) }},
		{"fma.rn.f32", FmaRN32},
		{"fma.rm.f32", func(a, b, c uint32) uint32 { return Fma32(a, b, c, Mode{Round: RM}) }},
		{"fma.rn.ftz.f32", func(a, b, c uint32) uint32 { return Fma32(a, b, c, Mode{FTZ: true}) }},
		{"div.rn.f32", func(a, b, _ uint32) uint32 { return Div32(a, b, Mode{}) }},
		{"fma.rn.f16", func(a, b, c uint32) uint32 {
			return uint32(FmaF16(uint16(a>>16), uint16(b>>16), uint16(c>>16), Mode{}))
		}},
		{"cvt.rn.f16.f32", func(a, _, _ uint32) uint32 { return uint32(F32ToF16(a)) }},
		{"cvt.f32.f16", func(a, _, _ uint32) uint32 { return F16ToF32(uint16(a)) }},
		{"ex2.approx.f32", func(a, _, _ uint32) uint32 { return uint32(Ex2.Eval(uint64(a), 0, false)) }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			for i := range b.N {
				sink += bench.f(operand(i), operand(i+1), operand(i+2))
			}
		})
	}
	b.Run("mma.m16n8k16.f32.f16", func(b *testing.B) {
		var x, y [256]uint32
		for i := range x {
			x[i], y[i] = 0x3800+operand(i)&0x8fff, 0x3800+operand(i+256)&0x8fff // between 0.5 and 8
		}
		core := NewCore(Hopper, InF16, false)
		var rows Rows
		var columns Columns
		var d [Width]uint32
		for range b.N {
			core.Rows(&rows, InF16, x[:], 16)
			core.Columns(&columns, InF16, y[:128])
			for row := range 16 {
				core.F32(&d, &rows, row, &columns)
			}
			d[0] = operand(int(d[1] & 1023))
		}
		sink += d[0]
	})
	if sink == 1 {
		b.Log("kept")
	}
}
