package dtype_test

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"gpuemu/internal/dtype"
)

// This file implements the tests of the 8- and 16-bit floats on all their codes and all their rounding boundaries.

// wantDecoded is the float64 that a code means.
func wantDecoded(t testing.TB, f refFormat, code uint64) float64 {
	t.Helper()
	sign := code >> (f.bits() - 1)
	c, v := f.magnitude(code & (1<<(f.bits()-1) - 1))
	var x float64
	switch c {
	case finite:
		x = toFloat64(t, v)
	case infinite:
		x = math.Inf(1)
	case notANumber:
		payload := code << (64 - f.manBits) >> 12
		if f.noInf {
			payload = 0 // the one NaN has no payload
		}
		x = math.Float64frombits(0x7ff8<<48 | payload)
	}
	return math.Float64frombits(math.Float64bits(x) | sign<<63)
}

func TestDecodeAllCodes(t *testing.T) {
	for _, d := range narrowFloats {
		t.Run(d.String(), func(t *testing.T) {
			f := refFormats[d]
			n := 1 << f.bits()
			src := make([]byte, n*d.Size())
			for code := range n {
				d.Store(src[code*d.Size():], uint64(code))
			}
			bulk, bulk32 := make([]float64, n), make([]float32, n)
			dtype.Decode(bulk, d, src)
			dtype.DecodeFloat32(bulk32, d, src)
			for code := range n {
				want := wantDecoded(t, f, uint64(code))
				want32 := math.Float32bits(float32(want)) // exact; quiet NaNs keep sign and upper payload
				if err := sameBits(d.Float64(uint64(code)), want); err != nil {
					t.Errorf("Float64(%#x) = %v", code, err)
				}
				if err := sameBits(bulk[code], want); err != nil {
					t.Errorf("Decode of %#x = %v", code, err)
				}
				if got := math.Float32bits(d.Float32(uint64(code))); got != want32 {
					t.Errorf("Float32(%#x) = %08x, want %08x", code, got, want32)
				}
				if got := math.Float32bits(bulk32[code]); got != want32 {
					t.Errorf("DecodeFloat32 of %#x = %08x, want %08x", code, got, want32)
				}
				if got := d.IsNaN(uint64(code)); got != math.IsNaN(want) {
					t.Errorf("IsNaN(%#x) = %v, want %v", code, got, math.IsNaN(want))
				}
			}
		})
	}
}

// TestRoundTripAllCodes: decoding and encoding gives the code back, except that signalling NaNs become quiet.
func TestRoundTripAllCodes(t *testing.T) {
	for _, d := range narrowFloats {
		t.Run(d.String(), func(t *testing.T) {
			f := refFormats[d]
			quiet := uint64(1) << (f.manBits - 1)
			for code := range uint64(1) << f.bits() {
				want := code
				if c, _ := f.magnitude(code & (1<<(f.bits()-1) - 1)); c == notANumber {
					want |= quiet
				}
				if got := d.Bits(d.Float64(code)); got != want {
					t.Errorf("Bits(Float64(%#x)) = %#x, want %#x", code, got, want)
				}
				if got := d.BitsFloat32(d.Float32(code)); got != want {
					t.Errorf("BitsFloat32(Float32(%#x)) = %#x, want %#x", code, got, want)
				}
			}
		})
	}
}

// checker compares every way to encode with the reference, many values at a time.
type checker struct {
	t       *testing.T
	d       dtype.DType
	table   *refTable
	nearest func(float64) (uint64, bool)
	xs      []float64
	xs32    []float32
	errors  int
}

const maxErrors = 20

// add takes a float64 to check.
func (c *checker) add(x float64) {
	if c.xs = append(c.xs, x); len(c.xs) == 2048 {
		c.flush()
	}
}

// add32 takes a float32 to check, as itself and as a float64.
func (c *checker) add32(x float32) {
	c.xs32 = append(c.xs32, x)
	c.add(float64(x))
}

func (c *checker) want(x float64) (plain, saturated uint64) {
	if math.IsNaN(x) {
		return c.table.refNaN(x), c.table.refNaN(x)
	}
	return c.table.encode(x, c.nearest)
}

func (c *checker) failf(format string, args ...any) {
	c.t.Helper()
	if c.errors++; c.errors <= maxErrors {
		c.t.Errorf(format, args...)
	}
}

func (c *checker) flush() {
	c.t.Helper()
	size := c.d.Size()
	bulk, sat := make([]byte, len(c.xs)*size), make([]byte, len(c.xs)*size)
	dtype.Encode(bulk, c.d, c.xs)
	dtype.EncodeSaturating(sat, c.d, c.xs)
	for i, x := range c.xs {
		plain, saturated := c.want(x)
		if got := c.d.Bits(x); got != plain {
			c.failf("%v.Bits(%v = %x) = %#x, want %#x", c.d, x, x, got, plain)
		}
		if got := c.d.BitsSaturating(x); got != saturated {
			c.failf("%v.BitsSaturating(%v = %x) = %#x, want %#x", c.d, x, x, got, saturated)
		}
		if got := c.d.Load(bulk[i*size:]); got != plain {
			c.failf("Encode(%v, %v = %x) = %#x, want %#x", c.d, x, x, got, plain)
		}
		if got := c.d.Load(sat[i*size:]); got != saturated {
			c.failf("EncodeSaturating(%v, %v = %x) = %#x, want %#x", c.d, x, x, got, saturated)
		}
	}
	bulk = make([]byte, len(c.xs32)*size)
	dtype.EncodeFloat32(bulk, c.d, c.xs32)
	for i, x := range c.xs32 {
		plain, _ := c.want(float64(x))
		if got := c.d.BitsFloat32(x); got != plain {
			c.failf("%v.BitsFloat32(%v = %x) = %#x, want %#x", c.d, x, x, got, plain)
		}
		if got := c.d.Load(bulk[i*size:]); got != plain {
			c.failf("EncodeFloat32(%v, %v = %x) = %#x, want %#x", c.d, x, x, got, plain)
		}
	}
	c.xs, c.xs32 = c.xs[:0], c.xs32[:0]
}

// around adds x, the float64s next to it and the float32s next to it, with both signs.
func (c *checker) around(x float64) {
	if float64(float32(x)) != x {
		c.t.Fatalf("%v: the boundary %v is not a float32", c.d, x)
	}
	for _, s := range []float64{1, -1} {
		c.add32(float32(s * x))
		c.add(s * math.Nextafter(x, 0))
		c.add(s * math.Nextafter(x, math.Inf(1)))
		c.add32(float32(s) * math.Nextafter32(float32(x), 0))
		c.add32(float32(s) * math.Nextafter32(float32(x), float32(math.Inf(1))))
	}
}

// TestEncodeBoundaries encodes every value of a format, every point halfway between two neighbours, the overflow
// threshold among them, and what lies next to these points on both sides.
func TestEncodeBoundaries(t *testing.T) {
	for _, d := range narrowFloats {
		t.Run(d.String(), func(t *testing.T) {
			table := tableOf(t, d)
			c := &checker{t: t, d: d, table: table, nearest: table.nearest}
			for i, mid := range table.mids {
				c.around(toFloat64(t, table.values[i]))
				c.around(mid)
			}
			c.add32(float32(math.Inf(1)))
			c.add32(float32(math.Inf(-1)))
			for _, x := range []float64{0x1p128, math.MaxFloat64, 0x1p-1074, 0x1p-1022, 0x1p-500, 0x1p500} {
				c.add(x)
				c.add(-x)
			}
			for _, x := range []float32{math.MaxFloat32, 0x1p-149, 0x1p-126, 480, 65536, 61440, 65520} {
				c.add32(x)
				c.add32(-x)
			}
			c.flush()
		})
	}
}

// TestFastReference holds the fast form of the reference to the plain one.
func TestFastReference(t *testing.T) {
	for _, d := range narrowFloats {
		table := tableOf(t, d)
		for _, mid := range append([]float64{0, 1, math.MaxFloat64, math.Inf(1)}, table.mids...) {
			for _, x := range []float64{mid, math.Nextafter(mid, 0), math.Nextafter(mid, math.Inf(1))} {
				got, gotOver := table.nearestFast(x)
				want, wantOver := table.nearest(x)
				if gotOver != wantOver || !wantOver && got != want {
					t.Fatalf("%v: nearestFast(%x) = %#x, %v, want %#x, %v", d, x, got, gotOver, want, wantOver)
				}
			}
		}
	}
}

// TestEncodeNaN: a NaN becomes quiet, keeps its sign and its upper payload, in both modes and from both widths.
func TestEncodeNaN(t *testing.T) {
	payloads := []uint64{1, 1 << 51, 1<<51 | 1, 1<<52 - 1, 1 << 50, 0x5555555555555, 1 << 42, 1 << 41, 3 << 49}
	for _, d := range narrowFloats {
		table := tableOf(t, d)
		c := &checker{t: t, d: d, table: table, nearest: table.nearest}
		for _, p := range payloads {
			for _, sign := range []uint64{0, 1 << 63} {
				c.add(math.Float64frombits(sign | 0x7ff<<52 | p))
				for _, quiet := range []uint32{1 << 22, 1} { // 1: signalling, unless the payload says otherwise
					c.xs32 = append(c.xs32, math.Float32frombits(uint32(sign>>32)|0x7f800000|uint32(p>>29)|quiet))
				}
			}
		}
		c.flush()
	}
}

// TestEncodeRandom encodes ten million random float32s in each format: half of them any bit pattern, half of them
// with an exponent near the format's range, where rounding has something to do.
func TestEncodeRandom(t *testing.T) {
	const workers = 2
	perWorker := 10_000_000 / workers
	if testing.Short() {
		perWorker /= 20
	}
	for _, d := range narrowFloats {
		t.Run(d.String(), func(t *testing.T) {
			table := tableOf(t, d)
			// Exponent fields of float32 from two below the first rounding boundary to two above the last.
			lo := uint32(max(127+math.Ilogb(table.mids[0])-2, 0))
			hi := uint32(min(127+math.Ilogb(table.mids[table.last])+2, 254))
			var wg sync.WaitGroup
			for w := range workers {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(uint64(d), uint64(w)))
					c := &checker{t: t, d: d, table: table, nearest: table.nearestFast}
					for i := range perWorker {
						u := r.Uint64()
						bits := uint32(u)
						if i&1 == 0 {
							bits = bits&0x807fffff | (lo+uint32(u>>32)%(hi-lo+1))<<23
						}
						c.add32(math.Float32frombits(bits))
					}
					c.flush()
				})
			}
			wg.Wait()
		})
	}
}
