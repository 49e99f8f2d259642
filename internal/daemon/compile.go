// This file implements the compilation of CUDA C++ sources, for clients that execute them on the CPU.

package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"gpuemu/internal/cudatool"
	"gpuemu/internal/diag"
	"gpuemu/internal/wire"
)

// sourceName is what a source that came as text is called in messages and debug lines.
const sourceName = "kernel.cu"

// compile handles POST /v1/compile. The compiler runs as the daemon's user with arguments of the client's, who is the
// same user: over TCP nothing is compiled. A request writes no files all the same, and has no code of its own executed.
func (s *Server) compile(ctx context.Context, req *wire.CompileRequest) (*wire.CompileReply, error) {
	switch {
	case ctx.Value(remoteKey{}) != nil:
		return nil, diag.Errorf(BadRequest, "compile where the source is, and send the PTX", "nothing is compiled over TCP")
	case (req.Source == nil) == (req.File == ""):
		return nil, diag.Errorf(BadRequest, "", "give the source as text or as file, one of them")
	case req.File != "" && !filepath.IsAbs(req.File):
		return nil, diag.Errorf(BadRequest, "", "file is %q, want an absolute path", cut(req.File, 200))
	case req.Compiler != "" && req.Compiler != "nvcc" && req.Compiler != "clang":
		return nil, diag.Errorf(BadRequest, "", "compiler is %q, want nvcc or clang", cut(req.Compiler, 40))
	}
	if err := checkCompile(req.File, req.Flags); err != nil {
		return nil, err
	}
	env := req.Env
	if env == nil {
		env = s.environment
	}
	tools := cudatool.FindFor(ctx, env.List())
	switch {
	case req.Compiler == "clang":
		tools.NVCC = nil
	case req.Compiler == "nvcc":
		tools.Clang = nil
	}
	if found := tools.NVCC != nil || tools.Clang != nil; !found && req.Compiler != "" {
		return nil, diag.Errorf(cudatool.Missing, "install it, or leave compiler out",
			"cannot compile here: %s was not found", req.Compiler)
	}
	path := req.File
	if req.Source != nil {
		dir, err := os.MkdirTemp(s.runDir, "source-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir) // a leftover goes with the directory of the process
		path = filepath.Join(dir, sourceName)
		if err := os.WriteFile(path, []byte(*req.Source), 0o600); err != nil {
			return nil, err
		}
	}
	out, err := tools.Compile(ctx, cudatool.Request{Source: path, Arch: req.Arch, Flags: req.Flags, TextOnly: true})
	if err != nil {
		return nil, shortPlace(err, path, req)
	}
	return &wire.CompileReply{PTX: string(out.PTX), Log: out.Log, Command: out.Command,
		Compiler: strings.TrimSpace(out.Compiler.Name + " " + out.Compiler.Version)}, nil
}

// shortPlace names a source that came as text by its name, not by where it lay for a moment.
func shortPlace(err error, path string, req *wire.CompileRequest) error {
	var e *diag.Error
	if req.Source != nil && errors.As(err, &e) && e.Pos.File == path {
		e.Pos.File = sourceName
	}
	return err
}
