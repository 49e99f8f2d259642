package proof

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpuemu/internal/challenge"
	"gpuemu/internal/command"
	"gpuemu/internal/policy"
	"gpuemu/internal/receipt"
)

// This file implements what verify found, for people and machines.

// finding is a reason with its code.
type finding struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// verdict is what verify --json prints.
type verdict struct {
	Receipt  string `json:"receipt"`
	Verdict  string `json:"verdict"` // accepted, refused, unknown
	ExitCode int    `json:"exit_code"`
	Format   string `json:"format,omitempty"`
	Digest   string `json:"digest,omitempty"` // of the signed bytes
	Commit   string `json:"commit,omitempty"` // HEAD
	Code     string `json:"code,omitempty"`   // digest of the code that was tested
	Tests    int    `json:"tests"`
	Summary  string `json:"summary,omitempty"`
	// Signers are those whose signatures are good and count.
	Signers  []signerInfo        `json:"signers"`
	Refusals []finding           `json:"refusals"`
	Unknown  []finding           `json:"unknown"` // what could not be found out
	Warnings []finding           `json:"warnings"`
	Notes    []string            `json:"notes"` // what was found good
	Recheck  []*challenge.Report `json:"recheck"`

	receipt *receipt.Receipt
}

type signerInfo struct {
	Name        string `json:"name"`
	Key         string `json:"key"`
	Type        string `json:"type"`
	SecurityKey bool   `json:"security_key,omitempty"`
}

// newVerdict takes a report over. r is nil where the file is no receipt.
func newVerdict(file string, r *receipt.Receipt, report *policy.Report) *verdict {
	out := &verdict{Receipt: file, Commit: report.Head.ID, Signers: []signerInfo{}, Refusals: findings(report.Refusals),
		Unknown: findings(report.Unreachable), Warnings: findings(report.Warnings),
		Notes: append([]string{}, report.Notes...), Recheck: []*challenge.Report{}, receipt: r}
	if r != nil {
		out.Format, out.Digest, out.Code = r.Format, r.Digest(), r.Predicate.Code.Digest
		out.Tests, out.Summary = len(r.Predicate.Tests), receipt.Summary(r.Predicate.Tests)
	}
	for _, s := range report.Signers {
		out.Signers = append(out.Signers, signerInfo{s.Principal, s.KeyFingerprint, s.KeyType, s.SecurityKey})
	}
	return out
}

func findings(list []policy.Refusal) []finding {
	out := []finding{}
	for _, r := range list {
		out = append(out, finding{string(r.Code), r.Message, r.Hint})
	}
	return out
}

// conclude decides: what is refused is refused, even where something else could not be found out.
func (v *verdict) conclude() {
	switch {
	case len(v.Refusals) > 0:
		v.Verdict, v.ExitCode = "refused", command.ExitFailed
	case len(v.Unknown) > 0:
		v.Verdict, v.ExitCode = "unknown", command.ExitNotRun
	default:
		v.Verdict, v.ExitCode = "accepted", command.ExitOK
	}
}

// status is the exit code as an error that has been told.
func (v *verdict) status() error {
	if v.ExitCode == command.ExitOK {
		return nil
	}
	return &command.Status{Code: v.ExitCode}
}

// maxShown is how many findings of one kind are printed. --json has them all.
const maxShown = 20

// showVerdict prints a verdict for people.
func showVerdict(t *terminal, v *verdict) {
	for _, text := range v.Notes {
		t.mark(green, "ok", "%s", text)
	}
	for _, list := range []struct {
		color, word string
		items       []finding
	}{{yellow, "warning", v.Warnings}, {yellow, "unknown", v.Unknown}, {red, "refused", v.Refusals}} {
		for i, f := range list.items {
			if i == maxShown {
				t.print("  and %d more", len(list.items)-i)
				break
			}
			t.mark(list.color, list.word, "%s: %s", f.Code, f.Message)
			t.hint(f.Hint)
		}
	}
	switch v.Verdict {
	case "accepted":
		t.print("%s: accepted, %s", v.Receipt, v.Summary)
	case "refused":
		t.print("%s: REFUSED, %s", v.Receipt, counted(len(v.Refusals), "reason"))
	default:
		t.print("%s: it cannot be told whether to accept it", v.Receipt)
	}
}

// counted is a number of things.
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// recheckNote is a challenge that is right, in one line.
func recheckNote(c *receipt.Challenge, r *challenge.Report) string {
	text := fmt.Sprintf("challenge %s %s: %s of %d right by the reference", r.Op, r.DType,
		counted(r.Recorded, "recorded case"), r.Count)
	if r.Emulated > 0 {
		text += fmt.Sprintf(", %s right in the emulator", counted(r.Emulated, "case"))
	}
	if r.Values != "" && r.Values != "mixed" {
		text += "; its values are " + r.Values + " ones, which the signer chose"
	}
	if names := slices.Sorted(maps.Keys(c.Attributes)); len(names) > 0 {
		text += "; of the attributes the signer chose " + strings.Join(names, ", ")
	}
	return text
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
