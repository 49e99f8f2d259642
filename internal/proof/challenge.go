package proof

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gpuemu/internal/challenge"
	"gpuemu/internal/command"
	"gpuemu/internal/diag"
	"gpuemu/internal/receipt"
	"gpuemu/internal/tensor"
)

// This file implements the command challenge: the cases that follow from a state of the code, their inputs for whoever
// runs them, and the record of what came out.

// challengeFlags are the flags of the command.
type challengeFlags struct {
	request         challenge.Request
	attrs           []string
	inputs, outputs string
	asJSON          bool
}

func challengeCommand(env Env, term *terminal) *cobra.Command {
	flags := challengeFlags{request: challenge.Request{DType: "float32", Count: 8}}
	cmd := &cobra.Command{
		Use:   "challenge --code DIGEST --op NAME [--dtype D] [--nonce N] [--count N]",
		Short: "Print the cases that follow from the code, or record what came out of them",
		Long: "Cases of a challenge cannot be chosen: their seed is a hash of the digest of the code, which snapshot\n" +
			"prints. With --inputs the inputs of each case are written to DIR/<index>.safetensors; with --outputs the\n" +
			"outputs are read from such files, and the record for the result file is printed.",
		Example: "  gpu-proof challenge --code $DIGEST --op softmax --count 8 --inputs cases",
		Args:    codes.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			ctx, stop := env.context()
			defer stop()
			return runChallenge(ctx, term, flags)
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.request.Code, "code", "", "`DIGEST` of the code, as snapshot prints it")
	f.StringVar(&flags.request.Op, "op", "", "operator of the catalogue: `NAME` or alias")
	f.StringVar(&flags.request.DType, "dtype", "float32", "number `FORMAT`")
	f.StringVar(&flags.request.Nonce, "nonce", "", "`TEXT` that the verifier gave out")
	f.StringVar(&flags.request.Values, "values", "", "`NAME` of a value distribution (default mixed)")
	f.IntVar(&flags.request.Count, "count", 8, "number `N` of cases")
	f.StringArrayVar(&flags.attrs, "attr", nil, "attribute that is not drawn, as `NAME=VALUE`; may be repeated")
	f.StringVar(&flags.inputs, "inputs", "", "directory `DIR` for the inputs; it is created")
	f.StringVar(&flags.outputs, "outputs", "", "directory `DIR` with the outputs of all cases")
	f.BoolVar(&flags.asJSON, "json", false, "one JSON document")
	return cmd
}

func runChallenge(ctx context.Context, term *terminal, flags challengeFlags) error {
	if flags.request.Op == "" || flags.request.Code == "" {
		return diag.Errorf(Usage, "gpu-proof snapshot prints the digest, gpuemu ops the names",
			"challenge needs --code DIGEST and --op NAME")
	}
	flags.request.Attributes = map[string]string{}
	for _, text := range flags.attrs {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return diag.Errorf(Usage, "write it as NAME=VALUE", "--attr: %q has no =", text)
		}
		flags.request.Attributes[name] = value
	}
	c, err := challenge.Make(ctx, flags.request)
	if err != nil {
		return err
	}
	if flags.inputs != "" {
		if err := writeInputs(ctx, flags.inputs, c, flags.request.Code); err != nil {
			return err
		}
		term.note("wrote the inputs of %d cases to %s", c.Count, flags.inputs)
	}
	if flags.outputs != "" {
		if err := readOutputs(flags.outputs, c, flags.request.Code); err != nil {
			return err
		}
	}
	if flags.asJSON {
		return term.printJSON(c)
	}
	term.print("seed %s", c.Seed)
	for i := range c.Cases {
		term.print("%s", c.Cases[i].Case)
	}
	return nil
}

// caseFile is the file of case i.
func caseFile(dir string, i int) string { return filepath.Join(dir, strconv.Itoa(i)+".safetensors") }

// writeInputs writes the inputs of all cases. The text of the case is in the metadata, as gpuemu cases has it.
func writeInputs(ctx context.Context, dir string, c *receipt.Challenge, code string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return diag.Errorf(WriteFailed, "", "inputs: %w", err)
	}
	for i := range c.Cases {
		inputs, err := challenge.Inputs(c, code, i)
		if err != nil {
			return err
		}
		meta := map[string]string{"case": c.Cases[i].Case}
		if err := tensor.SaveSafetensors(ctx, caseFile(dir, i), inputs, meta); err != nil {
			return command.NotRun(err)
		}
	}
	return nil
}

// readOutputs records the outputs of all cases.
func readOutputs(dir string, c *receipt.Challenge, code string) error {
	return challenge.Fill(c, code, func(i int) ([]tensor.Named, error) {
		f, err := tensor.OpenSafetensors(caseFile(dir, i))
		if err != nil {
			return nil, fmt.Errorf("outputs of case %d: %w", i, err)
		}
		defer f.Close()
		out := make([]tensor.Named, len(f.Tensors))
		for k, n := range f.Tensors { // copies: the file is a memory map
			out[k] = tensor.Named{Name: n.Name, Tensor: n.Tensor.Clone()}
		}
		return out, nil
	})
}
