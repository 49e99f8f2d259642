package proof

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpuemu/internal/command"
	"gpuemu/internal/diag"
	"gpuemu/internal/receipt"
)

// This file implements the command merge: several receipts of the same code become one. Who merges puts their name to
// what others found, so every part is verified first, by the same rules as verify.

// mergeFlags are the flags of the command. The signer of the merged receipt is --merger: --signer names those of the
// parts, as it does in verify.
type mergeFlags struct {
	ruleFlags
	keyFlags
	merger, out string
}

func mergeCommand(env Env, term *terminal) *cobra.Command {
	var flags mergeFlags
	cmd := &cobra.Command{
		Use:   "merge FILE FILE... --out FILE --signer NAME... --merger NAME",
		Short: "Join the receipts of several machines or parts of a run",
		Long: "Verifies each receipt by the same flags as verify, joins what they say, and signs it. Their digests,\n" +
			"signers and times are kept: an old part does not become young. One that is refused stops all.",
		Example: "  gpu-proof merge part-1.json part-2.json --signer alice --signer bob --merger alice",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return diag.Errorf(Usage, cmd.CommandPath()+" --help shows its use", "merge takes two or more receipts, got %d",
					len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := env.context()
			defer stop()
			return runMerge(ctx, env, term, &flags, cmd.Flags(), args)
		},
	}
	f := cmd.Flags()
	flags.ruleFlags.register(f)
	f.StringVar(&flags.key, "key", "", "key of the one who merges, as in sign")
	f.StringVar(&flags.merger, "merger", "", "`NAME` of the one who merges (default: Git's github.user, else user.email)")
	f.BoolVar(&flags.unsigned, "unsigned", false, "write a receipt without a signature, which verifiers refuse")
	f.BoolVar(&flags.yes, "yes", false, "do not ask before signing")
	f.StringVar(&flags.out, "out", defaultReceipt, "`FILE` for the receipt")
	return cmd
}

func runMerge(
	ctx context.Context, env Env, term *terminal, flags *mergeFlags, set *pflag.FlagSet, files []string,
) error {
	flags.keyFlags.signer = flags.merger
	if err := flags.keyFlags.check(); err != nil {
		return err
	}
	v, err := newVerifier(ctx, env, term, &flags.ruleFlags, set)
	if err != nil {
		return err
	}
	parts, err := verifyParts(ctx, term, v, files)
	if err != nil {
		return err
	}
	merged, err := receipt.Merge(parts)
	if err != nil {
		return refused(err)
	}
	p := &merged.Predicate
	p.Tool, p.SignedAt = "gpu-proof "+command.ReadVersion(env.Version).Version, env.now().UTC().Format(receipt.TimeForm)
	sign := signFlags{keyFlags: flags.keyFlags, out: flags.out, format: formatStatement}
	var b []byte
	if flags.unsigned {
		showStatement(term, p)
		b, err = merged.Seal()
	} else {
		key, signer, keyErr := flags.newSigner(ctx, env, flags.ruleFlags.repo)
		if keyErr != nil {
			return keyErr
		}
		p.Signer = signer
		showStatement(term, p)
		if err := flags.confirm(env, "Sign this?"); err != nil {
			return err
		}
		b, err = merged.Seal(key)
	}
	if err != nil {
		return refused(err)
	}
	return finish(term, &sign, b)
}

// verifyParts verifies all parts, says what is wrong with each, and gives them back if nothing is.
func verifyParts(ctx context.Context, term *terminal, v *verifier, files []string) ([]*receipt.Receipt, error) {
	var parts []*receipt.Receipt
	worst := command.ExitOK
	for _, file := range files {
		out, err := v.judge(ctx, file, "")
		if err != nil {
			return nil, err
		}
		if out.ExitCode != command.ExitOK {
			out.Notes = nil
			showVerdict(term, out)
			if worst != command.ExitFailed {
				worst = out.ExitCode
			}
			continue
		}
		term.detail("%s: accepted", file)
		parts = append(parts, out.receipt)
	}
	if worst != command.ExitOK {
		return nil, &command.Status{Code: worst, Err: diag.Errorf(NotMerged,
			"leave out the parts that are refused",
			"%d of %d receipts are not accepted: nothing is merged", len(files)-len(parts), len(files))}
	}
	return parts, nil
}
