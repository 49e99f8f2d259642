package proof

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpuemu/internal/challenge"
	"gpuemu/internal/diag"
	"gpuemu/internal/fingerprint"
	"gpuemu/internal/policy"
	"gpuemu/internal/receipt"
)

// This file implements the command verify. It executes nothing from the repository and believes nothing that the
// receipt could have chosen.

// verifyFlags are the flags of the command.
type verifyFlags struct {
	ruleFlags
	receipt, recheck string
	asJSON           bool
}

func verifyCommand(env Env, term *terminal) *cobra.Command {
	var flags verifyFlags
	cmd := &cobra.Command{
		Use:   "verify --receipt FILE [--repo DIR] --signer NAME | --allowed-signers FILE | --policy FILE",
		Short: "Verify a receipt against the code at HEAD",
		Long: "Checks who signed, that the code at HEAD is the code that was tested, that all tests passed, and what else\n" +
			"the policy asks for. Who may sign is said by --signer, --github-user, --allowed-signers or a policy, never\n" +
			"by the receipt: without any of them nothing is accepted. Settings in pyproject.toml belong to the tree under\n" +
			"test and are not believed.\n\n" +
			"Exit codes: 0 accepted, 1 refused, 2 usage, 3 it cannot be told (no network, no Git).",
		Example: "  gpu-proof verify --receipt gpu-proof.json --signer alice\n" +
			"  gpu-proof verify --receipt gpu-proof.json --policy-ref origin/main:.github/gpu-proof.yml --recheck\n" +
			"  gpu-proof verify --receipt gpu-proof.json --allowed-signers allowed_signers --json",
		Args: codes.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := env.context()
			defer stop()
			return runVerify(ctx, env, term, &flags, cmd.Flags())
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.receipt, "receipt", "", "receipt `FILE`")
	flags.register(f)
	f.StringVar(&flags.recheck, "recheck", "", "compute the challenges again: outputs are held against the\n"+
		"reference, and kernels run in the emulator; --recheck=outputs leaves out the kernels\n"+
		"(default where the policy asks for challenges)")
	f.Lookup("recheck").NoOptDefVal = recheckAll
	f.BoolVar(&flags.asJSON, "json", false, "one JSON document")
	return cmd
}

// What --recheck looks at.
const (
	recheckAll     = "all"
	recheckOutputs = "outputs"
)

func runVerify(ctx context.Context, env Env, term *terminal, flags *verifyFlags, set *pflag.FlagSet) error {
	switch {
	case flags.receipt == "":
		return diag.Errorf(Usage, "the usual name is gpu-proof.json", "verify needs --receipt FILE")
	case flags.recheck != "" && flags.recheck != recheckAll && flags.recheck != recheckOutputs:
		return diag.Errorf(Usage, "use --recheck or --recheck=outputs", "--recheck is %q", flags.recheck)
	}
	v, err := newVerifier(ctx, env, term, &flags.ruleFlags, set)
	if err != nil {
		return err
	}
	for _, name := range treeSettings(v.repo) {
		term.note("%s in pyproject.toml is not read: it belongs to the tree under test; use a policy or a flag", name)
	}
	out, err := v.judge(ctx, flags.receipt, flags.recheck)
	if err != nil {
		return err
	}
	if flags.asJSON {
		err = term.printJSON(out)
	} else {
		showVerdict(term, out)
	}
	if err != nil {
		return err
	}
	if err := writeSummary(env, out); err != nil {
		return err
	}
	return out.status()
}

// verifier holds receipts against one policy and one repository.
type verifier struct {
	env   Env
	term  *terminal
	repo  *fingerprint.Repo
	rules *policy.Rules
	in    policy.Inputs
	limit time.Duration // of recheck
}

func newVerifier(
	ctx context.Context, env Env, term *terminal, flags *ruleFlags, set *pflag.FlagSet,
) (*verifier, error) {
	repo, err := openRepo(ctx, flags.repo)
	if err != nil {
		return nil, err
	}
	rules, err := flags.rules(env, term, repo, set)
	if err != nil {
		return nil, err
	}
	keys, err := flags.keys(env, rules)
	if err != nil {
		return nil, err
	}
	return &verifier{env: env, term: term, repo: repo, rules: rules, limit: recheckTime,
		in: policy.Inputs{Repo: repo, Rules: rules, Keys: keys, Now: env.now()}}, nil
}

// judge is verify to its end: with the challenges, where they are to be computed again, and the conclusion.
func (v *verifier) judge(ctx context.Context, file, recheck string) (*verdict, error) {
	out, err := v.verify(ctx, file)
	if err != nil {
		return nil, err
	}
	if recheck == "" && v.rules.RequireChallenge {
		recheck = recheckAll // what is asked for and not looked at would be worth nothing
	}
	if recheck != "" {
		if err := v.recheck(ctx, out, recheck == recheckAll); err != nil {
			return nil, err
		}
	}
	out.conclude()
	return out, nil
}

// verify checks one receipt. The error is about the arguments: a file that is no receipt is refused.
func (v *verifier) verify(ctx context.Context, file string) (*verdict, error) {
	if leaves(v.repo.Top(), file) {
		err := diag.Errorf(ReadFailed, "commit the receipt itself", "%s: a link of the repository leads out of it", file)
		return newVerdict(file, nil, policy.Malformed(err)), nil
	}
	b, err := readReceipt(v.env, file)
	if err != nil {
		return nil, err
	}
	r, err := receipt.Parse(file, b)
	if err != nil {
		return newVerdict(file, nil, policy.Malformed(err)), nil
	}
	in := v.in
	in.Receipt = r
	if rel, ok := v.place(file); ok {
		in.ReceiptPath = rel
	}
	report := policy.Check(ctx, in)
	return newVerdict(file, r, report), ctx.Err()
}

// leaves reports whether a path goes through the working tree to a file outside of it: the tree under test would choose
// what is read, and messages quote it.
func leaves(top, file string) bool {
	abs, err := filepath.Abs(file)
	if err != nil || top == "" || file == "-" || inside(top, abs) {
		return false
	}
	for dir := filepath.Dir(abs); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if inside(top, dir) {
			return true
		}
	}
	return false
}

// place is where a file lies in the repository.
func (v *verifier) place(file string) (string, bool) {
	if !inside(v.repo.Top(), file) {
		return "", false
	}
	rel, err := rootOf(v.repo.Top(), file)
	return filepath.ToSlash(rel), err == nil
}

// maxPTX is the largest kernel that is run.
const maxPTX = 64 << 20

// recheckTime is how long all challenges of a receipt may take together. A thousand cases take a minute, and how many
// there are, and how long their kernels run, is the signer's choice.
const recheckTime = time.Hour

// recheck computes the challenges of an accepted receipt again. One that is refused already is not worth the time, and
// may have been made to waste it.
func (v *verifier) recheck(ctx context.Context, out *verdict, kernels bool) error {
	if len(out.Refusals) > 0 {
		out.Warnings = append(out.Warnings, finding{Code: string(challenge.Unchecked),
			Message: "challenges were not computed again: the receipt is refused already"})
		return nil
	}
	challenges := out.receipt.Predicate.Challenges
	if len(challenges) == 0 {
		out.Unknown = append(out.Unknown, finding{string(challenge.Unchecked),
			"the receipt has no challenges to compute again", "record some: gpu_proof_challenge in a test"})
		return nil
	}
	opt := challenge.Options{Nonce: v.rules.Nonce}
	if kernels {
		opt.PTX = func(path string) ([]byte, error) { return v.kernel(out.receipt, path) }
	}
	limited, stop := context.WithTimeout(ctx, v.limit)
	defer stop()
	for i := range challenges {
		c := &challenges[i]
		bar := v.term.progress("computing " + c.Op + " " + c.DType + " again")
		opt.Progress = bar.update
		report, err := challenge.Recheck(limited, c, out.receipt.Predicate.Code.Digest, opt)
		bar.end()
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			out.Unknown = append(out.Unknown, finding{string(challenge.Unchecked), fmt.Sprintf("%d of %d challenges were not "+
				"computed again within %v", len(challenges)-i, len(challenges), v.limit), "ask the signer for fewer cases"})
			return nil
		}
		if err != nil {
			return err
		}
		out.Recheck = append(out.Recheck, report)
		for _, f := range report.Faults {
			to := &out.Refusals
			if f.Reason == challenge.Unchecked {
				to = &out.Unknown
			}
			*to = append(*to, finding{string(f.Reason), f.Message, f.Hint})
		}
		if len(report.Faults) == 0 {
			out.Notes = append(out.Notes, recheckNote(c, report))
		}
	}
	return nil
}

// kernel is the text of a kernel as it was tested: a file of the tree that the digest covers, or a build output that is
// here and has the recorded digest.
func (v *verifier) kernel(r *receipt.Receipt, name string) ([]byte, error) {
	p := &r.Predicate
	scope, err := fingerprint.ParseScope(p.Code.Scope)
	if err != nil {
		return nil, err
	}
	for _, o := range p.Outputs {
		if o.Path == name {
			return v.output(o)
		}
	}
	for _, excluded := range p.Code.Exclude {
		if path.Clean(excluded) == path.Clean(name) {
			return nil, diag.Errorf(ReadFailed, "", "it is left out of what was signed")
		}
	}
	if !scope.Contains(name) {
		return nil, diag.Errorf(ReadFailed, "put it in the scope", "it is not in the scope that was signed")
	}
	return v.repo.ReadFile("HEAD", name, maxPTX)
}

// output is a build output of the working tree, if it is the one that was tested. It is hashed first, which opens
// neither pipes nor what lies outside of the tree: its path is the signer's.
func (v *verifier) output(o receipt.Output) ([]byte, error) {
	here, err := v.repo.Outputs([]string{o.Path})
	if err != nil || hex.EncodeToString(here[0].SHA256[:]) != o.SHA256 {
		return nil, challenge.ErrNotHere
	}
	b, err := readFile(v.env, filepath.Join(v.repo.Top(), filepath.FromSlash(o.Path)), maxPTX)
	if err != nil || digestOf(b) != o.SHA256 {
		return nil, challenge.ErrNotHere
	}
	return b, nil
}
