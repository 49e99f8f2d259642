package ptxvm

import (
	"strconv"
	"strings"

	"gpuemu/internal/ptx"
)

// This file implements the sizes of blocks that a kernel was compiled for: a launch with others fails on a GPU, too.

// fits says why a kernel cannot be started with blocks of a size; "" where it can (PTX ISA 11.4.2 and 11.4.3).
func (p *Program) fits(b Dim) string {
	for _, d := range p.Kernel.Directives {
		size, ok := blockSize(d)
		if !ok {
			continue
		}
		switch {
		case d.Name == "reqntid" && b != size:
			return "the kernel was compiled for blocks of exactly " + size.String() + " threads (.reqntid)"
		case d.Name == "maxntid" && b.Count() > size.Count():
			return "the kernel was compiled for blocks of at most " + strconv.Itoa(size.Count()) + " threads (.maxntid)"
		}
	}
	return ""
}

// blockSize reads the sizes of a directive; those that are left out are 1.
func blockSize(d *ptx.Directive) (size Dim, ok bool) {
	n := [3]int{1, 1, 1}
	for i, text := range d.Args {
		value, err := strconv.ParseInt(strings.TrimRight(text, "uU"), 0, 32) // a literal of PTX may end with U
		if err != nil || value < 1 || i >= len(n) {
			return Dim{}, false // no shape that a block can have: ptxas would refuse it
		}
		n[i] = int(value)
	}
	return Dim{n[0], n[1], n[2]}, len(d.Args) > 0
}
