// Package policy holds what a receipt must say to be believed: the rules, their file, and the checks.
//
// The rules come from outside of the tree under test. They are strict where they say nothing: the zero Rules accept
// nobody's signature, the scope src and tests, no skips, no dirty tree, nothing older than 30 days. Check makes every
// check that can be made and reports all refusals, each with a Reason that stays the same for good; what could not be
// found out is neither a refusal nor a pass. Nothing of the repository is executed.
package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gpuemu/internal/diag"
	"gpuemu/internal/fingerprint"
	"gpuemu/internal/receipt"
	"gpuemu/internal/sshsig"
)

// Defaults of the rules.
const (
	DefaultMaxAgeDays = 30
	DefaultMinSchema  = 3 // the original's "3" and our own format
	// OwnSchema is the rank of our own format among the schemas: above the original's.
	OwnSchema = 4
	// DefaultExclude is the receipt's usual name: a receipt cannot cover itself.
	DefaultExclude = "gpu-proof.json"
)

// defaultScope is what is covered when the policy says nothing, as in the original's documentation.
var defaultScope = []string{"src", "tests"}

// Rules are what a receipt must say. The zero value has the strict defaults.
type Rules struct {
	Signers         []string               // names of accounts, or of allowed signers
	KeyFingerprints []string               // "SHA256:…"; if there are any, no other key counts
	AllowedSigners  *sshsig.AllowedSigners // keys come from here, not from a forge
	AllowedFile     string                 // its file, as the policy names it
	Forge, Host     string                 // which forge has the keys, and where; "": GitHub
	Threshold       int                    // how many people must have signed; 0: one
	RequireTouch    bool                   // security keys only, touched
	AllowUnsigned   bool

	MinSchema int    // 0: DefaultMinSchema
	Mode      string // "": any known one

	Scope                []string // nil: src and tests
	Extra                []string // of the original's 0.4
	Exclude              []string // besides DefaultExclude
	Outputs              []string // build outputs that must be recorded
	Repositories         []string // host/owner/name; nil: any
	AllowDirty           bool
	AllowUncovered       bool
	RequireWatched       bool
	AllowOutsideChanges  bool
	RefuseOutsideChanges bool
	RequireAncestor      bool
	AllowCarried         bool
	CarriedMaxAgeDays    *int // nil: DefaultMaxAgeDays
	Shards               map[string]ShardScope

	RequiredTests        []string
	RequiredManifest     string   // file with required tests, as the policy names it
	ExpectedSkips        []string // nil: none expected; else exactly these
	ExpectedSkipsFile    string
	AllowSkipped         bool
	AllowXFail           bool
	AllowReruns          bool
	AllowDeselected      bool
	AllowOutsideFailures bool

	RequireGPU       bool
	GPUModels        []string // patterns with *
	MaxAgeDays       *int     // nil: DefaultMaxAgeDays
	Nonce            string
	RequireChallenge bool
	ChallengeOps     []string // operators that must have a challenge
	ChallengeCases   int      // how many cases a challenge must have; 0: one
	ChallengeValues  []string // distributions that a challenge may have; nil: any
}

// ShardScope pins what a shard of the original's covers; nil lists are not pinned.
type ShardScope struct{ Paths, Extra, Excluded []string }

// scope is the scope that a receipt must have.
func (r *Rules) scope() (fingerprint.Scope, error) {
	if r.Scope == nil {
		return fingerprint.ParseScope(defaultScope)
	}
	return fingerprint.ParseScope(r.Scope)
}

func (r *Rules) maxAgeDays() int {
	if r.MaxAgeDays == nil {
		return DefaultMaxAgeDays
	}
	return *r.MaxAgeDays
}

func (r *Rules) minSchema() int {
	if r.MinSchema == 0 {
		return DefaultMinSchema
	}
	return r.MinSchema
}

var (
	fingerprintForm = regexp.MustCompile(`^SHA256:[A-Za-z0-9+/]{43}$`)
	hostForm        = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]+)?$`)
)

// Validate reports the first thing that is wrong with the rules as a whole. Parse and whoever sets rules by flags call
// it before Check.
func (r *Rules) Validate() error {
	bad := func(key, got, want string) error {
		return diag.Errorf(BadValue, "", "%s: %q, want %s", key, got, want)
	}
	if r.AllowSkipped && r.ExpectedSkips != nil {
		return diag.Errorf(Conflict, "keep one of them", "allow_skipped and expected_skips are both given")
	}
	for _, list := range []struct {
		key   string
		items []string
	}{{"signers", r.Signers}, {"required_tests", r.RequiredTests}, {"expected_skips", r.ExpectedSkips},
		{"repositories", r.Repositories}, {"gpu_models", r.GPUModels}} {
		seen := make(map[string]bool, len(list.items)) // lists of required tests are long
		for _, item := range list.items {
			if item == "" || strings.TrimSpace(item) != item || strings.ContainsFunc(item, isControl) {
				return bad(list.key, item, "a name without blanks around it")
			}
			if seen[item] {
				return bad(list.key, item, "every name once")
			}
			seen[item] = true
		}
	}
	for _, f := range r.KeyFingerprints {
		if !fingerprintForm.MatchString(f) {
			return bad("key_fingerprints", f, `"SHA256:" and 43 characters, as ssh-keygen -l prints it`)
		}
	}
	for key, list := range map[string][]string{"exclude": r.Exclude, "outputs": r.Outputs, "extra": r.Extra} {
		if len(list) > 0 {
			if _, err := fingerprint.ParseScope(list); err != nil {
				return diag.Errorf(BadValue, diag.HintOf(err), "%s: %w", key, err)
			}
		}
	}
	if _, err := r.scope(); err != nil {
		return diag.Errorf(BadValue, diag.HintOf(err), "scope: %w", err)
	}
	if r.Threshold < 0 || r.Threshold > 32 {
		return bad("threshold", fmt.Sprint(r.Threshold), "1 to 32")
	}
	if r.MinSchema < 0 || r.MinSchema > OwnSchema {
		return bad("min_schema", fmt.Sprint(r.MinSchema), "1, 2, 3 or gpu-proof/1")
	}
	if r.Mode != "" && !knownMode(r.Mode) {
		return bad("mode", r.Mode, "local or ci-gpu")
	}
	if r.Host != "" && !hostForm.MatchString(r.Host) {
		return bad("host", r.Host, "a host, without https:// and without a path")
	}
	for _, days := range []*int{r.MaxAgeDays, r.CarriedMaxAgeDays} {
		if days != nil && (*days < 0 || *days > 36525) {
			return bad("max_age_days", fmt.Sprint(*days), "0 to 36525")
		}
	}
	return nil
}

func knownMode(mode string) bool { return mode == "local" || mode == "ci-gpu" }

func isControl(c rune) bool { return c < 0x20 || c == 0x7f }

// LoadFiles reads the files that the policy names: allowed signers, required tests, expected skips. read takes a name
// as it stands in the policy; from where is the caller's business, and must not be the tree under test.
func (r *Rules) LoadFiles(read func(name string) ([]byte, error)) error {
	if r.AllowedFile != "" {
		b, err := read(r.AllowedFile)
		if err != nil {
			return unreadable("allowed_signers", r.AllowedFile, err)
		}
		if r.AllowedSigners, err = sshsig.ParseAllowedSigners(r.AllowedFile, b); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		key, name string
		to        *[]string
	}{{"required_test_manifest", r.RequiredManifest, &r.RequiredTests}, {"expected_skips", r.ExpectedSkipsFile,
		&r.ExpectedSkips}} {
		if f.name == "" {
			continue
		}
		b, err := read(f.name)
		if err != nil {
			return unreadable(f.key, f.name, err)
		}
		ids, err := ParseIDs(f.name, b)
		if err != nil {
			return err
		}
		if f.key == "required_test_manifest" && len(ids) == 0 {
			return diag.Errorf(BadValue, "write one test id a line", "%s names no test", f.name)
		}
		*f.to = unique(append(ids, *f.to...))
	}
	return r.Validate()
}

func unreadable(key, name string, err error) error {
	return diag.Errorf(Unreadable, "", "%s: %q: %w", key, name, err)
}

func unique(list []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(append([]string{}, list...), func(s string) bool {
		twice := seen[s]
		seen[s] = true
		return twice
	})
}

// ParseIDs reads a list of test ids: one a line, blank lines and lines that begin with # left out. An empty file is a
// list of none, not no list.
func ParseIDs(file string, b []byte) ([]string, error) {
	if len(b) > maxPolicy {
		return nil, diag.Errorf(Limit, "", "%d bytes, at most %d are read", len(b), maxPolicy).At(diag.Pos{File: file})
	}
	ids := []string{}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "#") {
			ids = append(ids, line)
		}
	}
	return unique(ids), nil
}

// schemaRank orders formats: the original's schemas, then ours.
func schemaRank(format string) int {
	switch format {
	case "1", "2", "3":
		return int(format[0] - '0')
	case receipt.Format:
		return OwnSchema
	}
	return 0
}
