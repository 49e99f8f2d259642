package policy

// This file implements the checks of the code: is what was tested what is at HEAD.

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"gpuemu/internal/diag"
	"gpuemu/internal/fingerprint"
	"gpuemu/internal/receipt"
)

// checkCode holds the receipt's fingerprint against HEAD. Content counts, not history: a squashed, rebased or shallow
// clone with the same files is as good.
func (c *checker) checkCode() {
	c.checkRepository()
	if c.p.Repo.Dirty {
		c.unless(c.Rules.AllowDirty, Dirty, "commit first, then run the tests",
			"the tree had changes that were not committed")
	}
	commitOK := fingerprint.IsCommitID(c.p.Repo.Commit)
	if !commitOK {
		c.refuse(BadCommit, "", "the commit is %q, want 40 or 64 hexadecimal digits", clip(c.p.Repo.Commit))
	}
	scope, ok := c.checkScope()
	if c.Repo == nil {
		c.Unreachable = append(c.Unreachable, Refusal{RepoUnreadable, "there is no repository to compare with",
			"give --repo DIR"})
		return
	}
	head, err := c.Repo.Head()
	if err != nil {
		c.gitFailed(RepoUnreadable, err)
		return
	}
	c.head, c.Head = head.ID, head
	if !ok {
		return
	}
	c.manifest, err = c.Repo.AtCommit(head.ID, scope, fingerprint.Options{Exclude: c.p.Code.Exclude})
	if err != nil {
		reason := CodeChanged
		if diag.CodeOf(err) == fingerprint.EmptyScope {
			reason = EmptyScope
		}
		c.gitFailed(reason, err)
		return
	}
	present := false
	if commitOK {
		if present, err = c.Repo.HasCommit(c.p.Repo.Commit); err != nil {
			c.gitFailed(RepoUnreadable, err)
		}
	}
	if c.Receipt.Legacy != nil {
		c.checkLegacyCode(scope, present, commitOK)
	} else {
		c.checkOwnCode(scope, present)
	}
	c.checkHistory(scope, present)
}

// checkRepository: the receipt is of this repository. Without a list of names only what is plainly another one is
// refused: another name of the repository, or another host. A fork has another owner.
func (c *checker) checkRepository() {
	got := repositoryName(c.p.Repo.Remote)
	if list := c.Rules.Repositories; len(list) > 0 {
		if !slices.ContainsFunc(list, func(want string) bool { return repositoryName(want) == got && got != "" }) {
			c.refuse(WrongRepository, "", "the receipt is of %q, the policy names %s", clip(c.p.Repo.Remote),
				strings.Join(list, ", "))
		}
		return
	}
	if c.Repo == nil {
		return
	}
	here := repositoryName(c.Repo.Remote())
	if here == "" || got == "" || here == got {
		return
	}
	sameHost := strings.Split(here, "/")[0] == strings.Split(got, "/")[0]
	if !sameHost || path.Base(here) != path.Base(got) {
		c.refuse(WrongRepository, "name both in the policy, if they are the same: repositories",
			"the receipt is of %s, this is %s", got, here)
		return
	}
	c.warn(WrongRepository, "", "the receipt is of %s, this is %s: a fork", got, here)
}

// repositoryName brings the spellings of a remote to host/owner/name: git@host:owner/name.git, https://host/owner/name,
// ssh://git@host:22/owner/name. A path of the local machine has no name.
func repositoryName(remote string) string {
	s := remote
	if scheme, rest, ok := strings.Cut(s, "://"); ok {
		if scheme == "file" {
			return ""
		}
		s = rest
		if _, rest, ok := strings.Cut(s, "@"); ok {
			s = rest
		}
		host, rest, _ := strings.Cut(s, "/")
		host, _, _ = strings.Cut(host, ":") // a port
		s = host + "/" + rest
	} else if user, rest, ok := strings.Cut(s, "@"); ok && !strings.ContainsAny(user, "/:") {
		host, rest, ok := strings.Cut(rest, ":")
		if !ok || strings.Contains(host, "/") {
			return ""
		}
		s = host + "/" + rest
	}
	s = strings.TrimSuffix(strings.TrimSuffix(s, "/"), ".git")
	host, rest, ok := strings.Cut(s, "/")
	if !ok || rest == "" || host == "" || strings.HasPrefix(host, ".") || !hostForm.MatchString(host) ||
		!strings.Contains(host, ".") {
		return ""
	}
	return strings.ToLower(host + "/" + strings.Trim(rest, "/"))
}

// checkScope: what is covered is the policy's choice, never the signer's.
func (c *checker) checkScope() (fingerprint.Scope, bool) {
	paths := c.p.Code.Scope
	if c.Receipt.Legacy != nil && c.Format != "3" && len(paths) == 0 {
		paths = []string{"."} // the original's "everything"
	}
	scope, err := fingerprint.ParseScope(paths)
	if err != nil {
		c.refuse(ScopeMalformed, "", "%v", err)
		return scope, false
	}
	want, err := c.Rules.scope()
	if err != nil {
		panic("policy: internal error: rules were not validated: " + err.Error())
	}
	if !scope.Equal(want) {
		c.refuse(ScopeMismatch, "sign with that scope, or name another in a policy: gpu-proof policy init --path PATH",
			"the receipt covers %s, the policy asks for %s", scope, want)
	}
	for _, p := range c.p.Code.Exclude {
		if !slices.Contains(append(c.Rules.Exclude, DefaultExclude, c.ReceiptPath), p) && scope.Contains(p) {
			c.refuse(Excluded, "name it in the policy, if it may be left out: exclude", "the receipt leaves out %q", clip(p))
		}
	}
	if l := c.Receipt.Legacy; l != nil {
		if !sameSet(l.Fingerprint.ExtraPaths, c.Rules.Extra) {
			c.refuse(ScopeMismatch, "", "the receipt has the extra paths %q, the policy asks for %q", l.Fingerprint.ExtraPaths,
				c.Rules.Extra)
		}
	}
	return scope, true
}

func sameSet(got, want []string) bool {
	return slices.Equal(slices.Compact(slices.Sorted(slices.Values(got))),
		slices.Compact(slices.Sorted(slices.Values(want))))
}

// checkOwnCode holds our manifest's digest against HEAD.
func (c *checker) checkOwnCode(scope fingerprint.Scope, present bool) {
	code := c.p.Code
	switch {
	case code.Start == "" && code.End == "":
		c.unless(!c.Rules.RequireWatched, NotWatched, "take snapshots: gpu-proof snapshot",
			"nobody looked at the code when the run began and ended")
	case code.Start != code.Digest || code.End != code.Digest:
		c.refuse(ChangedDuringRun, "run the tests again",
			"the code was not the same when the run began, when it ended and when it was signed")
	}
	if c.manifest.Digest() != code.Digest {
		c.refuse(CodeChanged, "run the tests again, or see gpu-proof explain",
			"the code at HEAD is not the code that was tested%s", c.changes(scope, present))
		return
	}
	if got := len(c.manifest.Entries); got != code.Files {
		c.refuse(FileCount, "", "the receipt counts %d files, there are %d", code.Files, got)
	}
	c.note("%d files of %s are as they were tested", code.Files, scope)
}

// changes names some of the files that changed, if the tested commit is here.
func (c *checker) changes(scope fingerprint.Scope, present bool) string {
	if !present {
		return ""
	}
	list, err := c.since(scope, fingerprint.Options{Exclude: c.p.Code.Exclude})
	if err != nil || len(list) == 0 {
		return ""
	}
	return ": " + some(list, func(ch fingerprint.Change) string { return fingerprint.Escape(ch.Path) })
}

// since lists what changed in a scope since the tested commit, which is here.
func (c *checker) since(scope fingerprint.Scope, o fingerprint.Options) ([]fingerprint.Change, error) {
	if c.p.Repo.Commit == c.head {
		return nil, nil
	}
	return c.Repo.CompareCommits(c.p.Repo.Commit, c.head, scope, o)
}

// some names the first few of a list.
func some[T any](list []T, name func(T) string) string {
	const most = 5
	var names []string
	for _, item := range list[:min(most, len(list))] {
		names = append(names, name(item))
	}
	text := strings.Join(names, ", ")
	if len(list) > most {
		text += fmt.Sprintf(" and %d more", len(list)-most)
	}
	return text
}

// checkLegacyCode computes the original's digest, and looks at what it does not see. The tested commit may be present
// in the clone, absent, or not even named, which is refused elsewhere.
func (c *checker) checkLegacyCode(scope fingerprint.Scope, present, named bool) {
	f := c.Receipt.Legacy.Fingerprint
	files, gaps, ok := c.legacyDigest(f, "the fingerprint")
	if !ok {
		return
	}
	if files != f.FileCount {
		c.refuse(FileCount, "", "the receipt counts %d files, there are %d", f.FileCount, files)
	}
	if present {
		list, err := c.since(scope, fingerprint.Options{Exclude: f.ExcludedPaths})
		if err != nil {
			c.gitFailed(HiddenChange, err)
		} else if len(list) > 0 {
			c.refuse(HiddenChange, "run the tests again", "changed since, and not seen by the original's digest: %s",
				some(list, func(ch fingerprint.Change) string { return fingerprint.Escape(ch.Path) }))
		}
	} else if named && len(gaps) > 0 {
		c.unless(c.Rules.AllowUncovered, Uncovered, "fetch the tested commit, or allow it in the policy: allow_uncovered",
			"not seen by the original's digest, and the tested commit is not here to compare: %s",
			some(gaps, func(g fingerprint.LegacyGap) string { return fingerprint.Escape(g.Path) }))
	}
	c.checkShards()
	c.note("%d files of %s are as they were tested", files, scope)
}

// legacyDigest recomputes a digest of the original's at HEAD. It is the commit that counts: the working tree of a
// verifier may have filters and line endings of its own.
func (c *checker) legacyDigest(f receipt.LegacyFingerprint, what string) (files int, gaps []fingerprint.LegacyGap,
	ok bool) {
	want := "sha256"
	if c.Format == "3" {
		want = "sha256-manifest-v2"
	}
	if f.Algorithm != want {
		c.refuse(UnknownAlgorithm, "", "%s: the algorithm is %q, schema %s has %s", what, clip(f.Algorithm), c.Format, want)
		return 0, nil, false
	}
	failed := func(err error) (int, []fingerprint.LegacyGap, bool) {
		reason := ScopeMalformed
		if diag.CodeOf(err) == fingerprint.EmptyScope {
			reason = EmptyScope
		}
		c.gitFailed(reason, err)
		return 0, nil, false
	}
	changed := func() (int, []fingerprint.LegacyGap, bool) {
		c.refuse(CodeChanged, "run the tests again, or see gpu-proof explain",
			"%s: the code at HEAD is not the code that was tested", what)
		return 0, nil, false
	}
	if c.Format == "3" {
		digest, count, err := c.Repo.ManifestV2(c.head, fingerprint.V2Paths{Included: f.IncludedPaths, Extra: f.ExtraPaths,
			Excluded: f.ExcludedPaths})
		switch {
		case err != nil:
			return failed(err)
		case digest != f.Digest:
			return changed()
		}
		return count, nil, true
	}
	d, err := c.Repo.Legacy(c.head, f.IncludedPaths)
	if err != nil {
		return failed(err)
	}
	reading := d.Match(f.Digest)
	if reading == nil {
		return changed()
	}
	return reading.Files, reading.Gaps, true
}

// checkShards: each shard's own fingerprint holds, the shards are those of the policy, and they hold the tests.
func (c *checker) checkShards() {
	shards := c.Receipt.Legacy.Shards
	if want := c.Rules.Shards; want != nil {
		var names, got []string
		for name := range want {
			names = append(names, name)
		}
		for _, s := range shards {
			got = append(got, s.Name)
			pin := want[s.Name]
			for _, f := range []struct{ got, want []string }{{s.Fingerprint.IncludedPaths, pin.Paths},
				{s.Fingerprint.ExtraPaths, pin.Extra}, {s.Fingerprint.ExcludedPaths, pin.Excluded}} {
				if f.want != nil && !sameSet(f.got, f.want) {
					c.refuse(ShardMismatch, "", "shard %q covers %q, the policy asks for %q", clip(s.Name), f.got, f.want)
				}
			}
		}
		if !sameSet(got, names) || len(got) != len(names) {
			c.refuse(ShardMismatch, "", "the shards are %q, the policy asks for %q", got, names)
		}
	}
	if len(shards) == 0 {
		return
	}
	var ids, all []string
	for _, s := range shards {
		ids = append(ids, s.NodeIDs...)
		c.legacyDigest(s.Fingerprint, "shard "+clip(s.Name))
		if s.Carried == nil {
			continue
		}
		c.unless(c.Rules.AllowCarried, Carried, "run that shard again", "shard %q was carried over from an older receipt",
			clip(s.Name))
		days := DefaultMaxAgeDays
		if c.Rules.CarriedMaxAgeDays != nil {
			days = *c.Rules.CarriedMaxAgeDays
		}
		if at, err := receipt.ParseTime(deref(s.Carried.EndedAt)); err != nil {
			c.refuse(BadTime, "", "shard %q: %v", clip(s.Name), err)
		} else {
			c.checkAge(at, days, fmt.Sprintf("shard %q", clip(s.Name)))
		}
	}
	for _, t := range c.p.Tests {
		all = append(all, t.ID)
	}
	if !sameSet(ids, all) || len(ids) != len(all) {
		c.refuse(ShardMismatch, "", "the shards do not hold the tests of the receipt, each once")
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// checkHistory looks at what lies beyond the scope: where HEAD comes from, and what else changed.
func (c *checker) checkHistory(scope fingerprint.Scope, present bool) {
	if c.Rules.RequireAncestor {
		ancestor := false
		if present {
			var err error
			if ancestor, err = c.Repo.IsAncestor(c.p.Repo.Commit, c.head); err != nil {
				c.gitFailed(NotAncestor, err)
				return
			}
		}
		if !ancestor {
			c.refuse(NotAncestor, "fetch the whole history", "the tested commit %q is not an ancestor of HEAD",
				clip(c.p.Repo.Commit))
		}
	}
	if c.Rules.AllowOutsideChanges {
		return
	}
	if !present {
		if c.Rules.RefuseOutsideChanges {
			c.refuse(OutsideChanged, "fetch the tested commit",
				"the tested commit is not here, so nobody can say what changed outside of %s", scope)
		}
		return
	}
	list, err := c.since(fingerprint.All(), fingerprint.Options{})
	if err != nil {
		c.gitFailed(OutsideChanged, err)
		return
	}
	list = slices.DeleteFunc(list, func(ch fingerprint.Change) bool {
		return scope.Contains(ch.Path) || ch.Path == DefaultExclude || ch.Path == c.ReceiptPath
	})
	if len(list) > 0 {
		c.unless(!c.Rules.RefuseOutsideChanges, OutsideChanged, "widen the scope, or run the tests again",
			"changed outside of %s since the run: %s", scope,
			some(list, func(ch fingerprint.Change) string { return fingerprint.Escape(ch.Path) }))
	}
}

// checkOutputs: the policy's outputs were recorded, and where they lie here they are the same.
func (c *checker) checkOutputs() {
	recorded := map[string]string{}
	for _, o := range c.p.Outputs {
		recorded[o.Path] = o.SHA256
	}
	for _, want := range c.Rules.Outputs {
		if recorded[want] == "" {
			c.refuse(OutputMissing, "sign with --output "+want, "the build output %q is not in the receipt", clip(want))
		}
	}
	if c.Repo == nil || c.Repo.Top() == "" {
		return // a bare repository has no build outputs
	}
	for _, o := range c.p.Outputs {
		if _, err := fingerprint.ParseScope([]string{o.Path}); err != nil {
			c.refuse(ScopeMalformed, "", "output: %v", err)
			continue
		}
		if _, err := os.Lstat(filepath.Join(c.Repo.Top(), filepath.FromSlash(o.Path))); err != nil {
			continue // CI has not built it
		}
		here, err := c.Repo.Outputs([]string{o.Path})
		if err != nil {
			c.gitFailed(OutputChanged, err)
			continue
		}
		if fmt.Sprintf("%x", here[0].SHA256) != o.SHA256 {
			c.refuse(OutputChanged, "", "the build output %q is not the one that was tested", clip(o.Path))
		}
	}
}
