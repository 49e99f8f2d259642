package proof

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gpuemu/internal/diag"
	"gpuemu/internal/policy"
)

// This file implements the command policy init: a policy to begin with, every key with its meaning.

// policyFlags are the flags of the command.
type policyFlags struct {
	out                     string
	signers, scope, outputs []string
	allowed                 string
	threshold               int
	requireGPU, force       bool
}

func policyCommand(env Env, term *terminal) *cobra.Command {
	cmd := &cobra.Command{Use: "policy", Short: "Policies: what a receipt must say"}
	codes.Group(cmd)
	var flags policyFlags
	init := &cobra.Command{
		Use:   "init [--signer NAME]... [--out FILE]",
		Short: "Write a policy to begin with",
		Long: "Writes a policy in which every key stands with its meaning, those that are not asked for as comments:\n" +
			"without them the strict defaults hold. Commit it to the protected branch, and have CI read it from there:\n\n" +
			"  gpu-proof verify --receipt gpu-proof.json --policy-ref origin/main:.github/gpu-proof.yml",
		Args: codes.NoArgs,
		RunE: func(*cobra.Command, []string) error { return runPolicyInit(term, flags) },
	}
	f := init.Flags()
	f.StringVar(&flags.out, "out", ".github/gpu-proof.yml", "`FILE` for the policy; - is standard output")
	f.StringArrayVar(&flags.signers, "signer", nil, "`NAME` of somebody who may sign; may be repeated")
	f.StringVar(&flags.allowed, "allowed-signers", "", "`FILE` of allowed signers, from the policy's directory")
	f.StringArrayVar(&flags.scope, "path", nil, "`PATH` that a receipt must cover; may be repeated (default src, tests)")
	f.StringArrayVar(&flags.outputs, "output", nil, "`PATH` of a build output that must be recorded; may be repeated")
	f.IntVar(&flags.threshold, "threshold", 0, "how many of them must have signed")
	f.BoolVar(&flags.requireGPU, "require-gpu", false, "the receipt must name a GPU")
	f.BoolVar(&flags.force, "force", false, "overwrite the file")
	cmd.AddCommand(init)
	return cmd
}

func runPolicyInit(term *terminal, flags policyFlags) error {
	if len(flags.signers) == 0 && flags.allowed == "" {
		return diag.Errorf(Usage, "without one nothing is ever accepted",
			"policy init needs --signer NAME or --allowed-signers FILE")
	}
	text := policyText(flags)
	if _, err := policy.Parse("policy.yml", []byte(text)); err != nil {
		return err // what was given by flags is not allowed
	}
	if flags.out == "-" {
		term.out.WriteString(text)
		return nil
	}
	if _, err := os.Lstat(flags.out); !errors.Is(err, fs.ErrNotExist) && !flags.force {
		return diag.Errorf(WriteFailed, "--force overwrites it", "%s is there already", flags.out)
	}
	if i := strings.LastIndexByte(flags.out, '/'); i > 0 {
		if err := os.MkdirAll(flags.out[:i], 0o755); err != nil {
			return diag.Errorf(WriteFailed, "", "--out: %w", err)
		}
	}
	if err := writeFile(flags.out, []byte(text)); err != nil {
		return err
	}
	term.print("wrote %s", flags.out)
	return nil
}

// policyText is the file. Every key of a policy is in it; a test compares the list.
func policyText(flags policyFlags) string {
	var b strings.Builder
	b.WriteString("# What a receipt of GPU tests must say, for gpu-proof verify. It counts where it is read from a\n" +
		"# branch or a machine that the author of a change does not control. Keys that are comments are not\n" +
		"# set: the defaults hold, which are strict.\n")
	given := map[string]string{}
	if len(flags.signers) > 0 {
		given["signers"] = yamlList(flags.signers)
	}
	if flags.allowed != "" {
		given["allowed_signers"] = strconv.Quote(flags.allowed)
	}
	if len(flags.scope) > 0 {
		given["scope"] = yamlList(flags.scope)
	}
	if len(flags.outputs) > 0 {
		given["outputs"] = yamlList(flags.outputs)
	}
	if flags.threshold > 0 {
		given["threshold"] = strconv.Itoa(flags.threshold)
	}
	if flags.requireGPU {
		given["require_gpu"] = "true"
	}
	for _, k := range policy.Keys() {
		b.WriteString("\n# " + k.Doc + "\n")
		if value, ok := given[k.Name]; ok {
			b.WriteString(k.Name + ": " + value + "\n")
		} else {
			b.WriteString("#" + k.Name + ":\n")
		}
	}
	return b.String()
}

// yamlList is a list in YAML's flow style. Go's quoted strings are YAML's but for \x escapes of bytes that are no text,
// which Parse refuses.
func yamlList(items []string) string {
	quoted := make([]string, len(items))
	for i, item := range items {
		quoted[i] = strconv.Quote(item)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
