package ptxvm

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"gpuemu/internal/dtype"
)

// TestTritonProducts runs products of matrices that Triton compiled: pipelines of asynchronous copies, ldmatrix and
// mma.sync. Elements are small whole numbers, so that every sum is exact in every format, and a wrong element of a
// fragment shows.
func TestTritonProducts(t *testing.T) {
	for _, c := range []struct {
		file                  string
		threads, tileM, tileN int
		in, out               dtype.DType
		largest               int
	}{
		{"matmul-fp16-sm80", 128, 64, 64, dtype.Float16, dtype.Float16, 2},
		{"matmul-bf16-sm80", 128, 64, 32, dtype.BFloat16, dtype.BFloat16, 4},
		{"matmul-fp16acc-sm80", 128, 32, 32, dtype.Float16, dtype.Float16, 2},
		{"matmul-tf32-sm80", 128, 32, 32, dtype.Float32, dtype.Float32, 8},
		{"matmul-int8-sm80", 128, 32, 32, dtype.Int8, dtype.Int32, 100},
		{"matmul-fp8e5-sm80", 128, 32, 32, dtype.Float8E5M2, dtype.Float32, 4},
		{"matmul-fp32-sm80", 64, 16, 16, dtype.Float32, dtype.Float32, 8},
		{"matmul-fp16-sm90", 128, 64, 64, dtype.Float16, dtype.Float32, 2},
		{"matmul-fp8-sm90", 128, 64, 64, dtype.Float8E4M3FN, dtype.Float32, 4},
	} {
		t.Run(c.file, func(t *testing.T) {
			p := loadFixture(t, "triton36/"+c.file+".ptx", "matmul")
			const m, n, k = 48, 80, 96
			r := rand.New(rand.NewPCG(1, 2))
			matrix := func(rows, cols int) ([]float64, []byte) {
				values := make([]float64, rows*cols)
				for i := range values {
					values[i] = float64(r.IntN(2*c.largest+1) - c.largest)
				}
				return values, encoded(c.in, values)
			}
			a, aBytes := matrix(m, k)
			b, bBytes := matrix(k, n)
			l := &Launch{Grid: Dim{(m + c.tileM - 1) / c.tileM, (n + c.tileN - 1) / c.tileN, 1}, Block: Dim{c.threads, 1, 1},
				DynamicShared: 96 << 10, Args: []Arg{{Name: "a", Buffer: aBytes, Role: In},
					{Name: "b", Buffer: bBytes, Role: In},
					{Name: "c", Buffer: make([]byte, m*n*c.out.Size()), Role: Out, Uninitialised: true},
					{Value: word(m)}, {Value: word(n)}, {Value: word(k)}, {Value: word(k)}, {Value: word(n)},
					{Value: word(n)}, {Name: "scratch", Buffer: make([]byte, 16)}, {Name: "scratch", Buffer: make([]byte, 16)}}}
			res, err := p.Run(l)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range res.Findings {
				t.Errorf("%s: %s", f.Class, f.Message)
			}
			want := make([]float64, m*n)
			for i := range want {
				for x := range k {
					want[i] += a[i/n*k+x] * b[x*n+i%n]
				}
			}
			if got, want := l.Args[2].Buffer, encoded(c.out, want); !bytes.Equal(got, want) {
				for i := range m * n {
					if size := c.out.Size(); !bytes.Equal(got[i*size:][:size], want[i*size:][:size]) {
						t.Fatalf("row %d, column %d: %x, want %x", i/n, i%n, got[i*size:][:size], want[i*size:][:size])
					}
				}
			}
		})
	}
}

func encoded(d dtype.DType, values []float64) []byte {
	out := make([]byte, d.Size()*len(values))
	dtype.Encode(out, d, values)
	return out
}

// BenchmarkProducts reports the processor time of one product by one warp, without checks. Elements have both signs and
// exponents near each other in every format.
func BenchmarkProducts(b *testing.B) {
	const times = 1000
	for _, c := range []struct {
		name   string
		target string
		d, a   int // registers
	}{
		{"m16n8k16.row.col.f32.f16.f16.f32", "sm_90", 4, 4},
		{"m16n8k16.row.col.f32.f16.f16.f32", "sm_80", 4, 4},
		{"m16n8k16.row.col.f16.f16.f16.f16", "sm_90", 2, 4},
		{"m16n8k16.row.col.f32.bf16.bf16.f32", "sm_90", 4, 4},
		{"m16n8k8.row.col.f32.tf32.tf32.f32", "sm_90", 4, 4},
		{"m16n8k32.row.col.f32.e4m3.e4m3.f32", "sm_90", 4, 4},
		{"m16n8k32.row.col.s32.s8.s8.s32", "sm_90", 4, 4},
	} {
		b.Run(c.target+"."+c.name, func(b *testing.B) {
			registers := func(from, n int) string {
				names := make([]string, n)
				for i := range names {
					names[i] = fmt.Sprintf("%%r%d", from+i)
				}
				return "{" + strings.Join(names, ", ") + "}"
			}
			p := loadText(b, fmt.Sprintf(`.version 8.4
.target %s
.address_size 64
.visible .entry k() {
	.reg .b32 %%r<20>;
	.reg .pred %%p<2>;
	mov.u32 %%r0, %%laneid;
	mul.lo.u32 %%r1, %%r0, 0x9e3779b1;
	and.b32 %%r1, %%r1, 0x8f8f8f8f;
	or.b32 %%r1, %%r1, 0x30303030;
	xor.b32 %%r2, %%r1, 0x850b0482;
	xor.b32 %%r3, %%r1, 0x0284810b;
	xor.b32 %%r4, %%r1, 0x84050d84;
	mov.u32 %%r5, 0; mov.u32 %%r6, 0; mov.u32 %%r7, 0; mov.u32 %%r8, 0; mov.u32 %%r9, 0;
loop:
	mma.sync.aligned.%s %s, %s, {%%r2, %%r3}, %s;
	add.u32 %%r5, %%r5, 1;
	setp.lt.u32 %%p1, %%r5, %d;
	@%%p1 bra loop;
	ret;
}`, c.target, c.name, registers(6, c.d), registers(1, c.a), registers(6, c.d), times))
			start := cpuTime(b)
			for b.Loop() {
				r, err := p.Run(&Launch{Grid: line(1), Block: line(warpSize), Workers: 1, Checks: NoChecks})
				if err != nil || len(r.Findings) > 0 {
					b.Fatal(err, r.Findings)
				}
			}
			b.ReportMetric(float64((cpuTime(b)-start).Nanoseconds())/1000/times/float64(b.N), "cpu-µs/product")
		})
	}
}
