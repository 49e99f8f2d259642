// This file implements the rows of a daemon with many clients, and of short answers.

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"gpuemu/internal/tensor"
	"gpuemu/internal/wire"
)

const (
	// crowd is how many clients ask at the same time, each over a connection of its own.
	crowd = 250
	// crowdTime is how long they do in a round, and shownFailures how many failures are asked for.
	crowdTime     = 3 * time.Second
	shownFailures = 20
	// smallCase is what the clients execute.
	smallCase = "relu dtype=float32 dims=B:1,S:4,H:16 attrs=math:gpu " +
		"in=input:float32[1,4,16]:contiguous:uniform seed=1 gen=1"
)

func crowdRows() []row {
	return []row{
		{name: "daemon, 20 failures of the store, median", goal: goal{atMost: 1},
			note: "A daemon in a process of its own; a client in Go asks for the last 20 open failures, as gpuemu " +
				"failures does, and for the last 20 with marks, as gpuemu failures --all does: what a list shows, without " +
				"outputs. 3,000 cases failed and 3,000 are fixed. The slower of the two counts.",
			why: "The answer has 20 results, which the client reads and parses.",
			measure: func(b *bench) (*result, error) {
				return b.listFailures()
			}},
		{name: fmt.Sprintf("daemon, %d clients, mixed requests", crowd), goal: goal{atLeast: 500},
			note: "The same daemon. Each client asks in turns for the status, a small case, a judgement of its output, which " +
				"is stored for good, and the last 20 open failures.",
			why:     "Clients and daemon share the cores.",
			measure: func(b *bench) (*result, error) { return b.crowded() }},
	}
}

// caseWithSeed is a small case of its own.
func caseWithSeed(seed int) string {
	return strings.Replace(smallCase, "seed=1 ", fmt.Sprintf("seed=%d ", seed), 1)
}

// fail stores failures of cases with seeds from one on: an output that is wrong. With fixed they pass later.
func (s *session) fail(ctx context.Context, from, n int, fixed bool) error {
	wrong := tensor.New(s.output[0].Tensor.DType, s.output[0].Tensor.Shape)
	for i := range wrong.Data {
		wrong.Data[i] = 0x41
	}
	submit := func(text string, out *tensor.Tensor, failed bool) error {
		header := *s.header
		header.Case = text
		res, err := s.client.Submit(ctx, &header, nil, []tensor.Named{{Name: "output", Tensor: out}})
		if err == nil && res.Verdict.Failed() != failed {
			err = fmt.Errorf("an output of %s is judged %v", text, res.Verdict)
		}
		return err
	}
	for seed := from; seed < from+n; seed++ {
		text := caseWithSeed(seed)
		if err := submit(text, wrong, true); err != nil {
			return err
		}
		if !fixed {
			continue
		}
		var right *tensor.Tensor
		err := s.client.Cases(ctx, &wire.CasesRequest{Config: s.header.Config, Case: text},
			func(_ *wire.CaseHeader, in []tensor.Named) error {
				values := in[0].Tensor.Float64s()
				for i, v := range values {
					values[i] = max(v, 0)
				}
				right = tensor.FromFloat64s(in[0].Tensor.DType, in[0].Tensor.Shape, values)
				return nil
			})
		if err == nil {
			err = submit(text, right, false)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// failures asks for the last failures as the command does: for those that are open, or for all with marks.
func (s *session) failures(ctx context.Context, open bool) error {
	list, _, err := s.client.MarkedFailures(ctx, &wire.FailuresRequest{Config: s.header.Config, Limit: shownFailures,
		Open: open, Marked: !open, Brief: true})
	if err == nil && len(list) != shownFailures {
		err = fmt.Errorf("%d failures, want %d", len(list), shownFailures)
	}
	return err
}

func (b *bench) listFailures() (*result, error) {
	const stored, asked = 3000, 200
	var medians series
	err := b.withDaemon(smallCase, false, func(s *session) error {
		ctx := context.Background()
		if err := s.fail(ctx, 1, stored, false); err != nil {
			return err
		}
		if err := s.fail(ctx, 1+stored, stored, true); err != nil {
			return err
		}
		for range b.rounds {
			var slower time.Duration
			for _, open := range []bool{true, false} {
				var list series
				for range asked {
					start := time.Now()
					if err := s.failures(ctx, open); err != nil {
						return err
					}
					list = append(list, time.Since(start))
				}
				slower = max(slower, list.median())
			}
			medians = append(medians, slower)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	best := medians.best()
	return &result{ours: short(best), figure: best.Seconds() * 1e3, unit: " ms", noise: medians.noise()}, nil
}

// crowded measures requests a second of many clients: the best round counts.
func (b *bench) crowded() (*result, error) {
	var rates []float64
	var waits series
	err := b.withDaemon(smallCase, false, func(s *session) error {
		ctx := context.Background()
		if err := s.fail(ctx, 2, shownFailures, false); err != nil { // the clients fix the case of seed 1
			return err
		}
		sessions := make([]*session, crowd)
		for i := range sessions {
			client, err := dial(ctx, s.socket)
			if err != nil {
				return err
			}
			defer client.Close()
			own := *s
			own.client = client
			sessions[i] = &own
		}
		for range b.rounds {
			rate, list, err := round(ctx, sessions)
			if err != nil {
				return err
			}
			rates, waits = append(rates, rate), append(waits, list...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(waits)
	slices.Sort(rates)
	best := rates[len(rates)-1]
	return &result{ours: fmt.Sprintf("judgements: median %s, 99 %% within %s", short(waits.median()),
		short(waits[len(waits)*99/100])), figure: best, unit: "/s", noise: best/rates[len(rates)/2] - 1}, nil
}

// round lets all clients ask for a while. It returns the requests a second and how long judgements took.
func round(ctx context.Context, sessions []*session) (rate float64, judged series, err error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	requests := 0
	start := time.Now()
	for i, s := range sessions {
		all.Go(func() {
			n, list, failed := s.mixed(ctx, i, start.Add(crowdTime))
			mu.Lock()
			defer mu.Unlock()
			requests, judged, err = requests+n, append(judged, list...), errors.Join(err, failed)
		})
	}
	all.Wait()
	return float64(requests) / time.Since(start).Seconds(), judged, err
}

// mixed asks until a time, and returns how many requests were answered.
func (s *session) mixed(ctx context.Context, first int, until time.Time) (n int, judged series, err error) {
	kinds := []func() error{
		func() error { _, err := s.client.Status(ctx); return err },
		func() error {
			return s.client.Cases(ctx, &wire.CasesRequest{Config: s.header.Config, Case: smallCase},
				func(*wire.CaseHeader, []tensor.Named) error { return nil })
		},
		func() error {
			took, err := s.submit(false)
			judged = append(judged, took)
			return err
		},
		func() error { return s.failures(ctx, true) },
	}
	for ; time.Now().Before(until); n++ {
		if err := kinds[(first+n)%len(kinds)](); err != nil {
			return n, judged, err
		}
	}
	return n, judged, nil
}
