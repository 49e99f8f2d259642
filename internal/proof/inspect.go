package proof

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"gpuemu/internal/diag"
	"gpuemu/internal/receipt"
)

// This file implements the command inspect: what a receipt says, and its signed bytes for other tools. It believes
// nothing and checks no policy.

// inspection is what inspect --json prints.
type inspection struct {
	File       string            `json:"file"`
	Format     string            `json:"format"`
	Digest     string            `json:"digest"` // of the signed bytes
	Signatures []signatureInfo   `json:"signatures"`
	Weaknesses []string          `json:"weaknesses"`
	Predicate  receipt.Predicate `json:"predicate"`
}

func inspectCommand(env Env, term *terminal) *cobra.Command {
	var asJSON bool
	var dir string
	cmd := &cobra.Command{
		Use:   "inspect FILE [--extract DIR] [--json]",
		Short: "Print what a receipt says, without believing it",
		Long: "Prints what a receipt says. Nothing is verified but that each signature was made by the key inside it:\n" +
			"whose key that is, verify tells. --extract writes the signed bytes and the signatures for ssh-keygen:\n\n" +
			"  ssh-keygen -Y verify -f allowed_signers -I NAME -n gpu-proof@gpuemu -s DIR/payload-1.sig < DIR/payload.json",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return diag.Errorf(Usage, cmd.CommandPath()+" --help shows its use", "inspect takes one receipt, got %d",
					len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			b, err := readReceipt(env, args[0])
			if err != nil {
				return err
			}
			r, err := receipt.Parse(args[0], b)
			if err != nil {
				return refused(err)
			}
			if dir != "" {
				if err := extract(term, r, dir); err != nil {
					return err
				}
			}
			if asJSON {
				return term.printJSON(inspection{File: args[0], Format: r.Format, Digest: r.Digest(), Signatures: signatures(r),
					Weaknesses: append([]string{}, r.Weaknesses...), Predicate: r.Predicate})
			}
			return showReceipt(term, r)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON document")
	cmd.Flags().StringVar(&dir, "extract", "", "`DIR` for the signed bytes and the signatures; it is created")
	return cmd
}

// extract writes payload and signatures. Their names are ours, not the receipt's.
func extract(term *terminal, r *receipt.Receipt, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return diag.Errorf(WriteFailed, "", "--extract: %w", err)
	}
	files := r.Extract()
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		file := filepath.Join(dir, name)
		if info, err := os.Lstat(file); err == nil && !info.Mode().IsRegular() {
			// The bytes are a stranger's, and so may be a link that waits for them.
			return diag.Errorf(WriteFailed, "take it away, or name another directory", "--extract: %s is no regular file", file)
		}
		if err := writeFile(file, files[name]); err != nil {
			return err
		}
		term.note("wrote %s", file)
	}
	return nil
}

func showReceipt(t *terminal, r *receipt.Receipt) error {
	t.print("%s: format %s, digest %s", r.File, r.Format, r.Digest())
	for _, line := range statementLines(&r.Predicate) {
		t.print("  %-9s %s", line[0], line[1])
	}
	for i, s := range signatures(r) {
		switch {
		case s.Fault != "":
			t.mark(red, "bad", "signature %d: %s", i+1, s.Fault)
		case s.Type == "raw":
			t.print("  signature %d: raw %s, says it is by %q with key %s", i+1, s.Algorithm, s.Claims, s.Key)
		default:
			t.print("  signature %d: %s %s, good for that key", i+1, s.Type, s.Key)
		}
	}
	for _, text := range r.Weaknesses {
		t.mark(yellow, "weak", "%s", text)
	}
	for _, test := range r.Predicate.Tests {
		t.print("  %-7s %s%s", test.Outcome, test.ID, checksOf(test))
	}
	return nil
}

// checksOf are the names of the comparisons inside a test.
func checksOf(test receipt.Test) string {
	if len(test.Checks) == 0 {
		return ""
	}
	b, err := json.Marshal(func() (names []string) {
		for _, c := range test.Checks {
			names = append(names, c.Name+"="+c.Outcome)
		}
		return names
	}())
	if err != nil {
		return ""
	}
	return " " + string(b)
}
