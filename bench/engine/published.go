// This file implements the rows against the published protocol: a Python process per case and side.

package main

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Cases of one sample: enough that the start of workers, which is part of it, does not hide the rest.
const (
	functionCases  = 4000
	scriptCases    = 300
	publishedCases = 16
)

// smallShape is that of the rows with small cases.
var smallShape = []int{4, 16, 257}

func publishedRows() []row {
	const note = "Ours: gpuemu fuzz from its start to its end, start of the workers, store, full statistics and " +
		"report included. Theirs: what the published gpuemu 0.1.0 does for a case, one case after the other as its " +
		"daemon does: uniform values, one Python process for the candidate and one for the reference, JSON with base64 " +
		"both ways, largest difference within a tolerance. Generating and comparing are compiled Go; its daemon is " +
		"compiled Rust, which could not be built here within five minutes. "
	shape := func([]string) [][]int { return [][]int{smallShape} }
	rows := []row{
		{name: "fuzz softmax [4,16,257] float32, functions in workers, over a process per case", goal: goal{atLeast: 100},
			note: note + "Candidate and reference are the same numpy code on both sides.",
			measure: func(b *bench) (*result, error) {
				return b.overPublished("functions", functionCases, shape)
			}},
		{name: "fuzz softmax [4,16,257] float32, the catalogue's reference, bound and invariants, over a process per case",
			goal: goal{atLeast: 100}, note: note + "Normal values, four invariants.",
			measure: func(b *bench) (*result, error) { return b.overPublished("bound", functionCases, shape) }},
		{name: "fuzz softmax, shapes of the catalogue, functions in workers held to its bound, over a process per case",
			note: note + "Everything is on; theirs has shapes of the same list, evenly taken. They are larger on average.",
			measure: func(b *bench) (*result, error) {
				return b.overPublished("catalogue", functionCases, shapesOf)
			}},
		{name: "fuzz softmax [4,16,257] float32, unchanged scripts, over a process per case", goal: goal{atLeast: 10},
			note: note + "Both sides have the same one-shot scripts; ours runs them in children of a fork server.",
			why: "A fork of an interpreter with numpy and the script's own JSON and base64 take the time; the part of the " +
				"engine is that of the row with functions.",
			measure: func(b *bench) (*result, error) { return b.overPublished("scripts", scriptCases, shape) }},
		{name: "fuzz softmax [4,16,257] float32, functions in workers, 100 cases only, over a process per case",
			note: note + "The default number of cases: two interpreters for each core are started for them.",
			measure: func(b *bench) (*result, error) {
				return b.overPublished("functions", 100, shape)
			}},
	}
	return rows
}

// overPublished compares a campaign with the published protocol on some of its shapes.
func (b *bench) overPublished(op string, cases int, shapes func(cases []string) [][]int) (*result, error) {
	first, err := b.fuzz(op, min(cases, 500), true)
	if err != nil {
		return nil, err
	}
	var texts []string
	for i := range first.report.Results {
		texts = append(texts, first.report.Results[i].Case)
	}
	p := &published{b: b, shapes: shapes(texts), rand: rand.New(rand.NewPCG(1, 1))}
	var cpu time.Duration
	s, err := b.turns(b.perCase(op, cases, &cpu), p.perCase)
	if err != nil {
		return nil, err
	}
	res := times(s[0], s[1])
	res.ours, res.theirs = withCPU(s[0].best(), cpu), rate(s[1].best())
	return res, nil
}

var shapeText = regexp.MustCompile(`in=\w+:float32\[([0-9,]*)\]`)

// shapesOf returns shapes evenly spread over the cases.
func shapesOf(cases []string) [][]int {
	var out [][]int
	for i := range publishedCases {
		match := shapeText.FindStringSubmatch(cases[i*len(cases)/publishedCases])
		if match == nil {
			continue
		}
		var shape []int
		for text := range strings.SplitSeq(match[1], ",") {
			n, err := strconv.Atoi(text)
			if err != nil {
				n = 1 // the expression allows an empty list: a scalar
			}
			shape = append(shape, n)
		}
		out = append(out, shape)
	}
	return out
}

// published does what the published gpuemu does.
type published struct {
	b      *bench
	shapes [][]int
	rand   *rand.Rand
}

// publishedTensor is a tensor of the protocol.
type publishedTensor struct {
	Shape   []int  `json:"shape"`
	Strides []int  `json:"strides,omitempty"`
	DType   string `json:"dtype"`
	Data    string `json:"data"`
}

// perCase runs cases and returns the time of one.
func (p *published) perCase() (time.Duration, error) {
	start := time.Now()
	for i := range publishedCases {
		if err := p.runCase(p.shapes[i%len(p.shapes)]); err != nil {
			return 0, err
		}
	}
	return time.Since(start) / publishedCases, nil
}

func (p *published) runCase(shape []int) error {
	n := 1
	strides := make([]int, len(shape))
	for i := len(shape) - 1; i >= 0; i-- {
		strides[i] = n
		n *= shape[i]
	}
	data := make([]byte, 4*n)
	for i := range n {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(float32(p.rand.Float64()*20-10)))
	}
	request, err := json.Marshal(map[string]any{
		"op_name": "softmax", "kwargs": map[string]string{},
		"inputs": map[string]publishedTensor{"input": {shape, strides, "float32", base64.StdEncoding.EncodeToString(data)}},
	})
	if err != nil {
		return err
	}
	got, err := p.script("candidate_script.py", request)
	if err != nil {
		return err
	}
	want, err := p.script("reference_script.py", request)
	if err != nil {
		return err
	}
	if len(got) != n || len(want) != n {
		return fmt.Errorf("%d and %d elements, want %d", len(got), len(want), n)
	}
	const tol = 1e-5
	for i := range got {
		if !(math.Abs(got[i]-want[i]) <= tol) {
			return fmt.Errorf("element %d: %v and %v differ", i, got[i], want[i])
		}
	}
	return nil
}

// script runs one script in a process of its own and returns its output.
func (p *published) script(name string, request []byte) ([]float64, error) {
	cmd := exec.Command(p.b.python, filepath.Join(p.b.project, name))
	cmd.Stdin = bytes.NewReader(request)
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var reply struct {
		Outputs map[string]publishedTensor `json:"outputs"`
	}
	if err := json.Unmarshal(text, &reply); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	t := reply.Outputs["output"]
	data, err := base64.StdEncoding.DecodeString(t.Data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var out []float64
	for ; t.DType == "float32" && len(data) >= 4; data = data[4:] {
		out = append(out, float64(math.Float32frombits(binary.LittleEndian.Uint32(data))))
	}
	for ; t.DType == "float64" && len(data) >= 8; data = data[8:] {
		out = append(out, math.Float64frombits(binary.LittleEndian.Uint64(data)))
	}
	return out, nil
}
