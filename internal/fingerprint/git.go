package fingerprint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuemu/internal/diag"
)

// This file implements running git: with a time limit, with limits on what it prints, and with everything switched
// off by which a repository or its configuration could make it run another program.

const (
	gitTime   = 5 * time.Minute  // of one command; hashing some gigabytes on a slow disk is within it
	gitAnswer = 512 << 20        // bytes of an answer that is kept whole: a list of a few million entries
	gitStderr = 8 << 10          // bytes of a complaint; the rest is dropped
	gitDrain  = 10 * time.Second // how long the pipes of a killed command may stay open
)

// oldestGit is the first version that knows GIT_CONFIG_GLOBAL and GIT_CONFIG_COUNT. An older one would silently run
// with the hardening left out.
var oldestGit = gitVersion{2, 32}

// trustingGit is the first version that takes safe.directory from the command line's level.
var trustingGit = gitVersion{2, 38}

// gitVersion is major and minor.
type gitVersion [2]int

func (v gitVersion) before(w gitVersion) bool { return v[0] < w[0] || v[0] == w[0] && v[1] < w[1] }

// setting is one line of Git's configuration, given on the command line's level: it beats every file.
type setting struct{ key, value string }

// hardened is the configuration of every command. What is here is either a program that git would run, or makes an
// answer depend on the machine.
var hardened = []setting{
	{"core.fsmonitor", "false"},
	{"core.hooksPath", os.DevNull},
	{"core.pager", "cat"},
	{"core.editor", "false"},
	{"core.askPass", ""},
	{"core.sshCommand", "false"},
	{"core.gitProxy", ""},
	{"core.alternateRefsCommand", "false"},
	{"core.attributesFile", os.DevNull},
	{"core.excludesFile", os.DevNull},
	{"core.untrackedCache", "false"},
	{"core.splitIndex", "false"},
	{"core.checkStat", "default"},
	{"core.trustctime", "true"},
	{"core.safecrlf", "false"},
	{"core.quotePath", "true"},
	{"core.looseCompression", "0"}, // temporary objects only
	{"credential.helper", ""},
	{"diff.external", ""},
	{"diff.ignoreSubmodules", "dirty"},
	{"fetch.recurseSubmodules", "false"},
	{"gc.auto", "0"},
	{"gpg.program", "false"},
	{"maintenance.auto", "false"},
	{"protocol.allow", "never"},
	{"submodule.recurse", "false"},
	{"uploadpack.packObjectsHook", ""},
}

// kept are the variables of the environment that git sees: where programs and temporary files are. Everything else
// stays behind, GIT_DIR, GIT_INDEX_FILE, GIT_EXEC_PATH and GIT_TRACE among it.
var kept = []string{"PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH",
	"GIT_DISCOVERY_ACROSS_FILESYSTEM", "SystemRoot", "SYSTEMROOT", "TEMP", "TMP", "USERPROFILE", "PATHEXT", "ComSpec"}

// git is the program and how it is run.
type git struct {
	ctx      context.Context
	path     string
	version  gitVersion
	settings []setting       // beside hardened: of the repository at hand
	filters  map[string]bool // the filters that are configured, and switched off in settings
	trusts   bool            // settings have a safe.directory
}

// call is one run of git.
type call struct {
	dir   string
	args  []string
	stdin io.Reader
	env   []string // "NAME=value", beside the usual
	user  bool     // with the configuration of user and system: only for reading it
}

// findGit looks git up and checks its version.
func findGit(ctx context.Context) (*git, error) {
	path, err := exec.LookPath("git")
	if err != nil {
		return nil, diag.Errorf(GitMissing, "install git, or add its folder to PATH", "there is no git program: %w", err)
	}
	g := &git{ctx: ctx, path: path}
	out, err := g.run(call{args: []string{"version"}})
	if err != nil {
		return nil, err
	}
	var ok bool
	if g.version, ok = parseGitVersion(string(out)); !ok || g.version.before(oldestGit) {
		return nil, diag.Errorf(GitMissing, fmt.Sprintf("install git %d.%d or later", oldestGit[0], oldestGit[1]),
			"%s is %s: too old to be run without its hooks and helpers", path, shortQuote(strings.TrimSpace(string(out))))
	}
	return g, nil
}

// parseGitVersion reads "git version 2.39.5 (Apple Git-154)".
func parseGitVersion(text string) (gitVersion, bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), "git version ")
	parts := strings.SplitN(rest, ".", 3)
	if !ok || len(parts) < 2 {
		return gitVersion{}, false
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return gitVersion{major, minor}, err1 == nil && err2 == nil
}

// environment is what git sees of the environment.
func (g *git) environment(c call) []string {
	env := []string{"LC_ALL=C", "LANGUAGE=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1",
		"GIT_NO_LAZY_FETCH=1", "GIT_LITERAL_PATHSPECS=1", "GIT_ATTR_NOSYSTEM=1", "GIT_ALLOW_PROTOCOL=none",
		"GIT_PAGER=cat", "GIT_ASKPASS=", "SSH_ASKPASS="}
	for _, name := range kept {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	if c.user {
		return append(append(env, userFiles("GIT_CONFIG_")...), c.env...)
	}
	if g.trusts && g.version.before(trustingGit) {
		// Such a version reads safe.directory in files only, so the user's are read too. The settings below beat them.
		env = append(env, userFiles("GIT_CONFIG_GLOBAL=", "GIT_CONFIG_SYSTEM=", "GIT_CONFIG_NOSYSTEM=")...)
	} else {
		env = append(env, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull)
	}
	n := 0
	for _, list := range [][]setting{hardened, g.settings} {
		for _, s := range list {
			env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, s.key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, s.value))
			n++
		}
	}
	return append(append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", n)), c.env...)
}

// userFiles are the variables that say where the user's configuration is: those with one of the prefixes.
func userFiles(prefixes ...string) []string {
	var found []string
	for _, e := range os.Environ() {
		for _, p := range append(prefixes, "XDG_CONFIG_HOME=") {
			if strings.HasPrefix(e, p) {
				found = append(found, e)
			}
		}
	}
	return found
}

// start begins a command whose answer the caller reads. wait ends it and gives its error; it must be called.
func (g *git) start(c call) (answer io.Reader, wait func() error, err error) {
	ctx, cancel := context.WithTimeout(g.ctx, gitTime)
	cmd := exec.CommandContext(ctx, g.path, append([]string{"--no-pager"}, c.args...)...)
	cmd.Dir, cmd.Stdin, cmd.Env, cmd.WaitDelay = c.dir, c.stdin, g.environment(c), gitDrain
	complaint := &bounded{limit: gitStderr}
	cmd.Stderr = complaint
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, nil, diag.Errorf(GitFailed, "", "git %s cannot be started: %w", c.args[0], err)
	}
	return pipe, func() error {
		pipe.Close() // a command that still prints gets an error instead of blocking
		err := cmd.Wait()
		late := ctx.Err()
		cancel()
		return gitError(c, err, late, complaint.buf.String())
	}, nil
}

// run runs a command and returns what it printed.
func (g *git) run(c call) ([]byte, error) {
	pipe, wait, err := g.start(c)
	if err != nil {
		return nil, err
	}
	out, readErr := io.ReadAll(io.LimitReader(pipe, gitAnswer+1))
	err = wait()
	switch {
	case len(out) > gitAnswer:
		return nil, diag.Errorf(Limit, "", "git %s printed more than %d MiB", c.args[0], gitAnswer>>20)
	case err != nil:
		return nil, err
	case readErr != nil:
		return nil, diag.Errorf(GitFailed, "", "git %s: %w", c.args[0], readErr)
	}
	return out, nil
}

// exitStatus is the exit status of a command that ended by itself with an error; it stays in the error's chain.
type exitStatus int

func (s exitStatus) Error() string { return "exit status " + strconv.Itoa(int(s)) }

// gitError makes the error of a command that failed.
func gitError(c call, err, late error, complaint string) error {
	if err == nil {
		return nil
	}
	complaint = cleanLine(complaint)
	var exit *exec.ExitError
	switch {
	case errors.Is(late, context.DeadlineExceeded):
		return diag.Errorf(Limit, "", "git %s did not end within the time allowed", c.args[0])
	case late != nil:
		return diag.Errorf(GitFailed, "", "git %s: %w", c.args[0], late)
	case strings.Contains(complaint, "dubious ownership"):
		return diag.Errorf(Ownership, "check out the repository as this user, or name it in safe.directory of the user's "+
			"Git configuration", "git does not trust %s: it belongs to another user", shortQuote(c.dir))
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		return diag.Errorf(GitFailed, "", "git %s: %s: %w", c.args[0], shortQuote(complaint), exitStatus(exit.ExitCode()))
	}
	return diag.Errorf(GitFailed, "", "git %s: %s: %w", c.args[0], shortQuote(complaint), err)
}

// cleanLine makes one line of a complaint.
func cleanLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// bounded keeps the first bytes written to it.
type bounded struct {
	buf   bytes.Buffer
	limit int
}

func (b *bounded) Write(p []byte) (int, error) {
	if room := b.limit - b.buf.Len(); room > 0 {
		b.buf.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// userSettings reads, of all the user's configuration, what must still hold: which folders he trusts, how line
// endings are kept, and which filters there are (to switch them off). Reading configuration runs nothing.
func (g *git) userSettings(dir string) error {
	out, err := g.run(call{dir: dir, user: true, args: []string{"config", "--show-scope", "-z", "--get-regexp",
		`^(safe\.directory|core\.autocrlf|core\.eol|filter\..*)$`}})
	var none exitStatus
	if errors.As(err, &none) && none == 1 { // nothing matches
		return nil
	}
	if err != nil {
		return err
	}
	g.settings, g.filters, err = parseSettings(out)
	g.trusts = slices.ContainsFunc(g.settings, func(s setting) bool { return s.key == "safe.directory" })
	return err
}

// parseSettings reads scope NUL key LF value NUL …, and makes of it the settings that our commands get. filters are
// the names of those that are configured.
func parseSettings(out []byte) (settings []setting, filters map[string]bool, err error) {
	fields := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if len(fields)%2 != 0 {
		return nil, nil, diag.Errorf(GitFailed, "", "git config: answer of %d fields, want pairs", len(fields))
	}
	filters = map[string]bool{}
	for i := 0; i < len(fields); i += 2 {
		scope := fields[i]
		key, value, assigned := strings.Cut(fields[i+1], "\n")
		if !assigned {
			value = "true" // a key alone is a boolean
		}
		switch {
		case key == "safe.directory":
			if scope == "system" || scope == "global" || scope == "command" { // never what the repository says of itself
				settings = append(settings, setting{key, value})
			}
		case key == "core.autocrlf":
			settings = appendKnown(settings, key, value, "true", "false", "input")
		case key == "core.eol":
			settings = appendKnown(settings, key, value, "lf", "crlf", "native")
		case strings.HasPrefix(key, "filter."):
			if end := strings.LastIndexByte(key, '.'); end > len("filter.") {
				filters[key[len("filter."):end]] = true
			}
		}
	}
	for name := range filters {
		for _, k := range []string{"clean", "smudge", "process"} {
			settings = append(settings, setting{"filter." + name + "." + k, ""})
		}
		settings = append(settings, setting{"filter." + name + ".required", "false"})
	}
	return settings, filters, nil
}

// appendKnown appends a setting whose value is one of those known; another one is git's default.
func appendKnown(settings []setting, key, value string, known ...string) []setting {
	if v := strings.ToLower(value); slices.Contains(known, v) {
		return append(settings, setting{key, v})
	}
	return settings
}

// samePath reports whether two paths name one folder, where the file system has case or links of its own.
func samePath(got, want string) bool {
	if got == want {
		return true
	}
	g, err1 := os.Stat(got)
	w, err2 := os.Stat(want)
	return err1 == nil && err2 == nil && os.SameFile(g, w)
}
