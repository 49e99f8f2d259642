// Package project writes the files of a new project: a gpuemu.toml, kernels that pass, a workflow for CI.
//
// It holds their templates and asks an interpreter which frameworks it has. It runs no case and reads no existing
// project. The main functions are Files, which is pure, Write and Probe. Kernels of every framework end with a numpy
// version of the same op, which is what runs where the framework is missing: a new project is green at once.
package project

import (
	"bytes"
	"embed"
	"path"
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
	return map[string]string{PyTorch: "torch", JAX: "jax", TensorFlow: "tensorflow"}[framework]
}

// Emulated reports whether kernels of the framework need a GPU or an emulator: they lie beside a numpy version, which
// is what runs.
func Emulated(framework string) bool { return framework == Triton || framework == CUDA }

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
		Ops, Notes                       []string
	}{o.Name, tomlString(o.Name), o.Framework, distribution(o.Framework), ops, notes(o.Framework)}
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
	if module := Module(framework); module != "" {
		return "'gpuemu[" + module + "]'"
	}
	return "gpuemu"
}

// notes say in gpuemu.toml what the candidates are.
func notes(framework string) []string {
	switch {
	case Emulated(framework):
		return []string{
			"The kernels lie beside the candidates. This version of gpuemu cannot run them: the candidates are numpy",
			"versions of them. Replace their bodies by calls of your kernels where there is a GPU.", ""}
	case Module(framework) != "":
		return []string{"The candidates use " + Module(framework) +
			" where the interpreter has it, and their numpy versions where not.", ""}
	}
	return nil
}

// kernels returns the candidate of an op and, where the framework's own kernel cannot be run, that kernel beside it.
func kernels(framework, op string) []File {
	numpy := read("numpy.py")
	title := map[string]string{NumPy: "numpy", PyTorch: "PyTorch", JAX: "JAX", TensorFlow: "TensorFlow"}[framework]
	candidate := func(text string) File { return File{"kernels/" + op + ".py", []byte(text)} }
	switch {
	case framework == NumPy:
		return []File{candidate(docString(op, "in numpy.") + imports(numpy, op) + block(numpy, op))}
	case Emulated(framework):
		name := op + map[string]string{Triton: "_triton.py", CUDA: ".cu"}[framework]
		return []File{candidate(docString(op, "in numpy, standing in for the kernel in "+name+".") +
			imports(numpy, op) + block(numpy, op)), {"kernels/" + name, read(path.Join(framework, name))}}
	}
	own := read(framework + ".py")
	head, _, _ := strings.Cut(string(own), gap)
	_, head, _ = strings.Cut(head, "\n") // without the line on the templates
	fallback := strings.Replace(block(numpy, op), "def "+op+"(", "def "+op+"_numpy(", 1)
	return []File{candidate(docString(op, "in "+title+", and in numpy where that is missing.") +
		strings.TrimSuffix(imports(numpy, op), gap) + "\n\n" + head + gap + block(own, op) + "\n\n" + fallback)}
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
