package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"gpuemu/internal/campaign"
	"gpuemu/internal/command"
	"gpuemu/internal/config"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/gen"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/tensor"
)

// This file implements the command cases.

// casesFlags are the flags of the command.
type casesFlags struct {
	op, schema, dir                 string
	values, shapes, dtypes, layouts string
	ranks                           string
	attrs                           []string
	seed                            *seed // nil: that of [validation], else 1
	count                           int
}

// caseInfo is the JSON form of one case. The seed is a string: JSON numbers lose bits of it.
type caseInfo struct {
	Index int    `json:"index"`
	Case  string `json:"case"`
	Seed  string `json:"seed"`
	File  string `json:"file,omitempty"`
}

func casesCommand(term *terminal, env Env) *cobra.Command {
	var flags casesFlags
	var master seed
	format := newChoice("text", "json")
	cmd := &cobra.Command{
		Use:   "cases --op NAME [--seed S] [--count N] [-o DIR]",
		Short: "Print the cases a campaign would run, or write their inputs",
		Long: "Prints the canonical text of the first cases of an operator, one per line. With -o it writes the inputs of\n" +
			"each to DIR/<index>.safetensors instead, with that text in the metadata. The same arguments and the same\n" +
			"gpuemu.toml give the same bytes on every machine. The operator is one of gpuemu.toml or of the catalogue;\n" +
			"[validation] decides what neither the operator nor a flag says.\n\n" +
			"Value distributions: " + wrapped(distributionNames()) + ".\n" +
			"Shape strategies: " + wrapped(strategyNames()) + ".\n" +
			"Layouts: " + wrapped(layoutNames()) + ".",
		Example: "  gpuemu cases --op softmax --seed 7 --count 100 --values adversarial --dtypes float16,bfloat16",
		Args:    codes.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("seed") {
				flags.seed = &master
			}
			return runCases(term, env, flags, format.value == "json")
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.op, "op", "", "operator of gpuemu.toml or of the catalogue: `NAME` or alias")
	f.StringVar(&flags.schema, "schema", "", "JSON `FILE` with a schema of your own, instead of --op")
	f.Var(&master, "seed", "master seed, 0 to 2^64-1 (default: that of [validation], else 1)")
	f.IntVar(&flags.count, "count", 10, "number `N` of cases")
	f.StringVar(&flags.values, "values", "", "`NAME` of a value distribution (default: the operator's, mixed)")
	f.StringVar(&flags.shapes, "shapes", "", "`NAME` of a shape strategy (default: the operator's, default)")
	f.StringVar(&flags.dtypes, "dtypes", "",
		"`LIST` of dtypes, separated by commas (default: the operator's, float32,float16)")
	f.StringVar(&flags.layouts, "layouts", "",
		"`LIST` of layouts, separated by commas (default: the operator's, contiguous,strided,transposed)")
	f.StringVar(&flags.ranks, "ranks", "", ranksUsage)
	f.StringArrayVar(&flags.attrs, "attr", nil, "attribute that is not drawn, as `NAME=VALUE`; may be repeated")
	f.StringVarP(&flags.dir, "output", "o", "", "directory `DIR` for the inputs; it is created")
	format.register(cmd, "format", "output format")
	completeWith(cmd, "op", oracle.Names)
	completeWith(cmd, "values", distributionNames)
	completeWith(cmd, "shapes", strategyNames)
	completeWith(cmd, "dtypes", allDTypes)
	completeWith(cmd, "layouts", layoutNames)
	return cmd
}

func distributionNames() []string { return namesOf(gen.ValueDistributions()) }
func strategyNames() []string     { return namesOf(gen.ShapeStrategies()) }

func namesOf(list []gen.Named) []string {
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = n.Name
	}
	return words
}

// ranksUsage is the help of --ranks.
const ranksUsage = "`LIST` of ranks to draw for tensors that may have any, as 1,2,3,4,5 (default: the operator's own)"

// parseRank reads a rank that a tensor may have.
func parseRank(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > tensor.MaxRank {
		return 0, diag.Errorf(Usage, "use numbers from 0 to "+strconv.Itoa(tensor.MaxRank), "%q is no rank", text)
	}
	return n, nil
}

func layoutNames() []string { return namesOfLayouts(tensor.Layouts()) }

func namesOfLayouts(layouts []tensor.Layout) []string {
	words := make([]string, len(layouts))
	for i, l := range layouts {
		words[i] = l.String()
	}
	return words
}

func runCases(term *terminal, env Env, flags casesFlags, asJSON bool) error {
	cfg, err := localConfig(env, term)
	if err != nil {
		return err
	}
	op, err := casesOperator(cfg, flags)
	if err != nil {
		return err
	}
	if flags.count < 1 {
		return diag.Errorf(Usage, "give --count 1 or more", "--count is %d", flags.count)
	}
	stream, err := casesStream(term, op, flags)
	if err != nil {
		return err
	}
	if flags.dir != "" {
		// 0700: inputs may come from a schema that is nobody else's business.
		if err := os.MkdirAll(flags.dir, 0o700); err != nil {
			return diag.Errorf(WriteFailed, "", "output %q: %w", flags.dir, err)
		}
	}
	if err := (&caseMaker{term, op.Schema, stream, flags.dir}).run(env, flags.count, asJSON); err != nil {
		return err
	}
	if flags.dir != "" {
		term.note("wrote the inputs of %d cases to %s", flags.count, flags.dir)
		next := inputsFile(flags.dir, flags.count)
		if _, err := os.Stat(next); err == nil {
			term.note("%s and what follows it are of an earlier run", next)
		}
	}
	return nil
}

// inputsFile is where the inputs of case i go.
func inputsFile(dir string, i int) string { return filepath.Join(dir, strconv.Itoa(i)+".safetensors") }

// caseMaker makes the cases of one command.
type caseMaker struct {
	term   *terminal
	schema *opspec.Schema
	stream *gen.Stream
	dir    string // where inputs go; "": nowhere
}

// run makes the first cases and prints what is asked for.
func (m *caseMaker) run(env Env, count int, asJSON bool) error {
	ctx := context.Background()
	if m.dir != "" {
		interruptible, stop := env.interruptible()
		defer stop()
		ctx = interruptible
	}
	list := m.term.jsonList("cases")
	for i := range count {
		info, err := m.make(ctx, i)
		switch {
		case err != nil && ctx.Err() != nil:
			return command.NotRun(diag.Errorf(Interrupted, "", "interrupted: the inputs of %d of %d cases are in %s", i, count,
				m.dir))
		case err != nil:
			return err
		case asJSON:
			err = list.add(info)
		case m.dir == "":
			err = m.term.printChecked(info.Case)
		}
		if err != nil {
			return err
		}
	}
	if asJSON {
		list.end()
	}
	return nil
}

// make makes case i and, where there is a directory, writes its inputs.
func (m *caseMaker) make(ctx context.Context, i int) (caseInfo, error) {
	if err := ctx.Err(); err != nil {
		return caseInfo{}, err
	}
	c, err := m.stream.Case(i)
	if err != nil {
		err = fmt.Errorf("case %d: %w", i, err)
		if i == 0 {
			return caseInfo{}, err // the arguments leave no case at all
		}
		return caseInfo{}, command.NotRun(err)
	}
	info := caseInfo{Index: i, Case: c.String(), Seed: strconv.FormatUint(c.Seed, 10)}
	if m.dir != "" {
		info.File = inputsFile(m.dir, i)
		if err := writeInputs(ctx, info.File, m.schema, c); err != nil {
			return caseInfo{}, err
		}
		m.term.detail("%s: %s", info.File, info.Case)
	}
	return info, nil
}

// casesOperator returns the operator of that name, or one with the schema of the user's file.
func casesOperator(cfg *config.Config, flags casesFlags) (*campaign.Operator, error) {
	switch {
	case flags.op != "" && flags.schema != "":
		return nil, diag.Errorf(Usage, "give one of them", "--op and --schema exclude each other")
	case flags.op != "":
		return findOp(cfg, flags.op)
	case flags.schema != "":
		text, err := readFile(flags.schema, opspec.MaxSchemaBytes)
		if err != nil {
			return nil, err
		}
		schema, err := opspec.ParseSchema(text)
		if err != nil {
			var e *diag.Error
			if errors.As(err, &e) {
				e.Pos.File = flags.schema
			}
			return nil, err
		}
		return campaign.ResolveSchema(cfg, schema), nil
	}
	return nil, diag.Errorf(Usage, "gpuemu ops lists the names", "cases needs --op NAME or --schema FILE")
}

// casesStream returns the cases that the flags ask for.
func casesStream(term *terminal, op *campaign.Operator, flags casesFlags) (*gen.Stream, error) {
	opt := &campaign.Options{Shapes: flags.shapes, Values: flags.values, Seed: (*uint64)(flags.seed)}
	var err error
	if opt.DTypes, err = splitList("dtypes", flags.dtypes, dtype.Parse); err != nil {
		return nil, err
	}
	if opt.Layouts, err = splitList("layouts", flags.layouts, tensor.ParseLayout); err != nil {
		return nil, err
	}
	if opt.Ranks, err = splitList("ranks", flags.ranks, parseRank); err != nil {
		return nil, err
	}
	attrs, err := parseAttrs(flags.attrs)
	if err != nil {
		return nil, err
	}
	if _, err := op.Schema.ResolveAttrs(attrs); err != nil {
		return nil, inFlag("attr", err)
	}
	stream, err := op.Cases(opt, attrs)
	if err != nil {
		return nil, err
	}
	for _, d := range opt.DTypes {
		if !slices.Contains(op.Schema.AllowedDTypes(), d) {
			term.note("%s does not take %s: it is left out", op.Name, d)
		}
	}
	return stream, nil
}

// writeInputs writes the inputs of a case in the order of the schema. The file holds logical elements; the layout they
// have in memory is part of the case text.
func writeInputs(ctx context.Context, path string, schema *opspec.Schema, c opspec.Case) error {
	inputs, err := gen.Inputs(schema, c)
	if err != nil {
		return command.NotRun(fmt.Errorf("%s: %w", c.String(), err))
	}
	var named []tensor.Named
	for i := range schema.Inputs {
		name := schema.Inputs[i].Name
		named = append(named, tensor.Named{Name: name, Tensor: inputs[name]})
	}
	if err := tensor.SaveSafetensors(ctx, path, named, map[string]string{caseKey: c.String()}); err != nil {
		return command.NotRun(err)
	}
	return nil
}
