package cli

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"

	"github.com/spf13/cobra"

	"gpuemu/internal/cudatool"
	"gpuemu/internal/escape"
	newproject "gpuemu/internal/project"
	"gpuemu/internal/runner"
)

// This file implements the command init.

// initFlags are the flags of init.
type initFlags struct {
	name, target    string
	framework, ci   *choice
	examples, force bool
}

func initCommand(term *terminal, env Env) *cobra.Command {
	f := initFlags{framework: newChoice(newproject.Frameworks()...),
		ci: &choice{words: []string{newproject.GitHub, newproject.GitLab}}} // no CI unless it is asked for
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write a gpuemu.toml and kernels that pass",
		Long: "Writes a project that passes gpuemu test at once: a gpuemu.toml, one kernel (with --with-examples\n" +
			"several) and, if asked for, a workflow for CI. Kernels in Triton and CUDA run on the CPU, by the emulator.\n" +
			"Where their framework or a compiler is missing, they are not run, and gpuemu says what to install. No file\n" +
			"that exists is overwritten without --force.",
		Args: codes.NoArgs,
		RunE: func(*cobra.Command, []string) error { return runInit(term, env, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.name, "name", "", "`NAME` of the project (default: that of the directory)")
	f.framework.register(cmd, "framework", "what the kernels are written for")
	flags.BoolVar(&f.examples, "with-examples", false, "several kernels instead of one")
	f.ci.register(cmd, "ci", "also a workflow for this CI system")
	flags.StringVarP(&f.target, "target-dir", "t", ".", "`DIR` to write to; created where it is missing")
	flags.BoolVar(&f.force, "force", false, "replace files that exist")
	return cmd
}

func runInit(term *terminal, env Env, f initFlags) error {
	dir, err := filepath.Abs(f.target)
	if err != nil {
		return readError(err)
	}
	if f.name == "" {
		f.name = filepath.Base(dir)
	}
	files, err := newproject.Files(newproject.Options{Name: f.name, Framework: f.framework.value, Examples: f.examples,
		CI: f.ci.value})
	if err != nil {
		return err
	}
	if err := newproject.Write(f.target, files, f.force); err != nil {
		return err
	}
	for _, file := range files {
		term.note("wrote %s", path.Join(filepath.ToSlash(f.target), file.Path))
	}
	ctx, stop := env.interruptible()
	defer stop()
	sayCandidates(ctx, term, env, f.framework.value, dir)
	if f.ci.value != "" && !isRepositoryRoot(dir) {
		term.note("note: %s reads the workflow at the root of the repository only: move it there", f.ci.value)
	}
	if f.target == "." {
		term.note("next: gpuemu test")
	} else {
		term.note("next: cd %s && gpuemu test", escape.Shell(f.target))
	}
	return nil
}

// sayCandidates says what runs the kernels on this machine, or what to install.
func sayCandidates(ctx context.Context, term *terminal, env Env, framework, dir string) {
	if framework == newproject.CUDA {
		sayCompiler(ctx, term)
		return
	}
	python, err := runner.FindPython(nil, env.Getenv, dir)
	if err != nil {
		term.note("note: %v: the kernels need Python with numpy", err)
		return
	}
	it, err := newproject.Probe(ctx, python)
	if err != nil {
		term.note("note: %v", err)
		return
	}
	module := newproject.Module(framework)
	switch {
	case it.Packages["numpy"] == "":
		term.note("note: %s has no numpy, which the kernels need: %s -m pip install numpy", python, python)
	case module == "":
		term.note("the kernels run with numpy %s of %s", it.Packages["numpy"], python)
	case it.Packages[module] == "":
		term.note("note: %s has no %s: the kernels are not run until %s -m pip install %s", python, module, python, module)
	default:
		term.note("the kernels run with %s %s of %s", module, it.Packages[module], python)
	}
}

// sayCompiler says what compiles kernels in CUDA.
func sayCompiler(ctx context.Context, term *terminal) {
	switch tools := cudatool.Find(ctx); {
	case tools.NVCC != nil:
		term.note("the kernels are compiled by nvcc %s, %s", tools.NVCC.Version, tools.NVCC.Path)
	case tools.Clang != nil:
		term.note("the kernels are compiled by clang %s, %s", tools.Clang.Version, tools.Clang.Path)
	default:
		term.note("note: neither nvcc nor clang was found: the kernels are not run until one is installed, for example " +
			"with apt-get install clang")
	}
}

// isRepositoryRoot reports whether a CI system would find a workflow in dir; outside of repositories it may become one.
func isRepositoryRoot(dir string) bool {
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Lstat(filepath.Join(d, ".git")); err == nil {
			return d == dir
		} else if !errors.Is(err, os.ErrNotExist) || filepath.Dir(d) == d {
			return true
		}
	}
}
