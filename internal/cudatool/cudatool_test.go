//go:build unix

package cudatool

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuemu/internal/diag"
)

// program writes a shell script that stands in for one of NVIDIA's programs.
func program(t *testing.T, dir, name, body string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// source writes a file to compile.
func source(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "k.cu")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// temporary makes a private directory the one for temporary files and returns what is left in it.
func temporary(t *testing.T) func() []string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	return func() []string {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
}

// writesOutput is a script that writes its arguments to the file behind -o.
const writesOutput = `for a; do if [ "$last" = "-o" ]; then out="$a"; fi; last="$a"; done
echo "$(basename "$0") $*" > "$out"; pwd >> "$out"; echo noted >&2`

func TestDirs(t *testing.T) {
	env := map[string]string{"PATH": "/one:relative::/two", "CUDA_HOME": "/opt/cuda", "CUDA_PATH": "/other"}
	got := Dirs(func(name string) string { return env[name] })
	want := []string{"/one", "/two", "/opt/cuda/bin", "/other/bin", "/usr/local/cuda/bin"}
	if !slices.Equal(got, want) {
		t.Errorf("Dirs = %q, want %q", got, want)
	}
}

func TestFind(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	program(t, two, "nvcc", `echo "nvcc: NVIDIA (R) Cuda compiler driver
Cuda compilation tools, release 13.0, V13.0.88"`)
	program(t, one, "clang-9", `echo "clang version 9.0.1"`)
	program(t, one, "clang-14", `echo "Debian clang version 14.0.6"`)
	program(t, two, "clang-19", `echo "Debian clang version 19.1.7 (3+b1)"`)
	program(t, one, "clang-99x", `echo "clang version 99"`)
	program(t, one, "ptxas", "exit 1")
	if err := os.WriteFile(filepath.Join(one, "cuobjdump"), nil, 0o600); err != nil { // cannot be executed
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(one, "nvdisasm"), 0o700); err != nil {
		t.Fatal(err)
	}
	dirs := []string{one, filepath.Join(one, "missing"), two}
	tools := FindIn(context.Background(), dirs)
	var got []string
	for _, tool := range tools.List() {
		got = append(got, tool.Name+" "+filepath.Base(tool.Path)+" "+tool.Version+" "+strconv.Itoa(tool.Major()))
	}
	want := []string{"nvcc nvcc 13.0 13", "clang clang-19 19.1.7 19", "ptxas ptxas  0"}
	if !slices.Equal(got, want) {
		t.Errorf("FindIn = %q, want %q", got, want)
	}
	program(t, two, "clang", `echo "clang version 16.0.6"`) // the plain name is what the user chose
	if tools := FindIn(context.Background(), dirs); tools.Clang.Version != "16.0.6" {
		t.Errorf("with clang there, %+v is chosen", tools.Clang)
	}
}

func TestNVCC(t *testing.T) {
	left := temporary(t)
	tools := &Tools{NVCC: &Tool{Name: "nvcc", Path: program(t, t.TempDir(), "nvcc", writesOutput)}}
	path := source(t, "")
	request := Request{Source: path, Arch: "sm_90a", Flags: []string{"-DX=1", "-I", "a b"}}
	out, err := tools.Compile(context.Background(), request)
	if err != nil {
		t.Fatal(err)
	}
	dir, _ := filepath.EvalSymlinks(filepath.Dir(path))
	for _, tt := range []struct{ got, form, name, last string }{
		{string(out.PTX), "-ptx", "out.ptx", ""}, {string(out.Cubin), "-cubin", "out.cubin", " -Xptxas -v"},
	} {
		command, where, _ := strings.Cut(tt.got, "\n")
		if !strings.HasPrefix(command, "nvcc -arch=sm_90a -lineinfo "+tt.form+" -o ") ||
			!strings.HasSuffix(command, "/"+tt.name+" ./k.cu -DX=1 -I a b"+tt.last) || strings.TrimSpace(where) != dir {
			t.Errorf("nvcc was called as %q in %q", command, where)
		}
	}
	if out.Log != "noted\nnoted\n" {
		t.Errorf("the log is %q", out.Log)
	}
	if want := tools.NVCC.Path + " -arch=sm_90a -lineinfo -ptx -o out.ptx ./k.cu -DX=1 -I 'a b'"; out.Command != want {
		t.Errorf("the command is %q, want %q", out.Command, want)
	}
	if names := left(); len(names) > 0 {
		t.Errorf("temporary files are left: %q", names)
	}
}

func TestClangAndPtxas(t *testing.T) {
	left := temporary(t)
	dir := t.TempDir()
	tools := &Tools{
		Clang: &Tool{Name: "clang", Path: program(t, dir, "clang", writesOutput), Version: "19.1.7"},
		Ptxas: &Tool{Name: "ptxas", Path: program(t, dir, "ptxas", writesOutput)},
	}
	out, err := tools.Compile(context.Background(), Request{Source: source(t, "")})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--cuda-gpu-arch=sm_80", "--cuda-feature=+ptx83", "-nocudainc", "-include gpuemu_cuda.h",
		" ./k.cu -o "} {
		if !strings.Contains(string(out.PTX), want) {
			t.Errorf("clang was called as %q, without %q", out.PTX, want)
		}
	}
	if called := string(out.Cubin); !strings.HasPrefix(called, "ptxas -v -arch=sm_80 -o ") ||
		!strings.Contains(called, "/out.ptx\n") {
		t.Errorf("ptxas was called as %q", out.Cubin)
	}
	if out.Compiler.Name != "clang" {
		t.Errorf("the compiler is %+v", out.Compiler)
	}
	if names := left(); len(names) > 0 {
		t.Errorf("temporary files are left: %q", names)
	}
}

func TestClangFeature(t *testing.T) {
	for _, tt := range []struct {
		major int
		want  string
	}{
		{0, ""}, {13, ""}, {14, "-Xclang -target-feature -Xclang +ptx75"}, {16, "--cuda-feature=+ptx78"},
		{19, "--cuda-feature=+ptx83"}, {22, "--cuda-feature=+ptx88"}, {30, "--cuda-feature=+ptx88"},
	} {
		if got := strings.Join(clangFeature(tt.major), " "); got != tt.want {
			t.Errorf("clangFeature(%d) = %q, want %q", tt.major, got, tt.want)
		}
	}
}

// TestOwnDeclarations: a source that does not go together with our header is compiled without it; if it is wrong all
// the same, the messages are those of the first call.
func TestOwnDeclarations(t *testing.T) {
	const refuses = `case "$*" in *gpuemu_cuda.h*) echo "k.cu:1: redefinition" >&2; exit 1;; esac` + "\n"
	tools := &Tools{Clang: &Tool{Name: "clang", Path: program(t, t.TempDir(), "clang", refuses+writesOutput)}}
	out, err := tools.Compile(context.Background(), Request{Source: source(t, "")})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(out.PTX), "gpuemu_cuda.h") || out.Log != "noted\n" ||
		strings.Contains(out.Command, "gpuemu_cuda") {
		t.Errorf("it was compiled as %q with the log %q", out.PTX, out.Log)
	}
	tools.Clang.Path = program(t, t.TempDir(), "clang", refuses+`echo "k.cu:2: unknown type" >&2; exit 1`)
	_, err = tools.Compile(context.Background(), Request{Source: source(t, "")})
	if diag.CodeOf(err) != Refused || !strings.Contains(err.Error(), "k.cu:1: redefinition") ||
		strings.Contains(err.Error(), "unknown type") || !strings.Contains(diag.HintOf(err), "install nvcc") {
		t.Errorf("Compile = %v (%s)", err, diag.HintOf(err))
	}
}

// old is a compiler that knows architectures up to sm_86, as clang 14 does, and one that only some devices have.
const old = `case "$*" in
*--print-supported-cpus*) printf 'Available CPUs:\n\n\tsm_20\n\tsm_75\n\tsm_80\n\tsm_86\n\tsm_87a\n' >&2; exit 0 ;;
*--list-gpu-code*) printf 'sm_75\nsm_80\nsm_86\n'; exit 0 ;;
*arch=sm_80* | *arch=sm_86*) ;;
*) echo "$(basename "$0"): error: unsupported CUDA gpu architecture" >&2; exit 1 ;;
esac
case "$*" in *-DWRONG*) echo "k.cu:1: error: wrong" >&2; exit 1 ;; esac
` + writesOutput

// TestUnknownArchitecture: a compiler that does not know an architecture compiles PTX for one that it knows; machine
// code is not for another architecture than the one asked for.
func TestUnknownArchitecture(t *testing.T) {
	left := temporary(t)
	dir := t.TempDir()
	clang := &Tools{Clang: &Tool{Name: "clang", Path: program(t, dir, "clang", old), Version: "14.0.6"}}
	nvcc := &Tools{NVCC: &Tool{Name: "nvcc", Path: program(t, dir, "nvcc", old), Version: "11.1"}}
	path := source(t, "")
	for _, tt := range []struct {
		name    string
		tools   *Tools
		request Request
		arch    string // that it is compiled for; "": it is refused
		says    string // in the log, or in the error and its hint
	}{
		{"known", clang, Request{Arch: "sm_86", TextOnly: true}, "sm_86", "noted\n"},
		{"newer", clang, Request{Arch: "sm_90", TextOnly: true}, "sm_86",
			"compiled for sm_86: clang 14.0.6 does not know sm_90\n"},
		{"newer, nvcc", nvcc, Request{Arch: "sm_100a", TextOnly: true}, "sm_86",
			"compiled for sm_86: nvcc 11.1 does not know sm_100a\n"},
		{"machine code", clang, Request{Arch: "sm_90"}, "",
			"clang 14.0.6 does not know sm_90: ask for sm_86, or install a newer compiler"},
		{"a wrong source", clang, Request{Arch: "sm_90", TextOnly: true, Flags: []string{"-DWRONG"}}, "",
			"k.cu:1: error: wrong"},
		{"a wrong source, known", clang, Request{Flags: []string{"-DWRONG"}}, "", "k.cu:1: error: wrong"},
	} {
		tt.request.Source = path
		out, err := tt.tools.Compile(context.Background(), tt.request)
		switch {
		case tt.arch == "":
			if diag.CodeOf(err) != Refused || !strings.Contains(err.Error()+diag.HintOf(err), tt.says) {
				t.Errorf("%s: %v (%s), want %s with %q", tt.name, err, diag.HintOf(err), Refused, tt.says)
			}
		case err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case !strings.Contains(string(out.PTX), "arch="+tt.arch+" ") || !strings.HasPrefix(out.Log, tt.says) ||
			!strings.Contains(out.Command, "arch="+tt.arch+" "):
			t.Errorf("%s: called as %q with the log %q", tt.name, out.PTX, out.Log)
		}
	}
	if names := left(); len(names) > 0 {
		t.Errorf("temporary files are left: %q", names)
	}
}

func TestNearest(t *testing.T) {
	for _, tt := range []struct {
		asked, known, want string
	}{
		{"sm_90", "", "sm_90"},
		{"sm_90a", "sm_80 sm_90 sm_90a sm_100", "sm_90a"},
		{"sm_90a", "sm_90 sm_80 sm_100", "sm_90"},
		{"sm_100", "sm_80 sm_90 sm_120", "sm_90"},
		{"sm_90", "sm_86 sm_90a", "sm_86"},
		{"sm_80", "sm_90 sm_87a sm_89", "sm_89"}, // support for older ones has ended
	} {
		if got := nearest(tt.asked, strings.Fields(tt.known)); got != tt.want {
			t.Errorf("nearest(%s, %s) = %s, want %s", tt.asked, tt.known, got, tt.want)
		}
	}
}

func TestCompileFails(t *testing.T) {
	left := temporary(t)
	path := source(t, "")
	many := "for i in 1 2 3 4 5 6 7 8 9; do echo line $i >&2; done; exit 2"
	for _, tt := range []struct {
		name, script string
		request      Request
		code         diag.Code
		says, not    string
	}{
		{"its own messages", "echo 'k.cu(3): error: no' >&2; exit 2", Request{Source: path}, Refused,
			"k.cu: nvcc: k.cu(3): error: no", ""},
		{"on standard output", "echo sorry; exit 1", Request{Source: path}, Refused, "nvcc: sorry", ""},
		{"the first lines", many, Request{Source: path}, Refused, "line 6\n…", "line 7"},
		{"behind warnings", "echo 'k.cu(1): warning: hm' >&2; echo 'k.cu(3): error: no' >&2; exit 2", Request{Source: path},
			Refused, "nvcc: k.cu(3): error: no", "hm"},
		{"no message", "exit 7", Request{Source: path}, Refused, "exit status 7 without a message", ""},
		{"a long line", "head -c 100000 /dev/zero | tr '\\0' x >&2; exit 1", Request{Source: path}, Refused, "xxx…", ""},
		{"no output", "exit 0", Request{Source: path}, Broken, "nvcc ended well and wrote no output", ""},
		{"killed", "kill -9 $$", Request{Source: path}, Broken, "signal: killed", ""},
		{"architecture", writesOutput, Request{Source: path, Arch: "90; rm"}, BadArch, `"90; rm" is no architecture`, ""},
		{"no source", writesOutput, Request{Source: path + "x"}, NoSource, "no such file", ""},
		{"a directory", writesOutput, Request{Source: filepath.Dir(path)}, NoSource, "no regular file", ""},
		{"flags", writesOutput, Request{Source: path, Flags: make([]string, maxFlags+1)}, Limit, "1001 arguments", ""},
	} {
		tools := &Tools{NVCC: &Tool{Name: "nvcc", Path: program(t, t.TempDir(), "nvcc", tt.script)}}
		_, err := tools.Compile(context.Background(), tt.request)
		if diag.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.says) ||
			tt.not != "" && strings.Contains(err.Error(), tt.not) {
			t.Errorf("%s: %.300v, want %s with %q", tt.name, err, tt.code, tt.says)
		}
		if len(err.Error()) > shownBytes+200 {
			t.Errorf("%s: the error has %d bytes", tt.name, len(err.Error()))
		}
	}
	if names := left(); len(names) > 0 {
		t.Errorf("temporary files are left: %q", names)
	}
}

func TestMissing(t *testing.T) {
	ctx := context.Background()
	_, compile := new(Tools).Compile(ctx, Request{Source: source(t, "")})
	_, _, assemble := new(Tools).Assemble(ctx, nil, "sm_80")
	_, disassemble := new(Tools).Disassemble(ctx, nil)
	for _, tt := range []struct {
		err  error
		says string
	}{
		{compile, "cannot compile here: neither nvcc nor clang was found"},
		{assemble, "cannot assemble here: ptxas was not found"},
		{disassemble, "cannot disassemble here: neither cuobjdump nor nvdisasm was found"},
	} {
		if diag.CodeOf(tt.err) != Missing || !strings.Contains(tt.err.Error(), tt.says) || diag.HintOf(tt.err) == "" {
			t.Errorf("%v (%s), want %s with %q and a hint", tt.err, diag.HintOf(tt.err), Missing, tt.says)
		}
	}
}

func TestDisassembleAndAssemble(t *testing.T) {
	left := temporary(t)
	dir, ctx := t.TempDir(), context.Background()
	tools := &Tools{
		Cuobjdump: &Tool{Name: "cuobjdump", Path: program(t, dir, "cuobjdump", `echo "cuobjdump $1"; cat "$2"`)},
		Nvdisasm:  &Tool{Name: "nvdisasm", Path: program(t, dir, "nvdisasm", `echo nvdisasm; cat "$1"`)},
		Ptxas:     &Tool{Name: "ptxas", Path: program(t, dir, "ptxas", `echo "ptxas info" >&2; cat "$5" > "$4"`)},
	}
	if got, err := tools.Disassemble(ctx, []byte("code")); err != nil || got != "cuobjdump -sass\ncode" {
		t.Errorf("Disassemble = %q, %v", got, err)
	}
	tools.Cuobjdump = nil
	if got, err := tools.Disassemble(ctx, []byte("code")); err != nil || got != "nvdisasm\ncode" {
		t.Errorf("Disassemble = %q, %v", got, err)
	}
	cubin, log, err := tools.Assemble(ctx, []byte("text"), "sm_90a")
	if err != nil || string(cubin) != "text" || log != "ptxas info\n" {
		t.Errorf("Assemble = %q, %q, %v", cubin, log, err)
	}
	if _, _, err := tools.Assemble(ctx, nil, "x"); diag.CodeOf(err) != BadArch {
		t.Errorf("Assemble for x = %v", err)
	}
	if names := left(); len(names) > 0 {
		t.Errorf("temporary files are left: %q", names)
	}
}

// TestStopped: a program that takes too long, prints too much or is not wanted any more is ended with its children.
func TestStopped(t *testing.T) {
	dir := t.TempDir()
	child := filepath.Join(dir, "child")
	// The script waits for a child that notes its process id.
	waits := program(t, dir, "waits",
		`sh -c 'echo $$ > `+child+`.new; mv `+child+`.new `+child+`; exec sleep 1000' & wait`)
	floods := program(t, dir, "floods", `yes & echo $! > `+child+`; wait`)
	cancelled, cancel := context.WithCancelCause(context.Background())
	mine := errors.New("mine")
	defer cancel(mine)
	for _, tt := range []struct {
		name string
		ctx  context.Context
		call call
		want func(error) bool
	}{
		{"too long", context.Background(), call{path: waits, limit: time.Second},
			func(err error) bool {
				return diag.CodeOf(err) == TimedOut && strings.Contains(err.Error(), "within 1s")
			}},
		{"too much", context.Background(), call{path: floods, limit: time.Minute, most: 1 << 20},
			func(err error) bool {
				return diag.CodeOf(err) == Limit && strings.Contains(err.Error(), "floods printed more than 1048576 bytes")
			}},
		{"not wanted", cancelled, call{path: waits, limit: time.Minute},
			func(err error) bool { return errors.Is(err, mine) }},
	} {
		if err := os.RemoveAll(child); err != nil {
			t.Fatal(err)
		}
		if tt.ctx == cancelled {
			go func() {
				awaitFile(child)
				cancel(mine)
			}()
		}
		began := time.Now()
		out, err := run(tt.ctx, tt.call)
		if !tt.want(err) || time.Since(began) > 30*time.Second {
			t.Errorf("%s: %v after %v", tt.name, err, time.Since(began))
		}
		if tt.call.most > 0 && len(out.stdout) > tt.call.most {
			t.Errorf("%s: %d bytes were kept", tt.name, len(out.stdout))
		}
		text, err := os.ReadFile(child)
		if err != nil {
			t.Fatalf("%s: the child did not start: %v", tt.name, err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		if !gone(pid) {
			t.Errorf("%s: the child %d still runs", tt.name, pid)
		}
	}
}

// awaitFile returns when the file exists, or after ten seconds.
func awaitFile(path string) {
	for range 1000 {
		if _, err := os.Stat(path); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// gone waits up to ten seconds for the end of a process that nobody of us reaps.
func gone(pid int) bool {
	for range 1000 {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || zombie(pid) {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

// zombie reports whether a process has ended and was not reaped: in a container there may be nobody who does.
func zombie(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(rest, "Z")
}

// TestRealClang compiles with every clang that is installed.
func TestRealClang(t *testing.T) {
	const text = `#include <cuda_runtime.h>
template <class T> __device__ T twice(T x) { return x + x; }
extern "C" __global__ void __launch_bounds__(256) k(float *out, const float4 *in, unsigned *count, int n) {
  extern __shared__ float tile[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 v = i < n ? __ldg(in + i) : make_float4(0, 0, 0, -INFINITY);
  float m = fmaxf(v.x, max(v.y, v.z));
  for (int lane = 16; lane > 0; lane /= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, lane));
  tile[threadIdx.x] = expf(m) / sqrtf(v.w);
  __syncthreads();
  if (i < n) out[i] = twice(tile[min(threadIdx.x + 1, blockDim.x - 1)]);
  if (threadIdx.x == 0) atomicAdd(count, 1u);
  assert(n > 0);
}
`
	found := 0
	for _, name := range []string{"clang", "clang-14", "clang-16", "clang-19", "clang-22"} {
		tool := look(context.Background(), Dirs(os.Getenv), name)
		if tool == nil || tool.Major() < 14 {
			continue
		}
		found++
		t.Run(name, func(t *testing.T) {
			path := source(t, text)
			out, err := (&Tools{Clang: tool}).Compile(context.Background(), Request{Source: path})
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{".entry k(", ".v4.", "shfl.sync.bfly", "ex2.approx", "atom", ".loc"} {
				if !strings.Contains(string(out.PTX), want) {
					t.Errorf("no %s in the PTX", want)
				}
			}
			if strings.Contains(string(out.PTX), "gpuemu_cuda.h") || out.Cubin != nil {
				t.Errorf("the PTX names our header, or there is a cubin of %d bytes without ptxas", len(out.Cubin))
			}
			_, err = (&Tools{Clang: tool}).Compile(context.Background(), Request{Source: source(t, "__global__ void k( {}")})
			if diag.CodeOf(err) != Refused || !strings.Contains(err.Error(), "./k.cu:1:17: error:") {
				t.Errorf("a wrong source: %v", err)
			}
		})
	}
	if found == 0 {
		t.Skip("no clang from 14 on is installed: apt-get install clang-19")
	}
}
