package cudatool

// This file implements one call of a program.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"gpuemu/internal/diag"
)

const (
	// maxText is how much is read of what a program prints: a listing of a large library has some 100 MB.
	maxText = 256 << 20
	// killGrace is how long the pipes of a program that was stopped are still read.
	killGrace = 500 * time.Millisecond
)

// call is a program with its arguments.
type call struct {
	path  string
	args  []string
	dir   string   // "": where we stand
	env   []string // nil: that of the process
	limit time.Duration
	most  int // bytes that are read of what it prints; 0: maxText
}

// output is what a program printed.
type output struct{ stdout, stderr string }

// run calls a program and waits for its end.
func run(ctx context.Context, c call) (output, error) {
	name := filepath.Base(c.path)
	limited, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	cmd := exec.CommandContext(limited, c.path, c.args...)
	cmd.Dir, cmd.Env = c.dir, c.env
	cmd.WaitDelay = killGrace
	ownGroup(cmd)
	if c.most == 0 {
		c.most = maxText
	}
	stdout, stderr := &capped{most: c.most, stop: cancel}, &capped{most: c.most, stop: cancel}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) { // a child of the program keeps its pipe open, so that the group still exists
		err = errors.Join(err, endGroup(cmd))
	}
	out := output{stdout.buf.String(), stderr.buf.String()}
	switch {
	case ctx.Err() != nil:
		return out, context.Cause(ctx)
	case stdout.over || stderr.over:
		return out, diag.Errorf(Limit, "give it a smaller input", "%s printed more than %d bytes", name, c.most)
	case errors.Is(limited.Err(), context.DeadlineExceeded):
		return out, diag.Errorf(TimedOut, "try it by hand: "+c.String(), "%s did not end within %v", name, c.limit)
	case err == nil:
		return out, nil
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return out, diag.Errorf(Refused, "", "%s: %s", name, firstLines(out, exit))
	}
	return out, diag.Errorf(Broken, "try it by hand: "+c.String(), "%s: %w", name, err)
}

// String is the command as a shell would take it.
func (c call) String() string {
	words := []string{c.path}
	for _, a := range c.args {
		if strings.ContainsAny(a, " \t\n'\"\\$*?;&|<>(){}[]~`#!") || a == "" {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}

// How much of a compiler's messages an error repeats; the first ones are the cause of the others.
const (
	shownLines = 6
	shownBytes = 2000
)

var errorLine = regexp.MustCompile(`(?i)\b(fatal|error)\b`)

// firstLines is the beginning of what a program said when it failed.
func firstLines(out output, exit *exec.ExitError) string {
	text := strings.TrimSpace(out.stderr)
	if text == "" {
		text = strings.TrimSpace(out.stdout)
	}
	if text == "" {
		return fmt.Sprintf("exit status %d without a message", exit.ExitCode())
	}
	lines := strings.Split(text, "\n")
	if i := slices.IndexFunc(lines, errorLine.MatchString); i > 0 {
		lines = lines[i:] // behind warnings
	}
	if len(lines) > shownLines {
		lines = append(lines[:shownLines:shownLines], "…")
	}
	text = strings.ToValidUTF8(strings.Join(lines, "\n"), "\uFFFD")
	if len(text) > shownBytes {
		text = strings.ToValidUTF8(text[:shownBytes], "") + "…"
	}
	return text
}

// capped keeps what is written up to a limit, and stops the program behind it.
type capped struct {
	most int
	mu   sync.Mutex
	buf  bytes.Buffer
	over bool
	stop func()
}

func (c *capped) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.buf.Len()+len(b) > c.most {
		c.over = true
		c.stop()
		return len(b), nil // the program is being stopped; its pipe stays open until then
	}
	return c.buf.Write(b)
}
