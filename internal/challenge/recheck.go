package challenge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpuemu/internal/compare"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/receipt"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// This file implements the second look: cases made again, references computed, recorded outputs judged.

// Options of Recheck.
type Options struct {
	// PTX returns the text of a kernel of the tree that was signed. nil: kernels are not run. ErrNotHere says that it
	// was signed and is not here; after any other error the challenge is refused.
	PTX func(path string) ([]byte, error)
	// Nonce is the one that challenges must have been made with; "": with none, because a signer who may choose a nonce
	// tries them until the cases suit.
	Nonce string
	// Progress is told how many cases are done, where it is not nil.
	Progress func(done, total int)
}

// ErrNotHere means that a kernel was signed and is not here: it is a build output, and this is another machine.
var ErrNotHere = errors.New("it is a build output that is not on this machine")

// Fault is a reason not to believe a challenge.
type Fault struct {
	Reason  Reason `json:"code"`
	Case    int    `json:"case"` // -1: all of it
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// Report is what a second look found.
type Report struct {
	Op       string       `json:"op"`
	DType    string       `json:"dtype"`
	Values   string       `json:"values"`
	Seed     string       `json:"seed"`
	Count    int          `json:"count"`
	Recorded int          `json:"recorded"` // cases whose recorded outputs were judged and are right
	Emulated int          `json:"emulated"` // cases that the emulator ran and that are right
	Cases    []CaseReport `json:"cases"`
	Faults   []Fault      `json:"faults"` // refusals, and things that could not be told (Unchecked)
}

// CaseReport is what is known of one case.
type CaseReport struct {
	Index int    `json:"index"`
	Case  string `json:"case"`
	// Recorded is the verdict on the recorded outputs, Emulated that on the kernel in the emulator: not_run where there
	// is nothing to judge.
	Recorded verdict.Verdict `json:"recorded"`
	Emulated verdict.Verdict `json:"emulated"`
}

// Refused reports whether the challenge is to be refused, as against not told.
func (r *Report) Refused() bool {
	return slices.ContainsFunc(r.Faults, func(f Fault) bool { return f.Reason != Unchecked })
}

// Recheck makes the cases of a challenge again and judges what was recorded. It returns an error only where ctx ended.
func Recheck(ctx context.Context, c *receipt.Challenge, code string, opt Options) (*Report, error) {
	r := &rechecker{c: c, opt: opt, out: &Report{Op: c.Op, DType: c.DType, Values: c.Values, Seed: c.Seed, Count: c.Count,
		Cases: []CaseReport{}, Faults: []Fault{}}}
	p, err := newPlan(request(c, code))
	if err != nil {
		r.fault(Malformed, -1, diag.HintOf(err), "%s", message(err))
		return r.out, nil
	}
	r.plan = p
	if err := r.form(); err != nil {
		return r.out, nil
	}
	if err := r.load(); err != nil {
		return r.out, nil
	}
	left := budget{MaxData}
	for i := range c.Cases {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := r.one(ctx, i, &left); err != nil {
			return nil, err
		}
		if opt.Progress != nil {
			opt.Progress(i+1, len(c.Cases))
		}
	}
	r.share()
	if len(r.out.Faults) == 0 && r.out.Recorded+r.out.Emulated == 0 {
		r.fault(Unchecked, -1, "ask for more cases: small ones are recorded", "none of the %d cases has outputs that fit "+
			"into %d KiB, and no kernel was run", c.Count, MaxData>>10)
	}
	return r.out, nil
}

// share looks at how many cases are undecided: about those nothing is known, whatever was recorded, and a signer who
// chooses the operator and its values could choose such as have many.
func (r *rechecker) share() {
	n := 0
	for _, c := range r.out.Cases {
		undecided := c.Recorded == verdict.Undecided || c.Emulated == verdict.Undecided
		if undecided && c.Recorded != verdict.Pass && c.Emulated != verdict.Pass {
			n++
		}
	}
	if float64(n) > verdict.UndecidedShare*float64(len(r.out.Cases)) {
		r.fault(Unchecked, -1, "ask for more cases, or for other values", "%d of %d cases are undecided, more than %.0f %%: "+
			"the reference cannot tell", n, len(r.out.Cases), 100*verdict.UndecidedShare)
	}
}

// rechecker is one second look.
type rechecker struct {
	c      *receipt.Challenge
	opt    Options
	out    *Report
	plan   *plan
	kernel *emulated // nil: none is run
}

// maxMessage is how long a message may be, in bytes.
const maxMessage = 4 << 10

var errStop = errors.New("no further check makes sense")

func (r *rechecker) fault(reason Reason, index int, hint, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if len(text) > maxMessage { // it may quote what a signer wrote
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	if index >= 0 {
		text = fmt.Sprintf("case %d: %s", index, text)
	}
	r.out.Faults = append(r.out.Faults, Fault{Reason: reason, Case: index, Hint: hint,
		Message: fmt.Sprintf("challenge %s %s: %s", r.c.Op, r.c.DType, text)})
}

// message is an error without its code, which is not the one that a receipt is refused with.
func message(err error) string {
	var e *diag.Error
	if errors.As(err, &e) {
		return e.Msg
	}
	return err.Error()
}

// form checks what needs no case: the seed, and that no case is missing.
func (r *rechecker) form() error {
	want := strconv.FormatUint(r.plan.seed, 10)
	if r.c.Seed != want {
		r.fault(OtherSeed, -1, "run the tests again on the code that is signed", "its seed is %q, from the code and the "+
			"nonce follows %s", r.c.Seed, want)
	}
	switch {
	case r.c.Nonce == r.opt.Nonce:
	case r.opt.Nonce == "":
		r.fault(OtherSeed, -1, "give the nonce that was given out: --nonce", "its nonce is %q, and none was given out: "+
			"who chooses it chooses the cases", r.c.Nonce)
	default:
		r.fault(OtherSeed, -1, "run the tests again with that nonce", "its nonce is %q, %q was given out", r.c.Nonce,
			r.opt.Nonce)
	}
	if r.c.Op != r.plan.op.Name || r.c.DType != r.plan.dtype.String() {
		r.fault(Malformed, -1, "", "its names are %q and %q, want %q and %q", r.c.Op, r.c.DType, r.plan.op.Name, r.plan.dtype)
	}
	if len(r.c.Cases) != r.c.Count {
		r.fault(OtherCases, -1, "all cases are recorded, in order", "it has %d cases, and says %d", len(r.c.Cases), r.c.Count)
	}
	for i := range r.c.Cases {
		if r.c.Cases[i].Index != i {
			r.fault(OtherCases, i, "all cases are recorded, in order", "its index is %d", r.c.Cases[i].Index)
			break
		}
	}
	if len(r.out.Faults) > 0 {
		return errStop
	}
	return nil
}

// one checks one case. The error is that of ctx.
func (r *rechecker) one(ctx context.Context, i int, left *budget) error {
	rec := &r.c.Cases[i]
	report := CaseReport{Index: i, Case: rec.Case, Recorded: verdict.NotRun, Emulated: verdict.NotRun}
	defer func() { r.out.Cases = append(r.out.Cases, report) }()
	c, inputs, err := r.plan.make(i)
	if err != nil {
		r.fault(Malformed, i, diag.HintOf(err), "%s", message(err))
		return nil
	}
	want, err := r.plan.outputs(c)
	if err != nil {
		r.fault(Malformed, i, diag.HintOf(err), "%s", message(err))
		return nil
	}
	kept := left.keeps(want) // whatever is wrong with this case: those behind it are held to the same budget
	if text := c.String(); rec.Case != text {
		r.fault(OtherCases, i, "", "its text is %q, from the seed follows %q", rec.Case, text)
		return nil
	}
	if d := InputsDigest(c, inputs); rec.Inputs != d {
		r.fault(OtherInputs, i, "", "the digest of its inputs is %q, want %s", rec.Inputs, d)
		return nil
	}
	got, ok := r.recorded(i, want, kept)
	if (!ok || got == nil) && r.kernel == nil {
		return nil // nothing to judge
	}
	wants, err := oracle.Evaluate(r.plan.op, inputs, attrsOf(r.plan.op, c), c.DType)
	if err != nil {
		r.fault(Unchecked, i, "", "there is no reference: %s", message(err))
		return nil
	}
	if got != nil {
		report.Recorded = r.judge(OutputWrong, i, "recorded ", want, wants, got)
		if report.Recorded == verdict.Pass {
			r.out.Recorded++
		}
	}
	if r.kernel != nil {
		if report.Emulated, err = r.emulate(ctx, i, c, inputs, want, wants); err != nil {
			return err
		}
	}
	for _, w := range wants {
		oracle.Release(w)
	}
	return nil
}

// attrsOf are all attributes of a case: its own, else the defaults.
func attrsOf(op *oracle.Op, c opspec.Case) opspec.Attrs {
	attrs := op.Schema.DefaultAttrs()
	for name, v := range c.AttrMap() {
		attrs[name] = v
	}
	return attrs
}

// recorded are the recorded outputs of a case, in the order of the schema; nil: they are digests only, as they should.
// ok is false where something is wrong with them.
func (r *rechecker) recorded(i int, want []declared, kept bool) (got []tensor.Named, ok bool) {
	rec := &r.c.Cases[i]
	if len(rec.Outputs) != len(want) {
		r.fault(OutputMissing, i, "record the outputs of all cases", "it has %d outputs, want %d", len(rec.Outputs),
			len(want))
		return nil, false
	}
	for _, w := range want {
		o, there := rec.Outputs[w.name]
		d, permitted := w.recordedType(o.DType)
		size := w.shape.Elems() * d.Size()
		switch {
		case !there:
			r.fault(OutputMissing, i, "record the outputs of all cases", "output %q is not there", w.name)
			return nil, false
		case !permitted || !slices.Equal(o.Shape, w.shape):
			r.fault(OutputForm, i, "", "output %q is %s%s, want %s%s", w.name, o.DType, tensor.Shape(o.Shape), w.dtype, w.shape)
			return nil, false
		case len(o.SHA256) != 64 || strings.Trim(o.SHA256, "0123456789abcdef") != "":
			r.fault(OutputForm, i, "", "output %q has the digest %q, want 64 hex digits", w.name, o.SHA256)
			return nil, false
		case !kept && len(o.Data) > 0:
			r.fault(OutputForm, i, "", "output %q has data, with which more than %d KiB would be kept", w.name, MaxData>>10)
			return nil, false
		case !kept:
			continue
		case len(o.Data) != size:
			r.fault(OutputMissing, i, "outputs that fit are recorded whole", "output %q has %d bytes of data, want %d", w.name,
				len(o.Data), size)
			return nil, false
		case digest(o.Data) != o.SHA256:
			r.fault(OutputForm, i, "", "output %q: its data has the digest %s, and it says %s", w.name, digest(o.Data), o.SHA256)
			return nil, false
		}
		t, err := tensor.FromBytes(d, w.shape, o.Data)
		if err != nil {
			r.fault(OutputForm, i, "", "output %q: %s", w.name, message(err))
			return nil, false
		}
		got = append(got, tensor.Named{Name: w.name, Tensor: t})
	}
	return got, true
}

// judge compares outputs with the reference under its bound, which is the rule for operators of the catalogue.
func (r *rechecker) judge(reason Reason, i int, whose string, want []declared, wants map[string]*compare.Want,
	got []tensor.Named) verdict.Verdict {
	worst, decided, vacuous := verdict.Pass, false, false
	for k, w := range want {
		opt := compare.DefaultOptions()
		opt.Regime, opt.WrongOnly = compare.Bound, true
		if wants[w.name].Bound == nil && wants[w.name].Ties == nil {
			opt.Regime, opt.Tol = compare.Fixed, compare.DefaultTolerance(w.dtype)
		}
		rep, err := compare.Compare(got[k].Tensor, wants[w.name], opt)
		if err != nil {
			r.fault(Unchecked, i, diag.HintOf(err), "%soutput %q: %s", whose, w.name, message(err))
			return verdict.NotRun
		}
		decided = decided || rep.Verdict != compare.Undecided
		switch rep.Verdict {
		case compare.Fail, compare.Error:
			r.fault(reason, i, "", "%soutput %q: %s", whose, w.name, sentence(rep, w.dtype))
			worst = verdict.Fail
		case compare.Pass: // one that garbage would have got as well says nothing
			v, err := compare.MeasureVacuity(wants[w.name], opt)
			if err != nil {
				r.fault(Unchecked, i, diag.HintOf(err), "%soutput %q: %s", whose, w.name, message(err))
				return verdict.NotRun
			}
			vacuous = vacuous || v.Vacuous()
		}
	}
	if worst == verdict.Pass && (!decided || vacuous) {
		return verdict.Undecided
	}
	return worst
}

// sentence is a comparison that failed in one line.
func sentence(rep *compare.Report, d dtype.DType) string {
	if rep.Verdict == compare.Error {
		return rep.Reason
	}
	text := fmt.Sprintf("%d of %d elements (%s) are wrong", rep.Counts.Mismatched, rep.Counts.Total, d)
	for _, list := range [][]compare.Element{rep.Worst.Class, rep.Worst.Ratio, rep.Worst.Abs} {
		for k := range list {
			if e := &list[k]; e.Wrong {
				text += fmt.Sprintf("; worst at %s: got %s, want %s", strings.ReplaceAll(fmt.Sprint(e.Index), " ", ","), e.GotText,
					e.WantText)
				if e.Kind == compare.BeyondBound {
					text += fmt.Sprintf(" within %.3g", e.Bound)
				}
				if len(rep.Findings) > 0 {
					text += "; " + rep.Findings[0].Sentence
				}
				return text
			}
		}
	}
	return text
}
