package policy

// This file implements the order of the checks and the report.

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpuemu/internal/diag"
	"gpuemu/internal/escape"
	"gpuemu/internal/fingerprint"
	"gpuemu/internal/forge"
	"gpuemu/internal/receipt"
)

// Inputs are what a receipt is judged by.
type Inputs struct {
	Receipt *receipt.Receipt
	Repo    *fingerprint.Repo // HEAD is what is judged
	Rules   *Rules
	Keys    forge.Source // of the signers, where Rules has no file of allowed signers; may be nil
	Now     time.Time
	// ReceiptPath is where the receipt lies in the repository, "" if outside: that one file may be left out of the
	// fingerprint.
	ReceiptPath string
}

// Refusal is one reason not to believe a receipt, with the particulars.
type Refusal struct {
	Code    Reason
	Message string // one line, control characters escaped
	Hint    string // what to do; ""
}

// Report is the result of Check.
type Report struct {
	// Accepted means that nothing was refused and everything could be found out.
	Accepted bool
	Refusals []Refusal // all of them, in the order of the checks
	// Unreachable are the checks that could not be made: the verdict is neither accepted nor refused (exit 3) unless
	// something else was refused.
	Unreachable []Refusal
	Warnings    []Refusal
	Notes       []string // what was found good, one line each
	Signers     []Signer // whose signatures count
	Format      string
	Head        fingerprint.Commit
}

// Signer is somebody whose signature is good and counts.
type Signer struct {
	Principal, KeyFingerprint, KeyType string
	SecurityKey, Touched               bool
}

// futureSlack is by how much the clocks of two machines may differ.
const futureSlack = 5 * time.Minute

// Malformed is the report on a file that receipt.Parse did not take.
func Malformed(err error) *Report {
	reasons := map[diag.Code]Reason{
		receipt.Syntax: MalformedFile, receipt.Encoding: NotUTF8, receipt.DuplicateKey: DuplicateField,
		receipt.TooLarge: TooLarge, receipt.TooDeep: TooLarge, receipt.NotFinite: NotFinite,
		receipt.UnknownField: UnknownField, receipt.MissingField: MissingField, receipt.WrongType: WrongFieldType,
		receipt.BadValue: BadField, receipt.UnknownFormat: UnknownFormat,
	}
	reason, ok := reasons[diag.CodeOf(err)]
	if !ok {
		reason = MalformedFile
	}
	return &Report{Refusals: []Refusal{{Code: reason, Message: message(err.Error()), Hint: diag.HintOf(err)}}}
}

// checker is a Check on its way.
type checker struct {
	Inputs
	*Report
	p *receipt.Predicate
	// ended is when the run ended, the time of a signature; now where the receipt has no usable time.
	ended time.Time
	head  string // commit id of HEAD; "": unknown
	asked map[string]keyList
	// people are those who signed, each once however many keys they have.
	people []person
	// manifest has the entries of the scope at HEAD; nil where they could not be read.
	manifest *fingerprint.Manifest
}

// Check holds a receipt against the rules. Every check that can be made is made; the order is that of the reasons.
func Check(ctx context.Context, in Inputs) *Report {
	c := &checker{Inputs: in, Report: &Report{Format: in.Receipt.Format}, p: &in.Receipt.Predicate, ended: in.Now,
		asked: map[string]keyList{}}
	c.checkFormat()
	c.checkTimes()
	c.checkSignatures(ctx)
	c.checkMode()
	c.checkCode()
	c.checkOutputs()
	c.checkSession()
	c.checkTests()
	c.checkFiles()
	c.checkGPU()
	c.checkNonce()
	c.Accepted = len(c.Refusals) == 0 && len(c.Unreachable) == 0
	return c.Report
}

func (c *checker) refuse(code Reason, hint, format string, args ...any) {
	c.Refusals = append(c.Refusals, Refusal{code, message(fmt.Sprintf(format, args...)), hint})
}

func (c *checker) warn(code Reason, hint, format string, args ...any) {
	c.Warnings = append(c.Warnings, Refusal{code, message(fmt.Sprintf(format, args...)), hint})
}

func (c *checker) note(format string, args ...any) {
	c.Notes = append(c.Notes, message(fmt.Sprintf(format, args...)))
}

// unless refuses, or warns where the rules allow it.
func (c *checker) unless(allowed bool, code Reason, hint, format string, args ...any) {
	if allowed {
		c.warn(code, "", format, args...)
	} else {
		c.refuse(code, hint, format, args...)
	}
}

// gitFailed sorts an error of package fingerprint: nothing is known, or the tree is not as it should be.
func (c *checker) gitFailed(code Reason, err error) {
	if fingerprint.CannotTell(err) {
		c.Unreachable = append(c.Unreachable, Refusal{RepoUnreadable, message(err.Error()), diag.HintOf(err)})
		return
	}
	c.refuse(code, diag.HintOf(err), "%v", err)
}

// maxMessage is how long a message may be, in bytes: a scope, a list of shards or a remote may be megabytes of it.
const maxMessage = 4 << 10

// message is text for a report: one line of bounded length.
func message(s string) string {
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + "…"
	}
	return escape.Text(s)
}

func (c *checker) checkFormat() {
	r := c.Receipt
	if schemaRank(r.Format) < c.Rules.minSchema() {
		c.refuse(WeakFormat, "sign again in the present format, or admit the older one: --min-schema "+r.Format,
			"the receipt has the original's schema %s, older than the policy admits", r.Format)
	} else if r.Legacy != nil {
		c.warn(WeakFormat, "", "schema %s is weaker than our format: %s", r.Format, strings.Join(r.Weaknesses, "; "))
	}
	if r.Legacy != nil && r.Legacy.NonFinite {
		c.warn(NotFinite, "", "metadata holds NaN or an infinity, which is not JSON")
	}
}

// checkTimes: the exact spelling, in order, not in the future, not too old. An age is counted to the second: with a
// limit of 0 days nothing that has ended before now is young enough.
func (c *checker) checkTimes() {
	run := c.p.Run
	started, err1 := receipt.ParseTime(run.StartedAt)
	ended, err2 := receipt.ParseTime(run.EndedAt)
	signed, err3 := ended, error(nil)
	if c.Receipt.Legacy == nil {
		signed, err3 = receipt.ParseTime(c.p.SignedAt)
	}
	for _, t := range []struct {
		name string
		err  error
	}{{"started_at", err1}, {"ended_at", err2}, {"signed_at", err3}} {
		if t.err != nil {
			c.refuse(BadTime, "", "%s: %v", t.name, t.err)
		}
	}
	if err1 != nil || err2 != nil || err3 != nil {
		return
	}
	if started.After(ended) || ended.After(signed) {
		c.refuse(BadTime, "", "the run began at %s, ended at %s and was signed at %s: not in this order", run.StartedAt,
			run.EndedAt, signed.Format(receipt.TimeForm))
	}
	if latest := slices.MaxFunc([]time.Time{started, ended, signed}, time.Time.Compare); latest.Sub(c.Now) > futureSlack {
		if !started.After(ended) && !ended.After(signed) {
			c.refuse(InFuture, "look at the clocks of both machines", "the receipt is of %s, it is %s now",
				latest.Format(receipt.TimeForm), c.Now.UTC().Format(receipt.TimeForm))
		}
	}
	if ended.Sub(c.Now) <= futureSlack {
		c.ended = signed
	}
	c.checkAge(ended, c.Rules.maxAgeDays(), "the run")
	for i, part := range c.p.Parts {
		at, err := receipt.ParseTime(part.EndedAt)
		if err != nil {
			c.refuse(BadTime, "", "part %d: %v", i+1, err)
			continue
		}
		c.checkAge(at, c.Rules.maxAgeDays(), fmt.Sprintf("part %d", i+1))
	}
}

func (c *checker) checkAge(ended time.Time, days int, what string) {
	age := c.Now.Sub(ended)
	if age > time.Duration(days)*24*time.Hour {
		c.refuse(TooOld, "run the tests again", "%s ended %s ago, %d days are allowed", what, ageText(age), days)
	}
}

// ageText is an age for people: days, or hours and minutes where it is less than two days.
func ageText(age time.Duration) string {
	if age < 48*time.Hour {
		return age.Truncate(time.Second).String()
	}
	return fmt.Sprintf("%.1f days", age.Hours()/24)
}

func (c *checker) checkMode() {
	switch {
	case !knownMode(c.p.Mode):
		c.refuse(WrongMode, "", "the mode %q is not known: local, ci-gpu", clip(c.p.Mode))
	case c.Rules.Mode != "" && c.p.Mode != c.Rules.Mode:
		c.refuse(WrongMode, "", "the mode is %s, the policy asks for %s", c.p.Mode, c.Rules.Mode)
	}
}

func (c *checker) checkNonce() {
	if want := c.Rules.Nonce; want != "" && c.p.Nonce != want {
		c.refuse(WrongNonce, "sign with --nonce and run the challenges anew", "the nonce is %q, %q was issued",
			clip(c.p.Nonce), clip(want))
	}
	c.checkChallenges()
}
