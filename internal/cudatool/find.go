// Package cudatool finds and calls the programs that make and take apart device code: nvcc, clang, ptxas, cuobjdump and
// nvdisasm. None of them need be there; what cannot be done without them is said with the code Missing.
//
// Every call has a time limit, a limit on what is read of its output and a private directory that is removed. A program
// that is stopped takes its children with it. The main type is Tools.
package cudatool

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Tool is an installed program.
type Tool struct {
	Name    string `json:"name"` // nvcc, clang, ptxas, cuobjdump, nvdisasm
	Path    string `json:"path"`
	Version string `json:"version"` // "13.0", "19.1.7"; "" if it does not say
}

// Major is the first number of the version, 0 where it is not known.
func (t *Tool) Major() int {
	first, _, _ := strings.Cut(t.Version, ".")
	n, err := strconv.Atoi(first)
	if err != nil {
		return 0
	}
	return n
}

// Tools are the programs that were found; nil is one that was not.
type Tools struct {
	NVCC, Clang, Ptxas, Cuobjdump, Nvdisasm *Tool

	env []string // they are called with; nil: that of the process
}

// List is those that were found.
func (t *Tools) List() []*Tool {
	return slices.DeleteFunc([]*Tool{t.NVCC, t.Clang, t.Ptxas, t.Cuobjdump, t.Nvdisasm},
		func(x *Tool) bool { return x == nil })
}

// Find looks for the programs where Dirs says.
func Find(ctx context.Context) *Tools { return FindIn(ctx, Dirs(os.Getenv)) }

// FindFor is Find for a caller whose environment is env, as NAME=value: the programs are looked for and called with it.
// nil is the environment of the process.
func FindFor(ctx context.Context, env []string) *Tools {
	if env == nil {
		return Find(ctx)
	}
	tools := FindIn(ctx, Dirs(func(name string) string { return Lookup(env, name) }))
	tools.env = env
	return tools
}

// Lookup returns a variable of an environment that is given as NAME=value, "" where it is not set.
func Lookup(env []string, name string) string {
	for _, entry := range slices.Backward(env) { // the last one counts, as for package os/exec
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// Dirs are the directories that may hold the programs: those of PATH, then bin of CUDA_HOME and CUDA_PATH, then bin of
// /usr/local/cuda. A relative directory of PATH is left out: what it holds depends on where we stand.
func Dirs(getenv func(string) string) []string {
	dirs := filepath.SplitList(getenv("PATH"))
	for _, root := range []string{getenv("CUDA_HOME"), getenv("CUDA_PATH"), "/usr/local/cuda"} {
		if root != "" {
			dirs = append(dirs, filepath.Join(root, "bin"))
		}
	}
	return slices.DeleteFunc(dirs, func(d string) bool { return !filepath.IsAbs(d) })
}

// FindIn looks for the programs in directories, in their order.
func FindIn(ctx context.Context, dirs []string) *Tools {
	return &Tools{
		NVCC: look(ctx, dirs, "nvcc"), Clang: lookClang(ctx, dirs), Ptxas: look(ctx, dirs, "ptxas"),
		Cuobjdump: look(ctx, dirs, "cuobjdump"), Nvdisasm: look(ctx, dirs, "nvdisasm"),
	}
}

// look finds a program by its name.
func look(ctx context.Context, dirs []string, name string) *Tool {
	for _, dir := range dirs {
		if path := filepath.Join(dir, name); executable(path) {
			return &Tool{Name: name, Path: path, Version: version(ctx, path)}
		}
	}
	return nil
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

var clangName = regexp.MustCompile(`^clang-([0-9]{1,3})$`)

// lookClang finds clang, else the newest clang-NN.
func lookClang(ctx context.Context, dirs []string) *Tool {
	if t := look(ctx, dirs, "clang"); t != nil {
		return t
	}
	var best string
	newest := 0
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // PATH may name what does not exist
		}
		for _, e := range entries {
			m := clangName.FindStringSubmatch(e.Name())
			if m == nil {
				continue
			}
			n, _ := strconv.Atoi(m[1]) // one to three digits
			if path := filepath.Join(dir, e.Name()); n > newest && executable(path) {
				best, newest = path, n
			}
		}
	}
	if best == "" {
		return nil
	}
	return &Tool{Name: "clang", Path: best, Version: version(ctx, best)}
}

// versionLimit is how long a program may take to say its version.
const versionLimit = 10 * time.Second

// "release 13.0, V13.0.88" of NVIDIA's programs, "clang version 19.1.7" of clang.
var versionText = regexp.MustCompile(`(?:release|clang version) ([0-9]+(?:\.[0-9]+)*)`)

// version asks a program for its version. One that does not answer has none: its own error follows when it is used.
func version(ctx context.Context, path string) string {
	out, err := run(ctx, call{path: path, args: []string{"--version"}, limit: versionLimit})
	if err != nil {
		return ""
	}
	m := versionText.FindStringSubmatch(out.stdout)
	if m == nil {
		return ""
	}
	return m[1]
}
