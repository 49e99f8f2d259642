package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gpuemu/internal/diag"
)

// This file implements the flag values that pflag does not have (seeds, closed sets of words, lists) and what is said
// of flags that are wrong.

// inFlag puts the flag in front of the message of err, and gives it a code where it has none.
func inFlag(flag string, err error) error {
	if diag.CodeOf(err) == "" {
		return diag.Errorf(Usage, "", "--%s: %w", flag, err)
	}
	return fmt.Errorf("--%s: %w", flag, err)
}

// choice is a flag that takes one of a few words; the first is the default.
type choice struct {
	value string
	words []string
}

func newChoice(words ...string) *choice { return &choice{words[0], words} }

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return strings.Join(c.words, "|") }

func (c *choice) Set(text string) error {
	for _, w := range c.words {
		if text == w {
			c.value = w
			return nil
		}
	}
	return fmt.Errorf("%q is not one of %s", text, strings.Join(c.words, ", "))
}

func (c *choice) register(cmd *cobra.Command, name, usage string) {
	cmd.Flags().Var(c, name, usage)
	completeWith(cmd, name, func() []string { return c.words })
}

// completeWith offers words to the shell's completion of a flag. They are asked for only then.
func completeWith(cmd *cobra.Command, flag string, words func() []string) {
	err := cmd.RegisterFlagCompletionFunc(flag,
		func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return words(), cobra.ShellCompDirectiveNoFileComp
		})
	if err != nil {
		panic("cli: internal error: " + err.Error()) // the flag does not exist: a mistake in the code
	}
}

// seed is a flag of 64 unsigned bits, decimal or hexadecimal. pflag's own would read 010 as eight.
type seed uint64

func (s *seed) String() string { return strconv.FormatUint(uint64(*s), 10) }
func (s *seed) Type() string   { return "seed" }

func (s *seed) Set(text string) error {
	digits, base := text, 10
	if rest, ok := strings.CutPrefix(strings.ToLower(text), "0x"); ok {
		digits, base = rest, 16
	}
	n, err := strconv.ParseUint(digits, base, 64)
	if err != nil {
		return fmt.Errorf("%q is not a seed: it must be an integer from 0 to 2^64-1", text)
	}
	*s = seed(n)
	return nil
}

// splitList splits a comma-separated flag and parses each word; an empty flag is nil.
func splitList[T any](flag, text string, parse func(string) (T, error)) ([]T, error) {
	if text == "" {
		return nil, nil
	}
	var list []T
	for word := range strings.SplitSeq(text, ",") {
		v, err := parse(strings.TrimSpace(word))
		if err != nil {
			return nil, inFlag(flag, err)
		}
		list = append(list, v)
	}
	return list, nil
}

// parseAttrs reads the values of a repeated --attr k=v.
func parseAttrs(given []string) (map[string]string, error) {
	attrs := map[string]string{}
	for _, text := range given {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, diag.Errorf(Usage, "write --attr name=value", "--attr %q has no name and value", text)
		}
		if _, twice := attrs[name]; twice {
			return nil, diag.Errorf(Usage, "give it once", "--attr %s is given twice", name)
		}
		attrs[name] = value
	}
	return attrs, nil
}
