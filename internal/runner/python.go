package runner

// This file implements the choice of the Python interpreter.

import (
	"os"
	"path/filepath"
	"strings"

	"gpuemu/internal/diag"
)

// FindPython returns the interpreter of a project: the first of explicit that is not empty (the key python of the op,
// then that of the project), GPUEMU_PYTHON, that of $VIRTUAL_ENV, that of .venv in dir, python3 on PATH. What was named
// outright must exist; a virtual environment that has none is passed over. Paths are relative to dir.
func FindPython(explicit []string, getenv func(string) string, dir string) (string, error) {
	for i, name := range append(append([]string{}, explicit...), getenv("GPUEMU_PYTHON")) {
		if name == "" {
			continue
		}
		if path, ok := findProgram(name, getenv("PATH"), dir); ok {
			return path, nil
		}
		source, hint := "the key python", "correct the key python in gpuemu.toml, or take it out"
		if i == len(explicit) {
			source, hint = "GPUEMU_PYTHON", "set GPUEMU_PYTHON to the path of an interpreter, or unset it"
		}
		return "", diag.Errorf(PythonMissing, hint, "%s names %q, where there is no interpreter", source, name)
	}
	venvs := []string{filepath.Join(dir, ".venv")}
	if env := getenv("VIRTUAL_ENV"); env != "" {
		venvs = append([]string{env}, venvs...)
	}
	for _, venv := range venvs {
		if path, ok := findProgram(filepath.Join(venv, "bin", "python"), "", dir); ok {
			return path, nil
		}
	}
	if path, ok := findProgram("python3", getenv("PATH"), dir); ok {
		return path, nil
	}
	return "", diag.Errorf(PythonMissing, "install Python 3.9 or newer with numpy, or set the key python in gpuemu.toml",
		"there is no python3 on PATH")
}

// findProgram returns the absolute path of an executable: a path relative to dir, or a name to look for on path.
func findProgram(name, path, dir string) (string, bool) {
	if strings.ContainsRune(name, filepath.Separator) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		abs, err := filepath.Abs(name)
		return abs, err == nil && isExecutable(abs)
	}
	for _, d := range filepath.SplitList(path) {
		if d == "" || !filepath.IsAbs(d) { // never a program of the directory we happen to be in
			continue
		}
		if file := filepath.Join(d, name); isExecutable(file) {
			return file, true
		}
	}
	return "", false
}

func isExecutable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
