// This file implements the "did you mean" hints of unknown names.

package opspec

import "strings"

// suggest returns a hint that names the known word nearest to name, or lists the known words if none is near.
func suggest(name string, known []string) string {
	best, bestDist := "", len(name)/2+2
	for _, k := range known {
		if d := editDistance(strings.ToLower(name), strings.ToLower(k), bestDist); d < bestDist {
			best, bestDist = k, d
		}
	}
	switch {
	case best != "":
		return "did you mean " + best + "?"
	case len(known) == 0:
		return "there are none"
	}
	const most = 24
	if len(known) > most {
		known = known[:most]
	}
	return "known: " + strings.Join(known, ", ")
}

// editDistance is the Levenshtein distance of a and b in bytes, or limit if it is not below limit.
func editDistance(a, b string, limit int) int {
	if len(a) > MaxNameLen || len(b) > MaxNameLen || len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return min(row[len(b)], limit)
}
