package ptxvm

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/ptx"
)

// TestPipeline runs testdata/pipeline.cu, in which two warpgroups hand tiles to each other, and its mistakes.
func TestPipeline(t *testing.T) {
	f, err := ptx.ReadFile("testdata/pipeline.ptx")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Load(f, "pipeline")
	if err != nil {
		t.Fatal(err)
	}
	const steps, depth = 6, 64
	r := rand.New(rand.NewPCG(1, 9))
	var a, b []byte
	d := make(numbers, 64)
	for i := range d {
		d[i] = make([]float64, 8)
	}
	for range steps {
		x, y := randomNumbers(r, 64, depth, "f16"), randomNumbers(r, 64, depth, "f16")
		tile := make([]byte, 2*8192)
		tiled(tile, 0, x, "f16", 1, false)
		tiled(tile, 8192, y, "f16", 1, false)
		a, b = append(a, tile[:8192]...), append(b, tile[8192:]...)
		for i := range d {
			for j := range d[i] {
				for k := range depth {
					d[i][j] += x[i][k] * y[j][k]
				}
			}
		}
	}
	launch := func(mode int) ([]byte, *Result) {
		c := make([]byte, 128*16)
		return c, run(t, p, &Launch{Grid: line(1), Block: line(256), MaxSteps: 1 << 22, Schedules: 3, Args: []Arg{
			{Name: "a", Buffer: slices.Clone(a), Role: In}, {Name: "b", Buffer: slices.Clone(b), Role: In},
			{Name: "c", Buffer: c, Role: Out, Uninitialised: true}, {Value: word(steps)}, {Value: word(mode)}}})
	}
	c, result := launch(0)
	silent(t, result)
	equal(t, "product", c, accumulators(d, "f32"))
	for _, x := range []struct {
		mode    int
		want    Class
		message string
		line    int // of pipeline.cu
	}{
		{1, AsyncHazard, "which a product may not have read yet", 20},
		{2, AsyncHazard, "where nobody has waited for an asynchronous copy", 58},
		{4, AsyncHazard, "reads a register of wgmma.mma_async", 68},
		{8, Deadlock, "never changes", 14},
		{16, AsyncHazard, "no wgmma.fence comes before", 58},
	} {
		_, r := launch(x.mode)
		if !slices.ContainsFunc(r.Findings, func(f Finding) bool {
			return f.Class == x.want && strings.Contains(f.Message, x.message) && f.Source[0].Line == x.line
		}) {
			t.Errorf("mode %d: %v, want %s in line %d", x.mode, r.Findings, x.want, x.line)
		}
	}
}
