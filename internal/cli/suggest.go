package cli

import (
	"cmp"
	"slices"
	"strings"
)

// This file implements the "did you mean" hints for names given on the command line.

// suggest returns a hint that names the known words nearest to name, or otherwise if none is near.
func suggest(name string, known []string, otherwise string) string {
	near := nearest(name, known)
	if len(near) == 0 {
		return otherwise
	}
	return "did you mean " + strings.Join(near, " or ") + "?"
}

// nearest returns at most three known words that look like name: a small edit distance, or one contains the other.
func nearest(name string, known []string) []string {
	const most = 3
	type scored struct {
		word  string
		score int
	}
	var found []scored
	name = strings.ToLower(name)
	for _, word := range known {
		lower := strings.ToLower(word)
		score := editDistance(name, lower)
		limit := max(len(name), len(lower))/3 + 1
		if len(name) >= 3 && (strings.Contains(lower, name) || strings.Contains(name, lower)) {
			score, limit = min(score, limit), limit
		}
		if score <= limit {
			found = append(found, scored{word, score})
		}
	}
	slices.SortFunc(found, func(x, y scored) int {
		return cmp.Or(cmp.Compare(x.score, y.score), cmp.Compare(x.word, y.word))
	})
	var words []string
	for _, f := range found[:min(most, len(found))] {
		words = append(words, f.word)
	}
	return words
}

// editDistance is the Levenshtein distance in bytes. Names are short, and longer ones are cut.
func editDistance(x, y string) int {
	const longest = 128
	x, y = x[:min(len(x), longest)], y[:min(len(y), longest)]
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(x) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(y) {
			change := diagonal
			if x[i] != y[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(y)]
}
