// Package project writes the files of a new project: a gpuemu.toml, kernels that pass, a workflow for CI.
//
// It holds their templates and asks an interpreter which frameworks it has. It runs no case and reads no existing
// project. The main functions are Files, which is pure, Write and Probe. A kernel is written for its framework alone:
// where that is missing, its cases are not run, and nothing else stands in for it.
package project

import (
	"bytes"
	"embed"
	"strings"
	"text/template"
	"unicode"
	"unicode/utf8"

	"gpuemu/internal/config"
	"gpuemu/internal/diag"
)

// This file implements what the files of a project say.

//go:embed templates
var templates embed.FS

// Frameworks, as in the key framework of gpuemu.toml. The first is the default.
const (
	NumPy      = "numpy"
	PyTorch    = "pytorch"
	JAX        = "jax"
	TensorFlow = "tensorflow"
	Triton     = "triton"
	CUDA       = "cuda"
)

// Frameworks lists the frameworks, the default first.
func Frameworks() []string { return []string{NumPy, PyTorch, JAX, TensorFlow, Triton, CUDA} }

// CI systems for which a workflow can be written.
const (
	GitHub = "github"
	GitLab = "gitlab"
)

// Options say what project to write.
type Options struct {
	Name      string
	Framework string // one of Frameworks
	Examples  bool   // all ops of Ops, not only the first
	CI        string // GitHub, GitLab or "" for none
}

// File is one file to write. Path has slashes and is relative to the project's directory.
type File struct {
	Path    string
	Content []byte
}

// Ops are the ops of the examples; every project has the first.
func Ops() []string {
	return []string{"softmax", "rmsnorm", "layernorm", "matmul", "gelu", "attention"}
}

// maxName is how long a project's name may be: it stands in every report.
const maxName = 100

// Module returns the Python module of a framework, "" where none is imported by what Files writes.
func Module(framework string) string {
	return map[string]string{PyTorch: "torch", JAX: "jax", TensorFlow: "tensorflow", Triton: "triton"}[framework]
}

// Files returns the files of a project, gpuemu.toml last: a project that was only half written has none.
func Files(o Options) ([]File, error) {
	if err := checkName(o.Name); err != nil {
		return nil, err
	}
	ops := Ops()
	if !o.Examples {
		ops = ops[:1]
	}
	var files []File
	for _, op := range ops {
		files = append(files, kernels(o.Framework, op)...)
	}
	view := struct {
		Name, Quoted, Framework, Package string
		Compiled                         bool // a compiler is needed
		Ops                              []entry
		Notes                            []string
	}{o.Name, tomlString(o.Name), o.Framework, distribution(o.Framework), o.Framework == CUDA, entries(o.Framework, ops),
		notes(o.Framework)}
	switch o.CI {
	case GitHub:
		files = append(files, File{".github/workflows/gpuemu.yml", render("github.yml", view)})
	case GitLab:
		files = append(files, File{".gitlab-ci.yml", render("gitlab.yml", view)})
	}
	return append(files, File{config.FileName, render("gpuemu.toml", view)}), nil
}

func checkName(name string) error {
	const hint = "choose another with --name"
	switch {
	case strings.TrimSpace(name) == "":
		return diag.Errorf(BadName, hint, "the project has no name")
	case utf8.RuneCountInString(name) > maxName:
		return diag.Errorf(BadName, hint, "the project's name has more than %d characters", maxName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return diag.Errorf(BadName, hint, "the project's name %q has characters that cannot be printed", name)
	}
	return nil
}

// tomlString escapes a printable text for a basic string of TOML.
func tomlString(s string) string { return strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) }

// distribution is what pip installs for a framework, quoted for a shell.
func distribution(framework string) string {
	switch module := Module(framework); module {
	case "":
		return "gpuemu"
	case "triton": // the kernels take arrays of numpy: the extra would install torch, too
		return "gpuemu triton ml_dtypes"
	default:
		return "'gpuemu[" + module + "]'"
	}
}

// notes say in gpuemu.toml what the candidates need.
func notes(framework string) []string {
	switch framework {
	case NumPy:
		return nil
	case CUDA:
		return []string{"The kernels are compiled by nvcc or clang and run on the CPU, by the emulator: no GPU is needed.",
			"Without a compiler their cases are not run.", ""}
	case Triton:
		return []string{"The kernels are compiled by Triton and run on the CPU, by the emulator: no GPU is needed.",
			"Without the package triton their cases are not run.", ""}
	}
	return []string{"The candidates need the package " + Module(framework) + ": without it their cases are not run.", ""}
}

// entry is an op of gpuemu.toml: its name, and the lines that say what its kernel is.
type entry struct {
	Name  string
	Lines []string
}

// cudaLaunches are the launches of the kernels in CUDA: grid, block and args.
var cudaLaunches = map[string][3]string{
	"softmax":   {`"ceil(B * S / 64)"`, "64", `"input", "output", "B * S", "H"`},
	"rmsnorm":   {`"ceil(B * S / 64)"`, "64", `"input", "weight", "output", "B * S", "H", "eps"`},
	"layernorm": {`"ceil(B * S / 64)"`, "64", `"input", "weight", "bias", "output", "B * S", "H", "eps"`},
	"matmul":    {`"ceil(N / 16)", "ceil(M / 16)"`, "16, 16", `"a", "b", "output", "M", "N", "K"`},
	"gelu":      {`"ceil(input.numel / 256)"`, "256", `"input", "output", "input.numel"`},
	"attention": {`"ceil(B * HQ * M / 64)"`, "64",
		`"q", "k", "v", "output", "B", "HQ", "HKV", "M", "N", "D", "scale", "causal"`},
}

// emulatedTimeout leaves room for the largest shapes on a machine that does other things, too.
const emulatedTimeout = "timeout = 300  # seconds for a case; the emulator is slower than a GPU"

// entries are the ops of gpuemu.toml.
func entries(framework string, ops []string) []entry {
	var out []entry
	for _, op := range ops {
		e := entry{op, []string{`candidate = "kernels/` + op + `.py:` + op + `"`}}
		switch framework {
		case Triton:
			e.Lines = append(e.Lines, `execution_mode = "emulate"`, emulatedTimeout)
		case CUDA:
			l := cudaLaunches[op]
			e.Lines = []string{`dtypes = ["float32"]  # what the kernel is written for`, emulatedTimeout, "[ops.kernel]",
				`source = "kernels/` + op + `.cu"`, "grid = [" + l[0] + "]", "block = [" + l[1] + "]", "args = [" + l[2] + "]"}
		}
		out = append(out, e)
	}
	return out
}

// kernels returns the kernel of an op.
func kernels(framework, op string) []File {
	if framework == CUDA {
		return []File{{"kernels/" + op + ".cu", read("cuda/" + op + ".cu")}}
	}
	candidate := func(where, text string) []File {
		return []File{{"kernels/" + op + ".py", []byte(docString(op, where) + text)}}
	}
	switch framework {
	case NumPy:
		numpy := read("numpy.py")
		return candidate("in numpy.", imports(numpy, op)+block(numpy, op))
	case Triton:
		return candidate("as a Triton kernel.", string(read("triton/"+op+".py")))
	}
	title := map[string]string{PyTorch: "PyTorch", JAX: "JAX", TensorFlow: "TensorFlow"}[framework]
	own := read(framework + ".py")
	head, _, _ := strings.Cut(string(own), gap)
	_, head, _ = strings.Cut(head, "\n") // without the line on the templates
	body := block(own, op)
	if !strings.Contains(body, "np.") {
		head = strings.Replace(head, "import numpy as np\n", "", 1)
	}
	return candidate("in "+title+".", head+gap+body)
}

// gap stands between the blocks of a Python file.
const gap = "\n\n\n"

// docString opens a candidate's file with how it is called.
func docString(op, what string) string {
	return `"""` + op + " " + what + `

gpuemu calls ` + op + `(inputs, **attributes) with a dict of numpy arrays, which have the strides of the case, and
judges the array it returns. "gpuemu ops ` + op + `" prints names, attributes and what an implementation may do.
"""
`
}

// imports returns the import lines that an op's numpy block needs, and the gap after them.
func imports(numpy []byte, op string) string {
	if strings.Contains(block(numpy, op), "math.") {
		return "import math\n\nimport numpy as np" + gap
	}
	return "import numpy as np" + gap
}

// block returns the function of an op, with what stands above it up to the function before.
func block(source []byte, op string) string {
	var lead string
	for _, b := range strings.Split(strings.TrimSuffix(string(source), "\n"), gap)[1:] {
		switch {
		case strings.HasPrefix(b, "def "+op+"("):
			return lead + b + "\n"
		case strings.HasPrefix(b, "def "):
			lead = ""
		default:
			lead += b + gap
		}
	}
	panic("project: internal error: no template of " + op)
}

// read returns an embedded template.
func read(name string) []byte {
	b, err := templates.ReadFile("templates/" + name)
	if err != nil {
		panic("project: internal error: " + err.Error()) // the templates are part of the program
	}
	return b
}

func render(name string, view any) []byte {
	var b bytes.Buffer
	err := template.Must(template.New(name).Option("missingkey=error").Parse(string(read(name)))).Execute(&b, view)
	if err != nil {
		panic("project: internal error: " + err.Error())
	}
	return b.Bytes()
}
