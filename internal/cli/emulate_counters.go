package cli

import (
	"fmt"
	"strings"

	"gpuemu/internal/emulation"
)

// This file implements the counters of emulate.

// printCounters prints the counters; of the instructions, those that were executed most.
func printCounters(t *terminal, c *emulation.Counters) {
	lanes := 0.0
	if c.Warps > 0 {
		lanes = 100 * float64(c.Threads) / float64(32*c.Warps)
	}
	t.print(fmt.Sprintf("  lanes: %d instructions of threads, %.1f %% of lanes active", c.Threads, lanes))
	t.print(fmt.Sprintf("  control: %s, %d divergent; %s", count(c.Branches, "branch", "branches"), c.Divergent,
		count(c.Barriers, "arrival at barriers", "arrivals at barriers")))
	t.print("  global memory: " + trafficText(&c.Global, "sector", "sectors"))
	t.print("  shared memory: " + trafficText(&c.Shared, "pass", "passes"))
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

// trafficText is the traffic of one kind of memory; one and many are the name of its unit.
func trafficText(t *emulation.Traffic, one, many string) string {
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
