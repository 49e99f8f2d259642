package runner

// This file implements the limit on what a family uses where there are no cgroups: gpuemu looks at it now and then.
//
// RLIMIT_DATA is the only limit of memory that the kernel offers there, and it counts what is reserved: a program that
// maps 64 GiB and touches one page (AddressSanitizer, allocators with large arenas) is refused with it. That is as
// asked for where an op says how much memory it may have, and wrong for the default, which is to keep the machine up.

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

const (
	// touchRate is about as many bytes per second as the processes of a family can use for the first time.
	touchRate = 16 << 30
	// shortestLook and longestLook bound the time between two looks. A look takes a tenth of a millisecond.
	shortestLook, longestLook = 5 * time.Millisecond, 100 * time.Millisecond
)

// watch calls end as soon as the family uses more than limit bytes. close stops it.
func (f *family) watch(limit int64, end func()) {
	if limit <= 0 || f.group != nil {
		return
	}
	f.stop, f.stopped = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(f.stopped)
		timer := time.NewTimer(shortestLook)
		defer timer.Stop()
		for {
			select {
			case <-f.stop:
				return
			case <-timer.C:
			}
			used := f.used(limit)
			if used > limit {
				f.over.Store(true)
				end()
				return
			}
			left := time.Duration(float64(limit-used) / touchRate * float64(time.Second))
			timer.Reset(min(max(left, shortestLook), longestLook))
		}
	}()
}

// unwatch ends watch and waits for it.
func (f *family) unwatch() {
	if f.stop != nil {
		close(f.stop)
		<-f.stopped
	}
}

// used is how many bytes the processes of the family use together, files that are mapped left out. The quick sum counts
// pages that forks share as often as they are mapped; the exact one is made only where the quick one is over the limit.
func (f *family) used(limit int64) int64 {
	var sum int64
	pids := f.processes()
	for _, pid := range pids {
		sum += residentOf(pid)
	}
	if sum <= limit {
		return sum
	}
	sum = 0
	for _, pid := range pids {
		sum += shareOf(pid)
	}
	return sum
}

// processes are the head of the family, its strays, and all their descendants.
func (f *family) processes() []int {
	list := append(f.strays(), f.pid)
	for i := 0; i < len(list); i++ {
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", list[i]))
		if err != nil {
			continue // it has ended
		}
		for _, task := range tasks {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", list[i], task.Name()))
			if err != nil {
				continue // the thread has ended
			}
			for field := range bytes.FieldsSeq(text) {
				if pid, err := strconv.Atoi(string(field)); err == nil {
					list = append(list, pid)
				}
			}
		}
	}
	return list
}

// residentOf is what a process has in memory of its own, pages included that it shares with forks. 0: it has ended.
func residentOf(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	var size, resident, shared int64 // in pages (proc_pid_statm(5))
	if n, _ := fmt.Sscan(string(text), &size, &resident, &shared); n != 3 {
		return 0
	}
	return (resident - shared) * int64(os.Getpagesize())
}

// shareOf is what a process has in memory of its own, each page divided by the number of processes that have it.
func shareOf(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte("Pss_Anon:")); ok { // Linux 5.4
			kib, _, _ := bytes.Cut(bytes.TrimSpace(rest), []byte(" "))
			if n, err := strconv.ParseInt(string(kib), 10, 64); err == nil {
				return n << 10
			}
		}
	}
	return residentOf(pid)
}
