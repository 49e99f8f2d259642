// Package campaign is the pipeline from a configuration to verdicts: it plans cases, has them executed and compared,
// stores what came out, and replays, minimises and calibrates. It is the only package that knows the pipeline whole.
//
// It does not decide what right means (compare and oracle do), execute code (runner does) or print (report and cli
// do). The main types are Engine, which holds what all campaigns share, and Run, one prepared campaign. A case's
// result depends on the case and the code under test alone: neither on the number of workers nor on what ran before.
package campaign

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"gpuemu/internal/compare"
	"gpuemu/internal/config"
	"gpuemu/internal/cudatool"
	"gpuemu/internal/dtype"
	"gpuemu/internal/emulation"
	"gpuemu/internal/runner"
	"gpuemu/internal/store"
	"gpuemu/internal/verdict"
)

// This file implements the engine and the executors of its subjects.

// Engine holds what campaigns share. It may be used by several goroutines.
type Engine struct {
	Store *store.Store
	// RunDir is a private directory for sockets and shared files of running workers.
	RunDir string
	// Python is the interpreter used where neither the op nor the project names one.
	Python string
	Now    func() time.Time
	// Pool is the memory for launches of compiled kernels; nil: no limit but that of each.
	Pool *emulation.Pool
	// Emulator executes launches of Triton kernels that candidates make.
	Emulator runner.Emulator
	// Hold is asked for the memory of cases that requests name.
	Hold Hold

	sessions sessions
	running  running
	ahead    ahead
	keeper   keeper
}

// A Project is a configuration as one request sees it.
type Project struct {
	Config *config.Config // nil: no gpuemu.toml
	Python string         // interpreter resolved by the client; "": Engine.Python
	Env    []string       // of the client, as NAME=value by name; nil: that of the process
}

// environment is the environment of the client as part of a key: what runs under another one is not shared.
func (p Project) environment() string { return strings.Join(p.Env, "\x00") }

// path is the configuration's path, "" where there is none.
func (p Project) path() string {
	if p.Config == nil {
		return ""
	}
	return p.Config.Path
}

// name is the project's name in reports.
func (p Project) name() string {
	switch {
	case p.Config == nil:
		return ""
	case p.Config.Project.Name != "":
		return p.Config.Project.Name
	}
	return filepath.Base(p.Config.Dir)
}

// dir is the directory that paths of the configuration are relative to.
func (p Project) dir() string {
	if p.Config == nil {
		return "."
	}
	return p.Config.Dir
}

// executor runs the candidates and references of some subjects. Its runners start processes when first needed.
type executor struct {
	engine  *Engine
	project Project
	slots   int

	mu         sync.Mutex // guards the maps
	candidates map[*subject]runner.Runner
	references map[*subject]runner.Runner
	probes     map[string]*probes // by op and dtype; see confirm
}

// purpose says what an executor is for.
type purpose uint8

const (
	forRunning purpose = iota // candidates and references; subjects that are blocked get no runners
	forJudging                // references, and candidates where there are some
)

// newExecutor opens the runners of the subjects. A target that does not exist is an error: nothing should start.
func (e *Engine) newExecutor(p Project, subjects []*subject, slots int, why purpose) (*executor, error) {
	x := &executor{engine: e, project: p, slots: slots,
		candidates: map[*subject]runner.Runner{}, references: map[*subject]runner.Runner{}}
	for _, s := range subjects {
		s.workers = max(1, runtime.GOMAXPROCS(0)/slots) // cases are spread over the cores already
		if s.blocked != nil && why == forRunning {
			continue
		}
		if s.candidate != "" && s.blocked == nil {
			if err := x.openCandidate(s); err != nil {
				x.close()
				return nil, fmt.Errorf("op %q: candidate: %w", s.name, err)
			}
		}
		if _, builtin := builtinName(s.reference); s.reference == "" || builtin && s.entry != nil {
			continue // evaluated in process, with its bound
		}
		if err := x.open(s, x.references, s.reference); err != nil {
			x.close()
			return nil, fmt.Errorf("op %q: reference: %w", s.name, err)
		}
	}
	return x, nil
}

func (x *executor) openCandidate(s *subject) error {
	if s.launch == nil {
		return x.open(s, x.candidates, s.candidate)
	}
	r, err := runner.NewKernel(runner.KernelSpec{Op: s.name, Launch: s.launch, Dir: x.project.dir(), Workers: s.workers,
		DTypes: s.planned, Timeout: s.timeout, Memory: s.memory, Pool: x.engine.Pool,
		Tools: func(ctx context.Context) *cudatool.Tools { return cudatool.FindFor(ctx, x.project.Env) }})
	if err != nil {
		return err
	}
	x.candidates[s] = r
	return nil
}

func (x *executor) open(s *subject, into map[*subject]runner.Runner, target string) error {
	spec := runner.Spec{
		Target: target, Python: x.python(s), Dir: x.project.dir(), Base: x.project.Env, Env: s.env, Raw: s.raw,
		Slots: x.slots, RunDir: x.engine.RunDir,
		Limits: runner.Limits{Timeout: s.timeout, Memory: cmp.Or(s.memory, emulation.HalfOfMemory()),
			Watch: s.memory == 0}, // nobody has asked for a limit: it is to keep the machine alive
	}
	if s.emulated && target == s.candidate {
		spec.Emulator = x.engine.Emulator
	}
	r, err := runner.New(spec)
	if err != nil {
		return err
	}
	into[s] = r
	return nil
}

// python is the interpreter of a subject: its own key, the project's, the client's, the engine's.
func (x *executor) python(s *subject) string {
	switch {
	case s.python != "" && x.project.Config != nil && strings.ContainsRune(s.python, filepath.Separator):
		return x.project.Config.Abs(s.python)
	case s.python != "":
		return s.python
	case x.project.Python != "":
		return x.project.Python
	}
	return x.engine.Python
}

func (x *executor) candidate(s *subject) runner.Runner {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.candidates[s]
}

func (x *executor) reference(s *subject) runner.Runner {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.references[s]
}

// lend gives s the runners of another subject, of which it is a copy, until the returned function is called.
func (x *executor) lend(s, from *subject) func() {
	if s == from {
		return func() {}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, m := range []map[*subject]runner.Runner{x.candidates, x.references} {
		if r, ok := m[from]; ok {
			m[s] = r
		}
	}
	return func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.candidates, s)
		delete(x.references, s)
	}
}

// close ends all processes.
func (x *executor) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, m := range []map[*subject]runner.Runner{x.candidates, x.references} {
		for _, r := range m {
			_ = r.Close() // nothing of a campaign depends on how its processes end
		}
	}
}

// codeDigest is a digest of the files that candidates and references are, so that a campaign is not continued with
// other code. It does not see what they import.
func (x *executor) codeDigest(subjects []*subject) string {
	h := sha256.New()
	for _, s := range subjects {
		for _, target := range []string{s.candidate, s.reference} {
			fmt.Fprintf(h, "%s\x00%s\x00", s.name, target)
			for _, path := range x.targetFiles(target) {
				f, err := os.Open(path)
				if err != nil {
					continue // runner.New has reported a missing file
				}
				_, _ = io.Copy(h, f) // a file that cannot be read cannot be run either
				f.Close()
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// targetFiles returns the paths of the files that a target names: of a command, every word that may be one.
func (x *executor) targetFiles(target string) []string {
	var files []string
	if _, ok := builtinName(target); ok || target == "" {
		return nil
	}
	if kernel, ok := strings.CutPrefix(target, config.EmulatePrefix); ok {
		kernel, _, _ = strings.Cut(kernel, "#")
		files = []string{kernel}
		if strings.Contains(kernel, config.PerDType) {
			files = nil
			for _, d := range dtype.All() { // those that are not there do not count
				files = append(files, strings.ReplaceAll(kernel, config.PerDType, d.String()))
			}
		}
	} else if command, ok := strings.CutPrefix(target, "worker:"); ok {
		files = strings.Fields(command)
	} else if i := strings.LastIndex(target, ".py:"); i >= 0 {
		files = []string{target[:i+len(".py")]}
	} else {
		files = []string{target}
	}
	for i, path := range files {
		if path = strings.Trim(path, `"'`); !filepath.IsAbs(path) {
			path = filepath.Join(x.project.dir(), path)
		}
		files[i] = path
	}
	return files
}

// maxSurroundings bounds the files that surroundings looks at: more than a project of kernels has, and a millisecond.
const maxSurroundings = 2000

// surroundings is a digest of names, sizes and times of the code files beside and below those that candidate and
// reference name. A worker has imported some of them, and keeps what it imported: it must not serve the next request
// when one was edited. Where there are too many files the rest is not looked at.
func (x *executor) surroundings(s *subject) string {
	h := sha256.New()
	seen := map[string]bool{}
	left := maxSurroundings
	for _, target := range []string{s.candidate, s.reference} {
		for _, path := range x.targetFiles(target) {
			root := filepath.Dir(path)
			if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || seen[root] {
				continue
			}
			seen[root] = true
			_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error { // what cannot be read is not seen
				switch {
				case err != nil:
					return nil
				case left == 0:
					return filepath.SkipAll
				case d.IsDir():
					if name := d.Name(); path != root && (name[0] == '.' || name == "__pycache__" || name == "node_modules" ||
						name == "site-packages") {
						return filepath.SkipDir
					}
					return nil
				}
				left--
				if info, err := d.Info(); err == nil && slices.Contains(codeFiles, filepath.Ext(path)) {
					fmt.Fprintf(h, "%s\x00%d\x00%d\x00", path, info.Size(), info.ModTime().UnixNano())
				}
				return nil
			})
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// codeFiles are the endings of files that kernels are made of.
var codeFiles = []string{".py", ".so", ".dylib", ".c", ".cc", ".cpp", ".h", ".cu", ".cuh", ".ptx", ".cubin"}

// loadCalibrations reads what is stored for the subjects.
func (e *Engine) loadCalibrations(ctx context.Context, p Project, subjects []*subject) error {
	if e.Store == nil {
		return nil
	}
	for _, s := range subjects {
		if s.schema == nil {
			continue
		}
		list, err := e.Store.Calibrations(ctx, p.path(), s.name)
		if err != nil {
			return err
		}
		for i := range list {
			if d, err := dtype.Parse(list[i].DType); err == nil { // another version may have had other types
				s.rules.setCalibrated(d, list[i].ATol, list[i].RTol)
			}
		}
	}
	return nil
}

func (r *rules) setCalibrated(d dtype.DType, atol, rtol float64) {
	if r.calibrated == nil {
		r.calibrated = map[dtype.DType]compare.Tolerance{}
	}
	r.calibrated[d] = compare.Tolerance{Abs: atol, Rel: rtol}
}

// stamp sets what every result says of its subject.
func (s *subject) stamp(res *verdict.Result) {
	res.Op, res.Candidate, res.Reference = s.name, s.candidate, s.reference
}
