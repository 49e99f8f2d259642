package ptxvm

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/ptx"
	"gpuemu/internal/testkit"
)

// This file implements docs/emulator-instructions.md, which is made of the table.

// tableNotes are what the syntax does not say, by the title of a table.
var tableNotes = map[string]string{
	"Integers": "Quotient and remainder of a division by zero have all bits set, as on an H200.",
	"Floating point: f32 and f64": `Correctly rounded, NaN as an H200 has it. Without a rounding, mul before add or sub is
rounded by itself unless [--contract](emulate.md#what-ptx-leaves-open) says otherwise.`,
	"Floating point: approximations": `The nearest number to the exact result, or an end of the bound with
[--sfu](emulate.md#what-ptx-leaves-open).`,
	"Memory": `Caches and their hints change nothing. Fences, .volatile, .relaxed, .acquire and .release matter for the
check for races.`,
	"Atomic operations": `Lanes of a warp come one after the other, the lowest first. Scopes matter for the check for
races.`,
	"Asynchronous copies": `A copy is made when somebody waits for it, as late as a device may. Tensor maps
(cp.async.bulk.tensor) are refused.`,
	"Matrices: mma": `As an H200 computes them; before sm_90, as published of Ampere. Single bits and sparse forms are
refused.`,
	"Matrices: wgmma": "Dense forms with all swizzles; a product is made when somebody waits for it.",
}

const pageHead = `# Instructions that the emulator executes

This page is generated from the table that decides what is executed: "make generate". Each line is an opcode with its
modifiers in order: [ ] may be left out, | separates choices, and $ names a list of them, below. What is not here is
refused when a kernel is loaded, with its line in the PTX and in the source (exit code 3). Sections are those of the
PTX ISA manual, version 8.6.
`

const pageEnd = `
Of the opcodes above, every modifier, type and order of modifiers that has no row; registers and memory of 128 bits;
special registers of clusters; textures and surfaces.
`

// TestInstructionsPage keeps the page in step with the table.
func TestInstructionsPage(t *testing.T) {
	var b strings.Builder
	b.WriteString(pageHead)
	const fence = "```\n"
	rows, opcodes := 0, map[string]bool{}
	for _, table := range tables {
		fmt.Fprintf(&b, "\n## %s\n\nPTX ISA %s.\n", table.title, table.section)
		if note := tableNotes[table.title]; note != "" {
			b.WriteString(note + "\n")
		}
		b.WriteString("\n" + fence)
		for i := range table.rows {
			r := &table.rows[i]
			b.WriteString(wrap(r.syntax))
			rows++
			for _, op := range r.ops {
				opcodes[op] = true
			}
		}
		b.WriteString(fence)
	}
	b.WriteString("\n## Lists of modifiers\n\n" + fence)
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		b.WriteString(wrap(name + " = " + strings.ReplaceAll(sets[name], "|", " | ")))
	}
	b.WriteString(fence + "\n## What is refused\n\nOpcodes that are known and have no row above, so that a kernel with " +
		"one of them is not executed:\n\n" + fence)
	var refused []string
	for _, op := range ptx.Opcodes() {
		if !opcodes[op] {
			refused = append(refused, op)
		}
	}
	b.WriteString(wrap(strings.Join(refused, " ")) + fence + pageEnd)
	if rows < 150 || len(refused) < 10 {
		t.Errorf("%d rows and %d opcodes without one: something is missing", rows, len(refused))
	}
	testkit.Golden(t, "../../docs/emulator-instructions.md", []byte(b.String()))
}

// wrap breaks a line between words; what follows is indented.
func wrap(text string) string {
	var b strings.Builder
	n := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i > 0 && n+1+len(word) > 116:
			b.WriteString("\n    " + word)
			n = 4 + len(word)
		case i > 0:
			b.WriteString(" " + word)
			n += 1 + len(word)
		default:
			b.WriteString(word)
			n = len(word)
		}
	}
	return b.String() + "\n"
}
