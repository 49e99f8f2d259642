// This file implements the comparison of products of matrices with what an H200 computed.

package ptxmath

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpuemu/internal/testkit/recorded"
)

// product is a recorded product of matrices taken apart.
type product struct {
	name    string
	m, k    int
	d, a, b string
	wgmma   bool
	sat     bool
	core    Core // of floats
	seed    uint64
}

var shape = regexp.MustCompile(`m(\d+)n8k(\d+)`)

func parseProduct(t testing.TB, name string) product {
	p := product{name: name, wgmma: strings.HasPrefix(name, "wgmma"), seed: recorded.SeedOf(name)}
	size := shape.FindStringSubmatch(name)
	if size == nil {
		t.Fatalf("%s: no shape", name)
	}
	p.m, _ = strconv.Atoi(size[1])
	p.k, _ = strconv.Atoi(size[2])
	var kinds []string
	for w := range strings.SplitSeq(name, ".") {
		if _, ok := recorded.Elements[w]; ok {
			kinds = append(kinds, w)
		}
	}
	p.d, p.a, p.b = kinds[0], kinds[1], kinds[2]
	p.sat = strings.Contains(name, "satfinite")
	if in := slices.Index(inputs, p.a); in >= 0 {
		p.core = NewCore(Hopper, Input(in), p.wgmma)
	}
	return p
}

func (p product) bytes() int {
	switch p.d {
	case "f64":
		return 8
	case "f16":
		return 2
	}
	return 4
}

// tile computes one tile and appends its elements, row by row, to buf.
func (p product) tile(buf []byte, tile uint64, w *workspace) []byte {
	formatC := recorded.Elements[p.d]
	w.fill(p, tile)
	seed := recorded.TileSeed(p.seed, tile, 2)
	for row := range p.m {
		var d [Width]uint64
		for col := range d {
			d[col] = recorded.TileElement(seed, tile, 2, row*8+col, 0, formatC)
		}
		p.row(&d, w, row)
		for _, v := range d {
			switch p.bytes() {
			case 8:
				buf = binary.LittleEndian.AppendUint64(buf, v)
			case 2:
				buf = binary.LittleEndian.AppendUint16(buf, uint16(v))
			default:
				buf = binary.LittleEndian.AppendUint32(buf, uint32(v))
			}
		}
	}
	return buf
}

// workspace holds A and B of a tile: as integers, and as tiles take them.
type workspace struct {
	a, b  []uint64
	tileA []uint32
	tileB []uint32 // k by k
}

var inputs = []string{"f16", "bf16", "tf32", "e4m3", "e5m2"}

func (w *workspace) fill(p product, tile uint64) {
	w.a, w.b, w.tileA, w.tileB = w.a[:0], w.b[:0], w.tileA[:0], make([]uint32, p.k*Width)
	formatA, formatB := recorded.Elements[p.a], recorded.Elements[p.b]
	seedA, seedB := recorded.TileSeed(p.seed, tile, 0), recorded.TileSeed(p.seed, tile, 1)
	for row := range p.m {
		for k := range p.k {
			v := recorded.TileElement(seedA, tile, 0, row*p.k+k, k, formatA)
			w.a = append(w.a, extended(p.a, formatA, v))
			w.tileA = append(w.tileA, uint32(v))
		}
	}
	for col := range 8 {
		for k := range p.k {
			v := recorded.TileElement(seedB, tile, 1, col*p.k+k, k, formatB)
			w.b = append(w.b, extended(p.b, formatB, v))
			w.tileB[k*Width+col] = uint32(v)
		}
	}
}

// row adds the products of a row to d, which has the elements of C.
func (p product) row(d *[Width]uint64, w *workspace, row int) {
	inA, inB := slices.Index(inputs, p.a), slices.Index(inputs, p.b)
	if inA < 0 {
		for col, c := range d {
			d[col] = p.element(c, w, row*p.k, col*p.k)
		}
		return
	}
	var rows Rows
	var columns Columns
	p.core.Rows(&rows, Input(inA), w.tileA[row*p.k:(row+1)*p.k], p.k)
	p.core.Columns(&columns, Input(inB), w.tileB)
	var sums [Width]uint32
	for i, v := range d {
		sums[i] = uint32(v)
	}
	if p.d == "f16" {
		p.core.F16(&sums, &rows, 0, &columns)
	} else {
		p.core.F32(&sums, &rows, 0, &columns)
	}
	for i, v := range sums {
		d[i] = uint64(v)
	}
}

// element is one element of D that is no sum of floats below f64; a and b are where its row and column begin.
func (p product) element(c uint64, w *workspace, a, b int) uint64 {
	switch {
	case p.d == "f64":
		return DotF64(c, w.a[a:a+p.k], w.b[b:b+p.k])
	case p.a == "b1":
		xor := strings.Contains(p.name, ".xor.")
		sum := uint32(c)
		for i, v := range w.a[a : a+p.k] {
			if xor {
				sum += uint32(v ^ w.b[b+i])
			} else {
				sum += uint32(v & w.b[b+i])
			}
		}
		return uint64(sum)
	}
	sum := int64(0)
	for i, v := range w.a[a : a+p.k] { // fill has extended them
		sum += int64(v) * int64(w.b[b+i])
	}
	return uint64(uint32(DotEnd(int32(uint32(c)), sum, p.sat)))
}

// extended is an element of A or B as it is multiplied: signed integers fill the word.
func extended(kind string, f recorded.Class, v uint64) uint64 {
	if kind[0] == 's' {
		return uint64(int64(v<<(64-f.Width)) >> (64 - f.Width))
	}
	return v
}

// shortTiles are the tiles checked without GPUEMU_SOAK: the first block.
const shortTiles = 1

// TestRecordedProducts compares every product of matrices with the device, bit for bit.
func TestRecordedProducts(t *testing.T) {
	r := recorded.Load(t)
	if len(r.Products) < 30 {
		t.Fatalf("the record has %d products, too few", len(r.Products))
	}
	shown := firstResults(t)
	slots := make(chan bool, runtime.GOMAXPROCS(0))
	for _, row := range r.Products {
		t.Run(row.Name, func(t *testing.T) {
			t.Parallel()
			slots <- true
			defer func() { <-slots }()
			p := parseProduct(t, row.Name)
			first := r.Tiles
			if p.wgmma {
				first /= 4 // its tiles have four times as many rows
			}
			p.compareFirst(t, shown[row.Name], first)
			for k, want := range row.Blocks {
				if first*(1<<k-1) >= recorded.Soak(shortTiles) {
					break
				}
				if got := p.digest(first*(1<<k-1), first<<k); got != want {
					t.Errorf("block %d of tiles: digest %s, the device's is %s", k, got, want)
				}
			}
		})
	}
}

// digest is that of n tiles from the given one on.
func (p product) digest(base, n int) string {
	h := sha256.New()
	var w workspace
	var buf []byte
	for i := range n {
		buf = p.tile(buf[:0], uint64(base+i), &w)
		h.Write(buf)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// compareFirst looks at the first tiles one by one, where their results are at hand.
func (p product) compareFirst(t *testing.T, want []byte, tiles int) {
	if want == nil {
		return
	}
	var w workspace
	size := p.bytes()
	faults := map[uint64]int{}
	for tile := range uint64(tiles) {
		got := p.tile(nil, tile, &w)
		for i := 0; i < len(got); i += size {
			dev := want[int(tile)*len(got)+i:][:size]
			if string(got[i:i+size]) == string(dev) {
				continue
			}
			if faults[tile&7]++; faults[tile&7] <= 3 {
				row, col := i/size/8, i/size%8
				c := recorded.TileElement(recorded.TileSeed(p.seed, tile, 2), tile, 2, i/size, 0, recorded.Elements[p.d])
				t.Errorf("kind %d, tile %d, (%d, %d): %x, the device %x; c %#x a %#x b %#x", tile&7, tile, row, col,
					reversed(got[i:i+size]), reversed(dev), c, w.a[row*p.k:(row+1)*p.k], w.b[col*p.k:(col+1)*p.k])
			}
		}
	}
	if len(faults) > 0 {
		t.Errorf("differences by kind of tile: %v", faults)
	}
}

func reversed(b []byte) []byte {
	out := slices.Clone(b)
	slices.Reverse(out)
	return out
}
