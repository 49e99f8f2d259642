package ptx

// This file implements names: lists of the known ones, for those who check names without code at hand, and the names
// that functions have in their sources.

import (
	"maps"
	"slices"
	"strings"
)

// Opcodes are all opcodes, sorted.
func Opcodes() []string { return slices.Sorted(maps.Keys(opcodes)) }

// Modifiers are all modifiers that have a name, sorted. Sizes such as v4, x2 and m16n8k16 have none.
func Modifiers() []string { return slices.Sorted(maps.Keys(modifiers)) }

// IsModifier reports whether an instruction can have the modifier.
func IsModifier(mod string) bool { return knownModifier(mod) }

// SourceName is the name of a function in its source: the last part of a mangled C++ name (Itanium C++ ABI, 5.1), and
// the name itself of any other.
func SourceName(symbol string) string {
	rest, mangled := strings.CutPrefix(symbol, "_Z")
	if !mangled {
		return symbol
	}
	rest, nested := strings.CutPrefix(rest, "N")
	rest = strings.TrimPrefix(rest, "L") // internal linkage
	name := ""
	for {
		n, digits := 0, 0
		for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' && n < len(rest) {
			n = 10*n + int(rest[digits]-'0')
			digits++
		}
		if digits == 0 || n == 0 || digits+n > len(rest) {
			break
		}
		name, rest = rest[digits:digits+n], rest[digits+n:]
		if !nested {
			break
		}
	}
	if name == "" {
		return symbol
	}
	return name
}
