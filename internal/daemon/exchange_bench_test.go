package daemon

import (
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpuemu/internal/tensor"
	"gpuemu/internal/wire"
)

// BenchmarkFuzzing is client-side fuzzing of softmax float32 in batches of 64, the client's own work left out: one
// connection fetches batches, another submits outputs that were computed before. Time is that of a case.
func BenchmarkFuzzing(b *testing.B) {
	for name, dims := range map[string]map[string][]int{
		"[4,16,257]": {"B": {4}, "S": {16}, "H": {257}},
		"tiny":       {"B": {1, 2, 4}, "S": {1, 7, 16}, "H": {1, 3, 64, 255, 256, 257}},
	} {
		b.Run(name, func(b *testing.B) { benchmarkFuzzing(b, dims) })
	}
}

func benchmarkFuzzing(b *testing.B, dims map[string][]int) {
	const batch, batches = 64, 4
	f := newFixture(b)
	c := f.listening(b)
	var requests []*wire.BatchRequest
	var outputs []*wire.JudgeRequest
	for k := range batches {
		req := &wire.BatchRequest{Zone: 256, Fill: patterns, CasesRequest: wire.CasesRequest{Config: f.config, Op: "softmax",
			Seed: 1, Start: k * batch, Count: batch, DTypes: []string{"float32"}, Layouts: []string{"contiguous"},
			Values: "normal", Dims: dims}}
		cases, _, _ := batchOf(b, c, req)
		done := outputsOf(b, f, cases, func(_ int, x *tensor.Tensor) *tensor.Tensor { return softmax(x) })
		done.Brief = true
		requests, outputs = append(requests, req), append(outputs, done)
	}
	fetched := make(chan int, 1)
	b.ResetTimer()
	rounds := (b.N + batch - 1) / batch
	go func() {
		defer close(fetched)
		for k := range rounds {
			if _, err := askBatch(b, c, requests[k%batches]); err != nil {
				b.Error(err)
			}
			fetched <- k % batches
		}
	}()
	start, used := time.Now(), cpuTime(b)
	for k := range fetched {
		results, err := askJudge(b, c, outputs[k])
		if err != nil {
			b.Fatal(err)
		}
		for i, r := range results {
			if r != nil {
				b.Fatalf("case %d: %+v %s", i, r.Error, r.Result)
			}
		}
	}
	cases := float64(rounds * batch)
	b.ReportMetric(float64(time.Since(start).Microseconds())/cases, "µs/case")
	b.ReportMetric(float64((cpuTime(b)-used).Microseconds())/cases, "cpu-µs/case") // client and daemon, all cores
}

// cpuTime is what the process has used of all cores. It tells a busy machine from a slow program.
func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRoundTrip submits an output of 1 MiB: of a case that is named by its text, and of one that was handed out,
// in the request and in a shared file. The hand-out is not timed. The metric is the median.
func BenchmarkRoundTrip(b *testing.B) {
	const text = "embedding dtype=float32 dims=V:16,D:1024,R:256 attrs=math:gpu " +
		"in=table:float32[16,1024]:contiguous:uniform in=index:int64[256]:contiguous:index seed=1 gen=1"
	for _, way := range []string{"named", "handed out", "handed out and shared"} {
		b.Run(way, func(b *testing.B) {
			f := newFixture(b)
			c := f.listening(b)
			h := handedOut(b, c, &wire.CasesRequest{Case: text})[0]
			table, rows := h.inputs[0].Tensor, h.inputs[1].Tensor
			y := tensor.New(table.DType, tensor.Shape{rows.Elems(), 1024})
			for r, i := range rows.Float64s() {
				copy(y.Data[4*1024*r:], table.Data[4*1024*int(i):4*1024*(int(i)+1)])
			}
			var out submissions
			if way == "handed out and shared" {
				out.shared = sharedFileOf(b)
			}
			out.add(b, &wire.SubmitHeader{Case: text, Config: f.config}, tensor.Named{Name: "outputs/output", Tensor: y})
			body := out.body(b)
			var took []time.Duration
			for b.Loop() {
				if way != "named" {
					b.StopTimer()
					handedOut(b, c, &wire.CasesRequest{Case: text, Config: f.config})
					time.Sleep(2 * time.Millisecond) // a kernel
					b.StartTimer()
				}
				start := time.Now()
				if r := submitAll(b, c, body); !passed(r[0]) {
					b.Fatalf("%+v %s", r[0].Error, r[0].Result)
				}
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "median-µs")
		})
	}
}

// softmax is computed over the last axis in float64.
func softmax(in *tensor.Tensor) *tensor.Tensor {
	values := in.Float64s()
	n := in.Shape[len(in.Shape)-1]
	for row := range len(values) / n {
		v := values[row*n : (row+1)*n]
		top, sum := math.Inf(-1), 0.0
		for _, x := range v {
			top = max(top, x)
		}
		for i := range v {
			v[i] = math.Exp(v[i] - top)
			sum += v[i]
		}
		for i := range v {
			v[i] /= sum
		}
	}
	out := tensor.New(in.DType, in.Shape)
	out.SetFloat64s(values)
	return out
}

// sharedFileOf makes an empty file that a client may share.
func sharedFileOf(t testing.TB) string {
	t.Helper()
	f, err := os.CreateTemp("", sharedPrefix+"*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(f.Name()) })
	f.Close()
	return f.Name()
}
