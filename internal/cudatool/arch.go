package cudatool

// This file implements the choice of an architecture that the installed compiler knows.

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gpuemu/internal/diag"
)

// ArchForm is a regular expression for names of architectures.
const ArchForm = `^sm_[0-9]{2,3}[af]?$`

var archForm = regexp.MustCompile(ArchForm)

// IsArch reports whether a text is the name of an architecture.
func IsArch(text string) bool { return archForm.MatchString(text) }

// architectures asks a compiler which architectures it knows. One that does not say knows none.
func (t *Tool) architectures(ctx context.Context) []string {
	args := []string{"--target=nvptx64-nvidia-cuda", "--print-supported-cpus"} // clang from 10 on, on standard error
	if t.Name == "nvcc" {
		args = []string{"--list-gpu-code"} // nvcc from 11 on
	}
	out, err := run(ctx, call{path: t.Path, args: args, limit: versionLimit})
	if err != nil {
		return nil
	}
	words := strings.Fields(out.stdout + " " + out.stderr)
	return slices.DeleteFunc(words, func(w string) bool { return !IsArch(w) })
}

// nearest returns the architecture to compile for where a compiler knows those of known: the one asked for, else the
// newest that is not newer, else the oldest.
func nearest(asked string, known []string) string {
	if slices.Contains(known, asked) {
		return asked
	}
	known = slices.DeleteFunc(slices.Clone(known), specific)
	slices.SortFunc(known, func(x, y string) int { return cmp.Compare(generation(x), generation(y)) })
	best := asked
	for i, arch := range known {
		if i == 0 || generation(arch) <= generation(asked) {
			best = arch
		}
	}
	return best
}

// specific reports whether an architecture is one variant of its generation: code for it runs on that one alone.
func specific(arch string) bool { return strings.HasSuffix(arch, "a") || strings.HasSuffix(arch, "f") }

// generation is the number of an architecture: 90 for sm_90a.
func generation(arch string) int {
	n, _ := strconv.Atoi(strings.TrimRight(strings.TrimPrefix(arch, "sm_"), "af")) // ArchForm: two or three digits
	return n
}

// known is for a refusal by the compiler: where it does not know the architecture, the source is compiled for one that
// it knows. The figures of machine code depend on it, so there an architecture that somebody asked for is not replaced.
func (j *job) known(refusal error, asked bool) error {
	compiler := j.compiler()
	arch := nearest(j.arch, compiler.architectures(j.ctx))
	name := strings.TrimSpace(compiler.Name + " " + compiler.Version)
	switch {
	case arch == j.arch:
		return refusal
	case asked && !j.textOnly:
		return withHint(refusal, fmt.Sprintf("%s does not know %s: ask for %s, or install a newer compiler", name, j.arch,
			arch))
	}
	*j.out = Output{Replaced: fmt.Sprintf("compiled for %s: %s does not know %s", arch, name, j.arch)}
	j.arch = arch
	err := j.compile()
	if diag.CodeOf(err) == Refused { // perhaps for what only the other architecture has
		err = withHint(err, strings.TrimSuffix("it was "+j.out.Replaced+"; "+diag.HintOf(err), "; "))
	}
	return err
}
