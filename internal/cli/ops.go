package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gpuemu/internal/command"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
)

// This file implements the command ops.

// boundText describes the tolerance regime of every catalogue op; the contract line says what it covers.
const boundText = "per element, the largest error of any implementation that keeps the contract"

// opInfo is the JSON form of a catalogue entry.
type opInfo struct {
	Name     string          `json:"name"`
	Aliases  []string        `json:"aliases"`
	Family   string          `json:"family"`
	Doc      string          `json:"doc"`
	Contract string          `json:"contract"`
	Regime   string          `json:"regime"`
	Bound    string          `json:"bound"`
	DTypes   []string        `json:"dtypes"`
	Schema   json.RawMessage `json:"schema"`
}

func opsCommand(term *terminal) *cobra.Command {
	format := newChoice("text", "json", "markdown")
	cmd := &cobra.Command{
		Use:   "ops [NAME]",
		Short: "List the built-in operators, or describe one",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return diag.Errorf(Usage, "give one name, or none for the list", "unexpected argument %q", args[1])
			}
			return nil
		},
		ValidArgsFunction: completeOp,
		RunE: func(_ *cobra.Command, args []string) error {
			ops := oracle.Ops()
			if len(args) == 1 {
				op, err := findOp(args[0])
				if err != nil {
					return err
				}
				ops = []*oracle.Op{op}
			}
			switch {
			case format.value == "json":
				return opsJSON(term, ops)
			case format.value == "markdown":
				opsMarkdown(term, ops)
			case len(args) == 1:
				describeOp(term, ops[0])
			default:
				listOps(term, ops)
			}
			return nil
		},
	}
	format.register(cmd, "format", "output format")
	return cmd
}

// findOp returns the catalogue entry of that name or alias.
func findOp(name string) (*oracle.Op, error) {
	if op, ok := oracle.Lookup(name); ok {
		return op, nil
	}
	var known []string
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

// opsJSON prints entries with their whole schemas.
func opsJSON(t *terminal, ops []*oracle.Op) error {
	list := make([]opInfo, 0, len(ops))
	for _, op := range ops {
		schema, err := json.Marshal(op.Schema)
		if err != nil {
			return command.NotRun(diag.Errorf(Internal, "", "schema of %s: %w", op.Name, err))
		}
		list = append(list, opInfo{
			Name: op.Name, Aliases: append([]string{}, op.Aliases...), Family: op.Family, Doc: op.Doc,
			Contract: op.Contract, Regime: "bound", Bound: boundText, Schema: schema,
			DTypes: dtypeNames(op.Schema.AllowedDTypes()),
		})
	}
	return t.printJSON(map[string]any{"ops": list})
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

// listOps prints one line per entry: name, family, formula.
func listOps(t *terminal, ops []*oracle.Op) {
	rows := make([][]string, len(ops))
	for i, op := range ops {
		rows[i] = []string{op.Name, op.Family, op.Doc}
	}
	t.printTable("", rows)
}

// describeOp prints all there is to know about one entry.
func describeOp(t *terminal, op *oracle.Op) {
	t.print(op.Name + ": " + op.Doc)
	t.print("")
	head := [][]string{{"family", op.Family}}
	if len(op.Aliases) > 0 {
		head = append(head, []string{"aliases", strings.Join(op.Aliases, ", ")})
	}
	head = append(head, []string{"dtypes", strings.Join(dtypeNames(op.Schema.AllowedDTypes()), ", ")},
		[]string{"contract", op.Contract}, []string{"tolerance", "bound: " + boundText})
	if op.Schema.NaN != "" {
		head = append(head, []string{"nan", op.Schema.NaN})
	}
	t.printTable("", head)
	var dims, inputs, outputs, attrs, relations [][]string
	for i := range op.Schema.Dims {
		dims = append(dims, dimRow(&op.Schema.Dims[i]))
	}
	for _, r := range op.Schema.Relations {
		relations = append(relations, []string{r})
	}
	for i := range op.Schema.Inputs {
		in := &op.Schema.Inputs[i]
		inputs = append(inputs, []string{in.Name, dimList(in.Dims), dtypeText(in.DType), in.Role.String(),
			domainText(&in.Domain)})
	}
	for i := range op.Schema.Outputs {
		outputs = append(outputs, outputRow(&op.Schema.Outputs[i]))
	}
	for i := range op.Schema.Attrs {
		a := &op.Schema.Attrs[i]
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
func opsMarkdown(t *terminal, ops []*oracle.Op) {
	cell := func(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
	t.print("| op | formula | inputs | attributes | contract |")
	t.print("|---|---|---|---|---|")
	for _, op := range ops {
		name := "`" + op.Name + "`"
		for _, a := range op.Aliases {
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
		t.print(fmt.Sprintf("| %s | %s | %s | %s | %s |", name, cell(op.Doc), cell(strings.Join(inputs, ", ")),
			cell(strings.Join(attrs, ", ")), cell(op.Contract)))
	}
}
