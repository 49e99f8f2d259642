package cubin

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"sync"
	"testing"
	"time"

	"gpuemu/internal/testkit"
)

// Limits per mutated input. A fixture is read in far less than a millisecond; the rest is for a busy machine and for
// the collector of garbage. What images unpack to is limited by what they were packed in, by a factor of 255 for LZ4;
// of the fixtures the largest has 100 KiB.
const (
	soakTime   = 2 * time.Second
	soakMemory = 64 << 20
)

// fixture is a file to mutate, with the places where a change goes deep.
type fixture struct {
	name string
	data []byte
	hot  [][2]int // from, to
}

// fixtures are the files of this package and those of testdata/cubin.
func fixtures(t testing.TB) []fixture {
	t.Helper()
	var list []fixture
	for _, dir := range []string{"testdata", filepath.Join(testkit.Root(t), "testdata", "cubin")} {
		for _, pattern := range []string{"*.cubin", "*.fatbin", "*.o", "*.so"} {
			names, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil || len(names) == 0 {
				t.Fatalf("no fixture %s in %s: %v", pattern, dir, err)
			}
			for _, name := range names {
				data, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, fixture{filepath.Base(name), data, hotRanges(t, name, data)})
			}
		}
	}
	return list
}

// hotRanges are headers, tables and records: most of a file is code, in which a change does nothing.
func hotRanges(t testing.TB, name string, data []byte) [][2]int {
	t.Helper()
	hot := [][2]int{{0, 80}}
	if string(data[:4]) == elfMagic {
		f, err := parseELF(source{}, data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		table := int(binary.LittleEndian.Uint64(data[40:]))
		hot = append(hot, [2]int{table, table + 64*len(f.sections)})
		for _, s := range f.sections {
			if s.kind >= 0x70000000 || s.kind == sectionSymbols || s.kind == 3 && len(s.name) > 4 {
				hot = append(hot, [2]int{int(s.offset), min(len(data), int(s.offset+s.size))})
			}
		}
	}
	for at := 0; at+fatbinHeader < len(data); at += 8 { // headers of fatbins, and of their first images
		if binary.LittleEndian.Uint32(data[at:]) == fatbinMagic {
			hot = append(hot, [2]int{at, min(len(data), at+fatbinHeader+entryHeader)})
		}
	}
	return hot
}

// extremes are values that lengths, counts and offsets must survive.
var extremes = []uint64{0, 1, 2, 3, 4, 7, 8, 63, 64, 65, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0xffff, 0x10000,
	0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, 1<<63 - 1, 1 << 63, 1<<64 - 1, 1<<64 - 64}

// mutate changes a copy of the fixture, in buf, at one to eight places.
func mutate(r *rand.Rand, all []fixture, buf []byte) ([]byte, string) {
	f := &all[r.IntN(len(all))]
	data := append(buf[:0], f.data...)
	for n := 1 + r.IntN(8); n > 0 && len(data) > 8; n-- {
		at := r.IntN(len(data))
		if r.IntN(4) > 0 {
			hot := f.hot[r.IntN(len(f.hot))]
			if hot[1] > hot[0] {
				at = min(len(data)-1, hot[0]+r.IntN(hot[1]-hot[0]))
			}
		}
		switch r.IntN(8) {
		case 0:
			data[at] ^= 1 << r.IntN(8)
		case 1:
			data[at] = byte(r.Uint32())
		case 2, 3, 4:
			var field [8]byte
			value := extremes[r.IntN(len(extremes))]
			switch r.IntN(4) {
			case 0:
				value = uint64(len(data)) + r.Uint64N(17) - 8
			case 1:
				value = r.Uint64N(uint64(len(data)))
			}
			binary.LittleEndian.PutUint64(field[:], value)
			copy(data[at&^(1<<r.IntN(4)-1):], field[:1<<r.IntN(4)])
		case 5: // a piece of another file
			other := all[r.IntN(len(all))].data
			from := r.IntN(len(other))
			copy(data[at:], other[from:min(len(other), from+1+r.IntN(256))])
		case 6: // a piece of this file, moved
			from := r.IntN(len(data))
			copy(data[at:], data[from:min(len(data), from+1+r.IntN(256))])
		case 7:
			if r.IntN(4) == 0 { // not too often: little is left of a short file
				data = data[:at]
			}
		}
	}
	return data, f.name
}

// TestMutatedImages reads damaged files: none may make the reader panic, hang or use much memory. GPUEMU_SOAK is the
// number of inputs, all with the same seed: make soak-parsers.
func TestMutatedImages(t *testing.T) {
	count := testkit.Soak(t, 20_000)
	all := fixtures(t)
	workers := runtime.GOMAXPROCS(0)
	var group sync.WaitGroup
	var mu sync.Mutex
	accepted, start := 0, time.Now()
	for w := range workers {
		group.Go(func() {
			n := soak(t, all, uint64(w), count/workers+1)
			mu.Lock()
			accepted += n
			mu.Unlock()
		})
	}
	group.Wait()
	t.Logf("%d inputs in %v, %d of them accepted", count, time.Since(start).Round(time.Millisecond), accepted)
	if accepted == 0 || accepted == count {
		t.Errorf("%d of %d damaged files were accepted: the mutations are not what they should be", accepted, count)
	}
}

// soak reads count mutated inputs and returns how many were accepted.
func soak(t *testing.T, all []fixture, stream uint64, count int) (accepted int) {
	r := rand.New(rand.NewPCG(1, stream))
	var buf []byte
	allocated := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	for i := range count {
		input, name := mutate(r, all, buf)
		buf = input
		metrics.Read(allocated)
		before, start := allocated[0].Value.Uint64(), time.Now()
		_, err := Read("k.bin", input)
		took := time.Since(start)
		metrics.Read(allocated)
		used := allocated[0].Value.Uint64() - before
		if took > soakTime || used > soakMemory {
			t.Errorf("stream %d, input %d (%s): reading %d bytes took %v and %d bytes of memory", stream, i, name, len(input),
				took, used)
			return accepted
		}
		if err == nil {
			accepted++
		} else if !isUserError(err) {
			t.Errorf("stream %d, input %d (%s): error without file, code or hint, or too long: %v", stream, i, name, err)
			return accepted
		}
	}
	return accepted
}

func FuzzRead(f *testing.F) {
	for _, data := range tinyFiles(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Read("k.bin", data)
		if err != nil {
			checkUserError(t, err)
			return
		}
		if len(file.Images) == 0 {
			t.Fatal("no images and no error")
		}
		for _, img := range file.Images {
			if img.Kind == 0 || img.Arch == "" || img.Offset < 0 || img.Offset > len(data) {
				t.Fatalf("image without a kind, an architecture or a place: %+v", img)
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	data := testFile(b, "sm80-13.2.cubin")
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Read("k.cubin", data); err != nil {
			b.Fatal(err)
		}
	}
}
