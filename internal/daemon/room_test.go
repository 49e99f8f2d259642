package daemon

// This file implements the tests of what requests may take of the memory.

import (
	"encoding/json"
	"os"
	"runtime"
	"strings"
	"testing"

	"gpuemu/internal/campaign"
	"gpuemu/internal/diag"
	"gpuemu/internal/store"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
	"gpuemu/internal/wire"
)

// Cases of 7.5 GiB of inputs, and of outputs made of almost none.
const (
	hugeInputs = "softmax dtype=float32 dims=B:1,S:2,H:1000000000 attrs=math:gpu " +
		"in=input:float32[1,2,1000000000]:contiguous:normal seed=1 gen=1"
	hugeOutputs = "matmul dtype=float32 dims=M:40000,K:1,N:40000 attrs=math:gpu " +
		"in=a:float32[40000,1]:contiguous:normal in=b:float32[1,40000]:contiguous:normal seed=1 gen=1"
)

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestHugeCasesAreRefused: by every request that can name one, before anything of it is made.
func TestHugeCasesAreRefused(t *testing.T) {
	f := newFixture(t)
	c := f.local()
	const little = 64 << 20 // bytes; what the smaller case takes is 3 GB
	one := tensor.New(1, tensor.Shape{1})
	for _, text := range []string{hugeInputs, hugeOutputs} {
		op, _, _ := strings.Cut(text, " ")
		before, rest, _ := strings.Cut(text, "seed=1")
		for name, ask := range map[string]func() error{
			"cases": func() error {
				_, err := askCases(t, c, &wire.CasesRequest{Case: text})
				return err
			},
			"tensors": func() error {
				return c.Tensors(t.Context(), &wire.TensorsRequest{Case: text, Op: op}, nil)
			},
			"reproduce": func() error {
				_, err := c.Reproduce(t.Context(), &wire.ReproduceRequest{Config: f.config, Case: text, Op: op})
				return err
			},
			"submit": func() error {
				_, err := c.Submit(t.Context(), &wire.SubmitHeader{Case: text}, nil, []tensor.Named{{Name: "output", Tensor: one}})
				return err
			},
			"judgements": func() error {
				shared := sharedFileOf(t)
				if err := os.WriteFile(shared, make([]byte, 4), 0o600); err != nil {
					t.Fatal(err)
				}
				list, err := askJudge(t, c, &wire.JudgeRequest{Shared: shared, Form: []int{0}, Seeds: []string{"1"},
					Begin: []int64{0}, Forms: []wire.OutputForm{{Case: []string{before + "seed=", rest},
						Outputs: []wire.OutputSpec{{Name: "output", DType: "float32", Shape: []int64{1}}}}}})
				if err == nil && list[0].Error != nil {
					err = fromWire(list[0].Error)
				}
				return err
			},
		} {
			var err error
			if n := allocated(func() { err = ask() }); n > little {
				t.Errorf("%s, %s: %d bytes were allocated, want at most %d", op, name, n, little)
			}
			if got := diag.CodeOf(err); got != campaign.CaseTooLarge {
				t.Errorf("%s, %s: %v, want %s", op, name, err, campaign.CaseTooLarge)
			}
		}
	}
	f.work.Wait()
	if f.held != 0 {
		t.Errorf("%d bytes are held", f.held)
	}
}

// TestRequestsShareTheRoom: what does not fit is refused, also where each request alone is small enough.
func TestRequestsShareTheRoom(t *testing.T) {
	f := newFixture(t)
	c := f.local()
	all, err := f.lend(f.room())
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Submit(t.Context(), &wire.SubmitHeader{Config: f.config, Op: "theirs"}, nil, nil)
	wantCode(t, err, Busy)
	_, err = c.Failures(t.Context(), &wire.FailuresRequest{Op: strings.Repeat("x", 2*smallJSON)})
	wantCode(t, err, Busy)
	_, err = askCases(t, c, &wire.CasesRequest{Op: "relu", Count: 1})
	wantCode(t, err, Busy)
	if _, err := f.v1Options().Admit(1); diag.CodeOf(err) != Busy {
		t.Errorf("a message of v1: %v, want %s", err, Busy)
	}
	var reply struct{ Type, Message string }
	if err := json.Unmarshal(f.v1Options().Refuse(err), &reply); err != nil || reply.Type != "Error" {
		t.Errorf("the refusal of a message of v1: %+v, %v", reply, err)
	}
	if _, err := c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	all()
	all()
	if _, err := askCases(t, c, &wire.CasesRequest{Op: "relu", Count: 3}); err != nil {
		t.Error(err)
	}
	f.work.Wait()
	if f.held != 0 {
		t.Errorf("%d bytes are held", f.held)
	}
}

// TestFailuresReadWhatIsAsked: a short list costs less than a long one, whatever the store holds.
func TestFailuresReadWhatIsAsked(t *testing.T) {
	f := newFixture(t)
	var list []store.Loose
	for i := range 256 {
		list = append(list, store.Loose{ConfigPath: f.config, Result: &verdict.Result{Op: "relu", DType: "float32",
			Verdict: verdict.Fail, Seed: verdict.Seed(i), Message: strings.Repeat("x", 1000)}})
	}
	if err := f.store.AddResults(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	cost := func(limit int) uint64 {
		return allocated(func() {
			got, err := f.failures(t.Context(), &wire.FailuresRequest{Config: f.config, Limit: limit})
			if err != nil || len(got.Results) != limit {
				t.Errorf("%d failures, %v, want %d", len(got.Results), err, limit)
			}
		})
	}
	cost(1) // statements are prepared
	if short, long := cost(2), cost(256); short > long/8 {
		t.Errorf("2 failures take %d bytes, 256 take %d", short, long)
	}
	other, err := f.failures(t.Context(), &wire.FailuresRequest{Config: f.config + "x", Limit: 1})
	if err != nil || len(other.Results) != 0 {
		t.Errorf("failures of another project: %v, %v", other, err)
	}
}
