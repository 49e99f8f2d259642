// Package verdict holds what a case and a campaign found: the five verdicts, the result of one case in the form in
// which it is stored and reported, the summary of many, and the rule that makes an exit code of a summary.
//
// It judges nothing: package campaign does, with compare and invariant. The main types are Result and Summary. Both
// have one JSON form, used by the store, by reports and by the API; seeds are strings in it, because JSON numbers
// lose bits.
package verdict

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// Verdict is what is known of a candidate on one case. The zero value is not a pass.
type Verdict uint8

const (
	// Undecided: it ran, and the contract of the operator decides on none of the elements.
	Undecided Verdict = iota
	// Pass: compared, and right everywhere the contract decides.
	Pass
	// Fail: compared and wrong, or a finding of an invariant or a guard.
	Fail
	// Error: the candidate raised, crashed, timed out or returned something else than an output. It counts as failed.
	Error
	// NotRun: nothing can be said of the candidate, because it was not executed or there is nothing to compare with.
	NotRun
)

var verdictNames = [...]string{"undecided", "pass", "fail", "error", "not_run"}

// All returns every verdict in the order in which reports list them.
func All() []Verdict { return []Verdict{Pass, Fail, Error, NotRun, Undecided} }

// String returns the word used in reports, JSON and the store.
func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return "verdict(" + strconv.Itoa(int(v)) + ")"
}

// Failed reports whether the verdict counts as failed: Fail or Error.
func (v Verdict) Failed() bool { return v == Fail || v == Error }

// Parse returns the verdict of that name.
func Parse(name string) (Verdict, error) {
	for i, n := range verdictNames {
		if n == name {
			return Verdict(i), nil
		}
	}
	return Undecided, fmt.Errorf("unknown verdict %q", name)
}

// MarshalText returns the name.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads the name.
func (v *Verdict) UnmarshalText(text []byte) (err error) {
	*v, err = Parse(string(text))
	return err
}

// Reason says for machines why a verdict is not Pass. Values are stable.
type Reason string

// The reasons of Fail.
const (
	Mismatch  Reason = "mismatch"   // at least one element is wrong
	Invariant Reason = "invariant"  // a property that needs no reference does not hold
	NonFinite Reason = "non_finite" // every wrong element is a NaN or an infinity, or lacks one
	Biased    Reason = "bias"       // each element is within its bound, but the errors have a common sign
)

// The reasons of Fail that are findings on an execution: they are the cause where elements are wrong too.
const (
	Overrun          Reason = "overrun"           // wrote before or behind a tensor
	NotFullyWritten  Reason = "not_fully_written" // left elements of an output as they were
	InputModified    Reason = "input_modified"    // wrote to an input
	Nondeterministic Reason = "nondeterministic"  // a second execution on the same inputs gave other bits
)

// The reasons of Fail that the emulator finds; they are the classes of its findings (docs/emulate.md). Nondeterministic
// is one, too.
const (
	OutOfBoundsWrite  Reason = "oob_write"
	OutOfBoundsRead   Reason = "oob_read"
	Misaligned        Reason = "misaligned"
	Race              Reason = "race"
	AsyncHazard       Reason = "async_hazard"
	BarrierDivergence Reason = "barrier_divergence"
	BadMask           Reason = "bad_mask"
	Deadlock          Reason = "deadlock"
	Assertion         Reason = "assert"
	Trap              Reason = "trap"
	Uninitialised     Reason = "uninit"
	Unwritten         Reason = "unwritten"
	ResourceLimit     Reason = "resource_limit"
)

// FindingReasons returns the reasons that are findings, the one that explains most first.
func FindingReasons() []Reason {
	return []Reason{ResourceLimit, Overrun, OutOfBoundsWrite, OutOfBoundsRead, Misaligned, Race, AsyncHazard,
		BarrierDivergence, BadMask, Deadlock, Assertion, Trap, Uninitialised, Unwritten, NotFullyWritten, InputModified,
		Nondeterministic}
}

// The reasons of Error: what a candidate did on a valid case.
const (
	Raised       Reason = "raised"        // an exception, or an exit status other than 0
	Crashed      Reason = "crashed"       // killed by a signal of its own making
	Killed       Reason = "killed"        // ended each time by a SIGKILL or SIGTERM that gpuemu did not send
	TimedOut     Reason = "timed_out"     // no reply within the time limit
	OverBudget   Reason = "over_budget"   // the emulator stopped the kernel at its limit of instructions
	MemoryLimit  Reason = "memory_limit"  // more memory than allowed
	OutputLimit  Reason = "output_limit"  // a reply larger than allowed
	BadReply     Reason = "bad_reply"     // a reply that is not of the protocol
	WrongOutputs Reason = "wrong_outputs" // outputs missing, too many or of other names
	WrongShape   Reason = "wrong_shape"
	WrongDType   Reason = "wrong_dtype"
	NotCompiled  Reason = "not_compiled" // the compiler refused the source of the kernel
)

// The reasons of NotRun.
const (
	NoCandidate      Reason = "no_candidate"      // nothing to execute is configured
	NotStarted       Reason = "not_started"       // the interpreter or the program could not be started
	MissingPackage   Reason = "missing_package"   // a package the case needs is not installed
	Unsupported      Reason = "unsupported"       // the case cannot be expressed or executed by this runner
	ReferenceFailed  Reason = "reference_failed"  // there is nothing to compare with
	ReferenceDiffers Reason = "reference_differs" // the user's reference disagrees with the catalogue
	WorkerLost       Reason = "worker_lost"       // the machine ended a process, or no code of the user ran in it
	Cancelled        Reason = "cancelled"         // the run ended before the case's turn
	Internal         Reason = "internal"          // a fault of gpuemu
)

// The reasons of Undecided.
const (
	AllUndetermined Reason = "all_undetermined" // the contract decides on no element
	Vacuous         Reason = "vacuous"          // no element is wrong, but garbage would have passed as well
)

// Seed is an unsigned 64-bit seed that is a string in JSON. Numbers are accepted too if they are exact integers.
type Seed uint64

// MarshalJSON writes the seed as a string of decimal digits.
func (s Seed) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, strconv.FormatUint(uint64(s), 10)), nil
}

// UnmarshalJSON reads a string of decimal digits or an integer.
func (s *Seed) UnmarshalJSON(b []byte) error {
	text := string(b)
	if len(b) > 0 && b[0] == '"' {
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return fmt.Errorf("seed %s: not an unsigned 64-bit integer", text)
	}
	*s = Seed(n)
	return nil
}
