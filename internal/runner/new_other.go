//go:build !unix

package runner

// This file implements New where there are no process groups and no memfd: the catalogue's references alone.

import (
	"strings"

	"gpuemu/internal/diag"
)

// New returns the runner of spec.Target.
func New(spec Spec) (Runner, error) {
	if name, ok := strings.CutPrefix(spec.Target, "builtin:"); ok {
		return newBuiltin(name)
	}
	return nil, diag.Errorf(TargetUnsupported, "use Linux, macOS or WSL",
		"%s: candidates are executed on Unix systems only", spec.Target)
}
