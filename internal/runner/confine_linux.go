package runner

// This file implements families: a process that runs user code, with all its descendants. It limits their memory and
// finds those that left the process group (setsid, double fork).
//
// A descendant whose parents have ended becomes our child, because we are a subreaper (prctl(2)). It is recognized by a
// tag that every descendant inherits and that takes privileges to remove: the hard limit RLIMIT_DATA. The kernel counts
// it in pages, so its low bits are free for the number of the family.

import (
	"bytes"
	"math"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxFamilies is how many numbers the bits of a limit below a page of 4 KiB hold.
	maxFamilies = 1<<12 - 1
	// noLimit is the limit of processes that have none. It leaves room for the tag below RLIM_INFINITY.
	noLimit = math.MaxInt64 &^ maxFamilies
	// sweepTime is how long processes that got SIGKILL may take to end. It takes them microseconds, unless a device or a
	// file system keeps them.
	sweepTime = time.Second
	// firstVictim is the highest value of oom_score_adj.
	firstVictim = "1000"
)

// relatives are the families of this process. Children belong to a process, not to a runner, and so does the table.
var relatives = struct {
	sync.Mutex
	members map[int]uint64  // processes that we started and wait for, with the number of their family
	living  map[uint64]bool // numbers in use
	last    uint64
	reaper  bool
}{members: map[int]uint64{}, living: map[uint64]bool{}}

// family is a process that we started and its descendants.
type family struct {
	tag   uint64
	pid   int
	group *cgroup // nil: each process has a limit of its own
	ooms  uint64  // of the machine when the process was started

	over          atomic.Bool   // watch has ended it
	stop, stopped chan struct{} // of watch; nil: it is not watched
}

// newFamily prepares a family. Its processes have so many bytes: together in a cgroup, else each of them; 0: no limit.
func newFamily(where *cgroups, memory int64) *family {
	f := &family{ooms: oomKills()}
	if memory > 0 {
		f.group = where.create(memory)
	}
	relatives.Lock()
	defer relatives.Unlock()
	if !relatives.reaper { // where it fails, descendants that left the group become children of init
		relatives.reaper = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil
	}
	for range maxFamilies {
		if relatives.last = relatives.last%maxFamilies + 1; !relatives.living[relatives.last] {
			break
		}
	}
	f.tag = relatives.last
	relatives.living[f.tag] = true
	return f
}

// adopt makes a process the head of the family, before it has children.
func (f *family) adopt(pid int, memory int64) {
	relatives.Lock()
	f.pid = pid
	relatives.members[pid] = f.tag // before it has the tag, which makes it a stray otherwise
	relatives.Unlock()
	if f.group != nil && f.group.add(pid) != nil {
		f.group.remove()
		f.group = nil
	}
	limit := uint64(noLimit)
	if memory > 0 && f.group == nil {
		limit = uint64(memory)
	}
	limit = min(limit, ownDataLimit()-maxFamilies-1)&^maxFamilies | f.tag
	// A process that is gone already needs no limit. One of another user has the limits that its user gave it.
	_ = unix.Prlimit(pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: limit, Max: limit}, nil)
	// When the machine runs out of memory, the kernel ends candidates first, not the engine.
	_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte(firstVictim), 0)
}

// ownDataLimit is the hard limit of this process.
func ownDataLimit() uint64 {
	var own unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_DATA, &own) != nil {
		return math.MaxUint64
	}
	return own.Max
}

// overMemory reports whether the kernel ended processes of the family for want of memory within its own limit since the
// last call.
func (f *family) overMemory() bool { return f.group != nil && f.group.newKills() }

// overWatch reports whether watch ended the family.
func (f *family) overWatch() bool { return f.over.Load() }

// machineOOM reports whether the kernel ended some process of the machine for want of memory while the family lived.
func (f *family) machineOOM() bool { return oomKills() > f.ooms }

// close ends what is left of the family after its head has been reaped.
func (f *family) close() {
	f.unwatch()
	relatives.Lock()
	delete(relatives.members, f.pid)
	relatives.Unlock()
	if f.group != nil {
		f.group.kill()
	}
	f.sweep()
	if f.group != nil {
		f.group.remove()
	}
	relatives.Lock()
	delete(relatives.living, f.tag)
	relatives.Unlock()
}

// sweep ends the strays of the family: processes whose parents have ended. Their children are strays then, and so on.
func (f *family) sweep() {
	deadline := time.Now().Add(sweepTime)
	for list := f.strays(); len(list) > 0 && time.Now().Before(deadline); list = f.strays() {
		for _, pid := range list {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
		for _, pid := range list {
			for !reaped(pid) && time.Now().Before(deadline) {
				time.Sleep(100 * time.Microsecond)
			}
		}
	}
}

// reap takes the status of the head, which has ended. The list of our children must not become shorter while strays
// reads it: the kernel would leave out some other child.
func (f *family) reap(wait func() error) {
	relatives.Lock()
	defer relatives.Unlock()
	_ = wait() // whoever started it reads the state
}

// reaped reports whether a child is gone, and takes its status if it has ended.
func reaped(pid int) bool {
	relatives.Lock() // see reap
	defer relatives.Unlock()
	got, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
	return got == pid || err == unix.ECHILD
}

// strays are our children that bear the tag of the family, or one of a family that is gone, and that nobody waits for.
func (f *family) strays() []int {
	self := strconv.Itoa(os.Getpid())
	limit := ownDataLimit()
	relatives.Lock()
	defer relatives.Unlock()
	// Orphans become children of the first thread.
	text, err := os.ReadFile("/proc/self/task/" + self + "/children")
	if err != nil {
		return nil
	}
	var list []int
	for field := range bytes.FieldsSeq(text) {
		pid, err := strconv.Atoi(string(field))
		if _, known := relatives.members[pid]; known || err != nil {
			continue
		}
		var its unix.Rlimit
		if unix.Prlimit(pid, unix.RLIMIT_DATA, nil, &its) != nil || its.Max >= limit {
			continue // not ours to end: another user's, or a child that some other package started
		}
		if tag := its.Max & maxFamilies; tag == f.tag || !relatives.living[tag] {
			list = append(list, pid)
		}
	}
	return list
}
