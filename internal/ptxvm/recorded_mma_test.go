package ptxvm

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"gpuemu/internal/ptx"
	"gpuemu/internal/testkit/recorded"
)

// This file implements products of matrices as an H200 computed them: tiles go through the fragments of mma.sync, as
// instructions.cu lays them out.

// tileRun executes mma.sync on recorded tiles, one a warp.
type tileRun struct {
	name           string // as it was recorded
	m, k           int
	a, b, d        string
	aRegs, bRegs   int
	per, width     int // elements in a register, and their bits
	prog           *Program
	size           int // of a register, bytes
	out            int // of an element of D
	aRaw, bRaw, cd []byte
}

// tileBatch is how many tiles a launch has.
const tileBatch = 64

var tileShape = regexp.MustCompile(`\.m(\d+)n8k(\d+)\.`)

// newTileRun makes the kernel for a recorded product.
func newTileRun(t *testing.T, name string) *tileRun {
	t.Helper()
	r := &tileRun{name: name, per: 1, size: 4, out: 4}
	shape := tileShape.FindStringSubmatch(name)
	r.m, _ = strconv.Atoi(shape[1])
	r.k, _ = strconv.Atoi(shape[2])
	var kinds []string
	for word := range strings.SplitSeq(name, ".") {
		if _, ok := recorded.Elements[word]; ok {
			kinds = append(kinds, word)
		}
	}
	r.d, r.a, r.b = kinds[0], kinds[1], kinds[2]
	r.width = int(recorded.Elements[r.a].Width)
	if r.width < 32 {
		r.per = 32 / r.width
	}
	switch r.d {
	case "f64":
		r.size, r.out = 8, 8
	case "f16":
		r.out = 2
	}
	r.aRegs, r.bRegs = r.m*r.k/32/r.per, 8*r.k/32/r.per
	f, err := ptx.Parse("mma.ptx", r.kernel())
	if err != nil {
		t.Fatal(err)
	}
	if r.prog, err = Load(f, ""); err != nil {
		t.Fatal(err)
	}
	r.aRaw, r.bRaw = make([]byte, tileBatch*32*r.aRegs*r.size), make([]byte, tileBatch*32*r.bRegs*r.size)
	r.cd = make([]byte, tileBatch*32*r.cRegs()*r.size)
	return r
}

// cRegs is how many registers of a lane hold C and D: two or four elements, two of 16 bits in one.
func (r *tileRun) cRegs() int { return r.m / 4 * r.out / r.size }

// kernel loads the registers of each lane, which lie side by side, multiplies, and stores D where C was.
func (r *tileRun) kernel() string {
	bits := 8 * r.size
	var s strings.Builder
	fmt.Fprintf(&s, ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u64 b, "+
		".param .u64 c)\n{\n.reg .b%d %%a<%d>, %%b<%d>, %%c<%d>;\n.reg .b64 %%p<9>;\n.reg .b32 %%i<4>;\n", bits, r.aRegs,
		r.bRegs, r.cRegs())
	s.WriteString("mov.u32 %i0, %tid.x; mov.u32 %i1, %ctaid.x; mad.lo.u32 %i0, %i1, 32, %i0;\n")
	vector := func(name string, n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf("%%%s%d", name, i))
		}
		return "{" + strings.Join(list, ", ") + "}"
	}
	for i, x := range []struct {
		name string
		n    int
	}{{"a", r.aRegs}, {"b", r.bRegs}, {"c", r.cRegs()}} {
		fmt.Fprintf(&s, "ld.param.u64 %%p%d, [%s]; mad.wide.u32 %%p%d, %%i0, %d, %%p%d;\n", i, x.name, i, x.n*r.size, i)
		for j := range x.n {
			fmt.Fprintf(&s, "ld.global.b%d %%%s%d, [%%p%d+%d];\n", bits, x.name, j, i, j*r.size)
		}
	}
	parts := strings.SplitN(r.name, ".", 3) // mma, shape, types
	fmt.Fprintf(&s, "mma.sync.aligned.%s.row.col.%s %s, %s, %s, %s;\n", parts[1], parts[2], vector("c", r.cRegs()),
		vector("a", r.aRegs), vector("b", r.bRegs), vector("c", r.cRegs()))
	for j := range r.cRegs() {
		fmt.Fprintf(&s, "st.global.b%d [%%p2+%d], %%c%d;\n", bits, j*r.size, j)
	}
	s.WriteString("ret;\n}\n")
	return s.String()
}

// packed is a register with elements of one line of a matrix: packed of instructions.cu.
func (r *tileRun) packed(seed, tile uint64, x, line, k int, format recorded.Class) (v uint64) {
	for j := range r.per {
		e := recorded.TileElement(seed, tile, x, line*r.k+k+j, k+j, format)
		v |= e & recorded.Low(uint(r.width)) << (j * r.width)
	}
	return v
}

// fill makes the fragments of one tile; slot is its place in the launch.
func (r *tileRun) fill(tile uint64, slot int) {
	seed := recorded.SeedOf(r.name)
	var seeds [3]uint64
	for x := range seeds {
		seeds[x] = recorded.TileSeed(seed, tile, x)
	}
	for lane := range 32 {
		group, in := lane>>2, lane&3
		for i := range r.aRegs {
			row, k := group, i*4*r.per+in*r.per
			if r.m == 16 {
				row, k = group+8*(i&1), (i>>1)*4*r.per+in*r.per
			}
			v := r.packed(seeds[0], tile, 0, row, k, recorded.Elements[r.a])
			putBytes(r.aRaw[((slot*32+lane)*r.aRegs+i)*r.size:], v, r.size)
		}
		for i := range r.bRegs {
			v := r.packed(seeds[1], tile, 1, group, i*4*r.per+in*r.per, recorded.Elements[r.b])
			putBytes(r.bRaw[((slot*32+lane)*r.bRegs+i)*r.size:], v, r.size)
		}
		for i := range r.m / 4 {
			v := recorded.TileElement(seeds[2], tile, 2, r.place(lane, i), 0, recorded.Elements[r.d])
			putBytes(r.cd[(slot*32+lane)*r.cRegs()*r.size+i*r.out:], v, r.out)
		}
	}
}

// place is where element i of a lane's C and D lies in the matrix, row by row.
func (r *tileRun) place(lane, i int) int { return (lane>>2+8*(i>>1))*8 + lane&3*2 + i&1 }

// digest is that of n tiles from the given one on.
func (r *tileRun) digest(t *testing.T, base, n int) string {
	h := sha256.New()
	matrix := make([]byte, r.m*8*r.out)
	for done := 0; done < n; done += tileBatch {
		count := min(tileBatch, n-done)
		for slot := range count {
			r.fill(uint64(base+done+slot), slot)
		}
		res, err := r.prog.Run(&Launch{Grid: Dim{count, 1, 1}, Block: Dim{32, 1, 1}, Workers: 1, Checks: NoChecks,
			Args: []Arg{{Name: "a", Buffer: r.aRaw}, {Name: "b", Buffer: r.bRaw}, {Name: "c", Buffer: r.cd}}})
		if err != nil || len(res.Findings) > 0 {
			t.Fatal(err, res)
		}
		for slot := range count {
			for lane := range 32 {
				for i := range r.m / 4 {
					copy(matrix[r.place(lane, i)*r.out:], r.cd[(slot*32+lane)*r.cRegs()*r.size+i*r.out:][:r.out])
				}
			}
			h.Write(matrix)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// TestRecordedProducts executes mma.sync on the recorded tiles and compares the results with the device, bit for bit.
// Without GPUEMU_SOAK it is the first block of them.
func TestRecordedProducts(t *testing.T) {
	r := recorded.Load(t)
	var count total
	t.Cleanup(func() { t.Logf("%d products, %d tiles equal the device's", count.forms, count.tuples) })
	slots := make(chan bool, runtime.GOMAXPROCS(0))
	seen := cover{}
	for _, p := range r.Products {
		if !strings.HasPrefix(p.Name, "mma.") {
			continue // wgmma takes B from shared memory
		}
		if strings.Contains(p.Name, ".b1.") {
			continue // single bits are refused
		}
		run := newTileRun(t, p.Name)
		for _, in := range run.prog.Kernel.Code {
			seen.add(in)
		}
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			slots <- true
			defer func() { <-slots }()
			tiles := 0
			for k, want := range p.Blocks {
				base, n := r.Tiles*(1<<k-1), r.Tiles<<k
				if base >= recorded.Soak(shortRecorded) {
					break
				}
				if got := run.digest(t, base, n); got != want {
					t.Errorf("block %d of tiles: digest %s, the device's is %s", k, got, want)
				}
				tiles += n
			}
			count.add(tiles)
		})
	}
	for i := range mmaRows {
		if list := seen.missing(&mmaRows[i]); len(list) > 0 && mmaRows[i].ops[0] == "mma" {
			t.Errorf("%s: no recording with %s", mmaRows[i].syntax, strings.Join(list, ", "))
		}
	}
}
