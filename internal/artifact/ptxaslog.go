package artifact

// This file implements reading of what ptxas -v says. A cubin records the same, except that before CUDA 12.6 it has no
// spills.

import (
	"regexp"
	"strconv"
	"strings"
)

// ptxasFigures is what the assembler said of one function; nil is what it did not say.
type ptxasFigures struct{ registers, stack, spillStores, spillLoads *int }

var (
	ptxasName  = regexp.MustCompile(`Function properties for (\S+)`)
	ptxasFrame = regexp.MustCompile(`(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads`)
	ptxasUsed  = regexp.MustCompile(`Used (\d+) registers`)
	ptxasStack = regexp.MustCompile(`(\d+) bytes cumulative stack size`)
)

// readPtxas finds the figures in the messages of a compiler, by function.
func readPtxas(log string) map[string]ptxasFigures {
	said := map[string]ptxasFigures{}
	name := ""
	for line := range strings.Lines(log) {
		if m := ptxasName.FindStringSubmatch(line); m != nil {
			name = m[1]
		}
		if name == "" {
			continue
		}
		f := said[name]
		if m := ptxasFrame.FindStringSubmatch(line); m != nil {
			f.spillStores, f.spillLoads = decimal(m[2]), decimal(m[3])
			if *decimal(m[1]) == 0 {
				f.stack = decimal(m[1]) // else functions that are called may need more: see below
			}
		}
		if m := ptxasUsed.FindStringSubmatch(line); m != nil {
			f.registers = decimal(m[1])
			if m := ptxasStack.FindStringSubmatch(line); m != nil {
				f.stack = decimal(m[1])
			}
		}
		said[name] = f
	}
	return said
}

// decimal reads digits; what is beyond all sizes is the largest one.
func decimal(digits string) *int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		n = maxBytes
	}
	return &n
}

// fill adds what the assembler said where no better source says it.
func (m *Metrics) fill(said ptxasFigures) {
	for _, f := range []struct {
		into **Figure
		said *int
	}{{&m.Registers, said.registers}, {&m.Stack, said.stack}, {&m.SpillStores, said.spillStores},
		{&m.SpillLoads, said.spillLoads}} {
		if f.said != nil && (*f.into == nil || rank((*f.into).Origin) < rank(FromPtxas)) {
			*f.into = &Figure{*f.said, FromPtxas}
		}
	}
}
