// This file implements the hints of unknown names.

package opspec

import (
	"strings"

	"gpuemu/internal/diag"
)

// suggest returns a hint that names the known words nearest to name, or lists the known words if none is near.
func suggest(name string, known []string) string {
	if len(known) == 0 {
		return "there are none"
	}
	const most = 24
	return diag.Suggest(name, known, "known: "+strings.Join(known[:min(most, len(known))], ", "))
}
