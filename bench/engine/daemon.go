// This file implements the rows of the daemon: tensors over its socket, verdicts back.

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"time"

	"gpuemu/internal/daemon"
	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
	"gpuemu/internal/wire"
)

// Cases whose output has 1 MiB and 64 MiB. The inputs of an embedding are small and its reference is a copy: what is
// left is the daemon. Those of relu are as large as its output.
const (
	embedding1 = "embedding dtype=float32 dims=V:16,D:1024,R:256 attrs=math:gpu " +
		"in=table:float32[16,1024]:contiguous:uniform in=index:int64[256]:contiguous:index seed=1 gen=1"
	embedding64 = "embedding dtype=float32 dims=V:16,D:1024,R:16384 attrs=math:gpu " +
		"in=table:float32[16,1024]:contiguous:uniform in=index:int64[16384]:contiguous:index seed=1 gen=1"
	relu1 = "relu dtype=float32 dims=B:1,S:256,H:1024 attrs=math:gpu " +
		"in=input:float32[1,256,1024]:contiguous:uniform seed=1 gen=1"
)

func daemonRows() []row {
	const note = "A daemon in a process of its own; a client in Go submits the output of a case. Verdict: the " +
		"daemon makes the inputs again from the case's text, evaluates the catalogue's reference, compares with full " +
		"statistics, and stores the result for good before it answers. Transfer: the same bytes for an op that does " +
		"not exist, which the daemon says after it has read all of them. The inputs of an embedding are small, and its " +
		"reference is a copy."
	const why = "The transfer row is the socket alone; inputs, reference, comparison and the wait for the disk are " +
		"the rest."
	return []row{
		{name: "daemon round trip, 1 MiB output of an embedding in, verdict out, median", goal: goal{atMost: 2}, note: note,
			why: why, measure: func(b *bench) (*result, error) { return b.roundTrip(embedding1, false) }},
		{name: "daemon round trip, 1 MiB output of relu in, verdict out, median", note: note,
			measure: func(b *bench) (*result, error) { return b.roundTrip(relu1, false) }},
		{name: "daemon round trip, 1 MiB, transfer, median", note: note,
			measure: func(b *bench) (*result, error) { return b.roundTrip(embedding1, true) }},
		{name: "daemon, 64 MiB output of an embedding in, verdict out", goal: goal{atLeast: 1}, note: note, why: why,
			measure: func(b *bench) (*result, error) { return b.bandwidth(embedding64, false) }},
		{name: "daemon, 64 MiB, transfer", goal: goal{atLeast: 1}, note: note,
			measure: func(b *bench) (*result, error) { return b.bandwidth(embedding64, true) }},
	}
}

// session is a client of a daemon with an output to submit.
type session struct {
	client *daemon.Client
	socket string
	header *wire.SubmitHeader
	output []tensor.Named
}

// withDaemon starts a daemon, computes the output of the case, and stops the daemon when f returns.
func (b *bench) withDaemon(text string, transfer bool, f func(*session) error) (err error) {
	home, err := b.home()
	if err != nil {
		return err
	}
	cmd := b.command(home, b.project, "daemon", "start")
	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &printed
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() {
		select {
		case <-ended:
		case <-time.After(10 * time.Second): // it was asked to stop below
			err = errors.Join(err, errors.New("the daemon does not stop"), cmd.Process.Kill())
			<-ended
		}
	}()
	ctx := context.Background()
	socket := filepath.Join(home, "gpuemu.sock")
	client, err := dial(ctx, socket)
	if err != nil {
		return errors.Join(err, cmd.Process.Kill(), errors.New(printed.String()))
	}
	defer client.Close()
	defer func() { err = errors.Join(err, client.Shutdown(ctx)) }()
	s := &session{client: client, socket: socket}
	if err := s.prepare(ctx, filepath.Join(b.project, "gpuemu.toml"), text); err != nil {
		return err
	}
	if transfer {
		s.header.Op, s.header.Case = "nothing", ""
	}
	return f(s)
}

// dial waits until the daemon answers.
func dial(ctx context.Context, socket string) (*daemon.Client, error) {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		client, err := daemon.Dial(ctx, socket)
		if err == nil || time.Now().After(deadline) {
			return client, err
		}
	}
}

// prepare gets the inputs of a case and computes its output.
func (s *session) prepare(ctx context.Context, config, text string) error {
	op, _, _ := strings.Cut(text, " ")
	var image bytes.Buffer
	if err := s.client.Tensors(ctx, &wire.TensorsRequest{Config: config, Case: text, Op: op}, &image); err != nil {
		return err
	}
	inputs, _, err := tensor.ParseSafetensors(image.Bytes())
	if err != nil {
		return err
	}
	x := inputs[0].Tensor
	out := x.Bytes()
	if op == "relu" {
		for ; len(out) > 0; out = out[4:] {
			v := math.Float32frombits(binary.LittleEndian.Uint32(out))
			binary.LittleEndian.PutUint32(out, math.Float32bits(max(v, 0)))
		}
		s.output = []tensor.Named{{Name: "output", Tensor: x}}
	} else {
		rows, width := inputs[1].Tensor, x.Shape[1]
		y := tensor.New(dtype.Float32, tensor.Shape{rows.Elems(), width})
		for r, i := range rows.Float64s() {
			copy(y.Data[4*width*r:], out[4*width*int(i):4*width*(int(i)+1)])
		}
		s.output = []tensor.Named{{Name: "output", Tensor: y}}
	}
	s.header = &wire.SubmitHeader{Config: config, Op: op, Case: text}
	return nil
}

// submit sends the output once and waits for the answer.
func (s *session) submit(transfer bool) (time.Duration, error) {
	start := time.Now()
	res, err := s.client.Submit(context.Background(), s.header, nil, s.output)
	took := time.Since(start)
	switch {
	case transfer && err == nil:
		return 0, errors.New("an op that does not exist was accepted")
	case transfer:
		return took, nil
	case err != nil:
		return 0, err
	case res.Verdict != verdict.Pass:
		return 0, fmt.Errorf("verdict %v: %s", res.Verdict, res.Message)
	}
	return took, nil
}

// samples submits some times, after a few that warm up.
func (s *session) samples(n int, transfer bool) (series, error) {
	const warmUp = 3
	var list series
	for i := range n + warmUp {
		took, err := s.submit(transfer)
		if err != nil {
			return nil, err
		}
		if i >= warmUp {
			list = append(list, took)
		}
	}
	return list, nil
}

// roundTrips are the submissions of one median.
const roundTrips = 40

// roundTrip measures the median of submissions: the best of several such medians counts.
func (b *bench) roundTrip(text string, transfer bool) (*result, error) {
	var medians series
	err := b.withDaemon(text, transfer, func(s *session) error {
		for range b.rounds {
			list, err := s.samples(roundTrips, transfer)
			if err != nil {
				return err
			}
			medians = append(medians, list.median())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	best := medians.best()
	return &result{ours: short(best), figure: best.Seconds() * 1e3, unit: " ms", noise: medians.noise()}, nil
}

// bandwidth measures large submissions.
func (b *bench) bandwidth(text string, transfer bool) (*result, error) {
	var list series
	var size int
	err := b.withDaemon(text, transfer, func(s *session) (err error) {
		size = len(s.output[0].Tensor.Data)
		list, err = s.samples(2*b.rounds, transfer)
		return err
	})
	if err != nil {
		return nil, err
	}
	best := list.best()
	speed := float64(size) / best.Seconds() / 1e9
	return &result{ours: short(best), figure: speed, unit: " GB/s", noise: list.noise()}, nil
}
