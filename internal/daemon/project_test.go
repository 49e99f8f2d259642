package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"gpuemu/internal/wire"
)

// TestHomeOfTheCaller: the search for gpuemu.toml ends with the home directory of the caller, not with that of whoever
// started the daemon, and what the request executes has the variables of the caller alone.
func TestHomeOfTheCaller(t *testing.T) {
	f := newFixture(t)
	home := filepath.Dir(f.config)
	here := filepath.Join(home, "project")
	if err := os.Mkdir(here, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		env  wire.Environment
		want string
	}{{wire.Environment{"HOME": home}, f.config}, {wire.Environment{"HOME": t.TempDir()}, ""}, {wire.Environment{}, ""}} {
		p, err := f.project(here, "", tt.env)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if p.Config != nil {
			got = p.Config.Path
		}
		if got != tt.want || len(p.Env) != len(tt.env) || p.Env == nil {
			t.Errorf("project of a caller with %v has the configuration %q and the environment %q, want %q", tt.env, got, p.Env,
				tt.want)
		}
	}
}
