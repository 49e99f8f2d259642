package daemon

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpuemu/internal/store"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
	"gpuemu/internal/wire"
)

// failingCase is a small case whose failures are listed.
const failingCase = "relu dtype=float32 dims=B:1,S:4,H:16 attrs=math:gpu in=input:float32[1,4,16]:contiguous:uniform " +
	"seed=1 gen=1"

// withFailures stores open and fixed failures of that case with other seeds, as many of each.
func withFailures(t testing.TB, f *fixture, c *Client, n int) {
	t.Helper()
	h := handedOut(t, c, &wire.CasesRequest{Case: failingCase, Config: f.config})[0]
	wrong := tensor.New(h.inputs[0].Tensor.DType, h.inputs[0].Tensor.Shape)
	for i := range wrong.Data {
		wrong.Data[i] = 0x41
	}
	res, err := c.Submit(t.Context(), &wire.SubmitHeader{Case: failingCase, Config: f.config, Store: "none"}, nil,
		[]tensor.Named{{Name: "output", Tensor: wrong}})
	if err != nil || !res.Verdict.Failed() {
		t.Fatalf("%+v, %v", res, err)
	}
	var failed, passed []store.Loose
	at := time.Now()
	for seed := range 2 * n {
		r := *res
		r.Seed, r.Time = verdict.Seed(seed), at.Add(time.Duration(seed)*time.Microsecond)
		r.Case = strings.Replace(failingCase, "seed=1 ", "seed="+strconv.Itoa(seed)+" ", 1)
		failed = append(failed, store.Loose{Result: &r, ConfigPath: f.config})
		if seed >= n {
			fixed := r
			fixed.Verdict, fixed.Outputs, fixed.Time = verdict.Pass, nil, r.Time.Add(time.Second)
			passed = append(passed, store.Loose{Result: &fixed, ConfigPath: f.config})
		}
	}
	for _, list := range [][]store.Loose{failed, passed} {
		if err := f.store.AddResults(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
}

// BenchmarkFailures lists the last 20 failures of 6,000, of which one half is fixed. The metrics are medians: with the
// client, of the answer alone, and of reading it.
func BenchmarkFailures(b *testing.B) {
	f := newFixture(b)
	c := f.listening(b)
	withFailures(b, f, c, 3000)
	for name, req := range map[string]*wire.FailuresRequest{"open": {Open: true, Brief: true},
		"marked": {Marked: true, Brief: true}, "whole": {Marked: true}} {
		req.Config, req.Limit = f.config, 20
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				if list, _, err := c.MarkedFailures(b.Context(), req); err != nil || len(list) != 20 {
					b.Fatalf("%d failures, %v", len(list), err)
				}
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "median-µs")
		})
		b.Run(name+", answer", func(b *testing.B) {
			bytes := 0
			for b.Loop() {
				raw, err := call[json.RawMessage](b.Context(), c, http.MethodPost, "/v1/failures", req)
				if err != nil {
					b.Fatal(err)
				}
				bytes = len(*raw)
			}
			b.ReportMetric(float64(bytes), "bytes")
		})
		b.Run(name+", store", func(b *testing.B) {
			for b.Loop() {
				if _, err := f.failures(b.Context(), req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A brief list has the failures of the whole one without their details.
func TestBriefFailures(t *testing.T) {
	f := newFixture(t)
	c := f.listening(t)
	withFailures(t, f, c, 10)
	for _, req := range []wire.FailuresRequest{{Open: true}, {Marked: true}, {}} {
		req.Config = f.config
		whole, marks, err := c.MarkedFailures(t.Context(), &req)
		if err != nil || len(whole) < 10 {
			t.Fatalf("%d failures, %v", len(whole), err)
		}
		req.Brief = true
		brief, same, err := c.MarkedFailures(t.Context(), &req)
		if err != nil || len(brief) != len(whole) || !slices.Equal(marks, same) || req.Marked != (len(marks) == 10) {
			t.Fatalf("%d brief failures, %v, %v", len(brief), same, err)
		}
		for i := range whole {
			want := whole[i]
			if len(want.Outputs) == 0 {
				t.Errorf("%+v has no outputs", want)
			}
			want.Outputs, want.Invariants, want.Findings, want.Stderr = nil, nil, nil, ""
			if !reflect.DeepEqual(brief[i], want) {
				t.Errorf("brief: %+v, want %+v", brief[i], want)
			}
		}
	}
}
