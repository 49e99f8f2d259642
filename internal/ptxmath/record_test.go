// This file implements the comparison with what an H200 computed: edge values whole, pseudo-random operands by digest.

package ptxmath

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
)

const recordFile = "../../testdata/vectors/ptx/instructions-sm90.json.gz"

// record is the file that bench/device/instructions.py writes.
type record struct {
	Device   string
	First    int // tuples in the first block of a form; each block has twice as many as the one before
	Tiles    int // the same for products of matrices
	Sample   int
	Edges    map[string][]uint64
	Grid     map[int]int
	Forms    []recordedForm
	Products []recordedProduct
	Errors   map[string][]float64
}

type recordedForm struct {
	Name     string
	Result   string
	Operands []string
	Edge     []byte
	Blocks   []string
	Sample   []byte // of approximate instructions only
}

type recordedProduct struct {
	Name   string
	Blocks []string
}

var loadRecord = sync.OnceValues(func() (*record, error) {
	f, err := os.Open(recordFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	r := new(record)
	return r, json.NewDecoder(z).Decode(r)
})

func theRecord(t testing.TB) *record {
	t.Helper()
	r, err := loadRecord()
	if err != nil {
		t.Fatalf("%s: %v", recordFile, err)
	}
	return r
}

// soaking reports whether more than the usual is to be checked.
func soaking() bool { return os.Getenv("GPUEMU_SOAK") != "" }

// soak is the number of random tuples or tiles that GPUEMU_SOAK asks for, else the given one. A million is everything
// that is recorded.
func soak(otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv("GPUEMU_SOAK")); err == nil {
		return n
	}
	return otherwise
}

// class is how operands are made; instructions.py has the same table.
type class struct {
	kind         int // classInt, ...
	width        uint
	ebits, mbits uint
}

const (
	classInt = iota
	classFloat
	classPair
	classShift
)

var classes = map[string]class{
	"f16": {classFloat, 16, 5, 10}, "bf16": {classFloat, 16, 8, 7}, "f32": {classFloat, 32, 8, 23},
	"f64": {classFloat, 64, 11, 52}, "u16": {classInt, 16, 0, 0}, "u32": {classInt, 32, 0, 0},
	"u64": {classInt, 64, 0, 0}, "e8x2": {classInt, 16, 0, 0}, "f16x2": {classPair, 32, 5, 10},
	"bf16x2": {classPair, 32, 8, 7}, "shift": {classShift, 32, 0, 0}, "pred": {classInt, 32, 0, 0},
}

const step = 0x9e3779b97f4a7c15

// mix is the output function of splitmix64.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func low(n uint) uint64 { return 1<<n - 1 }

func seedOf(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

// withExponent replaces the exponent field of v, clamped to its range.
func withExponent(v uint64, e int, ebits, mbits uint) uint64 {
	top := 1<<ebits - 1
	return v&^(uint64(top)<<mbits) | uint64(max(0, min(e, top)))<<mbits
}

func floatValue(r, q uint64, c class, center int, edges []uint64) uint64 {
	v := r & low(1+c.ebits+c.mbits)
	kind, k := q&15, int(q>>4&63)
	near := k - 32
	if c.ebits < 8 {
		near = k&15 - 8
	}
	switch {
	case kind < 7:
		return v
	case kind < 11:
		return withExponent(v, center+near, c.ebits, c.mbits)
	case kind < 13:
		return edges[(q>>32)%uint64(len(edges))]
	case kind == 15:
		return withExponent(v, k&1, c.ebits, c.mbits)
	}
	v &^= low(c.mbits) >> 3
	if kind == 13 {
		return v
	}
	return withExponent(v, center+k&3-1, c.ebits, c.mbits)
}

func intValue(r, q uint64, w uint, ref uint64, edges []uint64) uint64 {
	v := r & low(w)
	kind, k := q&15, uint(q>>4&63)%w
	switch {
	case kind < 7:
		return v
	case kind < 10:
		return v >> k
	case kind < 12:
		return uint64(int64(v<<(64-w))>>(64-w+k)) & low(w)
	case kind < 14:
		return edges[(q>>32)%uint64(len(edges))]
	case kind == 14:
		return (1<<k + (q>>32)%3 - 1) & low(w)
	}
	return ref
}

func shiftValue(r, q uint64, edges []uint64) uint64 {
	switch kind := q & 15; {
	case kind < 8:
		return q >> 4 & 63
	case kind < 12:
		return r & 255
	case kind < 14:
		return edges[(q>>32)%uint64(len(edges))]
	}
	return r & low(32)
}

// maker makes the operand tuples of a form, as instructions.cu does.
type maker struct {
	seed  uint64
	class []class
	edges [][]uint64
}

func newMaker(r *record, f *recordedForm) *maker {
	m := &maker{seed: seedOf(f.Name)}
	for _, name := range f.Operands {
		m.class = append(m.class, classes[name])
		m.edges = append(m.edges, r.Edges[name])
	}
	return m
}

// tuple sets o to tuple i.
func (m *maker) tuple(o *[4]uint64, i uint64) {
	if len(m.class) == 1 && m.class[0].width <= 16 {
		o[0] = i
		return
	}
	for j := range m.class {
		o[j] = m.operand(o[0], i, j)
	}
}

func (m *maker) operand(ref, i uint64, j int) uint64 {
	c, edges := m.class[j], m.edges[j]
	r := mix(m.seed + (4*i+uint64(j)+1)*step)
	q := mix(r ^ 0x5851f42d4c957f2d)
	switch c.kind {
	case classInt:
		if j == 0 {
			ref = r
		}
		return intValue(r, q, c.width, ref&low(c.width), edges)
	case classShift:
		return shiftValue(r, q, edges)
	}
	center := 1<<(c.ebits-1) - 1
	first := m.class[0]
	near := j > 0 && !(len(m.class) == 3 && j == 1) && first.ebits == c.ebits
	if near {
		center = int(ref >> first.mbits & low(first.ebits))
	}
	if c.kind == classFloat {
		return floatValue(r, q, c, center, edges)
	}
	lo := floatValue(mix(r+1), mix(q+1), c, center, edges) & 0xffff
	if near {
		center = int(ref >> (16 + first.mbits) & low(first.ebits))
	}
	return lo | floatValue(mix(r+2), mix(q+2), c, center, edges)&0xffff<<16
}

// thinned is at most so many values, spread evenly.
func thinned(values []uint64, most int) []uint64 {
	if len(values) <= most {
		return values
	}
	var out []uint64
	for i := range most {
		out = append(out, values[i*(len(values)-1)/(most-1)])
	}
	return out
}

// grid calls f with every tuple of edge values, the last operand changing fastest.
func (m *maker) grid(r *record, f func(o *[4]uint64)) {
	var o [4]uint64
	var walk func(j int)
	walk = func(j int) {
		if j == len(m.class) {
			f(&o)
			return
		}
		for _, v := range thinned(m.edges[j], r.Grid[len(m.class)]) {
			o[j] = v
			walk(j + 1)
		}
	}
	walk(0)
}

// word reads result i of a packed list.
func word(list []byte, i int, width uint) uint64 {
	switch width {
	case 16:
		return uint64(binary.LittleEndian.Uint16(list[2*i:]))
	case 32:
		return uint64(binary.LittleEndian.Uint32(list[4*i:]))
	}
	return binary.LittleEndian.Uint64(list[8*i:])
}

// eachForm runs f for every form of the record in parallel, as subtests.
func eachForm(t *testing.T, f func(t *testing.T, r *record, form *recordedForm)) {
	r := theRecord(t)
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
	eachForm(t, func(t *testing.T, r *record, form *recordedForm) {
		if form.Sample != nil {
			return // TestRecordedApproximations
		}
		eval := evaluator(form.Name)
		if eval == nil {
			t.Fatal("nothing here computes it")
		}
		width := classes[form.Result].width
		m := newMaker(r, form)
		i, faults := 0, 0
		check := func(what string, o *[4]uint64, want uint64) {
			if got := eval(o) & low(width); got != want {
				if faults++; faults <= 8 {
					t.Errorf("%s: %#x gives %#x, the device %#x", what, o[:len(m.class)], got, want)
				}
			}
		}
		m.grid(r, func(o *[4]uint64) {
			check("edge", o, word(form.Edge, i, width))
			i++
		})
		if 8*len(form.Edge) != i*int(width) {
			t.Fatalf("the grid has %d points, the record %d bytes", i, len(form.Edge))
		}
		var o [4]uint64
		for i := range len(shown[form.Name]) * 8 / int(width) {
			m.tuple(&o, uint64(i))
			check(fmt.Sprint("tuple ", i), &o, word(shown[form.Name], i, width))
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
func checkBlocks(t *testing.T, r *record, form *recordedForm, m *maker, eval func(o *[4]uint64) uint64) {
	total := r.First * (1<<len(form.Blocks) - 1)
	if len(m.class) == 1 && m.class[0].width <= 16 {
		total = 1 << 16
	}
	mask := low(classes[form.Result].width)
	var o [4]uint64
	buf := make([]byte, 0, 8*r.First)
	for k, want := range form.Blocks {
		if r.First*(1<<k-1) >= soak(shortTuples) && total > 1<<16 {
			break
		}
		h := sha256.New()
		for i := r.First * (1<<k - 1); i < min(r.First*(2<<k-1), total); i++ {
			m.tuple(&o, uint64(i))
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
