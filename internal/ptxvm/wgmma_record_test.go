package ptxvm

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"gpuemu/internal/ptx"
)

// This file implements the comparison of wgmma and wmma with what an H200 computed. bench/device/wgmma.py says how the
// record is made.

// matrixRecord is testdata/vectors/ptx/wgmma-sm90.json.gz.
type matrixRecord struct {
	Blocks  int
	Modules []string
	Cases   []matrixCase
}

type matrixCase struct {
	Name    string
	Module  int
	Threads int
	Inputs  [][5]uint32 // and, or of even words, and, or of odd words; how many words
	Out     int         // words of results of a block
	SHA256  string
}

func readMatrixRecord(t *testing.T) *matrixRecord {
	t.Helper()
	f, err := os.Open("../../testdata/vectors/ptx/wgmma-sm90.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // read only
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var r matrixRecord
	if err := json.NewDecoder(z).Decode(&r); err != nil {
		t.Fatal(err)
	}
	return &r
}

// operands makes the words of all blocks: SplitMix64 from the FNV-1a of the name.
func (c *matrixCase) operands(blocks int) []byte {
	seed := uint64(0xcbf29ce484222325)
	for _, b := range []byte(c.Name) {
		seed = (seed ^ uint64(b)) * 0x100000001b3
	}
	var out []byte
	n := uint64(0)
	for range blocks {
		for _, in := range c.Inputs {
			for i := range in[4] {
				n++
				z := seed + n*0x9e3779b97f4a7c15
				z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
				z = (z ^ z>>27) * 0x94d049bb133111eb
				word := uint32((z^z>>31)>>32)&in[i%2*2] | in[i%2*2+1]
				out = binary.LittleEndian.AppendUint32(out, word)
			}
		}
	}
	return out
}

// TestRecordedMatrices runs the kernels of the record: every result has the bits that the H200 gave, and nothing is
// found. With -short it runs every fifth.
func TestRecordedMatrices(t *testing.T) {
	r := readMatrixRecord(t)
	files := make([]*ptx.File, len(r.Modules))
	for i, text := range r.Modules {
		f, err := ptx.Parse("wgmma.ptx", text)
		if err != nil {
			t.Fatal(err)
		}
		files[i] = f
	}
	for i := range r.Cases {
		c := &r.Cases[i]
		if testing.Short() && i%5 != 0 {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			p, err := Load(files[c.Module], c.Name)
			if err != nil {
				t.Fatal(err)
			}
			y := make([]byte, 4*c.Out*r.Blocks)
			silent(t, run(t, p, &Launch{Grid: line(r.Blocks), Block: line(c.Threads), MaxSteps: 1 << 22, Args: []Arg{
				{Name: "x", Buffer: c.operands(r.Blocks), Role: In}, {Name: "y", Buffer: y}}}))
			sum := sha256.Sum256(y)
			if got := hex.EncodeToString(sum[:8]); got != c.SHA256 {
				t.Errorf("results have the hash %s, those of the H200 %s", got, c.SHA256)
			}
		})
	}
}
