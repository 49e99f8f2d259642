package policy

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuemu/internal/fingerprint"
	"gpuemu/internal/forge"
	"gpuemu/internal/receipt"
	"gpuemu/internal/testkit"
)

// vectorClock is the time that MANIFEST.json asks for, late enough on that day for its receipts.
var vectorClock = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

func vectorPath(t testing.TB, name string) string { return testkit.VectorPath(t, "gpu-proof/"+name) }

// git runs git in dir for the set-up of a test, without the settings of whoever runs it.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.org", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.org",
		"GIT_AUTHOR_DATE=2026-11-15T00:00:00Z", "GIT_COMMITTER_DATE=2026-11-15T00:00:00Z")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// vectorClone clones the vectors' repository at a branch.
func vectorClone(t testing.TB, branch string, flags ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "own")
	args := append([]string{"clone", "-q", "-b", branch}, flags...)
	git(t, t.TempDir(), append(args, vectorPath(t, "repo-own.bundle"), dir)...)
	return dir
}

func openRepo(t testing.TB, dir string) *fingerprint.Repo {
	t.Helper()
	repo, err := fingerprint.Open(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return repo
}

// vectorCase is a case of MANIFEST.json.
type vectorCase struct {
	ID       string   `json:"id"`
	Receipt  string   `json:"receipt"`
	Repo     string   `json:"repo"`
	Branch   string   `json:"branch"`
	Flags    []string `json:"flags"`
	Strict   string   `json:"strict"`
	Why      string   `json:"why"`
	Original any      `json:"original_0_1_0"`
	Keys     any      `json:"keys"`
	SHA256   string   `json:"sha256"`
}

func vectorCases(t testing.TB) []vectorCase {
	t.Helper()
	b, err := os.ReadFile(vectorPath(t, "MANIFEST.json"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct{ Cases []vectorCase }
	if err := json.Unmarshal(b, &manifest); err != nil || len(manifest.Cases) < 40 {
		t.Fatalf("MANIFEST.json has %d cases: %v", len(manifest.Cases), err)
	}
	return manifest.Cases
}

// rulesOf turns the flags of a case into rules, and allows the signer that the case means.
func rulesOf(t testing.TB, c vectorCase) *Rules {
	t.Helper()
	r := &Rules{MinSchema: 1}
	for i := 0; i < len(c.Flags); i++ {
		switch c.Flags[i] {
		case "--max-age-days":
			i++
			r.MaxAgeDays = new(int)
			if err := json.Unmarshal([]byte(c.Flags[i]), r.MaxAgeDays); err != nil {
				t.Fatal(err)
			}
		case "--github-user":
			i++
			r.Signers = []string{c.Flags[i]}
		case "--allow-skipped":
			r.AllowSkipped = true
		case "--allow-unsigned":
			r.AllowUnsigned = true
		case "--require-gpu":
			r.RequireGPU = true
		default:
			t.Fatalf("flag %q is not known", c.Flags[i])
		}
	}
	if keys, ok := c.Keys.(string); ok && r.Signers == nil {
		r.Signers = []string{strings.TrimSuffix(filepath.Base(keys), ".keys")}
	}
	if strings.HasPrefix(c.ID, "attack-") {
		r.Signers = []string{"golden-attacker"}
	}
	if r.Signers == nil {
		r.Signers = []string{"golden-ed25519"}
	}
	return r
}

// checkVector verifies a receipt of the vectors.
func checkVector(t testing.TB, name string, repo *fingerprint.Repo, rules *Rules) *Report {
	t.Helper()
	b, err := os.ReadFile(vectorPath(t, name))
	if err != nil {
		t.Fatal(err)
	}
	r, err := receipt.Parse(name, b)
	if err != nil {
		return Malformed(err)
	}
	if err := rules.Validate(); err != nil {
		t.Fatal(err)
	}
	return Check(context.Background(), Inputs{Receipt: r, Repo: repo, Rules: rules, Keys: forge.Folder(vectorPath(t,
		"keys")), Now: vectorClock})
}

func codes(list []Refusal) []Reason {
	var out []Reason
	for _, r := range list {
		out = append(out, r.Code)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestManifestCases: every case of the original's vectors does what its field strict says. "policy" cases are decided
// by a stated policy: one that accepts, one that refuses.
func TestManifestCases(t *testing.T) {
	policies := map[string]struct {
		accepts, refuses func(*Rules)
		reason           Reason
	}{
		"ok-paths-subset": {func(r *Rules) { r.Scope = []string{"src/a.txt", "src/pkg"} }, func(*Rules) {},
			ScopeMismatch},
		"ok-paths-all":          {func(r *Rules) { r.Scope = []string{"."} }, func(*Rules) {}, ScopeMismatch},
		"bad-unrelated-history": {func(*Rules) {}, func(r *Rules) { r.RequireAncestor = true }, NotAncestor},
		"hole-outside-changed":  {func(*Rules) {}, func(r *Rules) { r.RefuseOutsideChanges = true }, OutsideChanged},
	}
	repos := map[string]*fingerprint.Repo{}
	count := map[string]int{}
	for _, c := range vectorCases(t) {
		if repos[c.Branch] == nil {
			repos[c.Branch] = openRepo(t, vectorClone(t, c.Branch))
		}
		t.Run(c.ID, func(t *testing.T) {
			count[c.Strict]++
			switch c.Strict {
			case "accept":
				if got := checkVector(t, c.Receipt, repos[c.Branch], rulesOf(t, c)); !got.Accepted {
					t.Errorf("refused: %+v %+v", got.Refusals, got.Unreachable)
				}
			case "reject":
				if got := checkVector(t, c.Receipt, repos[c.Branch], rulesOf(t, c)); got.Accepted || len(got.Refusals) == 0 {
					t.Errorf("not refused: %+v", got)
				}
			case "policy":
				p, ok := policies[c.ID]
				if !ok {
					t.Fatal("no policy for this case")
				}
				rules := rulesOf(t, c)
				p.accepts(rules)
				if got := checkVector(t, c.Receipt, repos[c.Branch], rules); !got.Accepted {
					t.Errorf("refused with a policy that allows it: %+v", got.Refusals)
				}
				rules = rulesOf(t, c)
				p.refuses(rules)
				if got := checkVector(t, c.Receipt, repos[c.Branch], rules); !slices.Equal(codes(got.Refusals),
					[]Reason{p.reason}) {
					t.Errorf("refusals %+v, want %s alone", got.Refusals, p.reason)
				}
			default:
				t.Errorf("strict is %q", c.Strict)
			}
		})
	}
	if count["accept"] < 10 || count["reject"] < 25 || count["policy"] != len(policies) {
		t.Errorf("cases: %v", count)
	}
}

// TestManifestNeedsFlag: nothing of the original's first schema is taken without being asked for.
func TestManifestNeedsFlag(t *testing.T) {
	repo := openRepo(t, vectorClone(t, "main"))
	got := checkVector(t, "receipts/own-ed25519.json", repo, &Rules{Signers: []string{"golden-ed25519"}})
	if !slices.Equal(codes(got.Refusals), []Reason{WeakFormat}) {
		t.Errorf("refusals %+v, want weak_format alone", got.Refusals)
	}
	got = checkVector(t, "receipts/own-ed25519.json", repo, &Rules{Signers: []string{"golden-ed25519"}, MinSchema: 1})
	if !got.Accepted || !slices.Contains(codes(got.Warnings), WeakFormat) || !slices.Contains(codes(got.Warnings),
		NotFinite) {
		t.Errorf("accepted %v with the warnings %+v, want weak_format and not_finite", got.Accepted, got.Warnings)
	}
}
