package cli

import (
	"fmt"
	"math"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	"gpuemu/internal/campaign"
	"gpuemu/internal/command"
	"gpuemu/internal/compare"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/tensor"
)

// This file implements the command oracle.

// caseKey is the metadata key under which input files of ours carry the canonical text of their case.
const caseKey = "case"

// oracleFlags are the flags of the command.
type oracleFlags struct {
	inputs, output, dtype string
	attrs                 []string
}

func oracleCommand(term *terminal, env Env) *cobra.Command {
	var flags oracleFlags
	cmd := &cobra.Command{
		Use:   "oracle NAME --inputs FILE.safetensors [--attr name=value]... -o FILE.safetensors",
		Short: "Compute the fp64 reference of an operator and its error bound",
		Long: "Computes the built-in fp64 reference of an operator on the tensors of a file and writes, for every output,\n" +
			"<output> and <output>.bound in float64. An element on which the contract does not decide has the bound +Inf.\n" +
			"A single input matches under any name. The operator is one of gpuemu.toml, with the inputs and attributes it\n" +
			"has there, or of the catalogue. A file written by gpuemu cases carries its attributes; --attr wins.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return diag.Errorf(Usage, "gpuemu ops lists the names", "oracle takes the name of one op, got %d", len(args))
			}
			return nil
		},
		ValidArgsFunction: completeOp,
		RunE:              func(_ *cobra.Command, args []string) error { return runOracle(term, env, args[0], flags) },
	}
	f := cmd.Flags()
	f.StringVar(&flags.inputs, "inputs", "", "safetensors `FILE` with the inputs (required)")
	f.StringArrayVar(&flags.attrs, "attr", nil, "attribute as `NAME=VALUE`; may be repeated")
	f.StringVar(&flags.dtype, "dtype", "", "`DTYPE` of the case, where no input has it")
	f.StringVarP(&flags.output, "output", "o", "", "safetensors `FILE` to write (required)")
	completeWith(cmd, "dtype", allDTypes)
	return cmd
}

func runOracle(term *terminal, env Env, name string, flags oracleFlags) error {
	cfg, err := localConfig(env, term)
	if err != nil {
		return err
	}
	op, err := findOp(cfg, name)
	if err != nil {
		return err
	}
	if op.Entry == nil {
		return diag.Errorf(Usage, "set reference = \"builtin:NAME\" or schema = \"NAME\" of the catalogue (gpuemu ops)",
			"op %q is in gpuemu.toml, and the catalogue has no reference for it", name)
	}
	for _, f := range []struct{ flag, value string }{{"--inputs", flags.inputs}, {"-o", flags.output}} {
		if f.value == "" {
			return diag.Errorf(Usage, "give it as "+f.flag+" FILE.safetensors", "oracle needs %s", f.flag)
		}
	}
	output, err := outputPath(flags.output, flags.inputs)
	if err != nil {
		return err
	}
	file, err := tensor.OpenSafetensors(flags.inputs)
	if err != nil {
		return err
	}
	defer file.Close()
	inputs, err := matchInputs(op.Schema, file.Tensors)
	if err != nil {
		return fmt.Errorf("%s: %w", flags.inputs, err)
	}
	attrs, d, err := caseSettings(term, op, flags, file.Metadata[caseKey])
	if err != nil {
		return err
	}
	named := make(map[string]*tensor.Tensor, len(inputs))
	for name, in := range inputs {
		named[op.EntryInput(name)] = in
	}
	wants, err := oracle.Evaluate(op.Entry, named, attrs, d)
	if err != nil {
		return fmt.Errorf("%s: %w", flags.inputs, err)
	}
	var results []tensor.Named
	for i := range op.Entry.Schema.Outputs {
		o := &op.Entry.Schema.Outputs[i]
		value, bound := wantTensors(wants[o.Name])
		results = append(results, tensor.Named{Name: o.Name, Tensor: value},
			tensor.Named{Name: o.Name + ".bound", Tensor: bound})
	}
	ctx, stop := env.interruptible() // not before: until here nothing is left behind
	defer stop()
	err = tensor.SaveSafetensors(ctx, output, results, map[string]string{"op": op.Name})
	switch {
	case ctx.Err() != nil && err != nil:
		return command.NotRun(diag.Errorf(Interrupted, "", "interrupted: %s is not written", flags.output))
	case err != nil:
		return command.NotRun(err)
	}
	for i := range op.Entry.Schema.Outputs {
		o := &op.Entry.Schema.Outputs[i]
		term.note("%s: %s %s", op.Name, o.Name, wantSummary(wants[o.Name]))
	}
	term.note("wrote %s", flags.output)
	return nil
}

// matchInputs gives each input of the schema its tensor. Names must be the schema's; a single input matches under any
// name, because nobody agrees on how to call it.
func matchInputs(s *opspec.Schema, given []tensor.Named) (map[string]*tensor.Tensor, error) {
	inputs := make(map[string]*tensor.Tensor, len(given))
	if len(s.Inputs) == 1 && len(given) == 1 {
		inputs[s.Inputs[0].Name] = given[0].Tensor
		return inputs, nil
	}
	want := make(map[string]bool, len(s.Inputs))
	for i := range s.Inputs {
		want[s.Inputs[i].Name] = true
	}
	var extra, missing, names []string
	for _, g := range given {
		inputs[g.Name] = g.Tensor
		if !want[g.Name] {
			extra = append(extra, g.Name)
		}
	}
	for i := range s.Inputs {
		name := s.Inputs[i].Name
		names = append(names, name)
		if inputs[name] == nil {
			missing = append(missing, name)
		}
	}
	sort.Strings(extra)
	hint := fmt.Sprintf("%s takes %s", s.Name, strings.Join(names, ", "))
	switch {
	case len(missing) > 0 && len(extra) > 0:
		return nil, diag.Errorf(BadInput, hint, "input %q is missing (the file has %q)", missing[0], extra)
	case len(missing) > 0:
		return nil, diag.Errorf(BadInput, hint, "input %q is missing", missing[0])
	case len(extra) > 0:
		return nil, diag.Errorf(BadInput, hint, "tensor %q is not an input of %s", extra[0], s.Name)
	}
	return inputs, nil
}

// caseSettings returns attributes and dtype: those of the case the inputs were written for, then those of the flags.
func caseSettings(
	term *terminal, op *campaign.Operator, flags oracleFlags, text string,
) (opspec.Attrs, dtype.DType, error) {
	given, err := parseAttrs(flags.attrs)
	if err != nil {
		return nil, 0, err
	}
	attrs, err := op.Schema.ResolveAttrs(given)
	if err != nil {
		return nil, 0, inFlag("attr", err)
	}
	for name, v := range op.Attrs {
		if _, overridden := given[name]; !overridden {
			attrs[name] = v
		}
	}
	d := dtype.Invalid
	if text != "" {
		c, err := opspec.ParseCase(text)
		switch {
		case err != nil:
			term.note("%s: the metadata %q is not used: %v", flags.inputs, caseKey, err)
		case c.Op != op.Name:
			term.note("%s: the inputs are those of a case of %s; its attributes are not used", flags.inputs, c.Op)
		default:
			term.detail("case of the inputs: %s", text)
			d = c.DType
			if err := takeAttrs(attrs, op.Schema, c, given); err != nil {
				return nil, 0, fmt.Errorf("%s: metadata %q: %w", flags.inputs, caseKey, err)
			}
		}
	}
	if flags.dtype != "" {
		if d, err = dtype.Parse(flags.dtype); err != nil {
			return nil, 0, inFlag("dtype", err)
		}
	}
	return attrs, d, nil
}

// takeAttrs sets the attributes of a case except for those given. A file can hold anything: the values are checked
// like those of a flag.
func takeAttrs(attrs opspec.Attrs, s *opspec.Schema, c opspec.Case, given map[string]string) error {
	for _, a := range c.Attrs {
		if _, overridden := given[a.Name]; overridden {
			continue
		}
		attr, ok := s.Attr(a.Name)
		if !ok {
			return diag.Errorf(BadInput, "use inputs that this version of gpuemu cases wrote",
				"%s has no attribute %q", s.Name, a.Name)
		}
		v, err := attr.Normal(a.Value)
		if err != nil {
			return err
		}
		attrs[a.Name] = v
	}
	return nil
}

// wantTensors turns a reference into the two float64 tensors of the output file.
func wantTensors(w *compare.Want) (value, bound *tensor.Tensor) {
	values, bounds := w.Value, make([]float64, w.Shape.Elems())
	if w.Exact != nil {
		values = w.Exact.Float64s()
	}
	copy(bounds, w.Bound)
	for i, u := range w.Undetermined {
		if u {
			bounds[i] = math.Inf(1)
		}
	}
	return tensor.FromFloat64s(dtype.Float64, w.Shape, values), tensor.FromFloat64s(dtype.Float64, w.Shape, bounds)
}

// wantSummary says what an output is: its type, its shape, and how sure the oracle is.
func wantSummary(w *compare.Want) string {
	undetermined, largest := 0, 0.0
	for i := range w.Shape.Elems() {
		switch {
		case w.Undetermined != nil && w.Undetermined[i]:
			undetermined++
		case w.Bound != nil && w.Bound[i] > largest:
			largest = w.Bound[i]
		}
	}
	return fmt.Sprintf("%s%s, largest bound %.3g, %d of %d elements undetermined",
		w.DType, w.Shape, largest, undetermined, w.Shape.Elems())
}
