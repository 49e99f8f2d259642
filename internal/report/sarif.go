// This file implements the SARIF form of lint: what code scanning of GitHub and other platforms reads. That of runs is
// in sarifrun.go.

package report

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"gpuemu/internal/artifact"
	"gpuemu/internal/escape"
	"gpuemu/internal/inspect"
)

// SARIFOptions say where the files of a document are.
type SARIFOptions struct {
	Version string // of gpuemu
	// Dir is what relative paths of the document are relative to; Root is the directory of the repository, which the
	// paths in the SARIF file are relative to. Both are absolute.
	Dir, Root string
	Config    string // absolute path of gpuemu.toml, the place of what has no other one; "" where it is not needed
}

// RepositoryRoot is the directory of the repository that dir is in, else dir itself: code scanning wants paths relative
// to it.
func RepositoryRoot(dir string) string {
	for d := dir; ; {
		if _, err := os.Stat(filepath.Join(d, ".git")); err == nil {
			return d
		}
		up := filepath.Dir(d)
		if up == d {
			return dir
		}
		d = up
	}
}

// maxSARIFResults is how many results are written: GitHub refuses a run with more.
const maxSARIFResults = 25_000

// Types of SARIF 2.1.0 (OASIS standard), those parts that are written.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool        sarifTool            `json:"tool"`
		Bases       map[string]sarifBase `json:"originalUriBaseIds"`
		Invocations []sarifInvocation    `json:"invocations"`
		Results     []sarifResult        `json:"results"`
		ColumnKind  string               `json:"columnKind"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version,omitempty"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID         string         `json:"id"`
		Name       string         `json:"name"`
		Short      sarifText      `json:"shortDescription"`
		Full       sarifText      `json:"fullDescription"`
		Help       sarifText      `json:"help"`
		Default    sarifDefault   `json:"defaultConfiguration"`
		Properties map[string]any `json:"properties"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifDefault struct {
		Level string `json:"level"`
	}
	sarifBase struct {
		Description sarifText `json:"description"`
	}
	sarifInvocation struct {
		Successful    bool                `json:"executionSuccessful"`
		Notifications []sarifNotification `json:"toolExecutionNotifications,omitempty"`
	}
	sarifNotification struct {
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations,omitempty"`
	}
	sarifResult struct {
		RuleID       string            `json:"ruleId"`
		RuleIndex    int               `json:"ruleIndex"`
		Level        string            `json:"level"`
		Message      sarifText         `json:"message"`
		Locations    []sarifLocation   `json:"locations"`
		Related      []sarifLocation   `json:"relatedLocations,omitempty"`
		Fingerprints map[string]string `json:"partialFingerprints"`
	}
	sarifLocation struct {
		ID       *int          `json:"id,omitempty"`
		Physical sarifPhysical `json:"physicalLocation"`
		Message  *sarifText    `json:"message,omitempty"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   sarifRegion   `json:"region"`
	}
	sarifArtifact struct {
		URI  string `json:"uri"`
		Base string `json:"uriBaseId,omitempty"`
	}
	sarifRegion struct {
		StartLine int `json:"startLine"`
	}
)

// sourceRoot is the base that paths are relative to; the reader knows where the repository is.
const sourceRoot = "%SRCROOT%"

// lintRules say of each kind of violation what it means and what to do.
var lintRules = map[artifact.ViolationKind]struct{ name, short, help string }{
	artifact.ExcessiveRegisters: {"ExcessiveRegisters", "A kernel needs more registers than allowed",
		"Fewer blocks fit on a multiprocessor. Shorten live ranges, split the kernel, or compile with " +
			"-maxrregcount or __launch_bounds__; or raise max_registers. An estimate from PTX is a note: give the cubin."},
	artifact.ExcessiveSpills: {"ExcessiveSpills", "A kernel spills more registers to local memory than allowed",
		"Spilled values travel through the caches. Reduce unrolling or what is live at once, or allow more registers; " +
			"or raise max_spills."},
	artifact.ExcessiveLocalMemory: {"ExcessiveLocalMemory", "A kernel uses more local memory than allowed",
		"Arrays that are indexed at run time, and spills, live in local memory. Make indexes constant by unrolling, or " +
			"use shared memory; or raise max_local_memory."},
	artifact.ExcessiveShared: {"ExcessiveSharedMemory", "A kernel uses more static shared memory than allowed",
		"Fewer blocks fit on a multiprocessor. Use smaller tiles; or raise max_shared."},
	artifact.ExcessiveInstructions: {"ExcessiveInstructions", "A kernel has more instructions than allowed",
		"Long code misses the instruction cache. Unroll less; or raise max_instructions."},
	artifact.ExcessiveStack: {"ExcessiveStack", "A kernel needs more stack than allowed",
		"Calls, recursion and arrays indexed at run time need a stack. Inline functions; or raise max_stack."},
	artifact.MissingRequiredPattern: {"MissingRequiredPattern", "A required instruction does not occur in a kernel",
		"The compiler did not choose the instruction that required_patterns asks for. Look at alignment, types and " +
			"target architecture."},
	artifact.ForbiddenPatternFound: {"ForbiddenPatternFound", "A forbidden instruction occurs in a kernel",
		"The compiler chose an instruction that forbidden_patterns excludes. Change the source at the place that is " +
			"named, or the flags of the compiler."},
}

// SARIF writes what lint found as SARIF 2.1.0.
func SARIF(w io.Writer, d *inspect.Document, opt SARIFOptions) error {
	return opt.lintRun(d).write(w)
}

// write writes a file of one run.
func (r *sarifRun) write(w io.Writer) error {
	text, err := encode(sarifLog{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0",
		Runs: []sarifRun{*r}}, "  ")
	if err != nil {
		return fmt.Errorf("report: sarif: %w", err)
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// lintRun is what lint found.
func (o *SARIFOptions) lintRun(d *inspect.Document) *sarifRun {
	run := sarifRun{Tool: sarifTool{sarifDriver{Name: "gpuemu", Version: o.Version, Rules: []sarifRule{}}},
		Bases:   map[string]sarifBase{sourceRoot: {sarifText{"the root of the repository"}}},
		Results: []sarifResult{}, ColumnKind: "utf16CodeUnits"}
	index := map[artifact.ViolationKind]int{}
	for _, kind := range artifact.ViolationKinds() {
		rule := lintRules[kind]
		index[kind] = len(run.Tool.Driver.Rules)
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{ID: ruleID(kind), Name: rule.name,
			Short: sarifText{rule.short}, Full: sarifText{rule.short + "."}, Help: sarifText{rule.help},
			Default: sarifDefault{"error"}, Properties: map[string]any{"tags": []string{"gpu", "performance"}}})
	}
	seen := map[string]int{}
	dropped := 0
	for i := range d.Kernels {
		k := &d.Kernels[i]
		for j := range k.Violations {
			if len(run.Results) >= maxSARIFResults {
				dropped++
				continue
			}
			r := o.result(k, &k.Violations[j], seen)
			r.RuleIndex = index[k.Violations[j].Kind]
			run.Results = append(run.Results, r)
		}
	}
	call := sarifInvocation{Successful: len(d.Unread) == 0}
	for i := range d.Unread {
		call.Notifications = append(call.Notifications, o.notification(&d.Unread[i]))
	}
	if dropped > 0 {
		call.Notifications = append(call.Notifications, sarifNotification{Level: "warning",
			Message: sarifText{fmt.Sprintf("%d more results are left out: at most %d are allowed", dropped, maxSARIFResults)}})
	}
	run.Invocations = []sarifInvocation{call}
	return &run
}

func ruleID(kind artifact.ViolationKind) string { return "gpuemu/" + string(kind) }

// result is one violation. Its place is that in the source where the compiler recorded it and the file is there, else
// that in the compiled text.
func (o *SARIFOptions) result(k *inspect.Kernel, v *artifact.Violation, seen map[string]int) sarifResult {
	level := "error"
	if v.Severity == artifact.Note {
		level = "note"
	}
	message := v.Message
	if v.Hint != "" {
		message += ". " + v.Hint
	}
	r := sarifResult{RuleID: ruleID(v.Kind), Level: level, Message: sarifText{escape.SARIF(message)}}
	compiled := o.location(v.File, v.Line)
	if uri, ok := o.source(v.SourceFile); ok && v.SourceLine > 0 {
		r.Locations = []sarifLocation{{Physical: sarifPhysical{uri, sarifRegion{v.SourceLine}}}}
		id := 1
		compiled.ID, compiled.Message = &id, &sarifText{"the compiled code"}
		r.Related = []sarifLocation{compiled}
	} else {
		r.Locations = []sarifLocation{compiled}
	}
	// Lines move with every compilation, so the identity of a result is what it is about.
	sum := sha256.Sum256([]byte(strings.Join([]string{string(v.Kind), k.Label(), k.Kernel, k.Arch, v.Pattern,
		r.Locations[0].Physical.Artifact.URI}, "\x00")))
	id := hex.EncodeToString(sum[:8])
	seen[id]++
	r.Fingerprints = map[string]string{"primaryLocationLineHash": fmt.Sprintf("%s:%d", id, seen[id])}
	return r
}

func (o *SARIFOptions) notification(u *inspect.Unread) sarifNotification {
	message := u.Label() + ": " + u.Message
	if u.Hint != "" {
		message += ". " + u.Hint
	}
	n := sarifNotification{Level: "error", Message: sarifText{escape.SARIF(message)}}
	if u.File != "" {
		n.Locations = []sarifLocation{o.location(u.File, u.Line)}
	}
	return n
}

func (o *SARIFOptions) location(file string, line int) sarifLocation {
	return sarifLocation{Physical: sarifPhysical{o.uri(o.abs(file)), sarifRegion{max(line, 1)}}}
}

func (o *SARIFOptions) abs(file string) string {
	if filepath.IsAbs(file) {
		return filepath.Clean(file)
	}
	return filepath.Join(o.Dir, file)
}

// uri is a path as a reference relative to the root, or, outside of it, as an absolute one.
func (o *SARIFOptions) uri(path string) sarifArtifact {
	rel, err := filepath.Rel(o.Root, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return sarifArtifact{URI: (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String()}
	}
	return sarifArtifact{URI: (&url.URL{Path: filepath.ToSlash(rel)}).String(), Base: sourceRoot}
}

// source is the file that a compiler says a line came from, if it is a file of the repository.
func (o *SARIFOptions) source(file string) (sarifArtifact, bool) {
	if file == "" {
		return sarifArtifact{}, false
	}
	candidates := []string{filepath.Clean(file)}
	if !filepath.IsAbs(file) {
		candidates = []string{filepath.Join(o.Dir, file), filepath.Join(o.Root, file)}
	}
	for _, path := range candidates {
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if uri := o.uri(path); uri.Base != "" {
			return uri, true
		}
	}
	return sarifArtifact{}, false
}
