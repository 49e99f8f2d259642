package ptxvm

import (
	"slices"
	"strings"

	"gpuemu/internal/diag"
)

// This file implements the choice of checks.

// Checks says what a launch looks for. The zero value stands for all.
type Checks uint8

// Checks by name: bounds, uninit, race, barrier, async.
const (
	CheckBounds Checks = 1 << iota
	CheckUninit
	CheckRace
	CheckBarrier
	CheckAsync
	noChecks
	AllChecks Checks = CheckBounds | CheckUninit | CheckRace | CheckBarrier | CheckAsync
	NoChecks  Checks = noChecks
)

var checkNames = []string{"bounds", "uninit", "race", "barrier", "async"}

func (c Checks) has(x Checks) bool { return c == 0 || c&x != 0 }

// ParseChecks reads all, none or a list of names with commas between them.
func ParseChecks(text string) (Checks, error) {
	switch text {
	case "all":
		return AllChecks, nil
	case "none":
		return NoChecks, nil
	}
	var c Checks
	for name := range strings.SplitSeq(text, ",") {
		i := slices.Index(checkNames, strings.TrimSpace(name))
		if i < 0 {
			return 0, diag.Errorf(BadCheck, "all, none, or some of "+strings.Join(checkNames, ","),
				"there is no check %q", name)
		}
		c |= 1 << i
	}
	return c, nil
}
