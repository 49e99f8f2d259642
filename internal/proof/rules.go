package proof

import (
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"gpuemu/internal/diag"
	"gpuemu/internal/fingerprint"
	"gpuemu/internal/forge"
	"gpuemu/internal/policy"
	"gpuemu/internal/sshsig"
)

// This file implements where the rules come from: a policy file, a policy of another revision, flags. None of them is
// the receipt, and none should be the tree under test.

// ruleFlags are the flags of all commands that verify.
type ruleFlags struct {
	repo                        string
	policy, policyRef           string
	signers                     []string
	githubUser                  string
	allowed, forge              string
	keysURL, keysDir            string
	maxAge                      int
	minSchema                   string
	allowUnsigned, allowSkipped bool
	expectedSkips               string
	requireGPU                  bool
	nonce                       string
}

func (r *ruleFlags) register(f *pflag.FlagSet) {
	f.StringVar(&r.repo, "repo", ".", "`DIR` of the repository")
	f.StringVar(&r.policy, "policy", "", "policy `FILE`; one inside the repository is whatever a pull request makes of it")
	f.StringVar(&r.policyRef, "policy-ref", "", "policy of another revision, as `REV:PATH`: origin/main:gpu-proof.yml")
	f.StringArrayVar(&r.signers, "signer", nil, "`NAME` of somebody who may sign; may be repeated")
	f.StringVar(&r.githubUser, "github-user", "", "`NAME` of the account at GitHub that may sign")
	f.StringVar(&r.allowed, "allowed-signers", "", "`FILE` of allowed signers and their keys (ssh-keygen(1))")
	f.StringVar(&r.forge, "forge", "", "who has the keys: github, gitlab, gitea, forgejo, sourcehut (default github)")
	f.StringVar(&r.keysURL, "keys-url", "", "address of the forge, as `https://HOST`")
	f.StringVar(&r.keysDir, "keys-dir", "", "`DIR` with NAME.keys files, instead of asking a forge")
	f.IntVar(&r.maxAge, "max-age-days", policy.DefaultMaxAgeDays, "oldest receipt, in days")
	f.StringVar(&r.minSchema, "min-schema", "", "oldest format: 1, 2, 3 or gpu-proof/1 (default 3)")
	f.BoolVar(&r.allowUnsigned, "allow-unsigned", false, "accept a receipt whose signature is null")
	f.BoolVar(&r.allowSkipped, "allow-skipped", false, "accept skipped tests")
	f.StringVar(&r.expectedSkips, "expected-skips", "", "`FILE` with the ids of tests that must be skipped, one a line")
	f.BoolVar(&r.requireGPU, "require-gpu", false, "the receipt must name a GPU")
	f.StringVar(&r.nonce, "nonce", "", "`TEXT` that was given out for this receipt")
}

// rules are the policy with the flags on top: who calls the command has the last word.
func (r *ruleFlags) rules(env Env, term *terminal, repo *fingerprint.Repo, f *pflag.FlagSet) (*policy.Rules, error) {
	rules, err := r.load(env, repo)
	if err != nil {
		return nil, err
	}
	r.warnInside(term, repo)
	if names := append([]string{}, r.signers...); len(names) > 0 || r.githubUser != "" {
		if r.githubUser != "" {
			names = append(names, r.githubUser)
		}
		rules.Signers = names
	}
	if r.allowed != "" {
		b, err := readFile(env, r.allowed, maxSmall)
		if err != nil {
			return nil, err
		}
		if rules.AllowedSigners, err = sshsig.ParseAllowedSigners(r.allowed, b); err != nil {
			return nil, err
		}
	}
	if rules.AllowedSigners != nil {
		for _, fault := range rules.AllowedSigners.Faults {
			term.note("this line allows nobody: %s", fault)
		}
	}
	if r.expectedSkips != "" {
		if r.allowSkipped {
			return nil, diag.Errorf(Usage, "give one of them", "--expected-skips and --allow-skipped exclude each other")
		}
		b, err := readFile(env, r.expectedSkips, maxSmall)
		if err != nil {
			return nil, err
		}
		if rules.ExpectedSkips, err = policy.ParseIDs(r.expectedSkips, b); err != nil {
			return nil, err
		}
		rules.AllowSkipped = false
	}
	switch {
	case r.allowSkipped:
		rules.AllowSkipped, rules.ExpectedSkips = true, nil
	case f.Changed("allow-skipped"):
		rules.AllowSkipped = false
	}
	if f.Changed("max-age-days") {
		rules.MaxAgeDays = &r.maxAge
	}
	if f.Changed("allow-unsigned") {
		rules.AllowUnsigned = r.allowUnsigned
	}
	if f.Changed("require-gpu") {
		rules.RequireGPU = r.requireGPU
	}
	if r.nonce != "" {
		rules.Nonce = r.nonce
	}
	if err := setSchema(rules, r.minSchema); err != nil {
		return nil, err
	}
	return rules, rules.Validate()
}

// warnInside tells which of the files that decide who is believed belong to the tree under test.
func (r *ruleFlags) warnInside(term *terminal, repo *fingerprint.Repo) {
	for _, given := range []struct{ flag, path string }{{"policy", r.policy}, {"allowed-signers", r.allowed},
		{"keys-dir", r.keysDir}, {"expected-skips", r.expectedSkips}} {
		if given.path != "" && given.path != "-" && inside(repo.Top(), given.path) {
			term.note("--%s %s is part of the repository: whoever may change the code may change it, too; see --policy-ref",
				given.flag, given.path)
		}
	}
}

func setSchema(rules *policy.Rules, text string) error {
	switch text {
	case "":
	case "1", "2", "3":
		rules.MinSchema = int(text[0] - '0')
	case "4", "gpu-proof/1":
		rules.MinSchema = policy.OwnSchema
	default:
		return diag.Errorf(Usage, "use 1, 2, 3 or gpu-proof/1", "--min-schema is %q", text)
	}
	return nil
}

// load reads the policy and the files that it names, which lie where it lies.
func (r *ruleFlags) load(env Env, repo *fingerprint.Repo) (*policy.Rules, error) {
	var name string
	var read func(name string) ([]byte, error)
	switch {
	case r.policy != "" && r.policyRef != "":
		return nil, diag.Errorf(Usage, "give one of them", "--policy and --policy-ref exclude each other")
	case r.policyRef != "":
		rev, file, ok := strings.Cut(r.policyRef, ":")
		if !ok || rev == "" || file == "" {
			return nil, diag.Errorf(Usage, "write it as origin/main:.github/gpu-proof.yml", "--policy-ref: %q is no REV:PATH",
				r.policyRef)
		}
		name = file
		read = func(name string) ([]byte, error) {
			if name != file {
				name = path.Join(path.Dir(file), name)
			}
			b, err := repo.ReadFile(rev, name, maxSmall)
			return b, gitError(err)
		}
	case r.policy != "":
		name = r.policy
		read = func(name string) ([]byte, error) {
			if name != r.policy && !filepath.IsAbs(name) {
				name = filepath.Join(filepath.Dir(r.policy), name)
			}
			return readFile(env, name, maxSmall)
		}
	default:
		return &policy.Rules{}, nil
	}
	b, err := read(name)
	if err != nil {
		return nil, err
	}
	rules, err := policy.Parse(name, b)
	if err != nil {
		return nil, err
	}
	return rules, rules.LoadFiles(read)
}

// inside reports whether a file lies in the working tree.
func inside(top, file string) bool {
	abs, err := filepath.Abs(file)
	if err != nil || top == "" {
		return false
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		abs = real
	}
	if real, err := filepath.EvalSymlinks(top); err == nil {
		top = real
	}
	rel, err := filepath.Rel(top, abs)
	return err == nil && filepath.IsLocal(rel)
}

// keys is who is asked for keys.
func (r *ruleFlags) keys(env Env, rules *policy.Rules) (forge.Source, error) {
	kind, base := r.forge, r.keysURL
	if kind == "" {
		kind = rules.Forge
	}
	if kind == "" {
		kind = "github"
	}
	if base == "" && rules.Host != "" && r.forge == "" {
		base = "https://" + rules.Host
	}
	switch {
	case r.keysDir != "" && (r.keysURL != "" || r.forge != ""):
		return nil, diag.Errorf(Usage, "", "--keys-dir asks no forge: leave --forge and --keys-url out")
	case r.keysDir != "":
		if info, err := os.Stat(r.keysDir); err != nil || !info.IsDir() {
			return nil, diag.Errorf(ReadFailed, "check the path", "--keys-dir: there is no directory %s", r.keysDir)
		}
		return forge.Folder(r.keysDir), nil
	}
	return forge.Online(kind, base, env.Transport)
}

// treeSettings names the settings of the tree under test that the original believes and we do not.
func treeSettings(repo *fingerprint.Repo) []string {
	b, err := repo.ReadFile("HEAD", "pyproject.toml", maxSmall)
	if err != nil {
		return nil // there is none; what else may be wrong with the repository others will say
	}
	var found []string
	here := false
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			here = line == "[tool.gpu_proof]"
			continue
		}
		name, _, ok := strings.Cut(line, "=")
		switch name = strings.TrimSpace(name); name {
		case "max_age_days", "require_gpu", "expected_skips":
			if ok && here {
				found = append(found, name)
			}
		}
	}
	return found
}
