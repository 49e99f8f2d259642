package runner

// This file implements groups of processes with a common limit of memory: cgroup v2, where it is delegated to us.

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// cgroups is a directory in which we may make groups that limit memory. dir is "" where there is none.
type cgroups struct{ dir string }

// absent reports whether there is none, so that limits of memory are those of processes (RLIMIT_DATA).
func (c *cgroups) absent() bool { return c == nil || c.dir == "" }

// cgroupNumber tells the groups of this process apart.
var cgroupNumber atomic.Uint64

// delegatedCgroups finds a directory that has memory limits enabled for its children and lets us make some: that of our
// own group, or the one above it, as systemd gives to users. Nothing is enabled that is not.
func delegatedCgroups() *cgroups {
	own := ownCgroup("/proc/self/mountinfo", "/proc/self/cgroup")
	if own == "" {
		return &cgroups{}
	}
	for _, dir := range []string{own, filepath.Dir(own)} {
		enabled, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
		if err != nil || !slices.Contains(strings.Fields(string(enabled)), "memory") {
			continue
		}
		c := &cgroups{dir}
		if probe := c.create(1 << 30); probe != nil {
			probe.remove()
			c.removeStale()
			return c
		}
	}
	return &cgroups{}
}

// removeStale removes the groups that a process left behind which was killed. Those that are in use are busy.
func (c *cgroups) removeStale() {
	groups, _ := filepath.Glob(filepath.Join(c.dir, "gpuemu-*-*")) // the pattern is well formed
	for _, dir := range groups {
		number, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), "gpuemu-"), "-")
		if pid, err := strconv.Atoi(number); err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = syscall.Rmdir(dir) // of another namespace of processes, perhaps, and in use
		}
	}
}

// ownCgroup is the directory of the group that this process is in; "" where cgroup v2 is not mounted.
func ownCgroup(mounts, membership string) string {
	text, err := os.ReadFile(membership)
	if err != nil {
		return ""
	}
	path, found := "", false
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "0::"); ok {
			path, found = strings.TrimSuffix(rest, "\n"), true
		}
	}
	f, err := os.Open(mounts)
	if err != nil || !found {
		return ""
	}
	defer f.Close()
	for scan := bufio.NewScanner(f); scan.Scan(); {
		// 30 23 0:26 /root /mount/point options … - type source options (proc_pid_mountinfo(5))
		head, tail, _ := strings.Cut(scan.Text(), " - ")
		fields := strings.Fields(head)
		if len(fields) < 5 || !strings.HasPrefix(tail, "cgroup2 ") {
			continue
		}
		if below, err := filepath.Rel(fields[3], path); err == nil && filepath.IsLocal(below) {
			return filepath.Join(fields[4], below)
		}
	}
	return ""
}

// cgroup is one group.
type cgroup struct {
	dir   string
	kills uint64 // by the kernel for want of memory, when last looked at
}

// create makes a group with a limit of memory; nil where that is not permitted.
func (c *cgroups) create(memory int64) *cgroup {
	if c.absent() {
		return nil
	}
	name := fmt.Sprintf("gpuemu-%d-%d", os.Getpid(), cgroupNumber.Add(1))
	g := &cgroup{dir: filepath.Join(c.dir, name)}
	if os.Mkdir(g.dir, 0o700) != nil {
		return nil
	}
	if g.write("memory.max", strconv.FormatInt(memory, 10)) != nil {
		g.remove()
		return nil
	}
	// Swap would only delay the end, and one process without the others is of no use. Not every kernel has these files.
	_ = g.write("memory.swap.max", "0")
	_ = g.write("memory.oom.group", "1")
	return g
}

func (g *cgroup) write(name, text string) error {
	return os.WriteFile(filepath.Join(g.dir, name), []byte(text), 0o600)
}

// add moves a process into the group.
func (g *cgroup) add(pid int) error { return g.write("cgroup.procs", strconv.Itoa(pid)) }

// newKills reports whether the kernel ended processes of the group for want of memory since the last call.
func (g *cgroup) newKills() bool {
	text, err := os.ReadFile(filepath.Join(g.dir, "memory.events"))
	if err != nil {
		return false
	}
	before := g.kills
	for line := range bytes.Lines(text) {
		if n, ok := bytes.CutPrefix(line, []byte("oom_kill ")); ok {
			if n, err := strconv.ParseUint(string(bytes.TrimSpace(n)), 10, 64); err == nil {
				g.kills = n
			}
		}
	}
	return g.kills > before
}

// kill ends all processes of the group. A kernel older than 5.14 cannot; the sweep of the family must do there.
func (g *cgroup) kill() { _ = g.write("cgroup.kill", "1") }

// remove removes the group, which is busy until the last of its processes has ended.
func (g *cgroup) remove() {
	for deadline := time.Now().Add(sweepTime); ; time.Sleep(time.Millisecond) {
		err := syscall.Rmdir(g.dir)
		if !errors.Is(err, syscall.EBUSY) || time.Now().After(deadline) {
			return // it is empty and harmless, whatever kept it
		}
	}
}
