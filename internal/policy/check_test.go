package policy

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpuemu/internal/challenge"
	"gpuemu/internal/forge"
	"gpuemu/internal/receipt"
	"gpuemu/internal/sshsig"
)

// TestThreshold: k of n different people, each with a key that is theirs.
func TestThreshold(t *testing.T) {
	w := newWorld(t)
	two := func(d *draft) { d.signers = []sshsig.Signer{w.alice, w.bob} }
	both := func(r *Rules) { r.Signers, r.Threshold = []string{"alice", "bob"}, 2 }
	got := w.with(t, two, both)
	wantOnly(t, got)
	if len(got.Signers) != 2 || got.Signers[0].Principal != "alice" || got.Signers[1].Principal != "bob" {
		t.Errorf("signers %+v", got.Signers)
	}
	wantOnly(t, w.with(t, nil, both), Threshold)
	wantWarning(t, w.with(t, two, nil), SignerNotAllowed) // bob is a stranger here, and not needed
	wantOnly(t, w.with(t, two, func(r *Rules) { r.Signers, r.Threshold = []string{"alice"}, 2 }), Threshold,
		SignerNotAllowed)
	file := w.draft().seal(t)
	r, err := receipt.Parse("x", file)
	if err != nil {
		t.Fatal(err)
	}
	added, err := r.AddSignature(w.bob)
	if err != nil {
		t.Fatal(err)
	}
	wantOnly(t, w.check(t, added, &Rules{Signers: []string{"alice", "bob"}, Threshold: 2}))
	wantOnly(t, w.check(t, added, &Rules{Threshold: 2,
		AllowedSigners: allowed("alice " + w.alice.PublicKey().String() + "\nbob " +
			w.bob.PublicKey().String())}))
	// One person with two keys is one person, also where the lines of both have several names, or patterns.
	for _, names := range [][2]string{{"alice", "alice"}, {"alice,alice@x.org", "alice,alice@x.org"}, {"a*", "alice"},
		{"alice", "*"}, {"*@x.org,alice", "*@x.org"}} {
		text := names[0] + " " + w.alice.PublicKey().String() + "\n" + names[1] + " " + w.bob.PublicKey().String()
		wantOnly(t, w.check(t, added, &Rules{Threshold: 2, AllowedSigners: allowed(text)}), Threshold)
	}
	// A name that is no person's does not count, where the policy names people.
	wantOnly(t, w.check(t, added, &Rules{Threshold: 2, Signers: []string{"alice", "bob"},
		AllowedSigners: allowed("alice,team " + w.alice.PublicKey().String() + "\nbob,team " +
			w.bob.PublicKey().String())}))
	write(t, w.keys, "alice.keys", w.alice.PublicKey().String()+"\n"+w.bob.PublicKey().String()+"\n")
	write(t, w.keys, "bob.keys", "")
	wantOnly(t, w.check(t, added, &Rules{Signers: []string{"alice"}, Threshold: 2}), Threshold)
}

// TestLongText: what a signer wrote does not flood a log.
func TestLongText(t *testing.T) {
	w := newWorld(t)
	got := w.with(t, func(d *draft) { d.facts.Repo.Remote = "https://x.org/" + strings.Repeat("ü", 1<<20) }, nil)
	if len(got.Refusals) != 1 || got.Refusals[0].Code != WrongRepository || len(got.Refusals[0].Message) > 2*maxMessage {
		t.Errorf("%d refusals, the first of %d bytes", len(got.Refusals), len(got.Refusals[0].Message))
	}
}

// TestThresholdUnreachable: somebody who could not be asked may be the one who is missing.
func TestThresholdUnreachable(t *testing.T) {
	w := newWorld(t)
	d := w.draft()
	d.signers = []sshsig.Signer{w.alice, w.bob}
	r, err := receipt.Parse("x", d.seal(t))
	if err != nil {
		t.Fatal(err)
	}
	in := Inputs{Receipt: r, Repo: w.repo, Rules: &Rules{Signers: []string{"alice", "bob"}, Threshold: 2}, Now: worldClock,
		Keys: without{forge.Folder(w.keys), "bob"}}
	got := Check(context.Background(), in)
	if got.Accepted || len(got.Refusals) > 0 || !slices.Equal(codes(got.Unreachable), []Reason{KeysUnreachable}) {
		t.Errorf("two of two, one cannot be asked: %+v", got)
	}
	in.Rules = aliceMay()
	wantWarning(t, Check(context.Background(), in), SignerNotAllowed)
	in.Rules = &Rules{Signers: []string{"alice", "bob"}}
	wantWarning(t, Check(context.Background(), in), KeysUnreachable) // one is enough, and alice is there
	in.Rules = &Rules{Signers: []string{"alice", "bob"}, Threshold: 3}
	if got := Check(context.Background(), in); !slices.Equal(codes(got.Refusals), []Reason{Threshold}) {
		t.Errorf("three of two: %+v", got)
	}
}

// without is a source that cannot ask for one account.
type without struct {
	forge.Source
	user string
}

func (w without) Keys(ctx context.Context, user string) ([]sshsig.PublicKey, error) {
	if user == w.user {
		return nil, forge.ErrUnreachable
	}
	return w.Source.Keys(ctx, user)
}

// TestKeysOnce: however many signatures a receipt brings, each account is asked for once.
func TestKeysOnce(t *testing.T) {
	w := newWorld(t)
	d := w.draft()
	for range 5 {
		d.signers = append(d.signers, newKey(t, t.TempDir(), "stranger"))
	}
	r, err := receipt.Parse("x", d.seal(t))
	if err != nil {
		t.Fatal(err)
	}
	source := &asked{Source: forge.Folder(w.keys)}
	rules := &Rules{Signers: []string{"alice", "bob"}}
	wantWarning(t, Check(context.Background(), Inputs{Receipt: r, Repo: w.repo, Rules: rules, Keys: source,
		Now: worldClock}), SignerNotAllowed)
	slices.Sort(source.names)
	if !slices.Equal(source.names, []string{"alice", "bob"}) {
		t.Errorf("asked for %q, want each once", source.names)
	}
}

// TestChallengeNonce: where a nonce was issued, the challenges are made with it.
func TestChallengeNonce(t *testing.T) {
	w := newWorld(t)
	with := func(nonce string) func(*draft) {
		return func(d *draft) {
			withChallenge(false)(w, d)
			d.facts.Nonce = "issued"
			ch := &d.results.Challenges[0]
			ch.Nonce = nonce
			ch.Seed = strconv.FormatUint(challenge.Seed(w.digest, nonce, ch.Op, ch.DType), 10)
		}
	}
	issued := func(r *Rules) { r.Nonce, r.RequireChallenge = "issued", true }
	wantOnly(t, w.with(t, with("issued"), issued))
	wantOnly(t, w.with(t, with(""), issued), WrongNonce)
	wantOnly(t, w.with(t, with("chosen"), issued), WrongNonce)
	wantOnly(t, w.with(t, with("chosen"), nil)) // nobody issued one
}

// TestMessage: what a terminal would obey, or a reader would not see, is written out, and long text is cut.
func TestMessage(t *testing.T) {
	for _, r := range []rune{0, '\n', 0x1b, 0x7f, 0x85, 0x9f, 0x200b, 0x200f, 0x2028, 0x202e, 0x2060, 0x206f, 0xfeff} {
		got := message("a" + string(r) + "b")
		if !strings.HasPrefix(got, `a\`) || !strings.HasSuffix(got, "b") || strings.ContainsRune(got, r) {
			t.Errorf("message of U+%04X is %q", r, got)
		}
	}
	const plain = "a ~é☃😀\u2010"
	if got := message(plain); got != plain {
		t.Errorf("message(%q) = %q", plain, got)
	}
	if got := message("a\xffb"); got != `a\xffb` {
		t.Errorf("message of bytes that are no text is %q", got)
	}
	if got := message(strings.Repeat("é", maxMessage)); got != strings.Repeat("é", maxMessage/2)+"…" {
		t.Errorf("a long message has %d bytes", len(got))
	}
}

// TestParts: those who signed the parts of a merged receipt may sign, too.
func TestParts(t *testing.T) {
	w := newWorld(t)
	bob := &receipt.Signer{Principal: "bob", KeyFingerprint: w.bob.PublicKey().Fingerprint()}
	merged := func(signer *receipt.Signer) func(*draft) {
		return func(d *draft) {
			d.after = func(s *receipt.Statement) {
				s.Predicate.Parts = []receipt.Part{{SHA256: strings.Repeat("ab", 32), Format: receipt.Format, Signer: signer,
					StartedAt: "2026-11-15T09:00:00Z", EndedAt: "2026-11-15T09:30:00Z", Tests: 1}}
			}
		}
	}
	list := func(text string) func(*Rules) {
		return func(r *Rules) { r.Signers, r.AllowedSigners = nil, allowed("alice "+w.alice.PublicKey().String()+text) }
	}
	pins := func(keys ...sshsig.Signer) func(*Rules) {
		return func(r *Rules) {
			for r.Signers = nil; len(keys) > 0; keys = keys[1:] {
				r.KeyFingerprints = append(r.KeyFingerprints, keys[0].PublicKey().Fingerprint())
			}
		}
	}
	wantOnly(t, w.with(t, merged(bob), nil), SignerNotAllowed)
	wantOnly(t, w.with(t, merged(bob), func(r *Rules) { r.Signers = []string{"alice", "bob"} }))
	wantOnly(t, w.with(t, merged(nil), nil), Unsigned)
	wantOnly(t, w.with(t, merged(bob), list("")), SignerNotAllowed)
	wantOnly(t, w.with(t, merged(bob), list("\nbob "+w.bob.PublicKey().String())))
	wantOnly(t, w.with(t, merged(bob), list("\ncarol "+w.bob.PublicKey().String())), SignerNotAllowed)
	wantOnly(t, w.with(t, merged(bob), pins(w.alice)), KeyNotAllowed)
	wantOnly(t, w.with(t, merged(bob), pins(w.alice, w.bob)))
}

// TestCoSignerAlone: the signature of somebody else does not stand in for that of the one who ran the tests.
func TestCoSignerAlone(t *testing.T) {
	w := newWorld(t)
	two := func(d *draft) { d.signers = []sshsig.Signer{w.alice, w.bob} }
	wantWarning(t, w.with(t, two, func(r *Rules) { r.Signers = []string{"bob"} }), SignerNotAllowed)
	// bob's alone, with alice's name on it:
	wantOnly(t, w.with(t, func(d *draft) { d.signers = []sshsig.Signer{claims{w.bob, w.alice.PublicKey()}} },
		func(r *Rules) { r.Signers = []string{"bob"} }), SignerMismatch)
}

// TestPinnedKeys: a pinned key is enough by itself, and then nobody vouches for the name.
func TestPinnedKeys(t *testing.T) {
	w := newWorld(t)
	pin := func(r *Rules) { r.Signers, r.KeyFingerprints = nil, []string{w.alice.PublicKey().Fingerprint()} }
	got := w.with(t, func(d *draft) { d.facts.Signer.Principal = "torvalds" }, pin)
	wantOnly(t, got)
	if got.Signers[0].Principal == "torvalds" {
		t.Error("the report repeats a name that nobody vouches for")
	}
	wantOnly(t, w.with(t, nil, func(r *Rules) { r.KeyFingerprints = []string{w.alice.PublicKey().Fingerprint()} }))
	legacy := signRaw(t, w.schema1(t, w.draft()), w.alice)
	rules := &Rules{MinSchema: 1}
	pin(rules)
	wantOnly(t, w.check(t, legacy, rules))
	rules.KeyFingerprints = []string{w.bob.PublicKey().Fingerprint()}
	wantOnly(t, w.check(t, legacy, rules), KeyNotAllowed)
}

// TestAllowedSignersLegacy: raw signatures bring no key along, and are held against those of the file.
func TestAllowedSignersLegacy(t *testing.T) {
	w := newWorld(t)
	legacy := signRaw(t, w.schema1(t, w.draft()), w.alice)
	for text, want := range map[string][]Reason{
		"alice " + w.alice.PublicKey().String():                                       nil,
		"bob " + w.bob.PublicKey().String() + "\nal* " + w.alice.PublicKey().String(): nil,
		"alice " + w.bob.PublicKey().String():                                         {BadSignature},
		"carol " + w.alice.PublicKey().String():                                       {SignerNotAllowed},
		`alice valid-before="20261101Z" ` + w.alice.PublicKey().String():              {SignerNotAllowed},
		`alice namespaces="git" ` + w.alice.PublicKey().String():                      {SignerNotAllowed},
		"alice cert-authority " + w.alice.PublicKey().String():                        {SignerNotAllowed},
	} {
		wantOnly(t, w.check(t, legacy, &Rules{MinSchema: 1, AllowedSigners: allowed(text)}), want...)
	}
	rules := &Rules{MinSchema: 1, Signers: []string{"bob"}, AllowedSigners: allowed("* " + w.alice.PublicKey().String())}
	wantOnly(t, w.check(t, legacy, rules), SignerNotAllowed)
}

// TestAllRefusals: every check that can be made is made.
func TestAllRefusals(t *testing.T) {
	w := newWorld(t)
	got := w.with(t, func(d *draft) {
		d.results.Mode, d.results.Finished, d.facts.Repo.Dirty = "banana", false, true
		d.results.EndedAt = "whenever"
		test(d).Outcome, test(d).Reruns = receipt.Failed, 2
		d.facts.Repo.Commit = "HEAD"
		d.facts.Code.Files = 9
	}, func(r *Rules) { r.Signers, r.RequireGPU, r.Nonce = []string{"bob"}, true, "n" })
	wantOnly(t, got, WrongMode, Unfinished, Dirty, BadTime, TestFailed, Rerun, BadCommit, FileCount, SignerNotAllowed,
		WrongNonce)
}

// TestReceiptPath: the receipt itself may be left out of the scope, under the name it has.
func TestReceiptPath(t *testing.T) {
	w := newWorld(t)
	write(t, w.dir, "tests/proof.json", "{}")
	w.commit(t, "receipt")
	d := w.draft()
	w.rescope(d, []string{"src", "tests"}, "tests/proof.json")
	r, err := receipt.Parse("x", d.seal(t))
	if err != nil {
		t.Fatal(err)
	}
	in := Inputs{Receipt: r, Repo: w.repo, Rules: aliceMay(), Keys: forge.Folder(w.keys), Now: worldClock}
	wantOnly(t, Check(context.Background(), in), Excluded)
	in.ReceiptPath = "tests/proof.json"
	wantOnly(t, Check(context.Background(), in))
	in.ReceiptPath, in.Rules = "", &Rules{Signers: []string{"alice"}, Exclude: []string{"tests/proof.json"}}
	wantOnly(t, Check(context.Background(), in))

	// Outside of the scope: that it came after the run is no change of the code.
	if in.Receipt, err = receipt.Parse("x", w.draft().seal(t)); err != nil {
		t.Fatal(err)
	}
	write(t, w.dir, "receipts/proof.json", "{}")
	w.commit(t, "receipt outside")
	in.Repo, in.Rules = w.repo, &Rules{Signers: []string{"alice"}, RefuseOutsideChanges: true}
	wantOnly(t, Check(context.Background(), in), OutsideChanged)
	in.ReceiptPath = "receipts/proof.json"
	wantOnly(t, Check(context.Background(), in))
}

// TestOtherRunners: ids of other runners are no files.
func TestOtherRunners(t *testing.T) {
	w := newWorld(t)
	wantOnly(t, w.with(t, func(d *draft) {
		d.results.Runner.Name, test(d).ID, d.results.Collected = "go test", "m/a::TestOK", []string{"m/a::TestOK"}
	}, nil))
}

// TestRepositoryName: the spellings of one remote.
func TestRepositoryName(t *testing.T) {
	for remote, want := range map[string]string{
		"git@github.com:Alice/Kernels.git":             "github.com/alice/kernels",
		"https://github.com/alice/kernels":             "github.com/alice/kernels",
		"https://user:token@github.com/alice/kernels/": "github.com/alice/kernels",
		"ssh://git@github.com:22/alice/kernels.git":    "github.com/alice/kernels",
		"ssh://git@ssh.github.com:443/alice/kernels":   "ssh.github.com/alice/kernels",
		"github.com/alice/kernels":                     "github.com/alice/kernels",
		"https://notgithub.com/alice/kernels":          "notgithub.com/alice/kernels",
		"https://git.example.org/group/sub/name.git":   "git.example.org/group/sub/name",
		"":                        "",
		"/srv/git/kernels.git":    "",
		"../kernels":              "",
		"./a.b/c":                 "",
		"file:///srv/git/kernels": "",
		"C:\\repos\\kernels":      "",
		"kernels.bundle":          "",
		"https://github.com/":     "",
		"git@github.com":          "",
	} {
		if got := repositoryName(remote); got != want {
			t.Errorf("repositoryName(%q) = %q, want %q", remote, got, want)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"NVIDIA H200", "nvidia h200", true}, {"NVIDIA H200", "NVIDIA H200 NVL", false}, {"*H200*", "NVIDIA H200 NVL", true},
		{"*", "", true}, {"a*a", "a", false}, {"a*b*c", "axxbyyc", true}, {"a*b*c", "acb", false}, {"*H100",
			"NVIDIA H100 PCIe", false},
	} {
		if got := matches(tt.pattern, tt.name); got != tt.want {
			t.Errorf("matches(%q, %q) = %v, want %v", tt.pattern, tt.name, got, tt.want)
		}
	}
}

// TestNotes: an accepted receipt says what was looked at.
func TestNotes(t *testing.T) {
	w := newWorld(t)
	got := w.with(t, nil, nil)
	for _, want := range []string{"signature of alice with SHA256:", "2 files of src,tests are as they were tested",
		"1 passed"} {
		if !slices.ContainsFunc(got.Notes, func(n string) bool { return strings.HasPrefix(n, want) }) {
			t.Errorf("notes %q, want %q", got.Notes, want)
		}
	}
	if got.Head.ID != w.head.ID || got.Format != receipt.Format || !slices.Equal(got.Signers, []Signer{{Principal: "alice",
		KeyFingerprint: w.alice.PublicKey().Fingerprint(), KeyType: "ssh-ed25519"}}) {
		t.Errorf("%+v", got)
	}
}

// TestMalformedFallback: an error of another origin is malformed, too, and its text is cleaned.
func TestMalformedFallback(t *testing.T) {
	got := Malformed(context.Canceled)
	if got.Accepted || len(got.Refusals) != 1 || got.Refusals[0].Code != MalformedFile {
		t.Errorf("%+v", got)
	}
}
