package wire

import (
	"encoding/json"
	"time"
)

// This file implements the types of the HTTP API that concern compiled kernels.

// LintRequest holds compiled kernels to their policy: those of gpuemu.toml, or a PTX text.
type LintRequest struct {
	Config  string   `json:"config,omitempty"`
	Kernels []string `json:"kernels,omitempty"` // names in gpuemu.toml; none: all
	Strict  bool     `json:"strict,omitempty"`  // limits count also where a figure is an estimate or not known

	// PTX is a text to look at instead of files. Kernel is the name of what it holds, which gpuemu.toml may have; else,
	// and without it, kernels that gpuemu.toml has by their names in the text have its limits, and others the documented
	// ones.
	PTX    *string     `json:"ptx,omitempty"`
	Kernel string      `json:"kernel,omitempty"`
	Env    Environment `json:"env,omitzero"` // of the caller: that of compilers
}

// LintReply is what was found. Metrics are stored under the names of the kernels.
type LintReply struct {
	Lint     json.RawMessage `json:"lint"`      // inspect.Document
	ExitCode int             `json:"exit_code"` // 1: a rule is broken; 3: something was not looked at
	Saved    time.Time       `json:"saved"`
}

// ArtifactInfo is what is stored of a kernel.
type ArtifactInfo struct {
	Kernel   string          `json:"kernel"` // the name it is stored under
	Saved    time.Time       `json:"saved"`
	Artifact json.RawMessage `json:"artifact"` // inspect.Snapshot; without its texts in a list
}

// ArtifactsReply lists the stored kernels of a project by name.
type ArtifactsReply struct {
	Artifacts []ArtifactInfo `json:"artifacts"`
}
