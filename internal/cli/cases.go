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

	"gpuemu/internal/command"
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
	attrs                           []string
	seed                            seed
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
	flags := casesFlags{seed: 1}
	format := newChoice("text", "json")
	cmd := &cobra.Command{
		Use:   "cases --op NAME [--seed S] [--count N] [-o DIR]",
		Short: "Print the cases a campaign would run, or write their inputs",
		Long: "Prints the canonical text of the first cases of an operator, one per line. With -o it writes the inputs of\n" +
			"each to DIR/<index>.safetensors instead, with that text in the metadata. The same arguments give the same\n" +
			"bytes on every machine.\n\n" +
			"Value distributions: " + wrapped(distributionNames()) + ".\n" +
			"Shape strategies: " + wrapped(strategyNames()) + ".\n" +
			"Layouts: " + wrapped(layoutNames()) + ".",
		Example: "  gpuemu cases --op softmax --seed 7 --count 100 --values adversarial --dtypes float16,bfloat16",
		Args:    codes.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return runCases(term, env, flags, format.value == "json") },
	}
	f := cmd.Flags()
	f.StringVar(&flags.op, "op", "", "operator of the catalogue: `NAME` or alias")
	f.StringVar(&flags.schema, "schema", "", "JSON `FILE` with a schema of your own, instead of --op")
	f.Var(&flags.seed, "seed", "master seed, 0 to 2^64-1")
	f.IntVar(&flags.count, "count", 10, "number `N` of cases")
	f.StringVar(&flags.values, "values", "", "`NAME` of a value distribution (default mixed)")
	f.StringVar(&flags.shapes, "shapes", "", "`NAME` of a shape strategy (default default)")
	f.StringVar(&flags.dtypes, "dtypes", "", "`LIST` of dtypes, separated by commas (default float32,float16)")
	f.StringVar(&flags.layouts, "layouts", "",
		"`LIST` of layouts, separated by commas (default contiguous,strided,transposed)")
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

func layoutNames() []string {
	layouts := tensor.Layouts()
	words := make([]string, len(layouts))
	for i, l := range layouts {
		words[i] = l.String()
	}
	return words
}

func runCases(term *terminal, env Env, flags casesFlags, asJSON bool) error {
	schema, err := casesSchema(flags)
	if err != nil {
		return err
	}
	if flags.count < 1 {
		return diag.Errorf(Usage, "give --count 1 or more", "--count is %d", flags.count)
	}
	strategy, err := casesStrategy(schema, flags)
	if err != nil {
		return err
	}
	stream, err := gen.Cases(schema, strategy, uint64(flags.seed))
	if err != nil {
		return err
	}
	for _, d := range strategy.DTypes {
		if !slices.Contains(schema.AllowedDTypes(), d) {
			term.note("%s does not take %s: it is left out", schema.Name, d)
		}
	}
	if flags.dir != "" {
		// 0700: inputs may come from a schema that is nobody else's business.
		if err := os.MkdirAll(flags.dir, 0o700); err != nil {
			return diag.Errorf(WriteFailed, "", "output %q: %w", flags.dir, err)
		}
	}
	if err := (&caseMaker{term, schema, stream, flags.dir}).run(env, flags.count, asJSON); err != nil {
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

// casesSchema returns the schema of the catalogue or of the user's file.
func casesSchema(flags casesFlags) (*opspec.Schema, error) {
	switch {
	case flags.op != "" && flags.schema != "":
		return nil, diag.Errorf(Usage, "give one of them", "--op and --schema exclude each other")
	case flags.op != "":
		op, err := findOp(flags.op)
		if err != nil {
			return nil, err
		}
		return op.Schema, nil
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
		return schema, nil
	}
	return nil, diag.Errorf(Usage, "gpuemu ops lists the names", "cases needs --op NAME or --schema FILE")
}

func casesStrategy(schema *opspec.Schema, flags casesFlags) (gen.Strategy, error) {
	st := gen.Strategy{Shapes: flags.shapes, Values: flags.values}
	var err error
	if st.DTypes, err = splitList("dtypes", flags.dtypes, dtype.Parse); err != nil {
		return st, err
	}
	if st.Layouts, err = splitList("layouts", flags.layouts, tensor.ParseLayout); err != nil {
		return st, err
	}
	given, err := parseAttrs(flags.attrs)
	if err != nil {
		return st, err
	}
	attrs, err := schema.ResolveAttrs(given)
	if err != nil {
		return st, inFlag("attr", err)
	}
	st.Attrs = opspec.Attrs{}
	for name := range given {
		st.Attrs[name] = attrs[name]
	}
	return st, nil
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
