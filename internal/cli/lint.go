package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gpuemu/internal/command"
	"gpuemu/internal/config"
	"gpuemu/internal/diag"
	"gpuemu/internal/inspect"
	"gpuemu/internal/report"
	"gpuemu/internal/wire"
)

// This file implements the commands lint and artifacts, which look at compiled kernels and execute none.

// kernelFlags choose what to look at: kernels of gpuemu.toml, or files.
type kernelFlags struct {
	name             string
	ptx, cubin, sass string
	strict           bool
	out              outputs
	arg              string // the positional argument
}

func (f *kernelFlags) register(cmd *cobra.Command, formats ...string) {
	fl := cmd.Flags()
	fl.StringVarP(&f.name, "kernel", "k", "", "`NAME` of a kernel of gpuemu.toml or, with files, of one in them")
	fl.StringVarP(&f.ptx, "ptx", "p", "", "PTX `FILE`")
	fl.StringVar(&f.cubin, "cubin", "", "cubin, fatbin or host `FILE` with device code")
	fl.StringVar(&f.sass, "sass", "", "`FILE` printed by cuobjdump -sass or nvdisasm")
	f.out.register(cmd, "o", formats...)
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 1 {
			return diag.Errorf(Usage, "give one; -p, --cubin and --sass name further files of it", "unexpected argument %q",
				args[1])
		}
		if len(args) == 1 {
			f.arg = args[0]
		}
		return nil
	}
}

func lintCommand(term *terminal, env Env) *cobra.Command {
	f := &kernelFlags{}
	cmd := &cobra.Command{
		Use:   "lint [KERNEL|FILE]",
		Short: "Hold compiled kernels to their limits",
		Long: "Reads the compiled kernels of gpuemu.toml, or the files that are named, and compares registers, spills,\n" +
			"memory and instructions with the limits of the kernel (artifact_checks), else with 64 registers, no spills\n" +
			"and no local memory. PTX, cubins, fatbins, host files and listings of cuobjdump need no CUDA; a .cu file is\n" +
			"compiled by nvcc or clang. From PTX alone registers are estimated and spills are not known: what breaks a\n" +
			"limit then is a note, which --strict makes count.\n\n" +
			"Exit codes: 1 if a kernel breaks a rule, 3 if something could not be read or compiled, else 0.",
		Example: "  gpuemu lint\n  gpuemu lint softmax.ptx --cubin softmax.cubin\n" +
			"  gpuemu lint -k softmax --format sarif -o lint.sarif",
		RunE: func(*cobra.Command, []string) error {
			return f.run(env, term, func(w io.Writer, o reportOutput, l *looked) error {
				switch o.format {
				case "json":
					return encodeJSON(w, "", l.doc)
				case "sarif":
					return report.SARIF(w, l.doc, report.SARIFOptions{Version: l.doc.Version, Dir: l.dir,
						Root: report.RepositoryRoot(l.dir)})
				}
				return report.LintText(w, l.seenFromHere(), term.textOptions(o))
			}, (*inspect.Document).ExitCode)
		},
	}
	cmd.Flags().BoolVar(&f.strict, "strict", false, "limits count also where a figure is an estimate or not known")
	f.register(cmd, "text", "json", "sarif")
	return cmd
}

func artifactsCommand(term *terminal, env Env) *cobra.Command {
	f := &kernelFlags{}
	cmd := &cobra.Command{
		Use:   "artifacts [KERNEL|FILE]",
		Short: "Show what compiled kernels need and contain",
		Long: "Reads the compiled kernels of gpuemu.toml, or the files that are named, and prints per kernel its\n" +
			"registers, spills, memory and instructions, each from the best source there is. -v adds what the code\n" +
			"consists of.\n\n" +
			"Exit codes: 3 if something could not be read or compiled, else 0.",
		Example: "  gpuemu artifacts\n  gpuemu artifacts libkernels.so -k softmax --format json",
		RunE: func(*cobra.Command, []string) error {
			return f.run(env, term, func(w io.Writer, o reportOutput, l *looked) error {
				if o.format == "json" {
					return encodeJSON(w, "", artifactList(l.doc))
				}
				return report.ArtifactsText(w, l.seenFromHere(), term.textOptions(o))
			}, func(d *inspect.Document) int {
				if len(d.Unread) > 0 || d.Total == 0 {
					return command.ExitNotRun
				}
				return command.ExitOK
			})
		},
	}
	f.register(cmd, "text", "json")
	return cmd
}

// artifactsJSON is the JSON form of gpuemu artifacts.
type artifactsJSON struct {
	Format  int              `json:"gpuemu_artifacts"`
	Version string           `json:"version,omitempty"`
	Kernels []inspect.Record `json:"kernels"`
	Unread  []inspect.Unread `json:"unread"`
}

func artifactList(d *inspect.Document) artifactsJSON {
	out := artifactsJSON{Format: inspect.SnapshotFormat, Version: d.Version, Kernels: []inspect.Record{}, Unread: d.Unread}
	for i := range d.Kernels {
		out.Kernels = append(out.Kernels, inspect.Record{Name: d.Kernels[i].Name, Metrics: *d.Kernels[i].Metrics})
	}
	return out
}

// looked is what was found, and the directory that its paths are relative to.
type looked struct {
	doc *inspect.Document
	dir string // absolute
	cwd string
}

// run looks at kernels and writes what was found in every format asked for.
func (f *kernelFlags) run(
	env Env, term *terminal, write func(io.Writer, reportOutput, *looked) error, exit func(*inspect.Document) int,
) error {
	outs, err := f.out.pairs()
	if err != nil {
		return err
	}
	ctx, stop := env.interruptible()
	defer stop()
	files, name, err := f.files()
	if err != nil {
		return err
	}
	var l *looked
	if len(files) > 0 {
		l, err = lookAtFiles(ctx, env, term, files, name, f.strict)
	} else {
		l, err = lookAtProject(ctx, env, term, name, f.strict)
	}
	if err != nil {
		return err
	}
	for _, o := range outs {
		if err := o.write(term, func(w io.Writer) error { return write(w, o, l) }); err != nil {
			return err
		}
	}
	return exitWith(exit(l.doc))
}

// compiledEndings are those of files that may hold compiled kernels, or are compiled.
var compiledEndings = []string{".ptx", ".cubin", ".fatbin", ".cu", ".cuh", ".sass", ".o", ".obj", ".a", ".so", ".dll",
	".exe"}

// isFile reports whether an argument stands for a file, there or not: else it is the name of a kernel, which may have
// dots in it, too, and be that of a directory.
func isFile(arg string) bool {
	if strings.ContainsRune(arg, filepath.Separator) || slices.Contains(compiledEndings, filepath.Ext(arg)) {
		return true
	}
	info, err := os.Stat(arg)
	return err == nil && info.Mode().IsRegular()
}

// files are the files named by flags and argument, and the kernel's name.
func (f *kernelFlags) files() (files []string, name string, err error) {
	name = f.name
	if f.arg != "" {
		switch {
		case isFile(f.arg):
			files = append(files, f.arg)
		case name != "" && name != f.arg:
			return nil, "", diag.Errorf(Usage, "give one of them", "the kernel is %q and, with -k, %q", f.arg, name)
		default:
			name = f.arg
		}
	}
	for _, path := range []string{f.ptx, f.cubin, f.sass} {
		if path != "" {
			files = append(files, path)
		}
	}
	return files, name, nil
}

// lookAtFiles looks at files without a daemon. A name that gpuemu.toml has brings that kernel's limits along.
func lookAtFiles(
	ctx context.Context, env Env, term *terminal, files []string, name string, strict bool,
) (*looked, error) {
	cwd, err := os.Getwd()
	if err != nil {
		return nil, diag.Errorf(ReadFailed, "", "working directory: %w", err)
	}
	var cfg *config.Config
	if name != "" {
		if cfg, err = localConfig(env, term); err != nil {
			return nil, err
		}
	}
	target, err := inspect.Named(cfg, name, inspect.Target{Files: files, Entry: name, Disassemble: true}, strict)
	if err != nil {
		return nil, err
	}
	doc, err := inspect.Looker{}.Look(ctx, []inspect.Target{target})
	if err != nil {
		return nil, err
	}
	doc.Version = command.ReadVersion(env.Version).Version
	return &looked{doc, cwd, cwd}, nil
}

// lookAtProject looks at the kernels of gpuemu.toml; what is found is stored.
func lookAtProject(ctx context.Context, env Env, term *terminal, name string, strict bool) (*looked, error) {
	e, err := open(ctx, env, term, true)
	if err != nil {
		return nil, err
	}
	defer e.close()
	req := &wire.LintRequest{Config: e.project.path, Env: e.project.env, Strict: strict}
	if name != "" {
		req.Kernels = []string{name}
	}
	doc, err := e.client.Lint(ctx, req)
	if err != nil {
		return nil, err
	}
	return &looked{doc, e.project.Dir, e.dir}, nil
}

// seenFromHere is the document with paths relative to the working directory, as people click on them.
func (l *looked) seenFromHere() *inspect.Document {
	if l.dir == l.cwd {
		return l.doc
	}
	here := func(path string) string {
		if path == "" || filepath.IsAbs(path) {
			return path
		}
		rel, err := filepath.Rel(l.cwd, filepath.Join(l.dir, path))
		if err != nil {
			return path
		}
		return rel
	}
	doc := *l.doc
	doc.Kernels, doc.Unread = slices.Clone(doc.Kernels), slices.Clone(doc.Unread)
	for i := range doc.Kernels {
		k := &doc.Kernels[i]
		k.Violations = slices.Clone(k.Violations)
		for j := range k.Violations {
			k.Violations[j].File = here(k.Violations[j].File)
		}
		m := *k.Metrics
		m.Sources = slices.Clone(m.Sources)
		for j := range m.Sources {
			m.Sources[j].File = here(m.Sources[j].File)
		}
		k.Metrics = &m
	}
	return &doc
}

// textOptions are those of a report that goes to o.
func (t *terminal) textOptions(o reportOutput) report.TextOptions {
	return report.TextOptions{Color: o.file == "" && t.outColor, Verbose: t.verbose}
}
