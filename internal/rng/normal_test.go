package rng

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"testing"

	"gpuemu/internal/testkit"
)

type normalBitsVector struct {
	Seed   testkit.U64    `json:"seed"`
	First  []testkit.Bits `json:"first"`
	Count  int            `json:"count"`
	SHA256 string         `json:"sha256"`
}

// TestNormalBits: normal variates are frozen to the last bit, and the Python package has the same ones. So many of them
// take every branch: some angles come close to a multiple of π/2.
func TestNormalBits(t *testing.T) {
	file := testkit.Read[struct {
		Format string             `json:"format"`
		Normal []normalBitsVector `json:"normal"`
	}](t, "rng/normal-v1.json")
	testkit.EachOf(t, "normal", file.Normal, func(t *testing.T, v normalBitsVector) {
		vals := make([]float64, v.Count)
		New(uint64(v.Seed)).FillNormal(vals)
		h := sha256.New()
		if err := binary.Write(h, binary.LittleEndian, vals); err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(h.Sum(nil)); got != v.SHA256 {
			t.Errorf("New(%d): SHA-256 of %d normal variates = %s, want %s", v.Seed, v.Count, got, v.SHA256)
		}
		for i, want := range v.First {
			if got := math.Float64bits(vals[i]); got != want.U {
				t.Errorf("New(%d): normal variate %d = 0x%016x, want %v", v.Seed, i, got, want)
			}
		}
	})
}
