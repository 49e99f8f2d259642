// Package rng implements RNG v1: named, seeded streams of random numbers whose outputs are frozen.
//
// Every seed in a report, a receipt or a bug tracker means "this stream", so nothing here may ever change what it
// returns; a different stream would be a different version next to this one. Known answers stand in
// testdata/vectors/rng.
//
// The generator is a variant of xorshift128+ (Vigna, "Further scramblings of Marsaglia's xorshift generators") that
// stores x^y instead of x in its second word; it is kept for compatibility with published seeds. It is fast and good
// enough to draw test inputs. It is not for cryptography, and its bounded draws keep the bias of a plain modulo.
//
// An RNG is not safe for concurrent use. Give each goroutine its own stream with Derive, which depends on the seed
// alone and never on how much was drawn, so adding or reordering streams changes no other stream.
package rng

import (
	"encoding/binary"
	"fmt"
	"hash"
	"sync"

	"golang.org/x/crypto/blake2b"
)

// seedBytes is the size of a seed and, as the Blake2b parameter, of the digest a derived seed is read from.
const seedBytes = 8

// RNG is one stream. Use New or Derive; the zero value is not a valid stream.
type RNG struct {
	seed     uint64
	s0, s1   uint64
	sine     float64 // second half of the last Box-Muller pair, for the next Normal
	haveSine bool
}

// New returns the stream of seed.
func New(seed uint64) *RNG {
	r := &RNG{seed: seed, s0: splitmix64(seed), s1: splitmix64(seed + 1)}
	if r.s0 == 0 && r.s1 == 0 {
		r.s0 = 1 // the all-zero state would return zeros for ever
	}
	return r
}

// splitmix64 is one step of Steele, Lea and Flood's generator from state s.
func splitmix64(s uint64) uint64 {
	z := s + 0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// Seed returns the seed that r was made from.
func (r *RNG) Seed() uint64 { return r.seed }

// Derive returns the stream named domain below r. It depends on r's seed only, not on the draws made from r.
func (r *RNG) Derive(domain string) *RNG { return New(DeriveSeed(r.seed, domain)) }

// DeriveSeed returns the seed of the stream named domain below seed: the unkeyed Blake2b digest of size 8 (in the
// parameter block, not a truncated longer digest) of the little-endian seed and the domain.
func DeriveSeed(seed uint64, domain string) uint64 {
	h := hashers.Get().(*hasher)
	defer hashers.Put(h)
	h.Reset()
	h.in = append(binary.LittleEndian.AppendUint64(h.in[:0], seed), domain...)
	h.Write(h.in)
	return binary.LittleEndian.Uint64(h.Sum(h.out[:0]))
}

// hasher is a hash with the memory of its input and output, which would escape to the heap otherwise.
type hasher struct {
	hash.Hash
	in  []byte
	out [seedBytes]byte
}

// hashers are used again: a case derives a dozen seeds, and the state of a hash is larger than all they are made of.
var hashers = sync.Pool{New: func() any {
	h, err := blake2b.New(seedBytes, nil)
	if err != nil { // only for a bad size or key length, and both are constants
		panic(fmt.Sprintf("rng: internal error: blake2b: %v", err))
	}
	return &hasher{Hash: h}
}}

// step advances the state (s0, s1) once and returns the new state and the output.
func step(s0, s1 uint64) (n0, n1, out uint64) {
	x, y := s0, s1
	x ^= x << 23
	x ^= x >> 17
	x ^= y ^ y>>26
	return y, x ^ y, x + y
}

// Uint64 returns the next 64 bits.
func (r *RNG) Uint64() uint64 {
	var out uint64
	r.s0, r.s1, out = step(r.s0, r.s1)
	return out
}

// Float64 returns a multiple of 2^-53 in [0, 1).
func (r *RNG) Float64() float64 { return unit64(r.Uint64()) }

// Float32 returns a multiple of 2^-24 in [0, 1).
func (r *RNG) Float32() float32 { return float32(r.Uint64()>>40) * 0x1p-24 }

func unit64(u uint64) float64 { return float64(u>>11) * 0x1p-53 }

// Bool returns true with probability p.
func (r *RNG) Bool(p float64) bool { return r.Float64() < p }

// Range returns lo + u64 mod (hi-lo), an integer in [lo, hi). It panics when hi <= lo: callers check their bounds.
func (r *RNG) Range(lo, hi uint64) uint64 {
	if hi <= lo {
		panic(fmt.Sprintf("rng: internal error: Range(%d, %d): the range is empty", lo, hi))
	}
	return lo + r.Uint64()%(hi-lo)
}

// Intn returns u64 mod n, an integer in [0, n). It panics when n <= 0: callers check their bounds.
func (r *RNG) Intn(n int) int {
	if n <= 0 {
		panic(fmt.Sprintf("rng: internal error: Intn(%d): the range is empty", n))
	}
	return int(r.Uint64() % uint64(n))
}

// Shuffle permutes n elements with Fisher and Yates' method, from the last element down.
func (r *RNG) Shuffle(n int, swap func(i, j int)) {
	for i := n - 1; i >= 1; i-- {
		swap(i, r.Intn(i+1))
	}
}

// Fill sets b to the little-endian bytes of successive draws. A tail shorter than eight bytes takes the low bytes of
// one more draw.
func (r *RNG) Fill(b []byte) {
	s0, s1 := r.s0, r.s1
	var u uint64
	for len(b) >= 8 {
		s0, s1, u = step(s0, s1)
		binary.LittleEndian.PutUint64(b, u)
		b = b[8:]
	}
	if len(b) > 0 {
		s0, s1, u = step(s0, s1)
		var tail [8]byte
		binary.LittleEndian.PutUint64(tail[:], u)
		copy(b, tail[:])
	}
	r.s0, r.s1 = s0, s1
}

// FillUint64 sets dst to what len(dst) calls of Uint64 return.
func (r *RNG) FillUint64(dst []uint64) {
	s0, s1 := r.s0, r.s1
	var u uint64
	for i := range dst {
		s0, s1, u = step(s0, s1)
		dst[i] = u
	}
	r.s0, r.s1 = s0, s1
}

// FillFloat64 sets dst to what len(dst) calls of Float64 return.
func (r *RNG) FillFloat64(dst []float64) {
	s0, s1 := r.s0, r.s1
	var u uint64
	for i := range dst {
		s0, s1, u = step(s0, s1)
		dst[i] = unit64(u)
	}
	r.s0, r.s1 = s0, s1
}
