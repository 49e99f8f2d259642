package ptxvm

import (
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/ptx"
)

// TestBlockBounds: a kernel runs with blocks it was compiled for, and with no others.
func TestBlockBounds(t *testing.T) {
	for _, tt := range []struct {
		directives string
		block      Dim
		fault      string
	}{
		{"", Dim{1024, 1, 1}, ""},
		{".reqntid 128", Dim{128, 1, 1}, ""},
		{".reqntid 128", Dim{64, 1, 1}, "a block of 64,1,1 threads: the kernel was compiled for blocks of exactly 128,1,1"},
		{".reqntid 16, 8", Dim{16, 8, 1}, ""},
		{".reqntid 16, 8", Dim{128, 1, 1}, "exactly 16,8,1"},
		{".maxntid 64, 1, 1", Dim{8, 8, 1}, ""},
		{".maxntid 64, 1, 1", Dim{65, 1, 1}, "at most 64 threads"},
		{".maxntid 256 .minnctapersm 2", Dim{256, 1, 1}, ""},
	} {
		f, err := ptx.Parse("k.ptx", ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n"+tt.directives+
			"\n{\nret;\n}\n")
		if err != nil {
			t.Fatal(err)
		}
		p, err := Load(f, "k")
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Run(&Launch{Grid: line(1), Block: tt.block})
		switch {
		case tt.fault == "" && err != nil:
			t.Errorf("%s, block %v: %v", tt.directives, tt.block, err)
		case tt.fault != "" && (diag.CodeOf(err) != BadLaunch || !strings.Contains(err.Error(), tt.fault)):
			t.Errorf("%s, block %v: %v, want %q", tt.directives, tt.block, err, tt.fault)
		}
	}
}
