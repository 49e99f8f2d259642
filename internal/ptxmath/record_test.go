// This file implements the comparison with what an H200 computed: edge values whole, pseudo-random operands by digest.

package ptxmath

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"testing"

	"gpuemu/internal/testkit/recorded"
)

// eachForm runs f for every form of the record in parallel, as subtests.
func eachForm(t *testing.T, f func(t *testing.T, r *recorded.Record, form *recorded.Form)) {
	r := recorded.Load(t)
	if len(r.Forms) < 1000 {
		t.Fatalf("the record has %d forms, far too few", len(r.Forms))
	}
	slots := make(chan bool, runtime.GOMAXPROCS(0))
	for i := range r.Forms {
		form := &r.Forms[i]
		t.Run(form.Name, func(t *testing.T) {
			t.Parallel()
			slots <- true
			defer func() { <-slots }()
			f(t, r, form)
		})
	}
}

// shortTuples are the random tuples that are checked without GPUEMU_SOAK, rounded up to whole blocks.
const shortTuples = 20000

// TestRecordedForms compares every instruction form with the device, bit for bit.
func TestRecordedForms(t *testing.T) {
	shown := firstResults(t)
	eachForm(t, func(t *testing.T, r *recorded.Record, form *recorded.Form) {
		if form.Sample != nil {
			return // TestRecordedApproximations
		}
		eval := evaluator(form.Name)
		if eval == nil {
			t.Fatal("nothing here computes it")
		}
		width := recorded.Classes[form.Result].Width
		m := recorded.NewMaker(r, form)
		i, faults := 0, 0
		check := func(what string, o *[4]uint64, want uint64) {
			if got := eval(o) & recorded.Low(width); got != want {
				if faults++; faults <= 8 {
					t.Errorf("%s: %#x gives %#x, the device %#x", what, o[:len(m.Class)], got, want)
				}
			}
		}
		m.Grid(r, func(o *[4]uint64) {
			check("edge", o, recorded.Word(form.Edge, i, width))
			i++
		})
		if 8*len(form.Edge) != i*int(width) {
			t.Fatalf("the grid has %d points, the record %d bytes", i, len(form.Edge))
		}
		var o [4]uint64
		for i := range len(shown[form.Name]) * 8 / int(width) {
			m.Tuple(&o, uint64(i))
			check(fmt.Sprint("tuple ", i), &o, recorded.Word(shown[form.Name], i, width))
		}
		checkBlocks(t, r, form, m, eval)
	})
}

// firstResults are the first results as the device gave them, from the folder that GPUEMU_PTX_FIRST names: for looking
// at a difference, not part of the record.
func firstResults(t *testing.T) map[string][]byte {
	name := os.Getenv("GPUEMU_PTX_FIRST")
	if name == "" {
		return nil
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	if err := json.NewDecoder(z).Decode(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

// checkBlocks compares the digests of random results.
func checkBlocks(t *testing.T, r *recorded.Record, form *recorded.Form, m *recorded.Maker, eval evalFunc) {
	total := r.First * (1<<len(form.Blocks) - 1)
	if len(m.Class) == 1 && m.Class[0].Width <= 16 {
		total = 1 << 16
	}
	mask := recorded.Low(recorded.Classes[form.Result].Width)
	var o [4]uint64
	buf := make([]byte, 0, 8*r.First)
	for k, want := range form.Blocks {
		if r.First*(1<<k-1) >= recorded.Soak(shortTuples) && total > 1<<16 {
			break
		}
		h := sha256.New()
		for i := r.First * (1<<k - 1); i < min(r.First*(2<<k-1), total); i++ {
			m.Tuple(&o, uint64(i))
			buf = binary.LittleEndian.AppendUint64(buf, eval(&o)&mask)
			if len(buf) == cap(buf) {
				h.Write(buf)
				buf = buf[:0]
			}
		}
		h.Write(buf)
		buf = buf[:0]
		if got := hex.EncodeToString(h.Sum(nil)[:8]); got != want {
			t.Errorf("block %d of random operands: digest %s, the device's is %s", k, got, want)
		}
	}
}
