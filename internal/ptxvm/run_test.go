package ptxvm

import (
	"encoding/binary"
	"math"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuemu/internal/ptx"
)

func loadFixture(t testing.TB, path, entry string) *Program {
	t.Helper()
	f, err := ptx.ReadFile("../../testdata/ptx/" + path)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Load(f, entry)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func floatBytes(v []float32) []byte {
	b := make([]byte, 4*len(v))
	for i, x := range v {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(x))
	}
	return b
}

func word(n int) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(n)) }

func softmaxLaunch(rows, n int) (*Launch, []float32) {
	x := make([]float32, rows*n)
	for i := range x {
		x[i] = float32((i*7919)%1000)/100 - 5
	}
	return &Launch{Grid: Dim{rows, 1, 1}, Block: Dim{256, 1, 1}, Args: []Arg{{Name: "x", Buffer: floatBytes(x), Role: In},
		{Name: "y", Buffer: make([]byte, 4*rows*n)}, {Value: word(n)}}}, x
}

func TestSoftmax(t *testing.T) {
	p := loadFixture(t, "clang19/softmax.ptx", "softmax_block")
	const rows, n = 3, 1000
	l, x := softmaxLaunch(rows, n)
	r, err := p.Run(l)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Findings {
		t.Error(&f)
	}
	for row := range rows {
		top, sum := math.Inf(-1), 0.0
		for _, v := range x[row*n:][:n] {
			top = max(top, float64(v))
		}
		for _, v := range x[row*n:][:n] {
			sum += math.Exp(float64(v) - top)
		}
		for i, v := range x[row*n:][:n] {
			got := math.Float32frombits(binary.LittleEndian.Uint32(l.Args[1].Buffer[4*(row*n+i):]))
			want := math.Exp(float64(v)-top) / sum
			if math.Abs(float64(got)-want) > 1e-5*want+1e-8 {
				t.Fatalf("row %d, column %d: %g, want %g", row, i, got, want)
			}
		}
	}
	t.Logf("%d warp instructions", r.Steps)
}

func BenchmarkSoftmax(b *testing.B) {
	p := loadFixture(b, "clang19/softmax.ptx", "softmax_block")
	for _, checks := range []string{"none", "bounds,barrier", "uninit", "race", "all"} {
		b.Run(checks, func(b *testing.B) {
			l, _ := softmaxLaunch(128, 1000)
			l.Workers = 1
			l.Checks, _ = ParseChecks(checks)
			measure(b, p, l)
		})
	}
}

// BenchmarkMatmul multiplies matrices of 128 by 128 through shared memory.
func BenchmarkMatmul(b *testing.B) {
	const n = 128
	p := loadFixture(b, "clang19/matmul.ptx", "matmul_tile16")
	x := make([]float32, n*n)
	for i := range x {
		x[i] = float32(i%97)/50 - 1
	}
	for _, checks := range []string{"none", "uninit", "race", "all"} {
		b.Run(checks, func(b *testing.B) {
			l := &Launch{Grid: Dim{n / 16, n / 16, 1}, Block: Dim{16, 16, 1}, Workers: 1,
				Args: []Arg{{Name: "a", Buffer: floatBytes(x), Role: In}, {Name: "b", Buffer: floatBytes(x), Role: In},
					{Name: "c", Buffer: make([]byte, 4*n*n)}, {Value: word(n)}, {Value: word(n)}, {Value: word(n)}}}
			l.Checks, _ = ParseChecks(checks)
			measure(b, p, l)
		})
	}
}

// BenchmarkRacyMatmul compares a multiplication without the barrier at the end of its loop with the sound one.
func BenchmarkRacyMatmul(b *testing.B) {
	const n = 128
	text, err := os.ReadFile("../../testdata/ptx/clang19/matmul.ptx")
	if err != nil {
		b.Fatal(err)
	}
	kernel := strings.Index(string(text), ".entry matmul_tile16")
	last := kernel + strings.LastIndex(string(text[kernel:][:strings.Index(string(text[kernel:]), "\n}")]), "bar.sync")
	racy := string(text[:last]) + "// " + string(text[last:])
	for name, source := range map[string]string{"sound": string(text), "racy": racy} {
		f, err := ptx.Parse("matmul.ptx", source)
		if err != nil {
			b.Fatal(err)
		}
		p, err := Load(f, "matmul_tile16")
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				x := floatBytes(make([]float32, n*n))
				for i := range x {
					x[i] = byte(i % 61)
				}
				l := &Launch{Grid: Dim{n / 16, n / 16, 1}, Block: Dim{16, 16, 1}, Workers: 1, Args: []Arg{
					{Name: "a", Buffer: x, Role: In}, {Name: "b", Buffer: x, Role: In},
					{Name: "c", Buffer: make([]byte, 4*n*n)}, {Value: word(n)}, {Value: word(n)}, {Value: word(n)}}}
				r, err := p.Run(l)
				if found := err == nil && len(r.Findings) > 0; err != nil || found != (name == "racy") {
					b.Fatal(err, r.Findings)
				}
			}
		})
	}
}

// measure reports instructions of threads per second of the processor, which a busy machine changes less than those per
// second of the clock.
func measure(b *testing.B, p *Program, l *Launch) {
	start := cpuTime(b)
	var steps uint64
	for b.Loop() {
		r, err := p.Run(l)
		if err != nil || len(r.Findings) > 0 {
			b.Fatal(err, r.Findings)
		}
		steps += r.Steps
	}
	b.ReportMetric(float64(steps)*warpSize/(cpuTime(b)-start).Seconds()/1e6, "M-thread-instr/cpu-s")
}

// cpuTime is how long this process has had a processor.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
