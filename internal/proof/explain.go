package proof

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpuemu/internal/diag"
	"gpuemu/internal/fingerprint"
	"gpuemu/internal/receipt"
)

// This file implements the command explain: what has changed since a receipt was signed, which of its tests that
// concerns, and what else a verifier would refuse.

// explanation is what explain --json prints.
type explanation struct {
	Receipt string   `json:"receipt"`
	Commit  string   `json:"commit"` // that was tested
	Head    string   `json:"head"`
	Same    bool     `json:"same"`    // the code is that of the receipt
	Known   bool     `json:"known"`   // the commit is here, so that changes can be listed
	Changes []change `json:"changes"` // since that commit, in the scope
	Outside []change `json:"outside"` // and outside of it
	// Rerun are the tests that a change concerns, All says that these are all of them.
	Rerun   []string `json:"rerun"`
	All     bool     `json:"all"`
	Verdict *verdict `json:"verify"`
}

type change struct {
	Path string `json:"path"`
	What string `json:"what"` // added, removed, content, mode, kind
}

func explainCommand(env Env, term *terminal) *cobra.Command {
	var flags verifyFlags
	cmd := &cobra.Command{
		Use:   "explain --receipt FILE [--repo DIR]",
		Short: "Say what changed since a receipt was signed, and which tests must run again",
		Long: "Lists the files that changed between the tested commit and HEAD, and the tests that this concerns: those\n" +
			"of a changed test file, those below a changed conftest.py, and all of them where anything else changed. Then it\n" +
			"says what verify would refuse, by the same flags. The exit code is that of verify.",
		Args: codes.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := env.context()
			defer stop()
			return runExplain(ctx, env, term, &flags, cmd.Flags())
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.receipt, "receipt", "", "receipt `FILE`")
	flags.register(f)
	f.BoolVar(&flags.asJSON, "json", false, "one JSON document")
	return cmd
}

func runExplain(ctx context.Context, env Env, term *terminal, flags *verifyFlags, set *pflag.FlagSet) error {
	if flags.receipt == "" {
		return diag.Errorf(Usage, "the usual name is gpu-proof.json", "explain needs --receipt FILE")
	}
	v, err := newVerifier(ctx, env, term, &flags.ruleFlags, set)
	if err != nil {
		return err
	}
	out, err := v.judge(ctx, flags.receipt, "")
	if err != nil {
		return err
	}
	e, err := v.explain(out)
	if err != nil {
		return err
	}
	switch {
	case flags.asJSON:
		err = term.printJSON(e)
	case out.receipt == nil:
		showVerdict(term, out)
	default:
		showExplanation(term, e)
	}
	if err != nil {
		return err
	}
	return out.status()
}

// explain compares the tested commit with HEAD.
func (v *verifier) explain(out *verdict) (*explanation, error) {
	e := &explanation{Receipt: out.Receipt, Changes: []change{}, Outside: []change{}, Rerun: []string{}, Verdict: out}
	if out.receipt == nil {
		return e, nil // it says nothing that could be compared
	}
	p := &out.receipt.Predicate
	e.Commit = p.Repo.Commit
	head, err := v.repo.Head()
	if err != nil {
		return nil, gitError(err)
	}
	e.Head = head.ID
	e.Same = !slices.ContainsFunc(append(out.Refusals, out.Unknown...), func(f finding) bool {
		return f.Code == "code_changed" || f.Code == "hidden_change" || f.Code == "empty_scope" || f.Code == "repo_unreadable"
	})
	scope, err := fingerprint.ParseScope(p.Code.Scope)
	if err != nil {
		return e, nil // verify has said what is wrong with it
	}
	if !fingerprint.IsCommitID(p.Repo.Commit) {
		return e, nil
	}
	if e.Known, err = v.repo.HasCommit(p.Repo.Commit); err != nil {
		return nil, gitError(err)
	}
	if !e.Known {
		return e, nil
	}
	opt := fingerprint.Options{Exclude: p.Code.Exclude}
	all, err := v.repo.CompareCommits(p.Repo.Commit, head.ID, fingerprint.All(), opt)
	if err != nil {
		return nil, gitError(err)
	}
	for _, c := range all {
		to := &e.Outside
		if scope.Contains(c.Path) {
			to = &e.Changes
		}
		*to = append(*to, change{c.Path, c.What})
	}
	e.Rerun = concerned(p, e.Changes)
	e.All = len(e.Rerun) == len(p.Tests)
	return e, nil
}

// concerned are the tests that changes concern: by their file, by the directory of a conftest.py, or all.
func concerned(p *receipt.Predicate, changes []change) []string {
	files := map[string]bool{}
	for _, t := range p.Tests {
		files[testFile(p.Run.Root, t.ID)] = true
	}
	out := []string{}
	for _, t := range p.Tests {
		file := testFile(p.Run.Root, t.ID)
		if slices.ContainsFunc(changes, func(c change) bool {
			switch {
			case c.Path == file:
				return true
			case files[c.Path]:
				return false // the file of other tests
			case path.Base(c.Path) == "conftest.py":
				dir := path.Dir(c.Path)
				return dir == "." || strings.HasPrefix(file, dir+"/")
			}
			return true // anything may depend on it
		}) {
			out = append(out, t.ID)
		}
	}
	return out
}

// testFile is the file of a test, from the top of the repository.
func testFile(root, id string) string {
	file, _, _ := strings.Cut(id, "::")
	return path.Join(root, file)
}

func showExplanation(t *terminal, e *explanation) {
	switch {
	case e.Same && len(e.Changes) == 0:
		t.print("the code is that of the receipt: no test needs to run again for its sake")
	case !e.Known:
		t.print("the tested commit %s is not in this clone, so changes cannot be listed", short(e.Commit))
		t.hint("git fetch origin " + e.Commit)
	default:
		t.print("changed since %s:", short(e.Commit))
		showChanges(t, e.Changes)
		switch {
		case len(e.Changes) == 0 && !e.Same:
			t.print("  nothing that is committed: the tree had changes when it was signed")
			t.print("run all tests again")
		case e.All:
			t.print("run all tests again")
		default:
			t.print("run again, by what changed:")
			for _, id := range e.Rerun {
				t.print("  %s", id)
			}
			t.print("a receipt is of one state of the code: it needs all %d tests, or a merge of receipts of that state",
				e.Verdict.Tests)
		}
	}
	if len(e.Outside) > 0 {
		t.print("changed outside of what the receipt covers:")
		showChanges(t, e.Outside)
	}
	showVerdict(t, e.Verdict)
}

func showChanges(t *terminal, list []change) {
	for i, c := range list {
		if i == maxShown {
			t.print("  and %d more", len(list)-i)
			return
		}
		t.print("  %-8s %s", c.What, c.Path)
	}
}
