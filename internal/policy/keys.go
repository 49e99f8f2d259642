package policy

// This file implements the table of the keys of a policy file: ours, and those of the original's version 0.4.

import (
	"slices"

	"gpuemu/internal/diag"
	"gpuemu/internal/receipt"
)

// key is one key of a policy file.
type key struct {
	name  string   // ours
	alias []string // the original's names of it
	doc   string
	set   func(r *Rules, n node, name string) error
}

// findKey returns the key of a name, ours or the original's.
func findKey(name string) (key, bool) {
	for _, k := range keyTable {
		if k.name == name || slices.Contains(k.alias, name) {
			return k, true
		}
	}
	return key{}, false
}

// keyNames are all names, for hints.
func keyNames() []string {
	var names []string
	for _, k := range keyTable {
		names = append(append(names, k.name), k.alias...)
	}
	return names
}

// truthKey, textsKey, someKey, textKey and daysKey are keys of the common kinds.
func truthKey(name, doc string, field func(*Rules) *bool, alias ...string) key {
	return key{name, alias, doc, func(r *Rules, n node, name string) error { return n.truth(name, field(r)) }}
}

func textsKey(name, doc string, field func(*Rules) *[]string, alias ...string) key {
	return key{name, alias, doc, func(r *Rules, n node, name string) error { return n.texts(name, field(r)) }}
}

func someKey(name, doc string, field func(*Rules) *[]string, alias ...string) key {
	return key{name, alias, doc, func(r *Rules, n node, name string) error { return n.some(name, field(r)) }}
}

func textKey(name, doc string, field func(*Rules) *string, alias ...string) key {
	return key{name, alias, doc, func(r *Rules, n node, name string) error { return n.text(name, field(r)) }}
}

func daysKey(name, doc string, field func(*Rules) **int, alias ...string) key {
	return key{name, alias, doc, func(r *Rules, n node, name string) error {
		days := new(int)
		*field(r) = days
		return n.count(name, days)
	}}
}

// keyTable is in the order of the documentation.
var keyTable = []key{
	someKey("signers", "list of accounts, or of names of allowed signers, who may sign",
		func(r *Rules) *[]string { return &r.Signers }),
	someKey("key_fingerprints", "list of key fingerprints (`ssh-keygen -l`); no other key counts then",
		func(r *Rules) *[]string { return &r.KeyFingerprints }, "allowed_key_fingerprints"),
	{"allowed_signers", nil,
		"file of allowed signers (`ssh-keygen(1)`) with their keys; a list, as in the original, means `signers`",
		setAllowedSigners},
	{"signer_mode", nil, "the original's: `restricted` changes nothing, `open` is refused", setSignerMode},
	textKey("forge", "which forge has the signers' keys: github, gitlab, gitea, forgejo, sourcehut",
		func(r *Rules) *string { return &r.Forge }),
	textKey("host", "host of the forge, where it is not the public one", func(r *Rules) *string { return &r.Host }),
	{"threshold", nil, "how many different signers must have signed (1)",
		func(r *Rules, n node, name string) error { return n.count(name, &r.Threshold) }},
	truthKey("require_touch", "security keys only, touched for this signature",
		func(r *Rules) *bool { return &r.RequireTouch }),
	truthKey("allow_unsigned", "accept a receipt whose signature is exactly null",
		func(r *Rules) *bool { return &r.AllowUnsigned }),
	{"min_schema", nil, "oldest format: 1, 2, 3 (the original's) or gpu-proof/1 (3)", setMinSchema},
	textKey("mode", "local or ci-gpu", func(r *Rules) *string { return &r.Mode }, "require_mode"),
	someKey("scope", "list of paths that the fingerprint must cover, exactly (src, tests)",
		func(r *Rules) *[]string { return &r.Scope }, "required_fingerprint_paths"),
	textsKey("exclude", "list of files that the fingerprint may leave out (gpu-proof.json)",
		func(r *Rules) *[]string { return &r.Exclude }, "required_fingerprint_excluded_paths"),
	textsKey("extra", "list of the original's extra paths, exactly (none)",
		func(r *Rules) *[]string { return &r.Extra }, "required_fingerprint_extra_paths"),
	someKey("outputs", "list of build outputs that must be recorded", func(r *Rules) *[]string { return &r.Outputs }),
	someKey("repositories", "list of repositories, as host/owner/name",
		func(r *Rules) *[]string { return &r.Repositories }),
	truthKey("allow_dirty", "accept a tree with changes that were not committed",
		func(r *Rules) *bool { return &r.AllowDirty }),
	truthKey("allow_uncovered", "accept entries that the original's digest does not see",
		func(r *Rules) *bool { return &r.AllowUncovered }),
	truthKey("require_watched",
		"refuse a run that nobody watched for changes of the code (imported reports); else a warning",
		func(r *Rules) *bool { return &r.RequireWatched }),
	{"allow_outside_changes", nil,
		"files outside of the scope may have changed since: true, false; a warning if the key is absent",
		func(r *Rules, n node, name string) error {
			err := n.truth(name, &r.AllowOutsideChanges)
			r.RefuseOutsideChanges = !r.AllowOutsideChanges
			return err
		}},
	truthKey("require_ancestor", "the tested commit must be an ancestor of HEAD",
		func(r *Rules) *bool { return &r.RequireAncestor }),
	truthKey("allow_carried", "accept shards carried over from older receipts",
		func(r *Rules) *bool { return &r.AllowCarried }),
	daysKey("carried_max_age_days", "age limit of carried shards (30)",
		func(r *Rules) **int { return &r.CarriedMaxAgeDays }),
	{"required_shard_fingerprints", nil, "the original's shards by name, each with paths, extra_paths, excluded_paths",
		setShards},
	someKey("required_tests", "list of test ids that must have passed",
		func(r *Rules) *[]string { return &r.RequiredTests }),
	textKey("required_test_manifest", "file with such ids, one a line",
		func(r *Rules) *string { return &r.RequiredManifest }),
	{"expected_skips", nil, "list, or file, of the tests that must be skipped, exactly", setExpectedSkips},
	truthKey("allow_skipped", "accept any skips", func(r *Rules) *bool { return &r.AllowSkipped }),
	truthKey("allow_xfail", "accept expected failures, and passes against expectation",
		func(r *Rules) *bool { return &r.AllowXFail }),
	truthKey("allow_reruns", "accept tests that passed only when run again",
		func(r *Rules) *bool { return &r.AllowReruns }),
	truthKey("allow_deselected", "accept that tests were deselected", func(r *Rules) *bool { return &r.AllowDeselected }),
	truthKey("allow_outside_failures", "accept failures of tests outside of the proof",
		func(r *Rules) *bool { return &r.AllowOutsideFailures }),
	truthKey("require_gpu", "the receipt must name a GPU", func(r *Rules) *bool { return &r.RequireGPU }),
	someKey("gpu_models", "list of names of GPUs, with * for any text; one must fit",
		func(r *Rules) *[]string { return &r.GPUModels }),
	daysKey("max_age_days", "age limit in days of 24 hours (30)", func(r *Rules) **int { return &r.MaxAgeDays }),
	textKey("nonce", "the nonce that was issued for this run", func(r *Rules) *string { return &r.Nonce }),
	{"require_challenge", nil, "true, or a list of operators: the receipt must carry challenges", setChallenge},
	{"challenge_cases", nil, "how many cases each challenge must have, where challenges are required (1)",
		func(r *Rules, n node, name string) error { return n.count(name, &r.ChallengeCases) }},
	someKey("challenge_values", "list of the distributions that a required challenge may have (any)",
		func(r *Rules) *[]string { return &r.ChallengeValues }),
}

func setAllowedSigners(r *Rules, n node, name string) error {
	if n.isList {
		return n.some(name, &r.Signers)
	}
	return n.text(name, &r.AllowedFile)
}

func setSignerMode(_ *Rules, n node, name string) error {
	var mode string
	if err := n.text(name, &mode); err != nil {
		return err
	}
	if mode != "restricted" {
		return diag.Errorf(BadValue, "name who may sign: signers",
			"signer_mode is %q: anybody with an account could sign then", clip(mode)).At(n.pos)
	}
	return nil
}

func setMinSchema(r *Rules, n node, _ string) error {
	switch n.scalar {
	case 1, "1":
		r.MinSchema = 1
	case 2, "2":
		r.MinSchema = 2
	case 3, "3":
		r.MinSchema = 3
	case receipt.Format:
		r.MinSchema = OwnSchema
	default:
		return n.wrongType("min_schema", "1, 2, 3 or "+receipt.Format)
	}
	return nil
}

func setExpectedSkips(r *Rules, n node, name string) error {
	if n.isList {
		return n.texts(name, &r.ExpectedSkips)
	}
	return n.text(name, &r.ExpectedSkipsFile)
}

func setChallenge(r *Rules, n node, name string) error {
	if n.isList {
		r.RequireChallenge = true
		return n.some(name, &r.ChallengeOps)
	}
	return n.truth(name, &r.RequireChallenge)
}

func setShards(r *Rules, n node, name string) error {
	if n.fields == nil {
		return n.wrongType(name, "a table of shards")
	}
	r.Shards = map[string]ShardScope{}
	for shard, fields := range n.fields {
		if fields.fields == nil {
			return fields.wrongType(name+"."+clip(shard), "a table with paths, extra_paths, excluded_paths")
		}
		var s ShardScope
		for key, value := range fields.fields {
			to := map[string]*[]string{"paths": &s.Paths, "extra_paths": &s.Extra, "excluded_paths": &s.Excluded}[key]
			if to == nil {
				return diag.Errorf(UnknownKey, diag.Suggest(key, []string{"paths", "extra_paths", "excluded_paths"}, ""),
					"unknown key %q of a shard", clip(key)).At(value.pos)
			}
			if err := value.texts(key, to); err != nil {
				return err
			}
		}
		r.Shards[shard] = s
	}
	return nil
}
