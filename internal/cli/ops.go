package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gpuemu/internal/campaign"
	"gpuemu/internal/command"
	"gpuemu/internal/compare"
	"gpuemu/internal/config"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
)

// This file implements the command ops.

// boundText describes the tolerance regime of every catalogue op; the contract line says what it covers.
const boundText = "per element, the largest error of any implementation that keeps the contract"

// opInfo is the JSON form of an operator.
type opInfo struct {
	Name     string          `json:"name"`
	Aliases  []string        `json:"aliases"`
	Family   string          `json:"family"`
	Doc      string          `json:"doc"`
	Contract string          `json:"contract"`
	Regime   string          `json:"regime"`
	Bound    string          `json:"bound,omitempty"`
	DTypes   []string        `json:"dtypes"` // that it takes
	Schema   json.RawMessage `json:"schema"`

	// Of an operator of gpuemu.toml.
	Configured bool   `json:"configured,omitempty"`
	Candidate  string `json:"candidate,omitempty"`
	Reference  string `json:"reference,omitempty"`

	// What its cases are drawn from.
	Drawn drawnInfo `json:"drawn"`
}

type drawnInfo struct {
	DTypes  []string `json:"dtypes"`
	Layouts []string `json:"layouts"`
	Values  string   `json:"values"`
}

// configuredFamily stands where the catalogue has a family.
const configuredFamily = "gpuemu.toml"

func opsCommand(term *terminal, env Env) *cobra.Command {
	format := newChoice("text", "json", "markdown")
	cmd := &cobra.Command{
		Use:   "ops [NAME]",
		Short: "List the operators of gpuemu.toml and of the catalogue, or describe one",
		Long: "Lists the operators of gpuemu.toml, where one applies, and those of the catalogue. With a name it\n" +
			"describes that operator as a campaign would run it: [validation] decides what the operator does not say.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return diag.Errorf(Usage, "give one name, or none for the list", "unexpected argument %q", args[1])
			}
			return nil
		},
		ValidArgsFunction: completeOp,
		RunE: func(_ *cobra.Command, args []string) error {
			cfg, err := localConfig(env, term)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				op, err := findOp(cfg, args[0])
				if err != nil {
					return err
				}
				return printOps(term, []*campaign.Operator{op}, format.value, true)
			}
			return printOps(term, allOps(term, cfg), format.value, false)
		},
	}
	format.register(cmd, "format", "output format")
	return cmd
}

func printOps(term *terminal, ops []*campaign.Operator, format string, one bool) error {
	switch {
	case format == "json":
		return opsJSON(term, ops)
	case format == "markdown":
		opsMarkdown(term, ops)
	case one:
		return describeOp(term, ops[0])
	default:
		listOps(term, ops)
	}
	return nil
}

// allOps returns the operators of the configuration, then those of the catalogue that it does not have. One that cannot
// be resolved is named: the list is where its owner looks for what to write instead.
func allOps(term *terminal, cfg *config.Config) []*campaign.Operator {
	var ops []*campaign.Operator
	seen := map[string]bool{}
	add := func(name string) {
		if seen[name] {
			return
		}
		seen[name] = true
		op, err := campaign.Resolve(cfg, name)
		if err != nil {
			term.note("left out: %v", err)
			return
		}
		ops = append(ops, op)
	}
	if cfg != nil {
		for _, op := range cfg.Subjects() {
			add(op.Name)
		}
	}
	for _, op := range oracle.Ops() {
		add(op.Name)
	}
	return ops
}

// findOp returns the operator of that name or alias: of the configuration, else of the catalogue.
func findOp(cfg *config.Config, name string) (*campaign.Operator, error) {
	op, err := campaign.Resolve(cfg, name)
	if diag.CodeOf(err) != campaign.UnknownOp {
		return op, err
	}
	var known []string
	if cfg != nil {
		for _, op := range cfg.Subjects() {
			if op.Name == name { // it is known, and names another operator that is not
				return nil, err
			}
			known = append(known, op.Name)
		}
	}
	for _, op := range oracle.Ops() {
		known = append(append(known, op.Name), op.Aliases...)
	}
	return nil, diag.Errorf(UnknownOp, diag.Suggest(name, known, "gpuemu ops lists the names"), "unknown op %q", name)
}

// completeOp offers the names of the catalogue to the shell.
func completeOp(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return oracle.Names(), cobra.ShellCompDirectiveNoFileComp
}

// opsJSON prints operators with their whole schemas.
func opsJSON(t *terminal, ops []*campaign.Operator) error {
	list := make([]opInfo, 0, len(ops))
	for _, op := range ops {
		schema, err := json.Marshal(op.Schema)
		if err != nil {
			return command.NotRun(diag.Errorf(Internal, "", "schema of %s: %w", op.Name, err))
		}
		info := opInfo{Name: op.Name, Aliases: aliasesOf(op), Family: familyOf(op), Configured: op.Configured,
			Candidate: op.Candidate, Reference: op.Reference, Schema: schema,
			DTypes: dtypeNames(op.Schema.AllowedDTypes()),
			Drawn:  drawnInfo{dtypeNames(op.DTypes), namesOfLayouts(op.Layouts), op.Values}}
		if op.Entry != nil {
			info.Doc, info.Contract = op.Entry.Doc, op.Entry.Contract
		}
		regimes, err := regimesOf(op)
		if err != nil {
			return err
		}
		for i, r := range regimes {
			if i > 0 {
				info.Regime += ", "
			}
			info.Regime += r.regime.String()
			if r.regime == compare.Bound {
				info.Bound = boundText
			}
		}
		list = append(list, info)
	}
	return t.printJSON(map[string]any{"ops": list})
}

func aliasesOf(op *campaign.Operator) []string {
	if op.Configured {
		return []string{}
	}
	return append([]string{}, op.Entry.Aliases...)
}

func familyOf(op *campaign.Operator) string {
	if op.Configured {
		return configuredFamily
	}
	return op.Entry.Family
}

// docOf is what the catalogue says of an operator, or what the configuration has for it.
func docOf(op *campaign.Operator) string {
	if op.Configured {
		return cmp.Or(op.Candidate, "no candidate") + ", reference " + cmp.Or(op.Reference, "missing")
	}
	return op.Entry.Doc
}

// regime is how outputs of some dtypes are compared.
type regime struct {
	regime compare.Regime
	text   string // with the tolerances, of fixed ones
}

// regimesOf are the ways in which outputs of the operator are compared, each once.
func regimesOf(op *campaign.Operator) ([]regime, error) {
	var out []regime
	for _, d := range op.DTypes {
		opt, err := op.Judged(d)
		if err != nil {
			return nil, err
		}
		text := opt.Regime.String() + ": "
		switch opt.Regime {
		case compare.Bound:
			text += boundText
		case compare.Spread:
			text += "the spread of the reference"
		default:
			text += fmt.Sprintf("%s atol %g, rtol %g", d, opt.Tol.Abs, opt.Tol.Rel)
		}
		r := regime{opt.Regime, text}
		if !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out, nil
}

// allDTypes lists the names of all dtypes for the shell.
func allDTypes() []string { return dtypeNames(dtype.All()) }

func dtypeNames(types []dtype.DType) []string {
	names := make([]string, len(types))
	for i, d := range types {
		names[i] = d.String()
	}
	return names
}

// listOps prints one line per operator: name, family, formula.
func listOps(t *terminal, ops []*campaign.Operator) {
	rows := make([][]string, len(ops))
	for i, op := range ops {
		rows[i] = []string{op.Name, familyOf(op), docOf(op)}
	}
	t.printTable("", rows)
}

// describeOp prints all there is to know about one operator.
func describeOp(t *terminal, op *campaign.Operator) error {
	regimes, err := regimesOf(op)
	if err != nil {
		return err
	}
	head := [][]string{{"family", familyOf(op)}}
	if op.Configured {
		t.print(op.Name)
		head = append(head, []string{"candidate", cmp.Or(op.Candidate, "none")},
			[]string{"reference", cmp.Or(op.Reference, "none")})
	} else {
		t.print(op.Name + ": " + op.Entry.Doc)
	}
	t.print("")
	if aliases := aliasesOf(op); len(aliases) > 0 {
		head = append(head, []string{"aliases", strings.Join(aliases, ", ")})
	}
	head = append(head, []string{"dtypes", strings.Join(dtypeNames(op.Schema.AllowedDTypes()), ", ")},
		[]string{"drawn", fmt.Sprintf("%s; layouts %s; values %s", strings.Join(dtypeNames(op.DTypes), ", "),
			strings.Join(namesOfLayouts(op.Layouts), ", "), op.Values)})
	if op.Entry != nil {
		head = append(head, []string{"contract", op.Entry.Contract})
	}
	for _, r := range regimes {
		head = append(head, []string{"tolerance", r.text})
	}
	if op.Schema.NaN != "" {
		head = append(head, []string{"nan", op.Schema.NaN})
	}
	if ranks := op.Schema.Ranks.String(); ranks != "" {
		head = append(head, []string{"ranks", ranks})
	}
	t.printTable("", head)
	describeSchema(t, op.Schema)
	return nil
}

// describeSchema prints inputs, outputs, attributes and dimensions.
func describeSchema(t *terminal, schema *opspec.Schema) {
	var dims, inputs, outputs, attrs, relations [][]string
	for i := range schema.Dims {
		dims = append(dims, dimRow(&schema.Dims[i]))
	}
	for _, r := range schema.Relations {
		relations = append(relations, []string{r})
	}
	for i := range schema.Inputs {
		in := &schema.Inputs[i]
		inputs = append(inputs, []string{in.Name, dimList(in.Dims), dtypeText(in.DType), in.Role.String(),
			domainText(&in.Domain)})
	}
	for i := range schema.Outputs {
		outputs = append(outputs, outputRow(&schema.Outputs[i]))
	}
	for i := range schema.Attrs {
		a := &schema.Attrs[i]
		attrs = append(attrs, []string{a.Name, a.EffectiveKind().String(), attrValues(a), a.Doc})
	}
	for _, section := range []struct {
		title string
		rows  [][]string
	}{{"inputs", inputs}, {"outputs", outputs}, {"attributes", attrs}, {"dimensions", dims}, {"relations", relations}} {
		if len(section.rows) > 0 {
			t.print("")
			t.print(section.title + ":")
			t.printTable("  ", section.rows)
		}
	}
}

func dimList(dims []string) string { return "[" + strings.Join(dims, ", ") + "]" }

// dtypeText names a fixed dtype of an input or output; "" is the type of the case.
func dtypeText(name string) string {
	switch name {
	case "":
		return "dtype of the case"
	case opspec.AccDType:
		return "float32 (float64 for float64)"
	}
	if attr, ok := strings.CutPrefix(name, opspec.AttrDType); ok {
		return "value of " + attr
	}
	return name
}

func dimRow(d *opspec.Dim) []string {
	if d.Derived() {
		return []string{d.Name, "= " + d.Expr}
	}
	var words []string
	if len(d.Candidates) > 0 {
		sizes := make([]string, len(d.Candidates))
		for i, c := range d.Candidates {
			sizes[i] = strconv.Itoa(c)
		}
		words = append(words, strings.Join(sizes, " "))
	}
	if d.Tile > 0 {
		words = append(words, "tile "+strconv.Itoa(d.Tile))
	}
	if d.AllowsEmpty() {
		words = append(words, "may be 0")
	}
	if d.Batch {
		words = append(words, "batch")
	}
	return []string{d.Name, strings.Join(words, "; ")}
}

func outputRow(o *opspec.Output) []string {
	var notes []string
	switch o.Ties {
	case "first":
		notes = append(notes, "of tied indexes the first")
	case "any":
		notes = append(notes, "any of tied indexes")
	}
	for _, v := range o.Variants {
		notes = append(notes, fmt.Sprintf("%s where %s = %s", dimList(v.Dims), v.Attr, v.Value))
	}
	for _, d := range o.AlsoDTypes {
		notes = append(notes, "or "+d)
	}
	if o.Saturate {
		notes = append(notes, "saturates")
	}
	return []string{o.Name, dimList(o.Dims), dtypeText(o.DType), strings.Join(notes, ", ")}
}

// attrValues lists the values of an attribute with the default in front. Those of a fixed one are never drawn.
func attrValues(a *opspec.Attr) string {
	text := fmt.Sprintf("default %v", a.DefaultValue())
	free := *a
	free.Fixed = false
	var others []string
	for _, v := range free.NormalValues() {
		if v != a.DefaultValue() {
			others = append(others, fmt.Sprint(v))
		}
	}
	switch list := strings.Join(others, " "); {
	case list == "":
		return text
	case a.Fixed:
		return text + ", on request " + list
	default:
		return text + ", also " + list
	}
}

func domainText(d *opspec.Domain) string {
	var words []string
	if d.Bounded() {
		words = append(words, fmt.Sprintf("from %g to %g", d.Min, d.Max))
	}
	if d.Below != "" {
		words = append(words, "from 0, below "+d.Below)
	}
	for _, flag := range []struct {
		set  bool
		word string
	}{{d.Finite, "finite"}, {d.NonZero, "not zero"}, {d.Distinct, "distinct"}} {
		if flag.set {
			words = append(words, flag.word)
		}
	}
	return strings.Join(words, ", ")
}

// opsMarkdown prints the table of docs/ops.md.
func opsMarkdown(t *terminal, ops []*campaign.Operator) {
	cell := func(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
	t.print("| op | formula | inputs | ranks | attributes | contract |")
	t.print("|---|---|---|---|---|---|")
	for _, op := range ops {
		name, contract := "`"+op.Name+"`", ""
		if op.Entry != nil {
			contract = op.Entry.Contract
		}
		for _, a := range aliasesOf(op) {
			name += ", `" + a + "`"
		}
		var inputs, attrs []string
		for i := range op.Schema.Inputs {
			in := &op.Schema.Inputs[i]
			text := in.Name + dimList(in.Dims)
			if in.DType != "" {
				text += " " + strings.TrimPrefix(in.DType, opspec.AttrDType)
			}
			inputs = append(inputs, text)
		}
		for i := range op.Schema.Attrs {
			if a := &op.Schema.Attrs[i]; !a.Quiet {
				attrs = append(attrs, fmt.Sprintf("%s=%v", a.Name, a.DefaultValue()))
			}
		}
		t.print(fmt.Sprintf("| %s | %s | %s | %s | %s | %s |", name, cell(docOf(op)), cell(strings.Join(inputs, ", ")),
			op.Schema.Ranks.String(), cell(strings.Join(attrs, ", ")), cell(contract)))
	}
}
