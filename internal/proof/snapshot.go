package proof

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpuemu/internal/command"
	"gpuemu/internal/diag"
	"gpuemu/internal/fingerprint"
)

// This file implements the command snapshot: the digest of the code that lies in the working tree. A test runner calls
// it before the first and after the last test.

// scopeFlags say which part of a repository counts.
type scopeFlags struct {
	repo                    string
	paths, exclude, outputs []string
}

func (s *scopeFlags) register(f *pflag.FlagSet) {
	f.StringVar(&s.repo, "repo", ".", "`DIR` in the repository")
	f.StringArrayVar(&s.paths, "path", nil, "`PATH` from the top of the repository that counts; may be repeated "+
		"(default src and tests)")
	f.StringArrayVar(&s.exclude, "exclude", nil, "`PATH` that does not count; may be repeated (default gpu-proof.json)")
	f.StringArrayVar(&s.outputs, "output", nil, "`PATH` of a build output that Git ignores; may be repeated")
}

// Defaults of a scope are those of the original.
var (
	defaultScope   = []string{"src", "tests"}
	defaultReceipt = "gpu-proof.json"
)

func (s *scopeFlags) fill() {
	if len(s.paths) == 0 {
		s.paths = defaultScope
	}
	if s.exclude == nil {
		s.exclude = []string{defaultReceipt}
	}
}

// snapshot is what the command prints.
type snapshot struct {
	Digest string `json:"digest"`
	Files  int    `json:"files"`
	Top    string `json:"top"`  // of the repository
	Root   string `json:"root"` // --repo, from the top
}

func snapshotCommand(env Env, term *terminal) *cobra.Command {
	var scope scopeFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "snapshot [--repo DIR] [--path PATH]... [--output PATH]...",
		Short: "Print the digest of the code in the working tree",
		Long: "Hashes all files of the paths as they lie there, tracked or not, but for those that Git ignores. A test\n" +
			"runner takes one snapshot before the first test and one after the last.",
		Args: codes.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			ctx, stop := env.context()
			defer stop()
			_, m, snap, err := takeSnapshot(ctx, scope)
			if err != nil {
				return err
			}
			if asJSON {
				return term.printJSON(snap)
			}
			for _, path := range m.HiddenCode() {
				term.note("not hashed, Git ignores it: %s (name it with --output if the tests use it)", path)
			}
			term.print("%s", snap.Digest)
			return nil
		},
	}
	scope.register(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON document")
	return cmd
}

// takeSnapshot hashes the working tree. What cannot be hashed is a refusal, what Git does not answer is not known.
func takeSnapshot(ctx context.Context, s scopeFlags) (*fingerprint.Repo, *fingerprint.Manifest, *snapshot, error) {
	s.fill()
	repo, err := openRepo(ctx, s.repo)
	if err != nil {
		return nil, nil, nil, err
	}
	scope, err := fingerprint.ParseScope(s.paths)
	if err != nil {
		return nil, nil, nil, err
	}
	m, err := repo.WorkingTree(scope, fingerprint.Options{Exclude: s.exclude, Outputs: s.outputs})
	if err != nil {
		return nil, nil, nil, gitError(err)
	}
	root, err := rootOf(repo.Top(), s.repo)
	if err != nil {
		return nil, nil, nil, err
	}
	return repo, m, &snapshot{Digest: m.Digest(), Files: len(m.Entries), Top: repo.Top(), Root: root}, nil
}

func openRepo(ctx context.Context, dir string) (*fingerprint.Repo, error) {
	repo, err := fingerprint.Open(ctx, dir)
	switch {
	case diag.CodeOf(err) == fingerprint.NoRepo:
		return nil, err // the wrong directory: a fault of the arguments
	case err != nil:
		return nil, gitError(err)
	}
	return repo, nil
}

// gitError: an error that says nothing about the content of a repository is no refusal and no fault of the arguments.
func gitError(err error) error {
	if fingerprint.CannotTell(err) {
		return command.NotRun(err)
	}
	return err
}

// rootOf is dir as seen from the top of its repository.
func rootOf(top, dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", readError(err)
	}
	if abs, err = filepath.EvalSymlinks(abs); err != nil {
		return "", readError(err)
	}
	if real, err := filepath.EvalSymlinks(top); err == nil {
		top = real
	}
	root, err := filepath.Rel(top, abs)
	if err != nil || root != "." && !filepath.IsLocal(root) {
		return "", diag.Errorf(Usage, "", "%s is not inside %s", dir, top)
	}
	return filepath.ToSlash(root), nil
}
