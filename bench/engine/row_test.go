package main

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"gpuemu/bench/machine"
)

func TestGoal(t *testing.T) {
	for _, tt := range []struct {
		goal    goal
		figure  float64
		text    string
		verdict string
	}{
		{goal{atLeast: 100}, 100, "≥ 100×", "ok"},
		{goal{atLeast: 100}, 75, "≥ 100×", "short by 25 %"},
		{goal{atMost: 2}, 2, "≤ 2×", "ok"},
		{goal{atMost: 2}, 3, "≤ 2×", "short by 50 %"},
		{goal{}, 3, "none", ""},
	} {
		r := result{row: &row{goal: tt.goal}, figure: tt.figure, unit: "×"}
		if got := r.cells(); got[4] != tt.text || got[6] != tt.verdict {
			t.Errorf("%+v at %v: %q, %q, want %q, %q", tt.goal, tt.figure, got[4], got[6], tt.text, tt.verdict)
		}
	}
}

func TestSeries(t *testing.T) {
	s := series{30, 10, 20}
	if s.best() != 10 || s.median() != 20 || s.noise() != 1 {
		t.Errorf("best %v, median %v, noise %v, want 10ns, 20ns, 1", s.best(), s.median(), s.noise())
	}
	if got := rate(1500 * time.Microsecond); got != "1.5 ms (667/s)" {
		t.Errorf("rate = %q", got)
	}
}

func TestShapesOf(t *testing.T) {
	cases := make([]string, 2*publishedCases)
	for i := range cases {
		cases[i] = "op dtype=float32 dims=B:2,S:3,H:4 in=input:float32[2,3,4]:contiguous:uniform seed=1 gen=1"
	}
	got := shapesOf(cases)
	if len(got) != publishedCases || !reflect.DeepEqual(got[0], []int{2, 3, 4}) {
		t.Errorf("shapesOf = %v", got)
	}
}

// TestPage: every row has what the page needs, and the page names what is short.
func TestPage(t *testing.T) {
	var results []result
	for _, r := range rows() {
		if r.note == "" || r.measure == nil {
			t.Errorf("%s: no note or nothing to measure", r.name)
		}
		results = append(results, result{row: &r, ours: "1 ms", figure: 0.5, unit: "×"})
	}
	page := string(markdown([]machine.Fact{{Name: "date", Value: "today"}}, results))
	line := "| " + rows()[0].name + " | 1 ms |"
	for _, want := range []string{"- date: today", "is at 0.5× where the goal is ≥ 100×", line} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}
