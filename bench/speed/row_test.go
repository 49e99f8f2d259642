package main

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuemu/bench/machine"
)

func TestGoalRatio(t *testing.T) {
	tests := []struct {
		name         string
		goal         Goal
		ours, theirs time.Duration
		want         float64
		ok           bool
	}{
		{"fast enough", Goal{Speed: 0.8}, 100, 80, 0.8, true},
		{"too slow", Goal{Speed: 0.8}, 100, 79, 0.79, false},
		{"faster", Goal{Speed: 2}, 10, 40, 4, true},
		{"cheap enough", Goal{Cost: 2.2}, 220, 100, 2.2, true},
		{"too dear", Goal{Cost: 2.2}, 230, 100, 2.3, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := tt.goal.ratio(tt.ours*time.Second, tt.theirs*time.Second)
			if math.Abs(got-tt.want) > 1e-12 || ok != tt.ok {
				t.Errorf("%v.ratio(%v, %v) = %v, %v, want %v, %v", tt.goal, tt.ours, tt.theirs, got, ok, tt.want, tt.ok)
			}
		})
	}
}

// clock is a Side that takes a fixed time per repetition and more in its first samples, as a cold machine does.
func clock(each time.Duration, extra ...time.Duration) Side {
	return func(reps int) (time.Duration, error) {
		took := time.Duration(reps) * each
		if len(extra) > 0 {
			took += extra[0]
			extra = extra[1:]
		}
		return took, nil
	}
}

func TestMeasure(t *testing.T) {
	row := Row{Name: "r", Goal: Goal{Speed: 1.5}, Setup: func(*Bench) (Side, Side, error) {
		return clock(time.Millisecond, 0, 0, 0, time.Second), clock(2*time.Millisecond, 0, 0, 0, 0, time.Second), nil
	}}
	b := &Bench{rounds: 5, sample: 50 * time.Millisecond}
	got, err := b.measure(&row)
	if err != nil {
		t.Fatal(err)
	}
	if got.Ours != time.Millisecond || got.Theirs != 2*time.Millisecond || got.Spread != 1 {
		t.Errorf("measure = ours %v, theirs %v, spread %v, want 1ms, 2ms, 1", got.Ours, got.Theirs, got.Spread)
	}
	want := [7]string{"r", "1ms", "2ms", "2.00×", "speed ≥ 1.5×", "0 %", "ok"}
	if cells := got.cells(); cells != want {
		t.Errorf("cells() = %q, want %q", cells, want)
	}
}

func TestMeasureReleasesAfterFailure(t *testing.T) {
	failed, ended := errors.New("no such thing"), 0
	row := Row{Name: "r", Setup: func(b *Bench) (Side, Side, error) {
		b.onEnd = append(b.onEnd, func() { ended++ })
		return nil, nil, failed
	}}
	b := &Bench{rounds: 1}
	if _, err := b.measure(&row); !errors.Is(err, failed) || ended != 1 {
		t.Errorf("measure = %v, ended %d times, want %v, once", err, ended, failed)
	}
}

func TestAgree(t *testing.T) {
	for _, tt := range []struct {
		got, want float64
		ok        bool
	}{{1, 1, true}, {1 + 1e-13, 1, true}, {1.001, 1, false}, {math.NaN(), 1, false}, {1, math.NaN(), false}} {
		if err := agree("x", tt.got, tt.want, 1e-12); (err == nil) != tt.ok {
			t.Errorf("agree(%v, %v) = %v, want agreement %v", tt.got, tt.want, err, tt.ok)
		}
	}
}

func TestMarkdownAndShort(t *testing.T) {
	row := func(name string) *Row {
		return &Row{Name: name, Goal: Goal{Speed: 1}, Work: 1, Unit: "F", Note: "One thing.", Why: "It is " + name + "."}
	}
	results := []Result{
		{Row: row("fast"), Ours: time.Second, Theirs: 2 * time.Second, Spread: 1.1},
		{Row: row("slow"), Ours: 2 * time.Second, Theirs: time.Second, Spread: 1},
		{Row: &Row{Name: "info", Note: "Another."}, Ours: time.Second, Theirs: time.Second, Spread: 1},
	}
	if got := slices.Collect(shortOf(results)); !slices.Equal(got, []string{"slow"}) {
		t.Errorf("shortOf = %q, want slow", got)
	}
	got := string(markdown([]machine.Fact{{Name: "processor", Value: "P"}}, results))
	for _, want := range []string{
		"- processor: P\n",
		"| fast | 1s (1 GF/s) | 2s (0.5 GF/s) | 2.00× | speed ≥ 1× | 10 % | ok |\n",
		"| slow | 2s (0.5 GF/s) | 1s (1 GF/s) | 0.50× | speed ≥ 1× | 0 % | short by 50.0 % |\n",
		"| info | 1s | 1s | 1.00× | none | 0 % |  |\n",
		"\n1 of 2 goals are met.\n\n**slow** is at 0.50× where the goal is speed ≥ 1×: short by 50.0 %. It is slow.\n",
		"\n- fast; slow: One thing.\n- info: Another.\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("markdown lacks %q:\n%s", want, got)
		}
	}
}

// TestRowsNamed checks that every row can be picked by its name and has one goal at most.
func TestRowsNamed(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rows() {
		if r.Name == "" || seen[r.Name] || r.Goal.Speed != 0 && r.Goal.Cost != 0 || r.Setup == nil {
			t.Errorf("row %q: want a name of its own, at most one goal and a Setup, got %+v", r.Name, r.Goal)
		}
		seen[r.Name] = true
	}
}
