package internal_test

import (
	"go/ast"
	"go/types"
	"path/filepath"
	"testing"
)

// renames are the files that may rename others: the writer that replaces files, and what gives files names without
// replacing any.
var renames = map[string]bool{
	"internal/atomicfile/atomicfile.go": true,
	"internal/store/tensors.go":         true, // by the hash of the content
	"internal/store/store.go":           true, // an empty database, where there is none
	"internal/cli/rotate.go":            true, // logs, to older numbers
}

// TestOneAtomicWriter: files are replaced by package atomicfile alone, which keeps their permissions and links.
func TestOneAtomicWriter(t *testing.T) {
	used := map[string]bool{}
	for _, p := range checkedPackages(t) {
		for _, file := range p.Files {
			name := p.rel() + "/" + filepath.Base(p.Fset.Position(file.Pos()).Filename)
			ast.Inspect(file, func(n ast.Node) bool {
				id, ok := n.(*ast.Ident)
				if !ok {
					return true
				}
				f, ok := p.Info.Uses[id].(*types.Func)
				if !ok || f.FullName() != "os.Rename" && f.FullName() != "(*os.Root).Rename" {
					return true
				}
				if used[name] = true; !renames[name] {
					t.Errorf("%s renames a file: use package atomicfile to replace it", p.Fset.Position(id.Pos()))
				}
				return true
			})
		}
	}
	for name := range renames {
		if !used[name] {
			t.Errorf("internal/files_test.go allows %s to rename files, which it does not: take it out", name)
		}
	}
}
