package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gpuemu/internal/atomicfile"
	"gpuemu/internal/command"
	"gpuemu/internal/diag"
)

// This file implements where reports go: pairs of --format and --output, of which one may be standard output.

// outputs are the flags of a command that writes reports.
type outputs struct {
	formats, files []string
	known          []string
}

// reportOutput is one report to write; file "" is standard output.
type reportOutput struct{ format, file string }

// register adds --format and --output. short is the short form of --output, "" where another flag has it.
func (o *outputs) register(cmd *cobra.Command, short string, known ...string) {
	o.known = known
	f := cmd.Flags()
	f.StringArrayVar(&o.formats, "format", nil,
		"`FORMAT` of the report: "+strings.Join(known, ", ")+" (default text); repeat it with --output for several")
	f.StringArrayVarP(&o.files, "output", short, nil,
		"`FILE` for the report of the --format at the same place (default standard output)")
	completeWith(cmd, "format", func() []string { return known })
}

// pairs matches formats with files: the first format goes to the first file and so on; one format without a file goes
// to standard output.
func (o *outputs) pairs() ([]reportOutput, error) {
	formats := o.formats
	if len(formats) == 0 {
		formats = []string{o.known[0]}
	}
	if len(o.files) > len(formats) || len(formats) > len(o.files)+1 {
		return nil, diag.Errorf(Usage, "give each --format its --output; one may go to standard output",
			"%d formats and %d outputs do not make pairs", len(formats), len(o.files))
	}
	var out []reportOutput
	for i, format := range formats {
		if !slices.Contains(o.known, format) {
			return nil, diag.Errorf(Usage, diag.Suggest(format, o.known, "use one of "+strings.Join(o.known, ", ")),
				"--format: %q is not one of %s", format, strings.Join(o.known, ", "))
		}
		r := reportOutput{format: format}
		if i < len(o.files) {
			path, err := outputPath(o.files[i], "")
			if err != nil {
				return nil, err
			}
			r.file = path
		}
		for _, other := range out {
			if r.file != "" && other.file == r.file {
				return nil, diag.Errorf(Usage, "name another file", "--output %q is given twice", r.file)
			}
		}
		out = append(out, r)
	}
	return out, nil
}

// write lets fill write a report. A file is replaced as a whole, or not at all.
func (r reportOutput) write(term *terminal, fill func(io.Writer) error) error {
	if r.file == "" {
		if err := fill(term.out); err != nil {
			return err
		}
		return term.broken()
	}
	err := replaceFile(r.file, fill)
	if err == nil {
		term.note("wrote %s", r.file)
	}
	return err
}

// replaceFile lets fill write a file, which is the new one as a whole afterwards, or the old one.
func replaceFile(path string, fill func(io.Writer) error) error {
	err := atomicfile.Replace(path, 0o644, fill)
	var fault *atomicfile.Fault
	switch {
	case errors.As(err, &fault):
		return command.NotRun(diag.Errorf(WriteFailed, "", "output %q: %w", path, fault.Err))
	case err != nil:
		return fmt.Errorf("output %q: %w", path, err)
	}
	return nil
}
