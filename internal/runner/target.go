//go:build unix

package runner

// This file implements New: from the text of a candidate or reference to who executes it.

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"gpuemu/internal/diag"
)

// functionTarget is file.py:function; the function may be an attribute of something (Class.method).
var functionTarget = regexp.MustCompile(`^(.+\.py):([^\d\W]\w*(?:\.[^\d\W]\w*)*)$`)

// New returns the runner of spec.Target. That a file or a program is missing is found here; that an interpreter lacks a
// package, when the first case runs.
func New(spec Spec) (Runner, error) {
	l := &spec.Limits
	l.Timeout = cmp.Or(l.Timeout, DefaultTimeout)
	l.Output = cmp.Or(l.Output, DefaultOutput)
	l.Stderr = cmp.Or(l.Stderr, DefaultStderr)
	spec.Slots = max(spec.Slots, 1)
	if name, ok := strings.CutPrefix(spec.Target, "builtin:"); ok {
		return newBuiltin(name)
	}
	dir, err := filepath.Abs(spec.Dir)
	if err != nil {
		return nil, err
	}
	spec.Dir = dir
	if spec.cgroups == nil && l.Memory > 0 {
		spec.cgroups = delegatedCgroups()
	}
	l.reserved = l.ofData() > 0 && spec.cgroups.absent()
	if spec.Python == "" {
		spec.Python = "python3"
	}
	if line, ok := strings.CutPrefix(spec.Target, "worker:"); ok {
		return newProgram(spec, line)
	}
	if m := functionTarget.FindStringSubmatch(spec.Target); m != nil {
		return newFunction(spec, m[1], m[2])
	}
	return newScript(spec)
}

func newFunction(spec Spec, file, function string) (Runner, error) {
	path, err := existing(spec, file)
	if err != nil {
		return nil, err
	}
	files, err := newRunFiles(spec.RunDir)
	if err != nil {
		return nil, err
	}
	return &workerRunner{spec: spec, argv: []string{interpreter(spec)}, file: path, function: function,
		who: filepath.Base(path) + ":" + function, loadTimeout: minLoadTimeout, files: files,
		pool: newPool[*worker](spec.Slots)}, nil
}

func newProgram(spec Spec, line string) (Runner, error) {
	argv, err := splitCommand(line)
	if err != nil {
		return nil, err
	}
	program, ok := findProgram(argv[0], spec.path(), spec.Dir)
	if !ok {
		return nil, diag.Errorf(TargetMissing, "build it, or correct the path; it is relative to gpuemu.toml",
			"worker:%s: there is no program %q", line, argv[0])
	}
	files, err := newRunFiles(spec.RunDir)
	if err != nil {
		return nil, err
	}
	argv[0] = program
	return &workerRunner{spec: spec, argv: argv, who: "worker " + filepath.Base(program), loadTimeout: minLoadTimeout,
		files: files, pool: newPool[*worker](spec.Slots)}, nil
}

func newScript(spec Spec) (Runner, error) {
	path, err := existing(spec, spec.Target)
	if err != nil {
		return nil, err
	}
	isPython := strings.HasSuffix(path, ".py") || hasPythonShebang(path)
	if !isPython && !isExecutable(path) {
		return nil, diag.Errorf(TargetNotExec, "chmod +x "+path,
			"%s: neither a Python file nor executable", spec.Target)
	}
	files, err := newRunFiles(spec.RunDir)
	if err != nil {
		return nil, err
	}
	r := &scriptRunner{spec: spec, script: path, argv: []string{path}, files: files,
		pool: newPool[*forkServer](spec.Slots)}
	if isPython {
		r.argv = []string{interpreter(spec), path}
		r.fork.Store(true)
	}
	r.closing, r.stop = context.WithCancel(context.Background())
	return r, nil
}

// interpreter is the path of spec.Python, as it stands where it is not found: starting it will say so.
func interpreter(spec Spec) string {
	if path, ok := findProgram(spec.Python, spec.path(), spec.Dir); ok {
		return path
	}
	return spec.Python
}

// existing returns the absolute path of a file of the project.
func existing(spec Spec, file string) (string, error) {
	if strings.TrimSpace(file) == "" {
		return "", diag.Errorf(TargetSyntax, "write file.py:function, the path of a script, worker:COMMAND or builtin:NAME",
			"a candidate or reference is empty")
	}
	path := file
	if !filepath.IsAbs(path) {
		path = filepath.Join(spec.Dir, path)
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		hint := "correct the path; it is relative to gpuemu.toml"
		if prefix, _, ok := strings.Cut(file, ":"); ok && !strings.Contains(prefix, "/") {
			hint = "write file.py:function, the path of a script, worker:COMMAND or builtin:NAME"
		}
		return "", diag.Errorf(TargetMissing, hint, "%s: there is no file %s", spec.Target, path)
	case !info.Mode().IsRegular():
		return "", diag.Errorf(TargetMissing, "name a file", "%s: %s is not a file", spec.Target, path)
	}
	return path, nil
}

// hasPythonShebang reports whether the first line asks for a Python interpreter.
func hasPythonShebang(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 128)
	n, err := io.ReadFull(f, head)
	if n == 0 && err != nil {
		return false
	}
	line, _, _ := bytes.Cut(head[:n], []byte("\n"))
	return bytes.HasPrefix(line, []byte("#!")) && bytes.Contains(line, []byte("python"))
}

// splitCommand splits a command line at spaces. Quotes of both kinds keep spaces, a backslash keeps the next character;
// nothing is expanded and there is no shell.
func splitCommand(line string) ([]string, error) {
	var argv []string
	var word strings.Builder
	inWord, quote, escaped := false, rune(0), false
	for _, c := range line {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			inWord, escaped = true, true
		case quote != 0:
			if c == quote {
				quote = 0
			} else {
				word.WriteRune(c)
			}
		case c == '\'' || c == '"':
			inWord, quote = true, c
		case c == ' ' || c == '\t':
			if inWord {
				argv = append(argv, word.String())
				word.Reset()
				inWord = false
			}
		default:
			inWord = true
			word.WriteRune(c)
		}
	}
	if inWord {
		argv = append(argv, word.String())
	}
	if quote != 0 || escaped || len(argv) == 0 || argv[0] == "" {
		return nil, diag.Errorf(TargetSyntax, "write worker:COMMAND, for example worker:./kernels/serve --fast",
			"worker:%s: not a command", line)
	}
	return argv, nil
}
