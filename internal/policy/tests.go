package policy

// This file implements the checks of the run: its tests, the session around them, the machine.

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"gpuemu/internal/challenge"
	"gpuemu/internal/fingerprint"
	"gpuemu/internal/receipt"
)

// checkSession: the run ended, and ended well.
func (c *checker) checkSession() {
	o := c.p.Outside
	outside := o.Failed + o.Errors
	if outside > 0 {
		c.unless(c.Rules.AllowOutsideFailures, OutsideFailures, "", "%d tests outside of the proof failed in the same run",
			outside)
	}
	if l := c.Receipt.Legacy; l != nil {
		if c.Format == "3" && l.Outcome != receipt.Passed {
			c.refuse(ExitStatus, "", "the session's outcome is %q", clip(l.Outcome))
		}
		return
	}
	if !c.p.Run.Finished {
		c.refuse(Unfinished, "run the tests to their end", "the run did not finish")
	}
	// Status 1 says no more than that tests failed; those of the proof are looked at one by one.
	if s := c.p.Run.ExitStatus; s != 0 && !(s == 1 && outside > 0) && !c.anyFailed() {
		c.refuse(ExitStatus, "", "the test run ended with exit status %d, and no failed test explains it", s)
	}
}

func (c *checker) anyFailed() bool {
	return slices.ContainsFunc(c.p.Tests, func(t receipt.Test) bool {
		return t.Outcome == receipt.Failed || t.Outcome == receipt.Errored
	})
}

// ids is a list of tests for a message.
func ids(list []string) string {
	return some(list, func(id string) string { return strconv.Quote(clip(id)) })
}

// checkTests looks at each outcome, and at what is missing.
func (c *checker) checkTests() {
	if len(c.p.Tests) == 0 {
		c.refuse(NoTests, "", "the receipt holds no test")
		return
	}
	by := map[string][]string{} // outcome: ids
	var reruns, checks []string
	for _, t := range c.p.Tests {
		by[t.Outcome] = append(by[t.Outcome], t.ID)
		if t.Reruns > 0 {
			reruns = append(reruns, t.ID)
		}
		bad := func(k receipt.Check) bool { return k.Outcome != receipt.Passed }
		if t.Outcome != receipt.Failed && t.Outcome != receipt.Errored && slices.ContainsFunc(t.Checks, bad) {
			checks = append(checks, t.ID)
		}
	}
	if failed := append(slices.Clone(by[receipt.Failed]), by[receipt.Errored]...); len(failed) > 0 {
		c.refuse(TestFailed, "", "%d tests did not pass: %s", len(failed), ids(failed))
	}
	if len(checks) > 0 {
		c.refuse(CheckFailed, "", "a check failed in tests that did not: %s", ids(checks))
	}
	if odd := append(slices.Clone(by[receipt.XFailed]), by[receipt.XPassed]...); len(odd) > 0 {
		c.unless(c.Rules.AllowXFail, ExpectedFailure, "allow it in the policy: allow_xfail",
			"%d tests failed as expected, or passed against expectation: %s", len(odd), ids(odd))
	}
	if len(reruns) > 0 {
		c.unless(c.Rules.AllowReruns, Rerun, "allow it in the policy: allow_reruns", "%d tests were run again: %s",
			len(reruns), ids(reruns))
	}
	c.checkSkips(by[receipt.Skipped])
	if executed := len(c.p.Tests) - len(by[receipt.Skipped]) - len(by[receipt.XFailed]); executed == 0 {
		c.refuse(NothingRan, "", "all %d tests were skipped, or failed as expected", len(c.p.Tests))
	} else {
		c.note("%s", receipt.Summary(c.p.Tests))
	}
	c.checkCollected()
	c.checkRequired(by)
}

// checkSkips: none, or any, or exactly those that are expected.
func (c *checker) checkSkips(skipped []string) {
	if c.Rules.AllowSkipped {
		if len(skipped) > 0 {
			c.warn(Skipped, "", "%d tests were skipped: %s", len(skipped), ids(skipped))
		}
		return
	}
	// Sets, because both lists may be long and one of them is the signer's.
	unexpected := slices.DeleteFunc(slices.Clone(skipped), inSet(c.Rules.ExpectedSkips))
	stale := slices.DeleteFunc(slices.Clone(c.Rules.ExpectedSkips), inSet(skipped))
	if len(unexpected) > 0 {
		c.refuse(Skipped, "a skipped test proves nothing: --allow-skipped, or --expected-skips FILE with their ids",
			"%d tests were skipped: %s", len(unexpected), ids(unexpected))
	}
	if len(stale) > 0 {
		c.refuse(StaleSkip, "take them off the list", "%d tests are expected to be skipped and were not: %s", len(stale),
			ids(stale))
	}
}

// inSet reports of an id whether it is in the list.
func inSet(list []string) func(string) bool {
	set := make(map[string]bool, len(list))
	for _, id := range list {
		set[id] = true
	}
	return func(id string) bool { return set[id] }
}

// checkCollected holds the list of collected tests against the results. The original's list must be that of the
// results; ours also has what was deselected.
func (c *checker) checkCollected() {
	state := map[string]int{} // 1: collected, 2: has a result
	for _, id := range c.p.Collected {
		if state[id]&1 != 0 {
			c.refuse(IDsMismatch, "", "the list of collected tests names %q twice", clip(id))
			return
		}
		state[id] |= 1
	}
	var notCollected, notRun []string
	for _, t := range c.p.Tests {
		if state[t.ID] |= 2; state[t.ID] != 3 {
			notCollected = append(notCollected, t.ID)
		}
	}
	var deselected []string
	for _, id := range c.p.Deselected {
		if state[id] == 3 {
			c.refuse(IDsMismatch, "", "%q was deselected, and has a result", clip(id))
		}
		if state[id] == 1 {
			deselected = append(deselected, id)
			state[id] |= 2
		}
	}
	for _, id := range c.p.Collected {
		if state[id] == 1 {
			notRun = append(notRun, id)
		}
	}
	if c.Receipt.Legacy != nil && len(notCollected)+len(notRun) > 0 {
		c.refuse(IDsMismatch, "", "node_ids and tests do not name the same tests: %s", ids(append(notCollected, notRun...)))
		return
	}
	if len(notCollected) > 0 {
		c.refuse(IDsMismatch, "", "results of tests that were not collected: %s", ids(notCollected))
	}
	if len(notRun) > 0 {
		c.refuse(NotRun, "run the tests to their end", "%d tests were collected and have no result: %s", len(notRun),
			ids(notRun))
	}
	if len(deselected) > 0 && len(c.Rules.RequiredTests) == 0 {
		c.unless(c.Rules.AllowDeselected, Deselected,
			"name the tests that must run (required_tests), or allow it: allow_deselected",
			"%d tests were deselected: %s", len(deselected), ids(deselected))
	}
}

// checkRequired: every required test is there and ran. A skip is good enough only where it is expected by name.
func (c *checker) checkRequired(by map[string][]string) {
	if len(c.Rules.RequiredTests) == 0 {
		return
	}
	outcome := map[string]string{}
	for o, list := range by {
		for _, id := range list {
			outcome[id] = o
		}
	}
	var missing, skipped []string
	expected := inSet(c.Rules.ExpectedSkips)
	for _, id := range c.Rules.RequiredTests {
		switch {
		case outcome[id] == "":
			missing = append(missing, id)
		case outcome[id] == receipt.Skipped && !expected(id) && c.Rules.AllowSkipped:
			skipped = append(skipped, id) // without allow_skipped it is refused as a skip
		case outcome[id] == receipt.XFailed && c.Rules.AllowXFail:
			skipped = append(skipped, id) // without allow_xfail it is refused as an expected failure
		}
	}
	if len(missing) > 0 {
		c.refuse(RequiredMissing, "run them", "%d required tests are not in the receipt: %s", len(missing), ids(missing))
	}
	if len(skipped) > 0 {
		c.refuse(RequiredSkipped, "run them, or expect the skips by name: expected_skips",
			"%d required tests were skipped, or failed as expected: %s", len(skipped), ids(skipped))
	}
}

// checkFiles: the files of pytest's ids are in the tree, and in the scope, where changes of their assertions are seen.
func (c *checker) checkFiles() {
	if c.manifest == nil || c.p.Run.Runner.Name != "pytest" {
		return
	}
	var missing, outside []string
	seen := map[string]bool{}
	for _, t := range c.p.Tests {
		file, _, _ := strings.Cut(t.ID, "::")
		file = path.Join(c.p.Run.Root, file)
		if seen[file] {
			continue
		}
		seen[file] = true
		if _, found := slices.BinarySearchFunc(c.manifest.Entries, file, func(e fingerprint.Entry, name string) int {
			return strings.Compare(e.Path, name)
		}); found {
			continue
		}
		outside = append(outside, file)
	}
	if len(outside) == 0 {
		return
	}
	for _, ok := range c.present(outside) {
		if !ok.there {
			missing = append(missing, ok.file)
		}
	}
	if len(missing) > 0 {
		c.refuse(TestFileMissing, "", "%d files of tests are not in the tree: %s", len(missing), ids(missing))
	}
	if n := len(outside) - len(missing); n > 0 {
		c.warn(TestOutsideScope, "widen the scope",
			"%d files of tests are outside of the scope: their assertions may change freely", n)
	}
}

// presence says whether a file is in the tree of HEAD.
type presence struct {
	file  string
	there bool
}

// present looks for files outside of the scope in the whole tree.
func (c *checker) present(files []string) []presence {
	all, err := c.Repo.Names(c.head)
	if err != nil {
		c.gitFailed(TestFileMissing, err)
		return nil
	}
	var list []presence
	for _, f := range files {
		_, found := slices.BinarySearch(all, f)
		list = append(list, presence{f, found})
	}
	return list
}

// checkGPU: the machine had one, of a model that is asked for. It is the signing process's word, no more.
func (c *checker) checkGPU() {
	if !c.Rules.RequireGPU && len(c.Rules.GPUModels) == 0 {
		return
	}
	env := c.p.Environment
	var names []string
	for _, g := range env.GPUs {
		if g.Name != "" {
			names = append(names, g.Name)
		}
	}
	hidden := env.CUDAVisibleDevices != nil && slices.Contains([]string{"", "-1", "none", "NoDevFiles"},
		strings.TrimSpace(*env.CUDAVisibleDevices))
	if len(names) == 0 || hidden {
		c.refuse(NoGPU, "run the tests where a GPU is", "the receipt names no GPU that the run could see")
		return
	}
	if len(c.Rules.GPUModels) == 0 {
		return
	}
	if len(c.p.Devices) > 0 { // what the frameworks used is nearer to the truth than what is in the machine
		names = nil
		for _, d := range c.p.Devices {
			names = append(names, d.Name)
		}
	}
	for _, name := range names {
		if slices.ContainsFunc(c.Rules.GPUModels, func(pattern string) bool { return matches(pattern, name) }) {
			return
		}
	}
	c.refuse(WrongGPU, "", "the GPUs are %s, the policy asks for %s", ids(names), ids(c.Rules.GPUModels))
}

// matches reports whether name fits a pattern in which * stands for any text, in any case of letters.
func matches(pattern, name string) bool {
	parts := strings.Split(strings.ToLower(pattern), "*")
	name = strings.ToLower(name)
	if len(parts) == 1 {
		return name == parts[0]
	}
	if !strings.HasPrefix(name, parts[0]) {
		return false
	}
	name = name[len(parts[0]):]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(name, part)
		if i < 0 {
			return false
		}
		name = name[i+len(part):]
	}
	return strings.HasSuffix(name, parts[len(parts)-1])
}

// checkStrength: where challenges are asked for, the signer does not choose how little they show.
func (c *checker) checkStrength(number int, ch *receipt.Challenge) {
	if !c.Rules.RequireChallenge || len(ch.Cases) == 0 { // the latter counts as none
		return
	}
	if got := len(ch.Cases); got < c.Rules.ChallengeCases {
		c.refuse(WeakChallenge, "record more: gpu_proof_challenge(…, count=N)",
			"challenge %d (%q) has %d cases, the policy asks for %d", number, clip(ch.Op), got, c.Rules.ChallengeCases)
	}
	values := ch.Values
	if values == "" {
		values = "mixed"
	}
	if allowed := c.Rules.ChallengeValues; len(allowed) > 0 && !slices.Contains(allowed, values) {
		c.refuse(WeakChallenge, "", "challenge %d (%q) has %q values, the policy asks for %s", number, clip(ch.Op),
			clip(values), ids(allowed))
	}
}

// checkChallenges: they are there where the policy asks for them, and nobody chose their seeds. Whether the recorded
// outputs are right is found out by package challenge.
func (c *checker) checkChallenges() {
	have := map[string]bool{}
	for i, ch := range c.p.Challenges {
		if len(ch.Cases) > 0 { // without a case there is nothing to compute again
			have[ch.Op] = true
		}
		c.checkStrength(i+1, &ch)
		want := strconv.FormatUint(challenge.Seed(c.p.Code.Digest, ch.Nonce, ch.Op, ch.DType), 10)
		if ch.Seed != want {
			c.refuse(ChallengeSeed, "", "challenge %d (%q): the seed %q does not follow from the code, want %s", i+1,
				clip(ch.Op), clip(ch.Seed), want)
		}
		switch {
		case ch.Nonce == c.Rules.Nonce:
		case c.Rules.Nonce != "":
			c.refuse(WrongNonce, "run the challenges with the nonce", "challenge %d (%q) has the nonce %q", i+1, clip(ch.Op),
				clip(ch.Nonce))
		default: // such a challenge is worth nothing, and is missed only where one is asked for
			c.unless(!c.Rules.RequireChallenge, WrongNonce, "give the nonce that was issued: --nonce",
				"challenge %d (%q) has the nonce %q, which nobody issued: who chooses it chooses the cases", i+1, clip(ch.Op),
				clip(ch.Nonce))
		}
	}
	if c.Rules.RequireChallenge && len(have) == 0 {
		c.refuse(NoChallenge, "record one: the fixture gpu_proof_challenge", "the receipt carries no challenge")
		return
	}
	for _, op := range c.Rules.ChallengeOps {
		if !have[op] {
			c.refuse(NoChallenge, "record one: the fixture gpu_proof_challenge", "the receipt carries no challenge of %q",
				clip(op))
		}
	}
}
