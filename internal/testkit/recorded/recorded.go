// Package recorded reads what an H200 computed for every form of instruction (bench/device/instructions.py), and makes
// the operands of the recording again.
//
// The operands are not in the record: they follow from the names of the forms, as instructions.cu says. It is for tests
// only.
package recorded

import (
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"hash/fnv"
	"os"
	"strconv"
	"sync"
	"testing"
)

// recordFile is seen from a package two folders below the root.
const recordFile = "../../testdata/vectors/ptx/instructions-sm90.json.gz"

// Record is the file that bench/device/instructions.py writes.
type Record struct {
	Device   string
	First    int // tuples in the first block of a form; each block has twice as many as the one before
	Tiles    int // the same for products of matrices
	Sample   int
	Edges    map[string][]uint64
	Grid     map[int]int
	Forms    []Form
	Further  []Form // that only the emulator is compared with
	Products []Product
	Errors   map[string][]float64
}

// Form is one form of an instruction. Edge has the results on the grid of edge values, Blocks the digests of those on
// random operands.
type Form struct {
	Name     string
	Result   string
	Operands []string
	Edge     []byte
	Blocks   []string
	Sample   []byte // of approximate instructions only
}

// Product is one product of matrices.
type Product struct {
	Name   string
	Blocks []string
}

var load = sync.OnceValues(func() (*Record, error) {
	f, err := os.Open(recordFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	r := new(Record)
	return r, json.NewDecoder(z).Decode(r)
})

// Load is the record, read once.
func Load(t testing.TB) *Record {
	t.Helper()
	r, err := load()
	if err != nil {
		t.Fatalf("%s: %v", recordFile, err)
	}
	return r
}

// Soaking reports whether more than the usual is to be checked.
func Soaking() bool { return os.Getenv("GPUEMU_SOAK") != "" }

// Soak is the number of random tuples or tiles that GPUEMU_SOAK asks for, else the given one. A million is everything
// that is recorded.
func Soak(otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv("GPUEMU_SOAK")); err == nil {
		return n
	}
	return otherwise
}

// Class is how operands are made; instructions.py has the same table.
type Class struct {
	Kind         int // classInt, ...
	Width        uint
	EBits, MBits uint
}

const (
	classInt = iota
	classFloat
	classPair
	classShift
)

// Classes are the classes by the names that the record has for them.
var Classes = map[string]Class{
	"f16": {classFloat, 16, 5, 10}, "bf16": {classFloat, 16, 8, 7}, "f32": {classFloat, 32, 8, 23},
	"f64": {classFloat, 64, 11, 52}, "u16": {classInt, 16, 0, 0}, "u32": {classInt, 32, 0, 0},
	"u64": {classInt, 64, 0, 0}, "e8x2": {classInt, 16, 0, 0}, "f16x2": {classPair, 32, 5, 10},
	"bf16x2": {classPair, 32, 8, 7}, "shift": {classShift, 32, 0, 0}, "pred": {classInt, 32, 0, 0},
}

// Step is the increment of splitmix64.
const Step = 0x9e3779b97f4a7c15

// Mix is the output function of splitmix64.
func Mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Low is a mask of n bits.
func Low(n uint) uint64 { return 1<<n - 1 }

// SeedOf is the seed of a form or a product: FNV-1a of its name.
func SeedOf(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

// withExponent replaces the exponent field of v, clamped to its range.
func withExponent(v uint64, e int, ebits, mbits uint) uint64 {
	top := 1<<ebits - 1
	return v&^(uint64(top)<<mbits) | uint64(max(0, min(e, top)))<<mbits
}

func floatValue(r, q uint64, c Class, center int, edges []uint64) uint64 {
	v := r & Low(1+c.EBits+c.MBits)
	kind, k := q&15, int(q>>4&63)
	near := k - 32
	if c.EBits < 8 {
		near = k&15 - 8
	}
	switch {
	case kind < 7:
		return v
	case kind < 11:
		return withExponent(v, center+near, c.EBits, c.MBits)
	case kind < 13:
		return edges[(q>>32)%uint64(len(edges))]
	case kind == 15:
		return withExponent(v, k&1, c.EBits, c.MBits)
	}
	v &^= Low(c.MBits) >> 3
	if kind == 13 {
		return v
	}
	return withExponent(v, center+k&3-1, c.EBits, c.MBits)
}

func intValue(r, q uint64, w uint, ref uint64, edges []uint64) uint64 {
	v := r & Low(w)
	kind, k := q&15, uint(q>>4&63)%w
	switch {
	case kind < 7:
		return v
	case kind < 10:
		return v >> k
	case kind < 12:
		return uint64(int64(v<<(64-w))>>(64-w+k)) & Low(w)
	case kind < 14:
		return edges[(q>>32)%uint64(len(edges))]
	case kind == 14:
		return (1<<k + (q>>32)%3 - 1) & Low(w)
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
	return r & Low(32)
}

// Maker makes the operand tuples of a form, as instructions.cu does.
type Maker struct {
	seed  uint64
	Class []Class
	Edges [][]uint64
}

// NewMaker makes the operands of a form.
func NewMaker(r *Record, f *Form) *Maker {
	m := &Maker{seed: SeedOf(f.Name)}
	for _, name := range f.Operands {
		m.Class = append(m.Class, Classes[name])
		m.Edges = append(m.Edges, r.Edges[name])
	}
	return m
}

// Tuple sets o to tuple i.
func (m *Maker) Tuple(o *[4]uint64, i uint64) {
	if len(m.Class) == 1 && m.Class[0].Width <= 16 {
		o[0] = i
		return
	}
	for j := range m.Class {
		o[j] = m.operand(o[0], i, j)
	}
}

func (m *Maker) operand(ref, i uint64, j int) uint64 {
	c, edges := m.Class[j], m.Edges[j]
	r := Mix(m.seed + (4*i+uint64(j)+1)*Step)
	q := Mix(r ^ 0x5851f42d4c957f2d)
	switch c.Kind {
	case classInt:
		if j == 0 {
			ref = r
		}
		return intValue(r, q, c.Width, ref&Low(c.Width), edges)
	case classShift:
		return shiftValue(r, q, edges)
	}
	center := 1<<(c.EBits-1) - 1
	first := m.Class[0]
	near := j > 0 && !(len(m.Class) == 3 && j == 1) && first.EBits == c.EBits
	if near {
		center = int(ref >> first.MBits & Low(first.EBits))
	}
	if c.Kind == classFloat {
		return floatValue(r, q, c, center, edges)
	}
	lo := floatValue(Mix(r+1), Mix(q+1), c, center, edges) & 0xffff
	if near {
		center = int(ref >> (16 + first.MBits) & Low(first.EBits))
	}
	return lo | floatValue(Mix(r+2), Mix(q+2), c, center, edges)&0xffff<<16
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

// Grid calls f with every tuple of edge values, the last operand changing fastest.
func (m *Maker) Grid(r *Record, f func(o *[4]uint64)) {
	var o [4]uint64
	var walk func(j int)
	walk = func(j int) {
		if j == len(m.Class) {
			f(&o)
			return
		}
		for _, v := range thinned(m.Edges[j], r.Grid[len(m.Class)]) {
			o[j] = v
			walk(j + 1)
		}
	}
	walk(0)
}

// Word reads result i of a packed list.
func Word(list []byte, i int, width uint) uint64 {
	switch width {
	case 16:
		return uint64(binary.LittleEndian.Uint16(list[2*i:]))
	case 32:
		return uint64(binary.LittleEndian.Uint32(list[4*i:]))
	}
	return binary.LittleEndian.Uint64(list[8*i:])
}
