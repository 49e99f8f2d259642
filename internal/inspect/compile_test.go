//go:build unix

package inspect

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"gpuemu/internal/cudatool"
)

// TestCompiledSource: what gpuemu.toml says of a source reaches the compiler, and a listing beside PTX is read.
func TestCompiledSource(t *testing.T) {
	cfg := project(t, map[string]string{"k.cu": "__global__", "k.ptx": module("k"),
		"k.sass": "\tcode for sm_80\n\t\tFunction : k\n        /*0000*/  EXIT ;\n",
		"gpuemu.toml": `
[[kernels]]
name = "k"
source = "k.cu"
arch = "sm_90a"
flags = ["-DTILE=64"]
[[kernels]]
name = "listed"
ptx = "k.ptx"
sass = "k.sass"
`})
	// It stands in for clang: its output is a kernel whose name is made of its arguments.
	script := `#!/bin/sh
for a; do
	case "$last" in -o) out="$a";; esac
	case "$a" in --cuda-gpu-arch=*) arch="${a#*=}";; -D*) define="${a#*=}";; esac
	last="$a"
done
printf '.version 8.0\n.target %s\n.visible .entry tile_%s() { ret; }\n' "$arch" "$define" > "$out"
`
	clang := filepath.Join(t.TempDir(), "clang")
	if err := os.WriteFile(clang, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	targets, err := Configured(cfg, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	looker := Looker{Tools: &cudatool.Tools{Clang: &cudatool.Tool{Name: "clang", Path: clang}}}
	doc, err := looker.Look(context.Background(), targets)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := labels(doc), "k=tile_64 listed=k"; got != want || len(doc.Unread) > 0 {
		t.Fatalf("kernels are %q, want %q; unread: %+v", got, want, doc.Unread)
	}
	if k := &doc.Kernels[0]; k.Arch != "sm_90a" || k.Metrics.Sources[0].File != "k.cu" {
		t.Errorf("the compiled kernel is %+v of %+v", k, k.Metrics.Sources)
	}
	if m := doc.Kernels[1].Metrics; m.PTXCode == nil || m.SASSCode == nil {
		t.Errorf("the listed kernel has PTX: %v, SASS: %v; want both", m.PTXCode != nil, m.SASSCode != nil)
	}
}
