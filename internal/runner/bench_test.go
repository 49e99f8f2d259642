//go:build unix

package runner

import (
	"bytes"
	"fmt"
	"runtime/debug"
	"testing"

	"gpuemu/internal/dtype"
)

// BenchmarkWorker is the overhead of a call: the function returns its input.
func BenchmarkWorker(b *testing.B) {
	for _, n := range []int{16, 16 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("float32[%d]", n), func(b *testing.B) {
			r := function(b, "def f(inputs): return inputs['x']", Spec{})
			benchmark(b, r, callOf(tensorOf(b, dtype.Float32, n)))
		})
	}
}

// BenchmarkScript is the cost of the documented script, which needs about a millisecond for itself.
func BenchmarkScript(b *testing.B) {
	for _, fork := range []bool{true, false} {
		for _, n := range []int{16, 16 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("fork=%v/float32[%d]", fork, n), func(b *testing.B) {
				r := script(b, documented+"json.dump({'outputs': {'y': encode_tensor(x)}}, sys.stdout)", Spec{})
				r.(*scriptRunner).fork.Store(fork)
				benchmark(b, r, callOf(tensorOf(b, dtype.Float32, n)))
			})
		}
	}
}

func benchmark(b *testing.B, r Runner, call *Call) {
	// A campaign has a heap of tens of megabytes; in one of four, every 60 calls would pay for a collection.
	defer debug.SetGCPercent(debug.SetGCPercent(800))
	mustRun(b, r, call)
	b.SetBytes(int64(len(call.Inputs[0].Tensor.Data)))
	for b.Loop() {
		mustRun(b, r, call)
	}
}

// BenchmarkScriptJSON is our own share of a script's messages.
func BenchmarkScriptJSON(b *testing.B) {
	call := callOf(tensorOf(b, dtype.Float32, 16<<10))
	request := scriptRequest(call, false)
	from, to := bytes.Index(request, []byte(`{"shape"`)), bytes.Index(request, []byte(`},"kwargs"`))
	reply := fmt.Appendf(nil, `{"outputs": {"y": %s}}`, request[from:to])
	b.Run("request", func(b *testing.B) {
		b.SetBytes(int64(len(request)))
		for b.Loop() {
			scriptRequest(call, false)
		}
	})
	b.Run("reply", func(b *testing.B) {
		b.SetBytes(int64(len(reply)))
		for b.Loop() {
			if _, err := parseScriptReply(reply, call); err != nil {
				b.Fatal(err)
			}
		}
	})
}
