package proof

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuemu/internal/challenge"
	"gpuemu/internal/command"
	"gpuemu/internal/diag"
	"gpuemu/internal/fingerprint"
	"gpuemu/internal/forge"
	"gpuemu/internal/receipt"
	"gpuemu/internal/sshsig"
)

// This file implements the command sign. It is a process of its own: no test ever has the key in its memory. What can
// be found out here is found out here and not taken from the result file; where both say something, both must say the
// same.

// signFlags are the flags of the command.
type signFlags struct {
	scopeFlags
	keyFlags
	results, junit, goTest string
	start, mode            string
	out, format, nonce     string
	add                    string
	asJSON                 bool
}

// Formats of receipts that sign writes.
const (
	formatStatement = "statement"
	formatSchema1   = "1"
)

func signCommand(env Env, term *terminal) *cobra.Command {
	var flags signFlags
	cmd := &cobra.Command{
		Use:   "sign --results FILE [--key FILE|agent] [--signer NAME] [--out gpu-proof.json]",
		Short: "Sign what a test run wrote down",
		Long: "Reads the result file of a test run, hashes the code again, looks at the commit and the machine itself,\n" +
			"shows what it is about to sign, and signs. It refuses runs that failed or did not finish, and code that changed\n" +
			"since the run began. Reports of other runners are signed with --junit or --go-test.",
		Example: "  gpu-proof sign --results results.json --signer alice\n" +
			"  gpu-proof sign --junit report.xml --path src --path tests --start $(gpu-proof snapshot)\n" +
			"  gpu-proof sign --add gpu-proof.json --key ~/.ssh/id_ed25519",
		Args: codes.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := env.context()
			defer stop()
			if err := flags.check(cmd.Flags().Changed("out")); err != nil {
				return err
			}
			if flags.add != "" {
				return addSignature(ctx, env, term, &flags)
			}
			return runSign(ctx, env, term, &flags)
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.results, "results", "", "result `FILE` of a test run; - is standard input")
	f.StringVar(&flags.junit, "junit", "", "JUnit XML `FILE` of another runner, instead of --results")
	f.StringVar(&flags.goTest, "go-test", "", "output `FILE` of go test -json, instead of --results")
	f.StringVar(&flags.start, "start", "", "with --junit or --go-test: the `DIGEST` that snapshot printed before the run")
	f.StringVar(&flags.mode, "mode", "", "with --junit or --go-test: local or ci-gpu (default local)")
	f.StringVar(&flags.out, "out", defaultReceipt, "`FILE` for the receipt")
	f.StringVar(&flags.format, "format", formatStatement, "statement, or 1 for the first format of pytest-gpu-proof")
	f.StringVar(&flags.nonce, "nonce", "", "`TEXT` that the verifier gave out")
	f.StringVar(&flags.add, "add", "", "receipt `FILE` that gets one more signature, instead of --results")
	f.BoolVar(&flags.asJSON, "json", false, "one JSON document that says what was signed")
	flags.scopeFlags.register(f)
	flags.keyFlags.register(f)
	return cmd
}

// check refuses flags that contradict each other.
func (f *signFlags) check(outGiven bool) error {
	given := 0
	for _, text := range []string{f.results, f.junit, f.goTest, f.add} {
		if text != "" {
			given++
		}
	}
	switch {
	case given != 1:
		return diag.Errorf(Usage, "a test run writes the result file; gpu-proof sign --help shows all",
			"sign takes one of --results, --junit, --go-test and --add")
	case f.format != formatStatement && f.format != formatSchema1:
		return diag.Errorf(Usage, "use statement or 1", "--format is %q", f.format)
	case f.results != "" && (f.start != "" || f.mode != "" || f.paths != nil || f.exclude != nil || f.outputs != nil):
		return diag.Errorf(Usage, "", "--start, --mode, --path, --exclude and --output are those of the result file")
	case f.add != "" && (f.unsigned || f.format != formatStatement):
		return diag.Errorf(Usage, "", "--add signs a receipt of our own format")
	}
	if f.add != "" && !outGiven {
		f.out = f.add
	}
	return f.keyFlags.check()
}

// runSign makes a receipt.
func runSign(ctx context.Context, env Env, term *terminal, flags *signFlags) error {
	results, err := flags.read(env)
	if err != nil {
		return err
	}
	if err := checkRun(results); err != nil {
		return err
	}
	repo, m, snap, err := takeSnapshot(ctx, flags.scopeFlags)
	if err != nil {
		return err
	}
	if err := checkCode(results, snap); err != nil {
		return err
	}
	if err := checkChallenges(results.Challenges, snap.Digest, flags.nonce); err != nil {
		return err
	}
	if err := checkHidden(repo, m); err != nil {
		return err
	}
	if err := checkPlace(flags.out, repo.Top(), m); err != nil {
		return err
	}
	facts, err := flags.facts(ctx, env, repo, m, snap)
	if err != nil {
		return err
	}
	var key sshsig.Signer
	if !flags.unsigned {
		if key, facts.Signer, err = flags.newSigner(ctx, env, flags.repo); err != nil {
			return err
		}
		if name := facts.Signer.Principal; flags.format == formatSchema1 && forge.CheckName(name) != nil {
			return diag.Errorf(Usage, "give --github-user NAME", "format 1 names an account at GitHub, and %q is none", name)
		}
	}
	stripSecrets(results)
	statement := receipt.NewStatement(results, *facts)
	showStatement(term, &statement.Predicate)
	for _, path := range m.HiddenCode() {
		term.note("not hashed, Git ignores it: %s (name it as an output if the tests use it)", path)
	}
	for _, path := range m.LinksOutside() {
		term.note("not hashed, it leads out of the scope: what the link %s points to", path)
	}
	for _, path := range rebuilt(repo.Top(), m.Outputs, results.EndedAt) {
		term.note("written after the run ended, so that another one may have been tested: %s", path)
	}
	if results.Code.Start == "" {
		term.note("nobody looked at the code when the run began: verifiers may refuse that")
	}
	if err := flags.confirm(env, "Sign this?"); err != nil {
		return err
	}
	b, err := flags.seal(repo, statement, key)
	if err != nil {
		return err
	}
	return finish(term, flags, b)
}

// stripSecrets takes secrets out of what a runner wrote down in words: a receipt is committed, and may be public.
func stripSecrets(r *receipt.Results) {
	r.Arguments = fingerprint.StripSecrets(r.Arguments)
	for i := range r.Tests {
		r.Tests[i].Reason = fingerprint.StripSecrets([]string{r.Tests[i].Reason})[0]
	}
}

// read reads the results, of whichever runner.
func (f *signFlags) read(env Env) (*receipt.Results, error) {
	var results *receipt.Results
	switch {
	case f.results != "":
		b, err := readFile(env, f.results, maxReport)
		if err != nil {
			return nil, err
		}
		if results, err = receipt.ReadResults(f.results, b); err != nil {
			return nil, err
		}
		f.paths, f.exclude, f.outputs = results.Code.Scope, results.Code.Exclude, results.Code.Outputs
		return results, nil
	case f.junit != "":
		b, err := readFile(env, f.junit, maxReport)
		if err != nil {
			return nil, err
		}
		if results, err = receipt.FromJUnit(b); err != nil {
			return nil, fmt.Errorf("%s: %w", f.junit, err)
		}
	default:
		b, err := readFile(env, f.goTest, maxReport)
		if err != nil {
			return nil, err
		}
		if results, err = receipt.FromGoTest(bytes.NewReader(b)); err != nil {
			return nil, fmt.Errorf("%s: %w", f.goTest, err)
		}
	}
	if results.EndedAt == "" {
		results.SetTimes(reportTime(env, f.junit+f.goTest)) // one of them is empty
	}
	f.fill()
	results.Code = receipt.ResultsCode{Scope: f.paths, Exclude: f.exclude, Outputs: f.outputs, Start: f.start,
		End: f.start}
	if f.mode != "" {
		results.Mode = f.mode
	}
	return results, results.Check()
}

// reportTime is when a report was written.
func reportTime(env Env, path string) time.Time {
	if info, err := os.Stat(path); err == nil && path != "-" {
		return info.ModTime()
	}
	return env.now()
}

// checkRun refuses runs that prove nothing.
func checkRun(r *receipt.Results) error {
	no := func(hint, format string, args ...any) error {
		return refused(diag.Errorf(RunFailed, hint, format, args...))
	}
	switch {
	case !r.Finished:
		return no("run the tests to their end", "the run did not finish")
	case len(r.Tests) == 0:
		return no("mark tests with @pytest.mark.gpu_proof", "the run has no tests for the receipt")
	}
	var bad []string
	for _, t := range r.Tests {
		if t.Outcome == receipt.Failed || t.Outcome == receipt.Errored {
			bad = append(bad, t.ID+" ("+t.Outcome+")")
		}
	}
	if len(bad) > 0 {
		return no("", "%d of %d tests did not pass: %s", len(bad), len(r.Tests), few(bad))
	}
	if r.ExitStatus != 0 {
		return no("tests outside the receipt count, too", "the run ended with exit status %d", r.ExitStatus)
	}
	return nil
}

// few are the first of many names.
func few(list []string) string {
	const most = 5
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}

// checkCode: the code that is signed is the code that was tested, from the first test to the last.
func checkCode(r *receipt.Results, now *snapshot) error {
	for _, then := range []struct{ when, digest string }{{"began", r.Code.Start}, {"ended", r.Code.End}} {
		if then.digest != "" && then.digest != now.Digest {
			return refused(diag.Errorf(CodeChanged, "run the tests again, and leave the files alone meanwhile",
				"the code is not the one that was there when the run %s: its digest is %s, and was %s", then.when,
				now.Digest[:12], then.digest[:12]))
		}
	}
	return nil
}

// checkChallenges refuses challenges of other code, or of another nonce: no verifier would take them. Whether what they
// recorded is right is not looked at: a signer's own judgement is worth nothing to others.
func checkChallenges(list []receipt.Challenge, code, nonce string) error {
	for i := range list {
		c := &list[i]
		if c.Seed != strconv.FormatUint(challenge.Seed(code, nonce, c.Op, c.DType), 10) {
			return refused(diag.Errorf(CodeChanged, "run the tests again, with the nonce of sign",
				"the challenge of %s %s was not made for this code and the nonce %q", c.Op, c.DType, nonce))
		}
	}
	return nil
}

// conftest is the file that pytest loads by itself, from the folder of a test and from all folders above it.
const conftest = "conftest.py"

// checkHidden refuses a conftest.py that Git ignores: it can turn a failing test green, and nobody who has the commit
// has it. One above the scope is not hashed, and counts all the same.
func checkHidden(repo *fingerprint.Repo, m *fingerprint.Manifest) error {
	hidden := slices.DeleteFunc(m.HiddenCode(), func(p string) bool { return path.Base(p) != conftest })
	for _, name := range above(m.Scope) {
		if _, err := os.Lstat(filepath.Join(repo.Top(), filepath.FromSlash(name))); err != nil {
			continue
		}
		file, err := fingerprint.ParseScope([]string{name})
		if err != nil {
			return err
		}
		_, err = repo.WorkingTree(file, fingerprint.Options{})
		switch {
		case diag.CodeOf(err) == fingerprint.EmptyScope:
			hidden = append(hidden, name)
		case err != nil:
			return gitError(err)
		}
	}
	if len(hidden) > 0 {
		return refused(diag.Errorf(HiddenCode, "let Git track it, or take it away",
			"%s decides what the tests do, and Git ignores it", hidden[0]))
	}
	return nil
}

// above are the places of a conftest.py in the folders above a scope.
func above(s fingerprint.Scope) []string {
	var places []string
	for _, p := range s.Paths() {
		for p != "." {
			p = path.Dir(p)
			if name := path.Join(p, conftest); !s.Contains(name) && !slices.Contains(places, name) {
				places = append(places, name)
			}
		}
	}
	return places
}

// rebuilt are the outputs that were written after a run had ended. They are hashed here for the first time: snapshots
// cover what Git tracks. It is no more than a hint, because a copy of the file that was tested is as young.
func rebuilt(top string, outputs []fingerprint.Output, endedAt string) []string {
	ended, err := receipt.ParseTime(endedAt)
	if err != nil {
		return nil
	}
	var paths []string
	for _, o := range outputs {
		info, err := os.Stat(filepath.Join(top, filepath.FromSlash(o.Path)))
		if err == nil && info.ModTime().After(ended.Add(time.Second)) { // times of a run are whole seconds
			paths = append(paths, o.Path)
		}
	}
	return paths
}

// checkPlace refuses to write the receipt into the code that it is about. A link in the repository may be anybody's: it
// is followed inside the repository only.
func checkPlace(out, top string, m *fingerprint.Manifest) error {
	abs, err := filepath.Abs(out)
	if err != nil {
		return readError(err)
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return diag.Errorf(WriteFailed, "create the directory first", "--out: %w", err)
	}
	if real, err := filepath.EvalSymlinks(top); err == nil {
		top = real
	}
	rel, err := filepath.Rel(top, filepath.Join(dir, filepath.Base(abs)))
	if err != nil || !filepath.IsLocal(rel) {
		return nil // outside the repository
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		if rel, err = filepath.Rel(top, real); err != nil || !filepath.IsLocal(rel) {
			return diag.Errorf(Usage, "take the link away", "--out: %s is a link of the repository that leads out of it", out)
		}
	}
	rel = filepath.ToSlash(rel)
	if m.Scope.Contains(rel) && !slices.Contains(m.Exclude, rel) {
		return diag.Errorf(Usage, "write it elsewhere, or name it among the paths that do not count",
			"--out: %s is part of the code that is signed, and the receipt would change it", rel)
	}
	return nil
}

// facts are what is found out here.
func (f *signFlags) facts(
	ctx context.Context, env Env, repo *fingerprint.Repo, m *fingerprint.Manifest, snap *snapshot,
) (*receipt.Facts, error) {
	head, err := repo.Head()
	if err != nil {
		return nil, gitError(err)
	}
	// What pytest loads from above the scope belongs to the tree that must be clean.
	scope, err := fingerprint.ParseScope(append(m.Scope.Paths(), above(m.Scope)...))
	if err != nil {
		return nil, err
	}
	dirty, err := repo.Dirty(scope, fingerprint.Options{Exclude: m.Exclude})
	if err != nil {
		return nil, gitError(err)
	}
	facts := &receipt.Facts{
		Tool: "gpu-proof " + command.ReadVersion(env.Version).Version, SignedAt: env.now(), Nonce: f.nonce,
		Repo: receipt.Repo{Remote: repo.Remote(), Commit: head.ID, Tree: head.Tree, Branch: head.Branch,
			Dirty: len(dirty) > 0},
		Code: receipt.Code{Algorithm: receipt.ManifestAlgorithm, Scope: m.Scope.Paths(), Exclude: m.Exclude,
			Digest: snap.Digest, Files: snap.Files},
		Environment: environment(fingerprint.ReadEnvironment(ctx)),
	}
	for _, o := range m.Outputs {
		facts.Outputs = append(facts.Outputs, receipt.Output{Path: o.Path, SHA256: hex.EncodeToString(o.SHA256[:])})
	}
	return facts, nil
}

// seal writes the receipt in the format asked for.
func (f *signFlags) seal(repo *fingerprint.Repo, s *receipt.Statement, key sshsig.Signer) ([]byte, error) {
	if f.format == formatStatement {
		if key == nil {
			return s.Seal()
		}
		return s.Seal(key)
	}
	legacy, err := repo.LegacyWorkingTree(s.Predicate.Code.Scope)
	if err != nil {
		return nil, gitError(err)
	}
	plain := &legacy.Readings[0] // the one of the original under Git's own defaults
	return receipt.WriteSchema1(s, receipt.Schema1{Digest: plain.Digest, Files: plain.Files}, key)
}

// addSignature adds a signature to a receipt that has one.
func addSignature(ctx context.Context, env Env, term *terminal, flags *signFlags) error {
	b, err := readReceipt(env, flags.add)
	if err != nil {
		return err
	}
	r, err := receipt.Parse(flags.add, b)
	if err != nil {
		return refused(err)
	}
	for i, sig := range signatures(r) {
		if sig.Fault != "" {
			return refused(diag.Errorf(RunFailed, "", "signature %d: %s", i+1, sig.Fault))
		}
	}
	key, err := flags.open(ctx, env, flags.repo)
	if err != nil {
		return err
	}
	showStatement(term, &r.Predicate)
	term.note("a second signature says that you believe all of this: gpu-proof verify looks at it first")
	if err := flags.confirm(env, "Sign this, too?"); err != nil {
		return err
	}
	out, err := r.AddSignature(key)
	if err != nil {
		return refused(err)
	}
	return finish(term, flags, out)
}

// signed is what sign --json prints.
type signed struct {
	File       string          `json:"file"`
	Format     string          `json:"format"`
	Digest     string          `json:"digest"` // of the signed bytes
	Code       string          `json:"code"`
	Tests      int             `json:"tests"`
	Signatures []signatureInfo `json:"signatures"`
}

// finish reads what was made once more, as a verifier will, and writes it.
func finish(term *terminal, flags *signFlags, b []byte) error {
	r, err := receipt.Parse(flags.out, b)
	if err != nil {
		return command.NotRun(diag.Errorf(Internal, "please report it", "the receipt that was made cannot be read: %w", err))
	}
	sigs := signatures(r)
	for _, s := range sigs {
		if s.Fault != "" {
			return command.NotRun(diag.Errorf(Internal, "please report it",
				"the signature that was made is not good: %s", s.Fault))
		}
	}
	if err := writeFile(flags.out, b); err != nil {
		return err
	}
	if flags.asJSON {
		return term.printJSON(signed{File: flags.out, Format: r.Format, Digest: r.Digest(), Code: r.Predicate.Code.Digest,
			Tests: len(r.Predicate.Tests), Signatures: sigs})
	}
	word := "signed"
	if len(sigs) == 0 {
		word = "UNSIGNED"
	}
	term.print("%s: %s, %s", flags.out, word, receipt.Summary(r.Predicate.Tests))
	return nil
}
