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
)

// elementFormats are width, exponent and mantissa bits; integers have no exponent.
var elementFormats = map[string]class{
	"f16": {0, 16, 5, 10}, "bf16": {0, 16, 8, 7}, "tf32": {0, 32, 8, 23}, "f32": {0, 32, 8, 23}, "e4m3": {0, 8, 4, 3},
	"e5m2": {0, 8, 5, 2}, "f64": {0, 64, 11, 52}, "s8": {0, 8, 0, 8}, "u8": {0, 8, 0, 8}, "s4": {0, 4, 0, 4},
	"u4": {0, 4, 0, 4}, "b1": {0, 1, 0, 1}, "s32": {0, 32, 0, 32},
}

// tileElement is element of instructions.cu: one element of matrix x of a tile, whose seed comes from [tileSeed].
func tileElement(seed, tile uint64, x, i, k int, f class) uint64 {
	r := mix(seed + uint64(i)*step)
	q := mix(r ^ 0x5851f42d4c957f2d)
	kind := tile & 7
	if f.ebits == 0 {
		top := uint64(1) << (f.mbits - 1)
		switch {
		case kind == 3 && x == 2 && q&1 != 0:
			return top - 1 - r&0xffff
		case kind == 3 && x == 2:
			return top + r&0xffff
		case kind == 3 && q&3 != 0:
			return top - q>>2&1
		case kind == 3:
			return 0
		}
		return r & low(f.mbits)
	}
	bias, top := 1<<(f.ebits-1)-1, uint64(1)<<f.ebits-1
	wide := bias - 16 + int(q>>8&31)
	if f.ebits < 8 {
		wide = 1 + int(q>>8&255)%int(top-1)
	}
	v := r & low(1+f.ebits+f.mbits)
	sign := uint64(1) << (f.ebits + f.mbits)
	exponent := func(e int) uint64 { return withExponent(v, e, f.ebits, f.mbits) }
	finite := v
	if v>>f.mbits&top == top {
		finite &^= 1 << f.mbits
	}
	switch kind {
	case 0:
		return exponent(bias + int(q&3) - 2)
	case 1:
		return exponent(wide)
	case 2:
		return finite
	case 3:
		switch {
		case x < 2 && k&1 != 0 && q&3 != 0:
			v = tileElement(seed, tile, x, i-1, k-1, f)
			if x == 1 {
				v ^= sign
			}
			return v
		case x == 2:
			return exponent(bias - int(q>>8&31) + 4)
		}
		return exponent(bias - int(q>>8&7))
	case 4:
		return exponent(int(q>>8&255) % 3)
	case 5:
		if q&63 == 0 {
			return v | top<<f.mbits
		}
		return finite
	case 6:
		if q&1 != 0 {
			return v & sign
		}
		return exponent(wide)
	}
	v &^= low(f.mbits) >> 2
	return exponent(bias + int(q&3) - 1)
}

// tileSeed is the seed of matrix x of a tile.
func tileSeed(seed, tile uint64, x int) uint64 { return mix(seed + tile*4 + uint64(x)) }

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
	p := product{name: name, wgmma: strings.HasPrefix(name, "wgmma"), seed: seedOf(name)}
	size := shape.FindStringSubmatch(name)
	if size == nil {
		t.Fatalf("%s: no shape", name)
	}
	p.m, _ = strconv.Atoi(size[1])
	p.k, _ = strconv.Atoi(size[2])
	var kinds []string
	for w := range strings.SplitSeq(name, ".") {
		if _, ok := elementFormats[w]; ok {
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
	formatC := elementFormats[p.d]
	w.fill(p, tile)
	seed := tileSeed(p.seed, tile, 2)
	for row := range p.m {
		for col := range 8 {
			c := tileElement(seed, tile, 2, row*8+col, 0, formatC)
			v := p.element(c, w, row*p.k, col*p.k)
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

// workspace holds A and B of a tile, raw and decoded.
type workspace struct {
	a, b         []uint64
	elemA, elemB []Elem
}

var inputs = []string{"f16", "bf16", "tf32", "e4m3", "e5m2"}

func (w *workspace) fill(p product, tile uint64) {
	w.a, w.b, w.elemA, w.elemB = w.a[:0], w.b[:0], w.elemA[:0], w.elemB[:0]
	inA, inB := slices.Index(inputs, p.a), slices.Index(inputs, p.b)
	formatA, formatB := elementFormats[p.a], elementFormats[p.b]
	seedA, seedB := tileSeed(p.seed, tile, 0), tileSeed(p.seed, tile, 1)
	for row := range p.m {
		for k := range p.k {
			v := tileElement(seedA, tile, 0, row*p.k+k, k, formatA)
			w.a = append(w.a, extended(p.a, formatA, v))
			if inA >= 0 {
				w.elemA = append(w.elemA, Input(inA).Decode(uint32(v)))
			}
		}
	}
	for col := range 8 {
		for k := range p.k {
			v := tileElement(seedB, tile, 1, col*p.k+k, k, formatB)
			w.b = append(w.b, extended(p.b, formatB, v))
			if inB >= 0 {
				w.elemB = append(w.elemB, Input(inB).Decode(uint32(v)))
			}
		}
	}
}

// element is one element of D; a and b are where its row and column begin.
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
	case p.d == "s32":
		sum := int64(0)
		for i, v := range w.a[a : a+p.k] { // fill has extended them
			sum += int64(v) * int64(w.b[b+i])
		}
		return uint64(uint32(DotEnd(int32(uint32(c)), sum, p.sat)))
	}
	if p.d == "f16" {
		return uint64(p.core.F16(uint16(c), w.elemA[a:a+p.k], w.elemB[b:b+p.k]))
	}
	return uint64(p.core.F32(uint32(c), w.elemA[a:a+p.k], w.elemB[b:b+p.k]))
}

// extended is an element of A or B as it is multiplied: signed integers fill the word.
func extended(kind string, f class, v uint64) uint64 {
	if kind[0] == 's' {
		return uint64(int64(v<<(64-f.width)) >> (64 - f.width))
	}
	return v
}

// shortTiles are the tiles checked without GPUEMU_SOAK: the first block.
const shortTiles = 1

// TestRecordedProducts compares every product of matrices with the device, bit for bit.
func TestRecordedProducts(t *testing.T) {
	r := theRecord(t)
	if len(r.Products) < 30 {
		t.Fatalf("the record has %d products, too few", len(r.Products))
	}
	shown := firstResults(t)
	slots := make(chan bool, runtime.GOMAXPROCS(0))
	for _, recorded := range r.Products {
		t.Run(recorded.Name, func(t *testing.T) {
			t.Parallel()
			slots <- true
			defer func() { <-slots }()
			p := parseProduct(t, recorded.Name)
			first := r.Tiles
			if p.wgmma {
				first /= 4 // its tiles have four times as many rows
			}
			p.compareFirst(t, shown[recorded.Name], first)
			for k, want := range recorded.Blocks {
				if first*(1<<k-1) >= soak(shortTiles) {
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
				c := tileElement(tileSeed(p.seed, tile, 2), tile, 2, i/size, 0, elementFormats[p.d])
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
