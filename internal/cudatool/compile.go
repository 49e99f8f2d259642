package cudatool

// This file implements compilation: nvcc where it is installed, else clang with a header of our own, and ptxas for
// machine code.

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gpuemu/internal/diag"
)

const (
	// DefaultArch is what sources are compiled for where nothing else is asked for: every compiler in use knows it.
	DefaultArch = "sm_80"
	// compileLimit is how long one call may take: heavy templates take minutes.
	compileLimit = 10 * time.Minute
	// maxOutput is how large a compiled file may be.
	maxOutput = 256 << 20
	// installHint says how to get a compiler.
	installHint = "install nvcc (CUDA) or clang, for example with apt-get install clang, or give the compiled PTX or cubin"
	// maxFlags is how many further arguments a compiler gets.
	maxFlags = 1000
)

// Request is a source to compile.
type Request struct {
	Source string   // path of a .cu file
	Arch   string   // "sm_90a"; "": DefaultArch. Where the compiler does not know it, see TextOnly
	Flags  []string // further arguments of the compiler, behind ours

	// TextOnly: no machine code is wanted. PTX for an older architecture is as good, so one that the compiler does not
	// know is replaced by the newest before it that it knows, and Replaced says so.
	TextOnly bool
}

// Output is what came out.
type Output struct {
	PTX      []byte
	Cubin    []byte // nil where no assembler is installed
	Log      string // Replaced, and what the programs printed
	Compiler Tool
	Command  string // as a shell would take it, without our temporary files
	// Replaced says what the source was compiled for in place of the architecture that was asked for; "": for that.
	Replaced string
}

//go:embed cuda
var headers embed.FS

// Compile compiles a CUDA source to PTX and, where an assembler is there, to machine code.
func (t *Tools) Compile(ctx context.Context, r Request) (*Output, error) {
	asked := r.Arch != ""
	if !asked {
		r.Arch = DefaultArch
	}
	if !IsArch(r.Arch) {
		return nil, diag.Errorf(BadArch, "write it as sm_80 or sm_90a", "%.40q is no architecture", r.Arch)
	}
	if len(r.Flags) > maxFlags {
		return nil, diag.Errorf(Limit, "", "%d arguments for the compiler, at most %d are passed on", len(r.Flags), maxFlags)
	}
	source, err := filepath.Abs(r.Source)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(source)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no regular file")
	}
	if err != nil {
		return nil, diag.Errorf(NoSource, "check the path", "cannot compile: %w", err).At(diag.Pos{File: r.Source})
	}
	if t.NVCC == nil && t.Clang == nil {
		return nil, diag.Errorf(Missing, installHint,
			"cannot compile here: neither nvcc nor clang was found").At(diag.Pos{File: r.Source})
	}
	dir, err := os.MkdirTemp("", "gpuemu-compile-")
	if err != nil {
		return nil, err
	}
	j := &job{Tools: t, ctx: ctx, dir: dir, source: source, arch: r.Arch, flags: r.Flags, textOnly: r.TextOnly,
		out: &Output{}}
	if err = j.compile(); diag.CodeOf(err) == Refused {
		err = j.known(err, asked)
	}
	err = errors.Join(err, os.RemoveAll(dir))
	if err != nil {
		return nil, placed(err, r.Source)
	}
	if j.out.Replaced != "" {
		j.out.Log = j.out.Replaced + "\n" + j.out.Log
	}
	return j.out, nil
}

// placed gives an error without a place that of the source.
func placed(err error, source string) error {
	var e *diag.Error
	if errors.As(err, &e) && e.Pos.IsZero() {
		e.Pos.File = source
	}
	return err
}

// job is one compilation in a private directory.
type job struct {
	*Tools
	ctx          context.Context
	dir          string
	include      string // of our headers; "": not written yet
	source, arch string
	flags        []string
	textOnly     bool
	out          *Output
}

// compiler is the one that compiles: nvcc where it is installed.
func (j *job) compiler() *Tool {
	if j.NVCC != nil {
		return j.NVCC
	}
	return j.Clang
}

func (j *job) compile() error {
	if j.NVCC != nil {
		return j.nvcc()
	}
	return j.clang()
}

// input is what compilers are called with, beside the source: paths in debug lines are then relative.
func (j *job) input() string { return "." + string(filepath.Separator) + filepath.Base(j.source) }

// call calls a program beside the source.
func (j *job) call(tool *Tool, args ...string) error {
	c := call{path: tool.Path, args: args, dir: filepath.Dir(j.source), env: j.env, limit: compileLimit}
	out, err := run(j.ctx, c)
	for _, text := range []string{out.stdout, out.stderr} {
		if text = strings.TrimSpace(text); text != "" {
			j.out.Log += text + "\n"
		}
	}
	if j.out.Command == "" {
		j.out.Compiler, j.out.Command = *tool, strings.ReplaceAll(c.String(), j.dir+string(filepath.Separator), "")
	}
	return err
}

// read returns a file that a program wrote.
func (j *job) read(tool *Tool, name string) ([]byte, error) {
	f, err := os.Open(filepath.Join(j.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, diag.Errorf(Broken, "try it by hand: "+j.out.Command, "%s ended well and wrote no output", tool.Name)
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxOutput+1))
	if err == nil && len(b) > maxOutput {
		err = diag.Errorf(Limit, "compile a smaller source", "%s wrote more than %d bytes", tool.Name, maxOutput)
	}
	return b, err
}

func (j *job) file(name string) string { return filepath.Join(j.dir, name) }

// nvcc compiles with NVIDIA's compiler, once for each form.
func (j *job) nvcc() error {
	args := func(form, out string) []string {
		return append([]string{"-arch=" + j.arch, "-lineinfo", form, "-o", j.file(out), j.input()}, j.flags...)
	}
	if err := j.call(j.NVCC, args("-ptx", "out.ptx")...); err != nil {
		return err
	}
	var err error
	if j.out.PTX, err = j.read(j.NVCC, "out.ptx"); err != nil || j.textOnly {
		return err
	}
	if err := j.call(j.NVCC, append(args("-cubin", "out.cubin"), "-Xptxas", "-v")...); err != nil {
		return err
	}
	j.out.Cubin, err = j.read(j.NVCC, "out.cubin")
	return err
}

// clang compiles without CUDA's headers: ours declare what kernels usually need. A source that declares that itself
// does not go together with ours and is compiled alone.
func (j *job) clang() error {
	err := j.headers()
	if err != nil {
		return err
	}
	args := append([]string{"-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=" + j.arch},
		clangFeature(j.Clang.Major())...)
	args = append(args, "-nocudainc", "-nocudalib", "-std=c++17", "-O3", "-gline-directives-only",
		"-fdebug-compilation-dir=.", "-S")
	rest := append([]string{j.input(), "-o", j.file("out.ptx")}, j.flags...)
	first := j.call(j.Clang, append(append(args, "-I", j.include, "-include", "gpuemu_cuda.h"), rest...)...)
	if diag.CodeOf(first) == Refused {
		log, command := j.out.Log, j.out.Command
		j.out.Log, j.out.Command = "", ""
		if j.call(j.Clang, append(args, rest...)...) != nil { // what it says is of no use: it misses our header
			j.out.Log, j.out.Command = log, command
			return withHint(first, "without CUDA's own headers only the language itself is known: install nvcc for the rest")
		}
	} else if first != nil {
		return first
	}
	if j.out.PTX, err = j.read(j.Clang, "out.ptx"); err != nil || j.Ptxas == nil || j.textOnly {
		return err
	}
	if err := j.call(j.Ptxas, "-v", "-arch="+j.arch, "-o", j.file("out.cubin"), j.file("out.ptx")); err != nil {
		return err
	}
	j.out.Cubin, err = j.read(j.Ptxas, "out.cubin")
	return err
}

// withHint adds a next step to an error.
func withHint(err error, hint string) error {
	var e *diag.Error
	if errors.As(err, &e) {
		e.Hint = hint
	}
	return err
}

// headers writes our headers to the private directory.
func (j *job) headers() error {
	if j.include != "" {
		return nil
	}
	if err := os.CopyFS(j.dir, headers); err != nil {
		return fmt.Errorf("headers for clang: %w", err)
	}
	j.include = j.file("cuda")
	return nil
}

// clangFeature asks for a version of PTX that the clang knows. Without it clang 22 stops, and older ones write PTX that
// has no instructions for newer architectures.
func clangFeature(major int) []string {
	switch {
	case major >= 22:
		return []string{"--cuda-feature=+ptx88"}
	case major >= 18:
		return []string{"--cuda-feature=+ptx83"}
	case major >= 16:
		return []string{"--cuda-feature=+ptx78"}
	case major >= 14: // no --cuda-feature yet
		return []string{"-Xclang", "-target-feature", "-Xclang", "+ptx75"}
	}
	return nil
}

// Assemble makes machine code of PTX text.
func (t *Tools) Assemble(ctx context.Context, ptx []byte, arch string) (cubin []byte, log string, err error) {
	if !IsArch(arch) {
		return nil, "", diag.Errorf(BadArch, "write it as sm_80 or sm_90a", "%.40q is no architecture", arch)
	}
	if t.Ptxas == nil {
		return nil, "", diag.Errorf(Missing, "install CUDA's ptxas", "cannot assemble here: ptxas was not found")
	}
	err = t.inPrivate(ctx, "in.ptx", ptx, func(j *job) error {
		if err := j.call(t.Ptxas, "-v", "-arch="+arch, "-o", j.file("out.cubin"), j.file("in.ptx")); err != nil {
			return err
		}
		log = j.out.Log
		cubin, err = j.read(t.Ptxas, "out.cubin")
		return err
	})
	return cubin, log, err
}

// Disassemble lists the machine code of a cubin: cuobjdump where it is installed, else nvdisasm.
func (t *Tools) Disassemble(ctx context.Context, cubin []byte) (sass string, err error) {
	tool, args := t.Cuobjdump, []string{"-sass"}
	if tool == nil {
		tool, args = t.Nvdisasm, nil
	}
	if tool == nil {
		return "", diag.Errorf(Missing, "install CUDA's cuobjdump or nvdisasm, or give a listing",
			"cannot disassemble here: neither cuobjdump nor nvdisasm was found")
	}
	err = t.inPrivate(ctx, "in.cubin", cubin, func(j *job) error {
		out, err := run(ctx, call{path: tool.Path, args: append(args, j.file("in.cubin")), dir: j.dir, env: j.env,
			limit: compileLimit})
		sass = out.stdout
		return err
	})
	return sass, err
}

// inPrivate does something with a file in a private directory.
func (t *Tools) inPrivate(ctx context.Context, name string, data []byte, do func(*job) error) error {
	dir, err := os.MkdirTemp("", "gpuemu-compile-")
	if err != nil {
		return err
	}
	j := &job{Tools: t, ctx: ctx, dir: dir, source: filepath.Join(dir, name), out: &Output{}}
	err = os.WriteFile(j.source, data, 0o600)
	if err == nil {
		err = do(j)
	}
	return errors.Join(err, os.RemoveAll(dir))
}
