package daemon

import (
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gpuemu/internal/verdict"
	"gpuemu/internal/wire"
)

// A run ends with the smallest case of each bug. It replays by its text, and the report of the campaign has it, too.
func TestRunMinimizesBugs(t *testing.T) {
	f := newFixture(t)
	c := f.local()
	for _, kind := range []string{"test", "ci", "fuzz"} {
		req := &wire.RunRequest{Config: f.config, Kind: kind, Ops: []string{"wrong"}, Iterations: 6}
		sum, err := c.Run(t.Context(), req, nil)
		if err != nil || sum.Failed < 2 {
			t.Fatalf("Run = %+v, %v", sum, err)
		}
		if kind == "fuzz" { // every failure has its command there
			if sum.Groups != nil {
				t.Errorf("fuzz has groups: %+v", sum.Groups)
			}
			continue
		}
		if len(sum.Groups) == 0 || sum.Groups[0].Minimal == nil || sum.Groups[0].Unminimized != "" {
			t.Fatalf("%s: groups %+v, want one with a smallest case", kind, sum.Groups)
		}
		stored, err := f.store.Campaign(t.Context(), sum.Campaign)
		if err != nil || stored.Summary.Groups[0].Minimal.Case != sum.Groups[0].Minimal.Case {
			t.Errorf("%s: stored as %+v, %v", kind, stored, err)
		}
		again, err := newFixture(t).local().Reproduce(t.Context(), &wire.ReproduceRequest{Config: f.config,
			Case: sum.Groups[0].Minimal.Case})
		if err != nil || !again.StillFails {
			t.Errorf("%s: Reproduce with an empty store = %+v, %v", kind, again, err)
		}
	}
}

// Limits leave cases as they were found, and say so.
func TestRunsSayWhatTheyDoNotMinimize(t *testing.T) {
	for name, want := range map[string]string{
		"time":    "the time that a run takes for it (30s) was over; gpuemu minimize 'wrong ",
		"stopped": "the run was stopped before its end; gpuemu minimize 'wrong ",
	} {
		f := newFixture(t)
		sum, err := f.local().Run(t.Context(), &wire.RunRequest{Config: f.config, Kind: "test", Quick: true,
			Ops: []string{"wrong"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		p, err := f.project(f.config, "", wire.Environment{})
		if err != nil {
			t.Fatal(err)
		}
		var calls atomic.Int64
		clock := func() time.Time { return time.Unix(calls.Add(1)*int64(minimizedTime/time.Second)*2, 0) }
		f.clock.Store(&clock)
		cut := &verdict.Summary{Campaign: sum.Campaign, Counts: sum.Counts}
		if name == "stopped" {
			cut.Stopped = "time-limit"
		}
		if err := f.group(t.Context(), p, cut); err != nil {
			t.Fatal(err)
		}
		if len(cut.Groups) == 0 || cut.Groups[0].Minimal != nil || !strings.HasPrefix(cut.Groups[0].Unminimized, want) {
			t.Errorf("%s: groups %+v, want %q", name, cut.Groups, want)
		}
	}
}

// Where a case does not fail when it is executed again, and where it cannot be executed, gpuemu minimize would find no
// more than the run did: it is not recommended.
func TestMinimizeIsNotRecommendedInVain(t *testing.T) {
	for candidate, want := range map[string]string{
		`candidate = "builtin:relu"`: "executed again, the case passes: the kernel is nondeterministic, and there is " +
			"nothing to minimize",
		"": `op "wrong" cannot be executed here: `,
	} {
		f := newFixture(t)
		sum, err := f.local().Run(t.Context(), &wire.RunRequest{Config: f.config, Kind: "test", Quick: true,
			Ops: []string{"wrong"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Replace(projectText, `candidate = "builtin:silu"`, candidate, 1)
		if err := os.WriteFile(f.config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := f.project(f.config, "", wire.Environment{})
		if err != nil {
			t.Fatal(err)
		}
		again := &verdict.Summary{Campaign: sum.Campaign, Counts: sum.Counts}
		if err := f.group(t.Context(), p, again); err != nil {
			t.Fatal(err)
		}
		got := again.Groups[0].Unminimized
		if !strings.HasPrefix(got, want) || strings.Contains(got, "minimize ") {
			t.Errorf("%q: not minimized: %q, want %q and no command", candidate, got, want)
		}
	}
}
