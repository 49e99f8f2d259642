package diag

// This file implements the "did you mean" hints for names that are not known.

import (
	"cmp"
	"slices"
	"strings"
)

// Suggest returns a hint that names the known words nearest to name, or otherwise if none is near.
func Suggest(name string, known []string, otherwise string) string {
	near := nearest(name, known)
	if len(near) == 0 {
		return otherwise
	}
	return "did you mean " + strings.Join(near, " or ") + "?"
}

// nearest returns at most three known words that look like name: the one that differs in case and dashes alone, else
// those that are few typing errors away or of which one contains the other.
func nearest(name string, known []string) []string {
	const (
		most    = 3
		longest = 128 // bytes; no name of ours is longer
	)
	if len(name) > longest {
		return nil
	}
	type scored struct {
		word  string
		score int
	}
	var found []scored
	name = folded(name)
	for _, word := range known {
		if len(word) > longest {
			continue
		}
		other := folded(word)
		if name == other {
			return []string{word}
		}
		limit := max(len(name), len(other)) / 3
		score := editDistance(name, other)
		if len(name) >= 3 && (strings.Contains(other, name) || strings.Contains(name, other)) {
			score = min(score, limit)
		}
		if score <= limit {
			found = append(found, scored{word, score})
		}
	}
	slices.SortFunc(found, func(x, y scored) int {
		return cmp.Or(cmp.Compare(x.score, y.score), cmp.Compare(x.word, y.word))
	})
	found = slices.Compact(found) // several lists may be joined
	var words []string
	for _, f := range found[:min(most, len(found))] {
		words = append(words, f.word)
	}
	return words
}

// folded is what two spellings of one name have in common.
func folded(name string) string { return strings.ReplaceAll(strings.ToLower(name), "-", "_") }

// editDistance counts insertions, deletions, changes and swaps of neighbours (optimal string alignment), in bytes.
func editDistance(x, y string) int {
	before, last, row := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(x); i++ {
		before, last, row = last, row, before
		row[0] = i
		for j := 1; j <= len(y); j++ {
			change := last[j-1]
			if x[i-1] != y[j-1] {
				change++
			}
			row[j] = min(change, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(y)]
}
