package ptx

// This file implements the lists of known names, for those who check names without code at hand.

import (
	"maps"
	"slices"
)

// Opcodes are all opcodes, sorted.
func Opcodes() []string { return slices.Sorted(maps.Keys(opcodes)) }

// Modifiers are all modifiers that have a name, sorted. Sizes such as v4, x2 and m16n8k16 have none.
func Modifiers() []string { return slices.Sorted(maps.Keys(modifiers)) }

// IsModifier reports whether an instruction can have the modifier.
func IsModifier(mod string) bool { return knownModifier(mod) }
