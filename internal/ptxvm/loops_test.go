package ptxvm

import (
	"reflect"
	"testing"

	"gpuemu/internal/rng"
)

// edgeWords are words that decide something in one of the loops: signs, ends of ranges, zeros, subnormal numbers, the
// smallest normal one, infinities, NaN with a payload and without, amounts of shifts.
var edgeWords = []uint32{0, 1, 2, 3, 4, 31, 32, 33, 63, 64, 0x7f, 0xff, 0x7fffff, 0x800000, 0x800001, 0x3f800000,
	0x3f800001, 0x4b800000, 0x7f7fffff, 0x7f800000, 0x7f800001, 0x7fc00000, 0x7fffffff, 0x80000000, 0x80000001, 0x807fffff,
	0x80800000, 0xbf800000, 0xff7fffff, 0xff800000, 0xff800001, 0xffc00000, 0xffffffff}

// operands are registers for one round of a test: edge words first, all against all, then any words.
type operands struct {
	a, b, c    lanes32
	x, y, z    lanes64
	p          uint32
	data, dest [4 * 64]byte
	at         lanes64
}

func operandsOf(round int, s *rng.RNG) *operands {
	o := &operands{p: uint32(s.Uint64())}
	for i := range warpSize {
		k := round*warpSize + i
		if round < len(edgeWords) {
			o.a[i], o.b[i], o.c[i] = edgeWords[k%len(edgeWords)], edgeWords[round], edgeWords[(k*7+round)%len(edgeWords)]
		} else {
			o.a[i], o.b[i], o.c[i] = uint32(s.Uint64()), uint32(s.Uint64()), uint32(s.Uint64())
			if round%2 == 0 { // near each other, so that sums cancel and products stay in range
				o.b[i], o.c[i] = o.a[i]^o.b[i]&0x800000ff, o.c[i]&^0x40000000|0x20000000
			}
		}
		o.x[i], o.y[i], o.z[i] = uint64(o.a[i])<<32|uint64(o.b[i]), uint64(o.c[i])<<31, s.Uint64()
		o.at[i] = s.Uint64() % 64 * 4 % (uint64(len(o.data)) - 3)
	}
	for i := range o.data {
		o.data[i] = byte(s.Uint64())
	}
	return o
}

// call executes one loop and returns everything it left.
func (o operands) call(f any) any {
	var d lanes32
	var q lanes64
	switch f := f.(type) {
	case func(d, a, b *lanes32):
		f(&d, &o.a, &o.b)
		f(&o.a, &o.a, &o.b) // to a register of its own
	case func(d, a, b, c *lanes32):
		f(&d, &o.a, &o.b, &o.c)
		f(&o.c, &o.a, &o.b, &o.c)
	case func(d, a, b *lanes64):
		f(&q, &o.x, &o.y)
		f(&o.y, &o.x, &o.y)
	case func(d, a *lanes64, b *lanes32):
		f(&q, &o.x, &o.b)
	case func(d *lanes64, a, b *lanes32):
		f(&q, &o.a, &o.b)
	case func(d *lanes64, a, b *lanes32, c *lanes64):
		f(&q, &o.a, &o.b, &o.x)
		f(&o.x, &o.a, &o.b, &o.x)
	case func(d *lanes64, a *lanes32):
		f(&q, &o.a)
	case func(d *lanes32, a *lanes64):
		f(&d, &o.x)
	case func(d, a *lanes32):
		f(&d, &o.a)
	case func(d, a, b *lanes32, p uint32):
		f(&d, &o.a, &o.b, o.p)
		f(&o.b, &o.a, &o.b, o.p)
	case func(d, a, b *lanes64, p uint32):
		f(&q, &o.x, &o.y, o.p)
		f(&o.y, &o.x, &o.y, o.p)
	case func(a, b *lanes32) uint32:
		d[0], d[1] = f(&o.a, &o.b), f(&o.b, &o.a)
	case func(at *lanes64) uint32:
		for i := range o.at {
			o.at[i] = o.at[i] % 16
		}
		d[0] = f(&o.at)
		copy(o.at[16:], o.at[:16])
		d[1] = f(&o.at)
		o.at[31]++
		d[2] = f(&o.at)
	case func(d *lanes32, data []byte, at *lanes64, like layout):
		f(&d, o.data[:], &o.at, 0)
	case func(data []byte, at *lanes64, s *lanes32, like layout):
		f(o.dest[:], &o.at, &o.a, 0)
	default:
		return nil
	}
	return []any{d, q, o}
}

// list has all loops but offsets, which TestOffsets compares.
func (l *loops) list() []any {
	return []any{l.add32, l.sub32, l.mul32, l.and32, l.or32, l.xor32, l.shl32, l.shr32, l.shrSigned32, l.min32,
		l.max32, l.addFloat, l.subFloat, l.mulFloat, l.divFloat, l.minFloat, l.maxFloat, l.fmaFloat, l.mad32, l.add64,
		l.sub64, l.mul64, l.and64, l.or64, l.xor64, l.shl64, l.mulWide, l.mulWideSigned, l.madWide, l.madWideSigned,
		l.signExtend, l.zeroExtend, l.truncate, l.floatOfSigned, l.select32, l.select64, l.equal32, l.greater32,
		l.above32, l.equalFloat, l.lessFloat, l.lessEqualFloat, l.unordered, l.distinct, l.load, l.store}
}

// TestLoops compares the loops of this processor with those in Go, bit by bit.
func TestLoops(t *testing.T) {
	got, want := fast.list(), goLoops.list()
	if fields := reflect.TypeFor[loops](); fields.NumField() != len(want)+1 {
		t.Fatalf("%d loops of %d are compared", len(want)+1, fields.NumField())
	}
	rounds := 2000
	if testing.Short() {
		rounds = 200
	}
	for i := range want {
		s := rng.New(uint64(i)).Derive("loops")
		for round := range rounds {
			o := operandsOf(round, s)
			a, b := o.call(got[i]), o.call(want[i])
			if a == nil || !reflect.DeepEqual(a, b) {
				t.Fatalf("loop %d (%T), round %d: got\n%x, want\n%x\nof %x", i, want[i], round, a, b, o)
			}
		}
	}
}

// TestOffsets compares what is said of addresses: in order, the same, mixed, beyond the last one by one, far away on
// either side, and not aligned, in each lane.
func TestOffsets(t *testing.T) {
	const start, most = 8 << 40, 1 << 20
	check := func(base lanes64, odd uint64) {
		t.Helper()
		var at, expected lanes64
		got, want := fast.offsets(&at, &base, start, most, odd), fastOffsets(&expected, &base, start, most, odd)
		if got != want || at != expected {
			t.Errorf("offsets of %x with odd %d: %b, want %b", base, odd, got, want)
		}
	}
	for step := range uint64(9) {
		for _, first := range []uint64{start, start + 4, start + 64, start + most - 31*step, start + most - 31*step + 1,
			start - 4, 0, 1 << 63, 1<<63 + start, ^uint64(0)} {
			var base lanes64
			for i := range base {
				base[i] = first + step*uint64(i)
			}
			for _, odd := range []uint64{0, 1, 3, 7, 15} {
				check(base, odd)
				for lane := range base {
					other := base
					for _, x := range []uint64{start - 1, start + most, start + most + 1, first + 2, start + 1<<63, 0, first} {
						other[lane] = x
						check(other, odd)
					}
				}
			}
		}
	}
}

// TestLayouts compares loads and stores of words side by side and of one word with those of any words.
func TestLayouts(t *testing.T) {
	for _, step := range []uint64{0, 4} {
		o := operandsOf(len(edgeWords), rng.New(7))
		var base lanes64
		for i := range base {
			base[i] = 16 + step*uint64(i)
		}
		like := fast.offsets(&o.at, &base, 0, uint64(len(o.data)-4), 3)
		if like&(side|uniform) == 0 {
			t.Fatalf("steps of %d: layout %b", step, like)
		}
		var got, want lanes32
		dest := o.dest
		fast.load(&got, o.data[:], &o.at, like)
		fastLoad(&want, o.data[:], &o.at, 0)
		fast.store(dest[:], &o.at, &o.a, like)
		fastStore(o.dest[:], &o.at, &o.a, 0)
		if got != want || dest != o.dest {
			t.Errorf("steps of %d: loaded %x, want %x; stored %x, want %x", step, got, want, dest, o.dest)
		}
	}
}
