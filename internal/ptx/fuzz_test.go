package ptx

import (
	"errors"
	"testing"

	"gpuemu/internal/diag"
)

// FuzzParse: no input panics, every error has a place, and what parses can be printed and parsed again.
func FuzzParse(f *testing.F) {
	for path, src := range fixtures(f) {
		if len(src) < 20_000 {
			f.Add(src)
			continue
		}
		f.Logf("%s has %d bytes, too many for a seed", path, len(src))
	}
	f.Fuzz(func(t *testing.T, src string) {
		file, err := Parse("f.ptx", src)
		if err != nil {
			var e *diag.Error
			if !errors.As(err, &e) || e.Pos.Line < 1 || e.Pos.Col < 1 || e.Code == "" {
				t.Fatalf("an error without a place or a code: %v", err)
			}
			return
		}
		again, err := Parse("f.ptx", file.String())
		if err != nil {
			t.Fatalf("what is printed does not parse: %v\n%s", err, file.String())
		}
		if d := same(file, again); d != "" {
			t.Fatalf("parsing what is printed gives another tree: %s", d)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	files, size := fixtures(b), 0
	for _, src := range files {
		size += len(src)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		for path, src := range files {
			if _, err := Parse(path, src); err != nil {
				b.Fatal(err)
			}
		}
	}
}
