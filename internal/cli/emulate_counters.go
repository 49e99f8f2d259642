package cli

import (
	"fmt"
	"strings"

	"gpuemu/internal/ptxvm"
)

// This file implements the counters of emulate.

// countersDoc is what a launch did in numbers, of the first order where there are several.
type countersDoc struct {
	Warps     uint64        `json:"warp_instructions"`
	Threads   uint64        `json:"thread_instructions"`
	Branches  uint64        `json:"branches"`
	Divergent uint64        `json:"divergent_branches"`
	Barriers  uint64        `json:"barriers"`
	Global    trafficDoc    `json:"global"` // units are sectors of 32 bytes
	Shared    trafficDoc    `json:"shared"` // units are passes over the banks
	Mix       []mnemonicDoc `json:"instructions"`
}

type trafficDoc struct {
	Accesses uint64 `json:"accesses"`
	Bytes    uint64 `json:"bytes"`
	Units    uint64 `json:"units"`
	Fewest   uint64 `json:"fewest"`
}

type mnemonicDoc struct {
	Name    string `json:"name"`
	Warps   uint64 `json:"warps"`
	Threads uint64 `json:"threads"`
}

func newCountersDoc(c *ptxvm.Counters) *countersDoc {
	d := &countersDoc{Warps: c.Warps, Threads: c.Threads, Branches: c.Branches, Divergent: c.Divergent,
		Barriers: c.Barriers, Global: trafficDoc(c.Global), Shared: trafficDoc(c.Shared), Mix: []mnemonicDoc{}}
	for _, m := range c.Mix {
		d.Mix = append(d.Mix, mnemonicDoc(m))
	}
	return d
}

// text prints the counters; of the instructions, those that were executed most.
func (c *countersDoc) text(t *terminal) {
	lanes := 0.0
	if c.Warps > 0 {
		lanes = 100 * float64(c.Threads) / float64(32*c.Warps)
	}
	t.print(fmt.Sprintf("  lanes: %d instructions of threads, %.1f %% of lanes active", c.Threads, lanes))
	t.print(fmt.Sprintf("  control: %s, %d divergent; %s", count(c.Branches, "branch", "branches"), c.Divergent,
		count(c.Barriers, "arrival at barriers", "arrivals at barriers")))
	t.print("  global memory: " + c.Global.text("sector", "sectors"))
	t.print("  shared memory: " + c.Shared.text("pass", "passes"))
	const most = 10
	var list []string
	for _, m := range c.Mix[:min(most, len(c.Mix))] {
		list = append(list, fmt.Sprintf("%s %d", m.Name, m.Warps))
	}
	if rest := len(c.Mix) - len(list); rest > 0 {
		list = append(list, fmt.Sprintf("%d others", rest))
	}
	t.print("  instructions: " + strings.Join(list, ", "))
}

func (t *trafficDoc) text(one, many string) string {
	return fmt.Sprintf("%s, %d bytes, %s, at best %d", count(t.Accesses, "access", "accesses"), t.Bytes,
		count(t.Units, one, many), t.Fewest)
}

// count is a number of things whose plural is not made by an s alone.
func count(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
