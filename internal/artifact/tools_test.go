//go:build unix

package artifact

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuemu/internal/cudatool"
	"gpuemu/internal/diag"
	"gpuemu/internal/testkit"
)

// standIn is a script that does what a program of CUDA would do.
func standIn(t *testing.T, name, script string) *cudatool.Tool {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return &cudatool.Tool{Name: name, Path: path}
}

// fixture is a file of testdata as a path that scripts can use.
func fixture(t *testing.T, parts ...string) string {
	t.Helper()
	return filepath.Join(append([]string{testkit.Root(t), "testdata"}, parts...)...)
}

// TestPipe: a pipe that nobody writes to is refused; opening it as other files are opened would never end.
func TestPipe(t *testing.T) {
	for _, name := range []string{"pipe.ptx", "pipe.cu"} {
		path := filepath.Join(t.TempDir(), name)
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := Load(context.Background(), path, Options{})
			done <- err
		}()
		select {
		case err := <-done:
			if diag.CodeOf(err) != Unreadable || !strings.Contains(err.Error(), "this is no regular file") {
				t.Errorf("Load(%s) = %v, want %s", name, err, Unreadable)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("Load(%s) waits for somebody to write", name)
		}
	}
}

// TestDisassembled: where cuobjdump is installed a cubin has its instructions, too, if that is asked for.
func TestDisassembled(t *testing.T) {
	path := fixture(t, "cubin", "nvcc-local-sm90-24regs.cubin")
	listing := fixture(t, "sass", "nvcc-local-sm90-24regs.nvdisasm.txt")
	for _, tt := range []struct {
		name   string
		tools  *cudatool.Tools
		ask    bool
		total  int // instructions of spill_none
		caveat string
	}{
		{"asked for", &cudatool.Tools{Cuobjdump: standIn(t, "cuobjdump", `cat "`+listing+`"`)}, true, 283, ""},
		{"not asked for", &cudatool.Tools{Cuobjdump: standIn(t, "cuobjdump", `cat "`+listing+`"`)}, false, 0, ""},
		{"not installed", &cudatool.Tools{}, true, 0, ""},
		{"it fails", &cudatool.Tools{Cuobjdump: standIn(t, "cuobjdump", "echo cannot >&2; exit 1")}, true, 0,
			"instructions of the machine are not known: cuobjdump: cannot [cudatool-refused]"},
		{"it prints something else", &cudatool.Tools{Cuobjdump: standIn(t, "cuobjdump", "echo hello")}, true, 0,
			"no function in it"},
	} {
		f, err := Load(context.Background(), path,
			Options{Tools: func() *cudatool.Tools { return tt.tools }, Disassemble: tt.ask})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		m := one(t, f, "spill_none")
		total := 0
		if m.SASSCode != nil {
			total = m.SASSCode.Total
			check(t, tt.name+": places", len(m.SASSCode.Mnemonics[0].Places), 0)
			check(t, tt.name+": the place", m.Sources[1].Place, Place{})
		}
		notes := strings.Join(m.Notes, " ")
		if total != tt.total || m.Registers.Value != 80 || (notes == "") != (tt.caveat == "") ||
			!strings.Contains(notes, tt.caveat) {
			t.Errorf("%s: %d instructions and the notes %q, want %d and %q", tt.name, total, notes, tt.total, tt.caveat)
		}
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	tools := func() *cudatool.Tools { return &cudatool.Tools{Cuobjdump: standIn(t, "cuobjdump", "exit 1")} }
	if _, err := Load(cancelled, path, Options{Tools: tools, Disassemble: true}); err != context.Canceled {
		t.Errorf("when it is not wanted any more: %v", err)
	}
}

// TestCompiledByNVCC: a source has the figures of PTX, cubin, listing and of what ptxas said.
func TestCompiledByNVCC(t *testing.T) {
	text := fixture(t, "ptx", "nvcc13", "local-sm90-24regs.ptx")
	machine := fixture(t, "cubin", "nvcc-local-sm90-24regs.cubin")
	listing := fixture(t, "sass", "nvcc-local-sm90-24regs.nvdisasm.txt")
	script := `for a; do case "$last" in -o) out="$a";; esac; last="$a"; done
case "$out" in
*.ptx) cat "` + text + `" > "$out";;
*) cat "` + machine + `" > "$out"; echo "ptxas info : ok" >&2;;
esac`
	tools := &cudatool.Tools{NVCC: standIn(t, "nvcc", script), Cuobjdump: standIn(t, "cuobjdump", `cat "`+listing+`"`)}
	path := filepath.Join(t.TempDir(), "local.cu")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Load(context.Background(), path,
		Options{Tools: func() *cudatool.Tools { return tools }, Arch: "sm_90", Disassemble: true})
	if err != nil {
		t.Fatal(err)
	}
	m := one(t, f, "spill_96")
	check(t, "the format", f.Format, FormatSource)
	check(t, "the log", f.Log, "ptxas info : ok\n")
	check(t, "registers", m.Registers, figure(32, FromCubin))
	check(t, "spills", m.Spills(), figure(1536, FromCubin))
	var kinds []SourceKind
	for _, s := range m.Sources {
		kinds = append(kinds, s.Kind)
		check(t, "the file", s.File, path)
		check(t, "the line", s.Line, 0)
	}
	check(t, "the sources", kinds, []SourceKind{PTX, Cubin, SASS})
	tools.NVCC = standIn(t, "nvcc", `for a; do case "$last" in -o) echo nonsense > "$a";; esac; last="$a"; done`)
	_, err = Load(context.Background(), path, Options{Tools: func() *cudatool.Tools { return tools }})
	if err == nil || !strings.Contains(err.Error(), "local.cu: what nvcc wrote is no ptx") {
		t.Errorf("a compiler that writes nonsense: %v", err)
	}
}

// ptxasLog is what ptxas 12 and 13 print with -v: one kernel that calls nothing and spills, one without a stack.
const ptxasLog = `ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'spilling' for 'sm_80'
ptxas info    : Function properties for spilling
    424 bytes stack frame, 768 bytes spill stores, 764 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 424 bytes cumulative stack size, 16 bytes smem, 376 bytes cmem[0]
ptxas info    : Compiling entry function 'plain' for 'sm_80'
ptxas info    : Function properties for plain
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, 360 bytes cmem[0]
ptxas info    : Function properties for helper
    8 bytes stack frame, 99999999999999999999 bytes spill stores, 0 bytes spill loads
`

func TestPtxasLog(t *testing.T) {
	said := readPtxas("nvcc warning: Used 7 registers\n" + ptxasLog)
	m := record("spilling", "sm_80", PTX, Cubin)
	m.Registers, m.Stack = figure(31, FromCubin), figure(400, Estimated)
	m.fill(said["spilling"])
	check(t, "registers, which the cubin knows", m.Registers, figure(31, FromCubin))
	check(t, "stack", m.Stack, figure(424, FromPtxas))
	check(t, "spills", m.Spills(), figure(768+764, FromPtxas))
	plain := record("plain", "sm_80", PTX)
	plain.fill(said["plain"])
	check(t, "registers", plain.Registers, figure(10, FromPtxas))
	check(t, "stack of plain", plain.Stack, figure(0, FromPtxas))
	helper := record("helper", "sm_80", PTX)
	helper.fill(said["helper"])
	check(t, "registers of helper", helper.Registers, nil)
	check(t, "stack of helper", helper.Stack, nil)
	check(t, "beyond all sizes", helper.SpillStores, figure(maxBytes, FromPtxas))
	unknown := record("other", "sm_80", PTX)
	unknown.fill(said["other"])
	check(t, "what it did not say", unknown.Spills(), nil)
	if _, ok := said[""]; ok {
		t.Error("figures without a function are kept")
	}
}

// TestRealNVCC: what is installed of CUDA makes a record with every figure that a stand-in gives.
func TestRealNVCC(t *testing.T) {
	tools := cudatool.Find(context.Background())
	if tools.NVCC == nil || tools.Cuobjdump == nil {
		t.Skip("nvcc or cuobjdump is not installed (CUDA)")
	}
	get := func() *cudatool.Tools { return tools }
	f, err := Load(context.Background(), fixture(t, "kernels", "cuda", "local.cu"),
		Options{Tools: get, Arch: "sm_90", Disassemble: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.Kernels {
		m := &f.Kernels[i]
		said := readPtxas(f.Log)[m.Kernel]
		if len(m.Sources) != 3 || m.PTXCode == nil || m.SASSCode == nil || m.Registers.Origin != FromCubin ||
			said.registers == nil || *said.registers != m.Registers.Value || said.spillLoads == nil ||
			*said.spillLoads+*said.spillStores != m.Spills().Value || len(m.Notes) > 0 || m.Sources[0].SourceLine == 0 {
			t.Errorf("%s is %+v, ptxas said %+v", m.Kernel, m, said)
		}
	}
	if len(f.Kernels) < 4 || one(t, f, "spill_96").Spills().Value == 0 {
		t.Errorf("%d kernels, or spill_96 does not spill", len(f.Kernels))
	}
	wrong := filepath.Join(t.TempDir(), "wrong.cu")
	if err := os.WriteFile(wrong, []byte("__global__ void k( {}"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Load(context.Background(), wrong, Options{Tools: get})
	if diag.CodeOf(err) != cudatool.Refused || !strings.Contains(err.Error(), "wrong.cu(1): error") {
		t.Errorf("a wrong source: %v", err)
	}
}
