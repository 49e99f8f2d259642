// This file implements the numpy side: one Python process that runs named snippets.

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// A Bench is what rows use while they are set up and timed.
type Bench struct {
	python string // interpreter with numpy
	script string // numpy_side.py
	rounds int
	sample time.Duration
	pause  time.Duration

	peers map[int]*peer // by number of BLAS threads, which a process fixes when it loads numpy
	onEnd []func()      // of the row being measured
}

// Numpy prepares a snippet of numpy_side.py in a process with that many BLAS threads. It returns the side to time and
// the snippet's own check value.
func (b *Bench) Numpy(threads int, snippet string, args map[string]any) (Side, float64, error) {
	p, err := b.peer(threads)
	if err != nil {
		return nil, 0, err
	}
	ready, err := p.ask(request{Op: "prepare", Name: snippet, Args: args})
	if err != nil {
		return nil, 0, fmt.Errorf("numpy snippet %q: %w", snippet, err)
	}
	b.onEnd = append(b.onEnd, func() { _, _ = p.ask(request{Op: "release", ID: ready.ID}) })
	side := func(reps int) (time.Duration, error) {
		a, err := p.ask(request{Op: "time", ID: ready.ID, Reps: reps})
		return time.Duration(a.Seconds * float64(time.Second)), err
	}
	return side, ready.Check, nil
}

func (b *Bench) release() {
	for i := len(b.onEnd) - 1; i >= 0; i-- {
		b.onEnd[i]()
	}
	b.onEnd = nil
}

func (b *Bench) close() {
	for _, p := range b.peers {
		p.stop()
	}
}

// peer returns the process with that many threads, started when first asked for.
func (b *Bench) peer(threads int) (*peer, error) {
	if p := b.peers[threads]; p != nil {
		return p, nil
	}
	p, err := startPeer(b.python, b.script, threads)
	if err != nil {
		return nil, err
	}
	b.peers[threads] = p
	return p, nil
}

// A peer is a running numpy_side.py; its docstring has the protocol.
type peer struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

type request struct {
	Op   string         `json:"op"`
	Name string         `json:"name,omitempty"`
	Args map[string]any `json:"args,omitempty"`
	ID   int            `json:"id"`
	Reps int            `json:"reps,omitempty"`
}

type answer struct {
	ID      int               `json:"id"`
	Check   float64           `json:"check"`
	Seconds float64           `json:"seconds"`
	Facts   map[string]string `json:"facts"`
	Error   string            `json:"error"`
}

func startPeer(python, script string, threads int) (*peer, error) {
	cmd := exec.Command(python, script)
	n := strconv.Itoa(threads)
	cmd.Env = append(os.Environ(), "OPENBLAS_NUM_THREADS="+n, "OMP_NUM_THREADS="+n, "MKL_NUM_THREADS="+n)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w (bench/speed/run.sh sets numpy up)", filepath.Base(python), err)
	}
	return &peer{cmd: cmd, in: in, out: bufio.NewReader(out)}, nil
}

func (p *peer) ask(r request) (answer, error) {
	var a answer
	line, err := json.Marshal(r)
	if err != nil {
		return a, err
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		return a, fmt.Errorf("numpy process: %w", err)
	}
	line, err = p.out.ReadBytes('\n')
	if err != nil {
		return a, fmt.Errorf("numpy process ended: %w", err)
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return a, fmt.Errorf("numpy process answered %q: %w", line, err)
	}
	if a.Error != "" {
		return a, fmt.Errorf("numpy process: %s", a.Error)
	}
	return a, nil
}

func (p *peer) stop() {
	_ = p.in.Close() // ends its loop
	_ = p.cmd.Wait()
}
