package ptxvm

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"gpuemu/internal/ptx"
	"gpuemu/internal/testkit"
	"gpuemu/internal/testkit/recorded"
)

// This file implements the comparison with what an H200 computed: the PTX that was recorded, on the same operands.

// formTexts are the kernels of the recorded forms as bench/device/instruction_forms.py writes them, by name. The text
// is taken from there, so that it is what the device was given.
func formTexts(t *testing.T) map[string]string {
	t.Helper()
	cmd := exec.Command(testkit.Python(t), "-B", "-c", `import json, instruction_forms as f
print(json.dumps({x.name: f.HEAD + f.kernel(x, "form") for x in f.forms() + f.further()}))`)
	cmd.Dir = "../../bench/device"
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	if err := json.Unmarshal(out, &texts); err != nil {
		t.Fatal(err)
	}
	return texts
}

// batch is how many tuples a launch has at most: whole blocks of the record, and little memory.
const batch = 4096

// formRun executes a recorded form.
type formRun struct {
	prog *Program
	cols [4][]byte
	n    int // tuples that are waiting
	out  []byte
	then func(results []byte) // told of results in order, 8 bytes each
}

func newFormRun(t *testing.T, text string, n Numerics) *formRun {
	t.Helper()
	f, err := ptx.Parse("form.ptx", text)
	if err != nil {
		t.Fatal(err)
	}
	p, err := LoadWith(f, "form", n)
	if err != nil {
		t.Fatal(err)
	}
	r := &formRun{prog: p, out: make([]byte, 8*batch)}
	for j := range r.cols {
		r.cols[j] = make([]byte, 8*batch)
	}
	return r
}

// add takes a tuple, and executes what has come together.
func (r *formRun) add(t *testing.T, o *[4]uint64) {
	for j := range r.cols {
		binary.LittleEndian.PutUint64(r.cols[j][8*r.n:], o[j])
	}
	if r.n++; r.n == batch {
		r.flush(t)
	}
}

func (r *formRun) flush(t *testing.T) {
	if r.n == 0 {
		return
	}
	l := &Launch{Grid: Dim{(r.n + 255) / 256, 1, 1}, Block: Dim{256, 1, 1}, Workers: 1, Checks: NoChecks,
		Args: []Arg{{Name: "out", Buffer: r.out}}}
	for j, name := range []string{"a", "b", "c", "e"} {
		l.Args = append(l.Args, Arg{Name: name, Buffer: r.cols[j]})
	}
	l.Args = append(l.Args, Arg{Name: "n", Value: word(r.n)})
	res, err := r.prog.Run(l)
	if err != nil || len(res.Findings) > 0 {
		t.Fatal(err, res)
	}
	r.then(r.out[:8*r.n])
	r.n = 0
}

// eachRecorded runs f for every recorded form in parallel, as subtests.
func eachRecorded(t *testing.T, f func(t *testing.T, r *recorded.Record, form *recorded.Form, text string)) {
	r, texts := recorded.Load(t), formTexts(t)
	if len(r.Forms) < 1000 {
		t.Fatalf("the record has %d forms, far too few", len(r.Forms))
	}
	slots := make(chan bool, runtime.GOMAXPROCS(0))
	all := slices.Concat(r.Forms, r.Further)
	for i := range all {
		form := &all[i]
		t.Run(form.Name, func(t *testing.T) {
			t.Parallel()
			slots <- true
			defer func() { <-slots }()
			if texts[form.Name] == "" {
				t.Fatal("instruction_forms.py has no such form")
			}
			f(t, r, form, texts[form.Name])
		})
	}
}

// shortRecorded is how many random tuples are executed without GPUEMU_SOAK: the first block of the record.
const shortRecorded = 1

// total counts what the tests of this file compared, for the evidence.
type total struct {
	sync.Mutex
	forms, tuples int
}

func (c *total) add(tuples int) {
	c.Lock()
	defer c.Unlock()
	c.forms++
	c.tuples += tuples
}

// TestRecordedForms executes every exact form that was recorded and compares the results with the device, bit for bit.
func TestRecordedForms(t *testing.T) {
	testkit.ValuesOnly(t)
	var count total
	t.Cleanup(func() { t.Logf("%d forms, %d tuples of operands equal the device's", count.forms, count.tuples) })
	eachRecorded(t, func(t *testing.T, r *recorded.Record, form *recorded.Form, text string) {
		if form.Sample != nil {
			return // TestRecordedApproximations
		}
		run := newFormRun(t, text, Numerics{})
		width := recorded.Classes[form.Result].Width
		m := recorded.NewMaker(r, form)
		points := 0
		run.then = func(results []byte) {
			for i := 0; i < len(results); i += 8 {
				got, want := binary.LittleEndian.Uint64(results[i:]), recorded.Word(form.Edge, points, width)
				if points++; got != want {
					t.Errorf("point %d of the grid: %#x, the device %#x", points-1, got, want)
				}
			}
		}
		m.Grid(r, func(o *[4]uint64) { run.add(t, o) })
		run.flush(t)
		if 8*len(form.Edge) != points*int(width) {
			t.Fatalf("the grid has %d points, the record %d bytes", points, len(form.Edge))
		}
		count.add(points + compareBlocks(t, r, form, m, run))
	})
}

// compareBlocks compares the digests of results on random operands, and returns how many there were.
func compareBlocks(t *testing.T, r *recorded.Record, form *recorded.Form, m *recorded.Maker, run *formRun) int {
	all, done := r.First*(1<<len(form.Blocks)-1), 0
	if len(m.Class) == 1 && m.Class[0].Width <= 16 {
		all = 1 << 16 // every operand once
	}
	var o [4]uint64
	for k, want := range form.Blocks {
		from, to := r.First*(1<<k-1), min(r.First*(2<<k-1), all)
		if from >= recorded.Soak(shortRecorded) && all > 1<<16 {
			break
		}
		h := sha256.New()
		run.then = func(results []byte) { h.Write(results) }
		for i := from; i < to; i++ {
			m.Tuple(&o, uint64(i))
			run.add(t, &o)
		}
		run.flush(t)
		done += to - from
		if got := hex.EncodeToString(h.Sum(nil)[:8]); got != want {
			t.Errorf("block %d of random operands: digest %s, the device's is %s", k, got, want)
		}
	}
	return done
}

// unrecorded are rows of arithmetic with choices that no form of the record has: addresses mean something on one device
// only, and ptxas takes neither min.s32.relu nor, before sm_100, .satfinite for tf32 of these roundings.
var unrecorded = []string{"cvta .", "min|max .s32 .relu", "cvt .rn|.rz [.satfinite] [.relu] .tf32 .f32"}

// TestEveryRowIsRecorded proves that every row of arithmetic, and every choice of its modifiers, is among the recorded
// forms.
func TestEveryRowIsRecorded(t *testing.T) {
	r, texts := recorded.Load(t), formTexts(t)
	seen := cover{}
	for _, form := range slices.Concat(r.Forms, r.Further) {
		f, err := ptx.Parse("form.ptx", texts[form.Name])
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range f.Functions[0].Code {
			seen.add(in)
		}
	}
	for _, list := range [][]row{intRows, carryRows, bitRows, compareRows, floatRows, approxRows, halfRows, convertRows} {
		for i := range list {
			r := &list[i]
			known := slices.ContainsFunc(unrecorded, func(s string) bool { return strings.HasPrefix(r.syntax, s) })
			if missing := seen.missing(r); len(missing) > 0 && !known {
				t.Errorf("%s: no recorded form with %s", r.syntax, strings.Join(missing, ", "))
			}
		}
	}
}

// between reports whether a result of the device lies between the ends of its bound, or is the nearest one. What may be
// one step below the normal numbers may be flushed to zero.
func between(typ string, low, near, high, d uint64) bool {
	if elem, pair := strings.CutSuffix(typ, "x2"); pair {
		return between(elem, low>>16, near>>16, high>>16, d>>16) &&
			between(elem, low&0xffff, near&0xffff, high&0xffff, d&0xffff)
	}
	f := floatFormats[typ]
	v := f.number(d)
	flushed := v == 0 && math.Abs(f.number(near)) < 0x1.00001p-126
	return d == near || flushed || f.number(low) <= v && v <= f.number(high)
}

// TestRecordedApproximations: what the device computed lies between the ends of the bound, as the emulator gives them.
func TestRecordedApproximations(t *testing.T) {
	var count total
	t.Cleanup(func() { t.Logf("%d forms, %d results of the device inside the bounds", count.forms, count.tuples) })
	eachRecorded(t, func(t *testing.T, r *recorded.Record, form *recorded.Form, text string) {
		if form.Sample == nil {
			return
		}
		var results [3][]uint64
		m := recorded.NewMaker(r, form)
		width := recorded.Classes[form.Result].Width
		var o [4]uint64
		all := r.First * 255
		if len(m.Class) == 1 && m.Class[0].Width <= 16 {
			all = 1 << 16
		}
		for i, edge := range []Edge{Smallest, Nearest, Largest} {
			run := newFormRun(t, text, Numerics{Approx: edge})
			run.then = func(list []byte) {
				for j := 0; j < len(list); j += 8 {
					results[i] = append(results[i], binary.LittleEndian.Uint64(list[j:]))
				}
			}
			m.Grid(r, func(o *[4]uint64) { run.add(t, o) })
			for j := range r.Sample {
				m.Tuple(&o, uint64(j*(all/r.Sample)))
				run.add(t, &o)
			}
			run.flush(t)
		}
		device := wordsOf(form.Edge, width)
		device = append(device, wordsOf(form.Sample, width)...)
		if len(device) != len(results[0]) {
			t.Fatalf("%d results, the record has %d", len(results[0]), len(device))
		}
		for i, d := range device {
			low, near, high := results[0][i], results[1][i], results[2][i]
			if !between(form.Result, low, near, high, d) {
				t.Errorf("result %d: the device has %#x, the bound reaches from %#x to %#x", i, d, low, high)
			}
		}
		count.add(len(device))
	})
}

// wordsOf are the results of a packed list.
func wordsOf(list []byte, width uint) []uint64 {
	out := make([]uint64, len(list)*8/int(width))
	for i := range out {
		out[i] = recorded.Word(list, i, width)
	}
	return slices.Clip(out)
}
