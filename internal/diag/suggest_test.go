package diag

import (
	"strings"
	"testing"
)

func TestSuggest(t *testing.T) {
	known := []string{"softmax", "log_softmax", "matmul", "batched_matmul", "relu", "gelu", "add", "no-color"}
	for _, tt := range []struct {
		name string
		want string
	}{
		{"sotfmax", "did you mean softmax?"},
		{"soft", "did you mean softmax or log_softmax?"},
		{"SOFTMAX", "did you mean softmax?"},
		{"log-softmax", "did you mean log_softmax?"},
		{"no_colour", "did you mean no-color?"},
		{"relu6", "did you mean relu?"},
		{"matmul_batched", "did you mean matmul?"},
		{"zzzzzz", "see the list"},
		{"", "see the list"},
		{strings.Repeat("x", 1000), "see the list"},
	} {
		if got := Suggest(tt.name, known, "see the list"); got != tt.want {
			t.Errorf("Suggest(%.20q) = %q, want %q", tt.name, got, tt.want)
		}
	}
	if got := Suggest("x", []string{strings.Repeat("x", 1000)}, "see the list"); got != "see the list" {
		t.Errorf("Suggest of a long known word = %.40q, want none", got)
	}
}

func TestEditDistance(t *testing.T) {
	for _, tt := range []struct {
		x, y string
		want int
	}{
		{"", "", 0}, {"a", "", 1}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"same", "same", 0},
		{"ab", "ba", 1}, {"casse", "cases", 1},
	} {
		if got := editDistance(tt.x, tt.y); got != tt.want {
			t.Errorf("editDistance(%q, %q) = %d, want %d", tt.x, tt.y, got, tt.want)
		}
	}
}
