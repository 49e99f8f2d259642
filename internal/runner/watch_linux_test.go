package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuemu/internal/verdict"
)

// watched are the limits of an op that sets none, on a machine with so much memory.
func watched(memory int64) Spec {
	return Spec{cgroups: &cgroups{}, Limits: Limits{Memory: memory, Watch: true, Timeout: 5 * time.Minute},
		Env: []string{"OPENBLAS_NUM_THREADS=1"}}
}

// TestReservedMemoryIsNotUsed: a candidate may reserve far more than the limit where nobody has asked for one.
func TestReservedMemoryIsNotUsed(t *testing.T) {
	const reserve = "import mmap\nbig = mmap.mmap(-1, 64 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)\n" +
		"big[0] = 1\n" // MAP_NORESERVE
	policy, err := os.ReadFile("/proc/sys/vm/overcommit_memory")
	if err != nil || strings.TrimSpace(string(policy)) == "2" {
		t.Skipf("this system lets nobody reserve memory that it has not (%v)", err)
	}
	const limit = 1 << 30
	mustRun(t, function(t, reserve+"def f(inputs): return inputs['x']", watched(limit)), small(t))
	both(t, reserve+documented+"json.dump(encode_tensor(x), sys.stdout)", watched(limit),
		func(t *testing.T, r Runner) { mustRun(t, r, small(t)) })
	asked := watched(limit)
	asked.Limits.Watch = false
	fails(t, function(t, reserve+"def f(inputs): return inputs['x']", asked), small(t), verdict.MemoryLimit,
		"Cannot allocate memory", "the limit is 1GiB, the interpreter and its libraries included, and what is reserved and "+
			"never used: raise memory of the op")
}

// TestUsedMemoryIsLimited: what uses more than the limit is ended and named so, also where it is several processes and
// where they have left the group.
func TestUsedMemoryIsLimited(t *testing.T) {
	const limit = 400 << 20
	want := []string{"was ended by gpuemu: its processes use more memory than allowed",
		"the limit is 400MiB, the interpreter and its libraries included: raise memory of the op"}
	for name, body := range map[string]string{
		"process": "import time; keep = bytearray(b'x') * (450 << 20); time.sleep(600)",
		"children": "import os, time\nfor _ in range(4):\n    if os.fork() == 0:\n        os.setsid()\n" +
			"        keep = bytearray(b'x') * (110 << 20)\n        time.sleep(600)\ntime.sleep(600)",
	} {
		t.Run(name, func(t *testing.T) {
			body := strings.ReplaceAll(body, "\n", "\n    ")
			fails(t, function(t, "def f(inputs):\n    "+body, watched(limit)), small(t), verdict.MemoryLimit, want...)
			both(t, "def f():\n    "+body+"\nf()\n", watched(limit), func(t *testing.T, r Runner) {
				fails(t, r, small(t), verdict.MemoryLimit, want...)
			})
		})
	}
}

// TestForksShareMemory: pages that forks have in common are counted once.
func TestForksShareMemory(t *testing.T) {
	dir := t.TempDir()
	ready := filepath.Join(dir, "ready")
	source := fmt.Sprintf(`import os, time
keep = bytearray(b'x') * (200 << 20)
for i in range(3):
    if os.fork() == 0: break
    os.mkdir(%q + str(i))
time.sleep(600)
`, ready)
	sink, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	argv := []string{python(t), "-c", source}
	p, err := start(&Spec{cgroups: &cgroups{}}, command{argv: argv, stdout: sink, stderr: sink})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		p.kill()
		<-p.done
	}()
	for !exists(ready + "2") {
		if isDone(p) {
			t.Fatalf("the program ended: %+v", p.state())
		}
		time.Sleep(time.Millisecond)
	}
	const mib = 1 << 20
	if quick := p.family.used(1 << 40); quick < 800*mib || quick > 1200*mib {
		t.Errorf("the quick sum of four processes with 200 MiB is %d MiB, want 800 and their interpreters", quick/mib)
	}
	if exact := p.family.used(300 * mib); exact < 200*mib || exact > 300*mib {
		t.Errorf("the exact sum is %d MiB, want 200 and their interpreters", exact/mib)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
