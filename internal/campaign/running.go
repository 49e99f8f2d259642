package campaign

import (
	"sync"

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

// runs reports whether somebody works on the campaign: this engine, or another store.
func (e *Engine) runs(c *store.Campaign) (bool, error) {
	if c.State != store.Running {
		return false, nil
	}
	if other, err := e.Store.RunByOther(c); other || err != nil {
		return other, err
	}
	e.running.mu.Lock()
	defer e.running.mu.Unlock()
	return e.running.ids[c.ID], nil
}

func beingRun(c *store.Campaign) error {
	return diag.Errorf(store.CampaignTaken, "wait until it ends, or cancel it", "campaign %s is running in process %d",
		c.ID, c.PID)
}
