package policy

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/escape"
)

func number(n int) *int { return &n }

// TestParseAllKeys: every key, in YAML and in JSON, in our spelling and in the original's.
func TestParseAllKeys(t *testing.T) {
	const text = `# who
signers: [alice, bob]
key_fingerprints:
  - SHA256:M6n9knfcBDX8kvgeYGfl0Rz1T1eSAhpSLIyDCUvGo68
allowed_signers: allowed
signer_mode: restricted
forge: gitlab
host: git.example.org:8443
threshold: 2
require_touch: true
allow_unsigned: false
min_schema: 1
mode: ci-gpu
scope: ["."]
exclude: [receipts/gpu-proof.json]
extra: [gen/table.h]
outputs: [build/k.so]
repositories: [github.com/alice/kernels]
allow_dirty: true
allow_uncovered: true
require_watched: true
allow_outside_changes: false
require_ancestor: true
allow_carried: true
carried_max_age_days: 14
required_shard_fingerprints:
  core: {paths: [src], extra_paths: [], excluded_paths: [x]}
required_tests: [t::a]
required_test_manifest: tests.txt
expected_skips: [t::s]
allow_skipped: false
allow_xfail: true
allow_reruns: true
allow_deselected: true
allow_outside_failures: true
require_gpu: true
gpu_models: ["*H200*"]
max_age_days: 0
nonce: n
require_challenge: [softmax]
challenge_cases: 8
challenge_values: [mixed, adversarial]
`
	want := &Rules{Signers: []string{"alice", "bob"},
		KeyFingerprints: []string{"SHA256:M6n9knfcBDX8kvgeYGfl0Rz1T1eSAhpSLIyDCUvGo68"}, AllowedFile: "allowed",
		Forge: "gitlab", Host: "git.example.org:8443", Threshold: 2, RequireTouch: true, MinSchema: 1, Mode: "ci-gpu",
		Scope: []string{"."}, Exclude: []string{"receipts/gpu-proof.json"}, Extra: []string{"gen/table.h"},
		Outputs: []string{"build/k.so"}, Repositories: []string{"github.com/alice/kernels"}, AllowDirty: true,
		AllowUncovered: true, RequireWatched: true, RefuseOutsideChanges: true, RequireAncestor: true,
		AllowCarried: true, CarriedMaxAgeDays: number(14),
		Shards:        map[string]ShardScope{"core": {Paths: []string{"src"}, Extra: []string{}, Excluded: []string{"x"}}},
		RequiredTests: []string{"t::a"}, RequiredManifest: "tests.txt", ExpectedSkips: []string{"t::s"},
		AllowXFail: true, AllowReruns: true, AllowDeselected: true, AllowOutsideFailures: true, RequireGPU: true,
		GPUModels: []string{"*H200*"}, MaxAgeDays: number(0), Nonce: "n", RequireChallenge: true,
		ChallengeOps: []string{"softmax"}, ChallengeCases: 8, ChallengeValues: []string{"mixed", "adversarial"}}
	got, err := Parse("policy.yaml", []byte(text))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Parse = %+v, %v, want %+v", got, err, want)
	}
	for _, k := range keyTable {
		if !strings.Contains(text, "\n"+k.name+":") {
			t.Errorf("the key %s is not tried", k.name)
		}
	}
	original := `{"signer_mode": "restricted", "allowed_signers": ["plancherb1"], "allowed_key_fingerprints":
 ["SHA256:M6n9knfcBDX8kvgeYGfl0Rz1T1eSAhpSLIyDCUvGo68"], "min_schema": "3", "max_age_days": 7, "require_mode": "local",
 "allow_dirty": false, "required_fingerprint_paths": ["src", "tests"], "required_fingerprint_extra_paths": [],
 "required_fingerprint_excluded_paths": ["gpu-proof.json"], "required_test_manifest": "t.txt",
 "allow_carried": true, "carried_max_age_days": 30}`
	want = &Rules{Signers: []string{"plancherb1"},
		KeyFingerprints: []string{"SHA256:M6n9knfcBDX8kvgeYGfl0Rz1T1eSAhpSLIyDCUvGo68"},
		MinSchema:       3, MaxAgeDays: number(7), Mode: "local", Scope: []string{"src", "tests"}, Extra: []string{},
		Exclude: []string{"gpu-proof.json"}, RequiredManifest: "t.txt", AllowCarried: true, CarriedMaxAgeDays: number(30)}
	for _, file := range []string{"p.json", "p.yaml"} { // JSON is YAML, too
		if got, err := Parse(file, []byte(original)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Parse(%s) = %+v, %v, want %+v", file, got, err, want)
		}
	}
	for _, text := range []string{"", "# nothing\n", "---\n", "null\n"} {
		if got, err := Parse("p.yaml", []byte(text)); err != nil || !reflect.DeepEqual(got, &Rules{}) {
			t.Errorf("Parse(%q) = %+v, %v, want the defaults", text, got, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nsigners: *b\n"
	for _, tt := range []struct {
		name, file, text string
		code             diag.Code
		pos, hint        string
	}{
		{"unknown key", "p.yaml", "allow_dirty: true\nmax_age_day: 3\n", UnknownKey, "p.yaml:2:1",
			"did you mean max_age_days"},
		{"key in another case", "p.yaml", "Signers: [a]\n", UnknownKey, "p.yaml:1:1", "did you mean signers"},
		{"unknown key in JSON", "p.json", `{"allow_dirt": true}`, UnknownKey, "p.json", "allow_dirty"},
		{"twice", "p.yaml", "nonce: a\nnonce: b\n", DuplicateKey, "p.yaml:2:1", ""},
		{"twice in JSON", "p.json", `{"nonce":"a","nonce":"b"}`, DuplicateKey, "p.json:1:14", ""},
		{"twice below", "p.yaml", "required_shard_fingerprints:\n  a: {paths: [x]}\n  a: {}\n", DuplicateKey, "p.yaml:3:3",
			""},
		{"two names of one key", "p.yaml", "mode: local\nrequire_mode: local\n", Conflict, "p.yaml:2:1", "keep one"},
		{"anchor", "p.yaml", "nonce: &x a\n", Syntax, "p.yaml:1:8", ""},
		{"alias bomb", "p.yaml", bomb, Syntax, "p.yaml:1:4", ""},
		{"merge key", "p.yaml", "<<: {nonce: a}\n", Syntax, "p.yaml:1:1", ""},
		{"second document", "p.yaml", "nonce: a\n---\nnonce: b\n", Syntax, "p.yaml", ""},
		{"key that is no text", "p.yaml", "1: a\n", Syntax, "p.yaml:1:1", ""},
		{"tag", "p.yaml", "nonce: !!binary aGk=\n", Syntax, "p.yaml:1:8", ""},
		{"own tag", "p.yaml", "nonce: !x a\n", Syntax, "p.yaml:1:8", ""},
		{"not YAML", "p.yaml", "signers: [a\n", Syntax, "p.yaml", ""},
		{"tab", "p.yaml", "a:\n\tb: 1\n", Syntax, "p.yaml", ""},
		{"not JSON", "p.json", "signers: [a]\n", Syntax, "p.json:1:1", ""},
		{"NaN in JSON", "p.json", `{"max_age_days": NaN}`, Syntax, "p.json:1:18", ""},
		{"list", "p.yaml", "- a\n", WrongType, "p.yaml:1:1", ""},
		{"text", "p.yaml", "hello\n", WrongType, "p.yaml:1:1", ""},
		{"yes for a truth", "p.yaml", "allow_dirty: yes\n", WrongType, "p.yaml:1:1", ""},
		{"1 for a truth", "p.yaml", "allow_dirty: 1\n", WrongType, "p.yaml:1:1", ""},
		{"text for a list", "p.yaml", "signers: alice\n", WrongType, "p.yaml:1:1", ""},
		{"null", "p.yaml", "signers:\n", WrongType, "p.yaml:1:1", ""},
		{"number in a list", "p.yaml", "signers: [1]\n", WrongType, "p.yaml:1:11", ""},
		{"fraction", "p.yaml", "max_age_days: 1.5\n", WrongType, "p.yaml:1:1", ""},
		{"truth for a number", "p.yaml", "max_age_days: true\n", WrongType, "p.yaml:1:1", ""},
		{"hexadecimal", "p.yaml", "max_age_days: 0x10\n", BadValue, "p.yaml:1:15", ""},
		{"schema 5", "p.yaml", "min_schema: 5\n", WrongType, "p.yaml:1:1", ""},
		{"empty list", "p.yaml", "signers: []\n", BadValue, "p.yaml:1:1", "leave the key out"},
		{"empty name", "p.yaml", `signers: [""]`, WrongType, "p.yaml:1:11", ""},
		{"blank", "p.yaml", `signers: ["a "]`, BadValue, "p.yaml", ""},
		{"line break in a name", "p.yaml", `signers: ["a\nb"]`, BadValue, "p.yaml", ""},
		{"name twice", "p.yaml", "signers: [a, a]\n", BadValue, "p.yaml", ""},
		{"fingerprint", "p.yaml", "key_fingerprints: [SHA256:x]\n", BadValue, "p.yaml", ""},
		{"open", "p.yaml", "signer_mode: open\n", BadValue, "p.yaml:1:1", "name who may sign"},
		{"scope outside", "p.yaml", "scope: [../x]\n", BadValue, "p.yaml", ""},
		{"scope with magic", "p.yaml", `scope: [":!x"]`, BadValue, "p.yaml", ""},
		{"output outside", "p.yaml", "outputs: [/x]\n", BadValue, "p.yaml", ""},
		{"threshold", "p.yaml", "threshold: -1\n", BadValue, "p.yaml", ""},
		{"mode", "p.yaml", "mode: banana\n", BadValue, "p.yaml", ""},
		{"host with a path", "p.yaml", "host: https://x.org/y\n", BadValue, "p.yaml", ""},
		{"negative age", "p.yaml", "max_age_days: -1\n", BadValue, "p.yaml", ""},
		{"skips both ways", "p.yaml", "allow_skipped: true\nexpected_skips: []\n", Conflict, "p.yaml", "keep one"},
		{"unknown key of a shard", "p.yaml", "required_shard_fingerprints: {a: {path: [x]}}\n", UnknownKey, "p.yaml:1:35",
			"paths"},
		{"deep", "p.yaml", "nonce: " + strings.Repeat("[", 500), Syntax, "p.yaml", ""},
		{"deep and closed", "p.yaml", "nonce: " + strings.Repeat("[", 500) + strings.Repeat("]", 500), Limit, "p.yaml:1:24",
			""},
		{"large", "p.yaml", strings.Repeat("#", maxPolicy+1), Limit, "p.yaml", ""},
		{"many", "p.yaml", "required_tests: [" + strings.Repeat("a,", maxNodes) + "a]", Limit, "p.yaml:1:400014", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := Parse(tt.file, []byte(tt.text))
			var e *diag.Error
			if !errors.As(err, &e) || e.Code != tt.code || e.Pos.String() != tt.pos || !strings.Contains(e.Hint, tt.hint) {
				t.Errorf("Parse = %+v, %v (hint %q), want %s at %s (%s)", r, err, diag.HintOf(err), tt.code, tt.pos, tt.hint)
			}
			if err != nil && escape.Text(err.Error()) != err.Error() {
				t.Errorf("the message is %q", err.Error())
			}
		})
	}
}

func TestLoadFiles(t *testing.T) {
	w := newWorld(t)
	files := map[string]string{"allowed": "alice " + w.alice.PublicKey().String() + "\n", "tests": "b\na\n\n# c\nb\n",
		"skips": "", "none": "# nothing\n"}
	read := func(name string) ([]byte, error) {
		if text, ok := files[name]; ok {
			return []byte(text), nil
		}
		return nil, os.ErrNotExist
	}
	r, err := Parse("p.yaml",
		[]byte("allowed_signers: allowed\nrequired_test_manifest: tests\nrequired_tests: [a, d]\nexpected_skips: skips\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.LoadFiles(read); err != nil {
		t.Fatal(err)
	}
	if want := []string{"b", "a", "d"}; !reflect.DeepEqual(r.RequiredTests, want) || r.ExpectedSkips == nil ||
		r.AllowedSigners == nil {
		t.Errorf("%+v, want the tests %v and an empty list of skips", r, want)
	}
	for text, code := range map[string]diag.Code{
		"allowed_signers: nowhere\n": Unreadable, "required_test_manifest: nowhere\n": Unreadable,
		"expected_skips: nowhere\n":      Unreadable,
		"required_test_manifest: none\n": BadValue, "allow_skipped: true\nexpected_skips: skips\n": Conflict,
	} {
		r, err := Parse("p.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.LoadFiles(read); diag.CodeOf(err) != code {
			t.Errorf("%q: %v, want %s", text, err, code)
		}
	}
	if _, err := ParseIDs("x", make([]byte, maxPolicy+1)); diag.CodeOf(err) != Limit {
		t.Errorf("a list of %d bytes: %v", maxPolicy+1, err)
	}
}

// FuzzPolicy: a policy is read into valid rules, or refused with a code and a message without commands.
func FuzzPolicy(f *testing.F) {
	f.Add("p.yaml",
		[]byte("signers: [alice]\nscope: [src, tests]\nmax_age_days: 3\nrequired_shard_fingerprints: {a: {paths: [x]}}\n"))
	f.Add("p.json", []byte(`{"signers": ["alice"], "allow_dirty": true, "gpu_models": ["*"]}`))
	f.Add("p.yaml", []byte("a: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, file string, b []byte) {
		if escape.Text(file) != file || filepath.Base(file) != file {
			file = "p.yaml"
		}
		r, err := Parse(file, b)
		if err == nil {
			if err := r.Validate(); err != nil {
				t.Errorf("Parse(%q) gave rules that are not valid: %v", b, err)
			}
			return
		}
		if diag.CodeOf(err) == "" {
			t.Errorf("Parse(%q): an error without a code: %v", b, err)
		}
	})
}
