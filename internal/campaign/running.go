package campaign

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"

	"gpuemu/internal/diag"
	"gpuemu/internal/store"
)

// This file implements who runs a campaign: no two runs may work on one at once, in this process or in several.

// running are the campaigns that this engine executes. Guarded by mu.
type running struct {
	mu  sync.Mutex
	ids map[string]bool
}

// begin notes that a campaign is executed; false: it is already.
func (e *Engine) begin(id string) bool {
	e.running.mu.Lock()
	defer e.running.mu.Unlock()
	if e.running.ids[id] {
		return false
	}
	if e.running.ids == nil {
		e.running.ids = map[string]bool{}
	}
	e.running.ids[id] = true
	return true
}

func (e *Engine) end(id string) {
	e.running.mu.Lock()
	defer e.running.mu.Unlock()
	delete(e.running.ids, id)
}

// runs reports whether somebody works on the campaign: this engine, or another process that lives.
func (e *Engine) runs(c *store.Campaign) bool {
	if c.State != store.Running {
		return false
	}
	if c.PID != os.Getpid() {
		return alive(c.PID)
	}
	e.running.mu.Lock()
	defer e.running.mu.Unlock()
	return e.running.ids[c.ID]
}

func beingRun(c *store.Campaign) error {
	return diag.Errorf(store.CampaignTaken, "wait until it ends, or cancel it", "campaign %s is running in process %d",
		c.ID, c.PID)
}

// alive reports whether a process that wrote itself into the store still lives. Its number may be that of another
// program by now, or it may be dead and not yet waited for: where the system tells, both count as gone.
func alive(pid int) bool {
	if pid <= 0 {
		return false
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer func() { _ = p.Release() }() // says nothing of the process
	if err := p.Signal(syscall.Signal(0)); err != nil && !errors.Is(err, fs.ErrPermission) {
		return false
	}
	own, _, ownErr := programOf(os.Getpid())
	name, state, err := programOf(pid)
	return err != nil || ownErr != nil || name == own && state != "Z"
}

// programOf returns name and state of a process, from /proc (proc_pid_stat(5)): pid (name) state …
func programOf(pid int) (name, state string, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", "", err
	}
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')') // the name may have brackets of its own
	fields := strings.Fields(string(b[end+1:]))
	if open < 0 || end < open || len(fields) == 0 {
		return "", "", fmt.Errorf("process %d: unknown form of its state", pid)
	}
	return string(b[open+1 : end]), fields[0], nil
}
