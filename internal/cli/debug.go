package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gpuemu/internal/daemon"
	"gpuemu/internal/diag"
	"gpuemu/internal/escape"
	"gpuemu/internal/report"
	"gpuemu/internal/tensor"
	"gpuemu/internal/wire"
)

// This file implements the command debug: an interactive session on stored cases.

func debugCommand(term *terminal, env Env) *cobra.Command {
	return &cobra.Command{
		Use:   "debug [SEED|CASE]",
		Short: "Look into a stored case interactively",
		Long: "Reads commands, one per line, until quit or the end of input:\n\n" + debugHelp +
			"\nOn a terminal there is a history and completion of command names.",
		Example: "  gpuemu debug 8837462910\n  echo 'show' | gpuemu debug 8837462910",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return oneArg("the seed or the text of a case")(cmd, args)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			ctx, stop := env.interruptible()
			defer stop()
			e, err := open(ctx, env, term, false)
			if err != nil {
				return err
			}
			defer e.close()
			d := &debugger{engine: e}
			if len(args) == 1 {
				if err := d.use(ctx, args[0]); err != nil {
					return err
				}
			}
			return d.loop(ctx, env.Stdin)
		},
	}
}

const debugHelp = `  list [OP]              open failures, the newest first
  use SEED|CASE          choose the case to look at
  show                   the case and its result, in full
  reproduce              run it again
  minimize               find the smallest case that fails in the same way, and choose it
  tensor NAME[SLICE]     values of an input: tensor input[0,:,3:7]
  diff                   the worst elements: got, want, bound
  export FILE            write a reproducer (.py) or the inputs (.safetensors)
  help, quit
`

var debugCommands = []string{
	"list", "use", "show", "reproduce", "minimize", "tensor", "diff", "export", "help", "quit",
}

// debugger is one session. The case it is about is nil until one is chosen.
type debugger struct {
	*engine
	reply *daemon.ReproduceReply
	// inputs are fetched when first looked at.
	inputs []tensor.Named
}

// loop reads and obeys lines. A wrong command is said and forgotten; only the end of input or quit end the session.
func (d *debugger) loop(ctx context.Context, in io.Reader) error {
	lines := newLineReader(in, d.term, debugCommands)
	for {
		line, err := lines.next("gpuemu> ")
		if err != nil || ctx.Err() != nil {
			return nil // end of input
		}
		quit, err := d.obey(ctx, strings.TrimSpace(line))
		if err != nil {
			d.term.fail(err)
		}
		if err := d.term.flush(); err != nil {
			return stdoutError(err)
		}
		if quit {
			return nil
		}
	}
}

// obey runs one line.
func (d *debugger) obey(ctx context.Context, line string) (quit bool, err error) {
	name, arg, _ := strings.Cut(line, " ")
	arg = strings.TrimSpace(arg)
	switch name {
	case "":
	case "quit", "exit", "q":
		return true, nil
	case "help", "?":
		d.term.print(strings.TrimRight(debugHelp, "\n"))
	case "list":
		err = d.list(ctx, arg)
	case "use":
		err = d.use(ctx, arg)
	case "export":
		if err = d.chosen(); err == nil && arg == "" {
			err = diag.Errorf(Usage, "export FILE.py or FILE.safetensors", "export: no file given")
		}
		if err == nil {
			err = d.export(ctx, d.reply, arg)
		}
	case "show", "diff", "reproduce", "minimize", "tensor":
		if err = d.chosen(); err == nil {
			err = d.about(ctx, name, arg)
		}
	default:
		err = diag.Errorf(UnknownCommand, diag.Suggest(name, debugCommands, "help lists the commands"),
			"unknown command %q", name)
	}
	return false, err
}

func (d *debugger) chosen() error {
	if d.reply == nil {
		return diag.Errorf(Usage, "list shows stored failures; use SEED chooses one", "no case is chosen")
	}
	return nil
}

// about runs a command on the chosen case.
func (d *debugger) about(ctx context.Context, name, arg string) error {
	switch name {
	case "show":
		d.printReplay(d.reply)
	case "reproduce":
		return d.use(ctx, d.reply.Case)
	case "diff":
		d.printWorst()
	case "tensor":
		return d.tensor(ctx, arg)
	case "minimize":
		return d.minimize(ctx)
	}
	return nil
}

func (d *debugger) list(ctx context.Context, op string) error {
	results, err := d.client.Failures(ctx, &wire.FailuresRequest{Config: d.project.path, Op: op, Limit: 20,
		Open: true})
	if err != nil {
		return err
	}
	if len(results) == 0 {
		d.term.print("no failures are open")
		return nil
	}
	var rows [][]string
	for _, r := range results {
		rows = append(rows, []string{strconv.FormatUint(uint64(r.Seed), 10), r.Verdict.String(), r.Op, r.DType,
			escape.Text(shorten(r.Message, 80))})
	}
	d.term.printTable("", rows)
	return nil
}

// use chooses a case and runs it.
func (d *debugger) use(ctx context.Context, target string) error {
	seed, text, err := caseArg(target)
	if err != nil {
		return err
	}
	reply, err := d.client.Reproduce(ctx, &wire.ReproduceRequest{Config: d.project.path,
		Python: d.project.python, Env: d.project.env,
		Seed: seed, Case: text})
	if err != nil {
		return err
	}
	d.reply, d.inputs = reply, nil
	d.term.print("case: " + reply.Case)
	d.term.print(replayLine(reply))
	return nil
}

// printWorst prints the worst elements of all outputs.
func (d *debugger) printWorst() {
	res := d.reply.Result
	if res == nil {
		res = d.reply.Stored
	}
	n := 0
	for i := range res.Outputs {
		o := &res.Outputs[i]
		rows := [][]string{{"INDEX", "GOT", "WANT", "BOUND", "ABS", "ULP", "WHAT"}}
		for _, w := range o.Worst {
			n++
			rows = append(rows, []string{fmt.Sprint(w.Index), w.Got, w.Want, fmt.Sprintf("%.3g", w.Bound),
				fmt.Sprintf("%.3g", w.Abs), strconv.FormatUint(w.ULP, 10), w.Kind})
		}
		d.term.print(fmt.Sprintf("output %s: %d of %d elements are wrong", o.Name, o.Mismatched, o.Elements))
		if len(rows) > 1 {
			d.term.printTable("  ", rows)
		}
	}
	if n == 0 {
		d.term.print("no element is wrong")
	}
}

func (d *debugger) minimize(ctx context.Context) error {
	reply, err := d.client.Minimize(ctx, &wire.MinimizeRequest{Config: d.project.path,
		Python: d.project.python, Env: d.project.env,
		Case: d.reply.Case}, nil)
	if err != nil {
		return err
	}
	d.printMinimized(reply)
	return d.use(ctx, reply.Case)
}

// tensor prints an input or a slice of it.
func (d *debugger) tensor(ctx context.Context, arg string) error {
	if d.inputs == nil {
		var b bytes.Buffer
		req := &wire.TensorsRequest{Config: d.project.path, Case: d.reply.Case}
		if d.reply.Stored != nil {
			req.Seed = (*wire.Seed)(&d.reply.Stored.Seed)
		}
		if err := d.client.Tensors(ctx, req, &b); err != nil {
			return err
		}
		list, _, err := tensor.ParseSafetensors(b.Bytes())
		if err != nil {
			return err
		}
		d.inputs = list
	}
	name, slice, _ := strings.Cut(arg, "[")
	var names []string
	for _, in := range d.inputs {
		names = append(names, in.Name)
		if in.Name == strings.TrimSpace(name) {
			t, err := sliced(in.Tensor, strings.TrimSuffix(strings.TrimSpace(slice), "]"))
			if err != nil {
				return err
			}
			d.term.print(fmt.Sprintf("%s %s%s", in.Name, in.Tensor.DType, in.Tensor.Shape))
			d.term.print(report.TensorText(t))
			return nil
		}
	}
	return diag.Errorf(Usage, "the case has "+strings.Join(names, ", "), "there is no tensor %q", strings.TrimSpace(name))
}

// sliced applies a slice such as 0,:,3:7 to a tensor; "" is all of it.
func sliced(t *tensor.Tensor, text string) (*tensor.Tensor, error) {
	if text == "" {
		return t, nil
	}
	parts := strings.Split(text, ",")
	if len(parts) > len(t.Shape) {
		return nil, diag.Errorf(Usage, "give at most one range per axis", "%d ranges for %d axes", len(parts), len(t.Shape))
	}
	for axis, part := range parts {
		lo, hi, err := parseRange(strings.TrimSpace(part), t.Shape[axis])
		if err != nil {
			return nil, err
		}
		if t, err = t.Slice(axis, lo, hi, 1); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// parseRange reads i, lo:hi, lo:, :hi or : within an axis of size n; negative numbers count from the end.
func parseRange(text string, n int) (lo, hi int, err error) {
	bad := diag.Errorf(Usage, "write an index or lo:hi", "%q is not a range within %d elements", text, n)
	at := func(s string, otherwise int) int {
		if s == "" {
			return otherwise
		}
		i, err := strconv.Atoi(s)
		if err != nil {
			return -1
		}
		if i < 0 {
			i += n
		}
		return i
	}
	first, last, isRange := strings.Cut(text, ":")
	lo = at(first, 0)
	if hi = lo + 1; isRange {
		hi = min(at(last, n), n)
	}
	if text == "" || lo < 0 || hi < lo || hi > n || !isRange && lo >= n {
		return 0, 0, bad
	}
	return lo, hi, nil
}
