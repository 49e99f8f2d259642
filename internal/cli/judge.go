package cli

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/spf13/cobra"

	"gpuemu/internal/command"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/report"
	"gpuemu/internal/tensor"
	"gpuemu/internal/wire"
)

// This file implements the command judge.

// judgeFlags are the flags of the command.
type judgeFlags struct {
	inputs, output, dtype string
	attrs                 []string
	format                *choice
}

func judgeCommand(term *terminal, env Env) *cobra.Command {
	flags := judgeFlags{format: newChoice("text", "json")}
	cmd := &cobra.Command{
		Use:   "judge OP --inputs FILE.safetensors --output FILE.safetensors [--attr name=value]...",
		Short: "Judge an output that was computed elsewhere",
		Long: "Compares the output that a kernel computed from the given inputs with the reference of the op, by\n" +
			"the rules of gpuemu.toml where there is one, else by the error bound of the catalogue. Nothing is executed\n" +
			"but the reference, and nothing is stored. A single input and a single output match under any name. A file\n" +
			"written by gpuemu cases carries its attributes; --attr wins. -v shows the worst elements and the error map.\n" +
			"Exit code 1: the output is wrong; 3: it could not be judged.",
		Example: "  gpuemu cases --op softmax --count 1 -o cases\n" +
			"  gpuemu judge softmax --inputs cases/0.safetensors --output mine.safetensors",
		Args:              oneArg("the name of an op"),
		ValidArgsFunction: completeOp,
		RunE: func(_ *cobra.Command, args []string) error {
			ctx, stop := env.interruptible()
			defer stop()
			return runJudge(ctx, env, term, args[0], flags)
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.inputs, "inputs", "", "safetensors `FILE` with the inputs (required)")
	f.StringVar(&flags.output, "output", "", "safetensors `FILE` with what the kernel computed (required)")
	f.StringArrayVar(&flags.attrs, "attr", nil, "attribute as `NAME=VALUE`; may be repeated")
	f.StringVar(&flags.dtype, "dtype", "", "`DTYPE` of the case, where no input has it")
	flags.format.register(cmd, "format", "output format")
	completeWith(cmd, "dtype", allDTypes)
	return cmd
}

func runJudge(ctx context.Context, env Env, term *terminal, op string, flags judgeFlags) error {
	for _, f := range []struct{ flag, value string }{{"--inputs", flags.inputs}, {"--output", flags.output}} {
		if f.value == "" {
			return diag.Errorf(Usage, "give it as "+f.flag+" FILE.safetensors", "judge needs %s", f.flag)
		}
	}
	inputs, err := tensor.OpenSafetensors(flags.inputs)
	if err != nil {
		return err
	}
	defer inputs.Close()
	outputs, err := tensor.OpenSafetensors(flags.output)
	if err != nil {
		return err
	}
	defer outputs.Close()
	h, err := flags.header(term, op, inputs.Metadata[caseKey])
	if err != nil {
		return err
	}
	e, err := open(ctx, env, term, false)
	if err != nil {
		return err
	}
	defer e.close()
	h.Config, h.Python = e.project.path, e.project.python
	result, err := e.client.Submit(ctx, h, inputs.Tensors, outputs.Tensors)
	if err != nil {
		return err
	}
	if flags.format.value == "json" {
		if err := term.printJSON(result); err != nil {
			return err
		}
	} else {
		term.print("case: " + result.Case)
		text := report.CaseText(result, report.TextOptions{Verbose: term.verbose, Color: term.outColor})
		term.print(strings.TrimRight(text, "\n"))
	}
	switch {
	case result.Verdict.Failed():
		return exitWith(command.ExitFailed)
	case result.Verdict.String() != "pass":
		return exitWith(command.ExitNotRun)
	}
	return nil
}

// header says what is to be judged. text is the case that the inputs were written for, "" if the file names none.
func (f *judgeFlags) header(term *terminal, op, text string) (*wire.SubmitHeader, error) {
	given, err := parseAttrs(f.attrs)
	if err != nil {
		return nil, err
	}
	h := &wire.SubmitHeader{Op: op, Kwargs: map[string]string{}, Store: "none"}
	if text != "" {
		c, err := opspec.ParseCase(text)
		switch {
		case err != nil:
			term.note("%s: the metadata %q is not used: %v", f.inputs, caseKey, err)
		case c.Op != op:
			term.note("%s: the inputs are those of a case of %s; its attributes are not used", f.inputs, c.Op)
		default:
			h.DType = c.DType.String()
			for _, a := range c.Attrs {
				h.Kwargs[a.Name] = fmt.Sprint(a.Value)
			}
		}
	}
	maps.Copy(h.Kwargs, given)
	if f.dtype != "" {
		d, err := dtype.Parse(f.dtype)
		if err != nil {
			return nil, inFlag("dtype", err)
		}
		h.DType = d.String()
	}
	return h, nil
}
