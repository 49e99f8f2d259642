package runner

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpuemu/internal/verdict"
)

// groupsOf returns groups in an ordinary directory, which has files of the same names as cgroup v2 and no effect.
func groupsOf(t *testing.T) (*cgroups, []string) {
	t.Helper()
	dir := t.TempDir()
	return &cgroups{dir}, []string{"GROUPS=" + dir}
}

// ofGroup is Python that finds the group of the call in such a directory.
const ofGroup = `import glob, os, resource, sys
group = glob.glob(os.environ["GROUPS"] + "/gpuemu-*")[0]
def read(name): return open(group + "/" + name).read()
`

// TestMemoryOfGroup: where there are cgroups, the limit is that of a group which the process is in, and a process that
// the kernel ends for want of memory in it is named so; the limit of its own data stays out of the way.
func TestMemoryOfGroup(t *testing.T) {
	const look = ofGroup + `print(read("memory.max"), read("memory.swap.max"), read("memory.oom.group"),
      read("cgroup.procs") in (str(os.getpid()), str(os.getppid())),
      resource.getrlimit(resource.RLIMIT_DATA)[0] > 1 << 60, file=sys.stderr)
`
	const killed = look + "open(group + '/memory.events', 'w').write('low 0\\noom 2\\noom_kill 1\\n')\n" +
		"os.kill(os.getpid(), 9)\n"
	want := []string{"was ended by the kernel (SIGKILL (killed)): it needed more memory than allowed",
		"the limit is 300MiB", "raise memory of the op", "314572800 0 1 True True"}
	groups, env := groupsOf(t)
	both(t, documented+killed, Spec{cgroups: groups, Env: env, Limits: Limits{Memory: 300 << 20}},
		func(t *testing.T, r Runner) {
			r.(*scriptRunner).spec.cgroups, r.(*scriptRunner).spec.Env = groupsOf(t)
			fails(t, r, small(t), verdict.MemoryLimit, want...)
		})
	t.Run("worker", func(t *testing.T) {
		groups, env := groupsOf(t)
		r := function(t, "def f(inputs):\n    "+strings.ReplaceAll(killed, "\n", "\n    "),
			Spec{cgroups: groups, Env: env, Limits: Limits{Memory: 300 << 20}})
		fails(t, r, small(t), verdict.MemoryLimit, want...)
	})
	t.Run("not permitted", func(t *testing.T) { // to make groups, after they were looked for
		r := function(t, rlimitOfData, Spec{cgroups: &cgroups{filepath.Join(t.TempDir(), "gone")},
			Limits: Limits{Memory: 700 << 20}})
		fails(t, r, small(t), verdict.Raised, fmt.Sprintf("limit [%d]", (700<<20)>>12))
	})
}

// rlimitOfData is a function that raises with its limit in pages.
const rlimitOfData = `import resource
def f(inputs): raise ValueError("limit [%d]" % (resource.getrlimit(resource.RLIMIT_DATA)[1] >> 12))`

// TestMemoryOfProcess: without cgroups each process has a limit of its own, which is named when an allocation fails.
func TestMemoryOfProcess(t *testing.T) {
	spec := Spec{cgroups: &cgroups{}, Limits: Limits{Memory: 700 << 20}, Env: []string{"OPENBLAS_NUM_THREADS=1"}}
	fails(t, function(t, rlimitOfData, spec), small(t), verdict.Raised, fmt.Sprintf("limit [%d]", (700<<20)>>12))
	const hint = "the limit is 700MiB, the interpreter and its libraries included, and what is reserved and never used: " +
		"raise memory of the op"
	for name, body := range map[string]string{
		"numpy":   "import numpy; numpy.ones(1 << 30, numpy.uint8)",
		"pytorch": "raise RuntimeError(\"DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes\")",
		"c++": "import os, sys; print(\"terminate called after throwing an instance of 'std::bad_alloc'\", " +
			"file=sys.stderr, flush=True); os.abort()",
	} {
		t.Run(name, func(t *testing.T) {
			fails(t, function(t, "def f(inputs):\n    "+body, spec), small(t), verdict.MemoryLimit, hint)
			both(t, documented+body, spec, func(t *testing.T, r Runner) {
				fails(t, r, small(t), verdict.MemoryLimit, hint)
			})
		})
	}
	t.Run("child", func(t *testing.T) { // it inherits the limit
		source := "import subprocess, sys\ndef f(inputs):\n" +
			"    subprocess.run([sys.executable, '-c', 'bytearray(1 << 30)'], check=True)"
		fails(t, function(t, source, spec), small(t), verdict.Raised, "\nMemoryError")
	})
}

// TestAdoptedBeforeTheFirstInstruction: a process stands still while it is adopted, and then runs.
func TestAdoptedBeforeTheFirstInstruction(t *testing.T) {
	program := func() *exec.Cmd {
		cmd := exec.Command(python(t), "--version")
		cmd.SysProcAttr = processAttributes(true)
		return cmd
	}
	state := ""
	cmd, err := startAdopted(program, func(pid int) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Error(err)
		}
		_, state, _ = strings.Cut(string(text), ") ")
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if untraced.Load() {
		t.Skip("this system refuses ptrace")
	}
	if !strings.HasPrefix(state, "t ") {
		t.Errorf("it is adopted in the state %.1q, want t (stopped)", state)
	}
}

// TestRemoveStale: empty groups of processes that are gone are removed, and nothing else.
func TestRemoveStale(t *testing.T) {
	groups, _ := groupsOf(t)
	const gone = 1 << 30 // above the largest pid
	for name, stays := range map[string]bool{fmt.Sprintf("gpuemu-%d-1", gone): false,
		fmt.Sprintf("gpuemu-%d-2", os.Getpid()): true, "gpuemu-x-1": true, "other-1-1": true} {
		dir := filepath.Join(groups.dir, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		groups.removeStale()
		if _, err := os.Stat(dir); (err == nil) != stays {
			t.Errorf("%s: %v, want it to stay: %v", name, err, stays)
		}
	}
}

// TestOwnCgroup: the directory of a group, on hosts, in containers and where cgroup v1 is mounted beside v2.
func TestOwnCgroup(t *testing.T) {
	const v2 = "25 30 0:23 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
	for name, tt := range map[string]struct{ mounts, groups, want string }{
		"systemd": {v2, "0::/user.slice/user-1000.slice/user@1000.service/app.slice/term.scope\n",
			"/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/term.scope"},
		"hybrid": {"26 25 0:24 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
			"27 25 0:25 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n", "4:memory:/a\n0::/\n", "/sys/fs/cgroup/unified"},
		"part of a tree": {"25 30 0:23 /docker/1 /sys/fs/cgroup rw - cgroup2 cgroup rw\n", "0::/docker/1/sub\n",
			"/sys/fs/cgroup/sub"},
		"outside of the mount": {"25 30 0:23 /docker/1 /sys/fs/cgroup rw - cgroup2 cgroup rw\n", "0::/docker/2\n", ""},
		"v1 alone":             {"26 25 0:24 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", "4:memory:/a\n", ""},
		"nothing":              {"", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file(t, dir, "mountinfo", tt.mounts, 0o600)
			file(t, dir, "cgroup", tt.groups, 0o600)
			if got := ownCgroup(filepath.Join(dir, "mountinfo"), filepath.Join(dir, "cgroup")); got != tt.want {
				t.Errorf("ownCgroup = %q, want %q", got, tt.want)
			}
		})
	}
	if got := ownCgroup(filepath.Join(t.TempDir(), "nowhere"), os.DevNull); got != "" {
		t.Errorf("ownCgroup without files = %q", got)
	}
}
