package fingerprint

import (
	"fmt"
	"testing"
)

// BenchmarkTree times a repository of 20,000 files in 200 folders, packed: the size for which a verification must
// stay well below two seconds.
func BenchmarkTree(b *testing.B) {
	const files = 20_000
	c := newClone(b)
	for i := range files {
		c.write(fmt.Sprintf("src/d%03d/f%05d.py", i%200, i), fmt.Sprintf("def f%d(x):\n    return x + %d\n", i, i))
	}
	c.commit()
	c.git("repack", "-adq")
	r, s := c.open(), scope(b, "src")
	for name, f := range map[string]func() (int, error){
		"AtCommit":    func() (int, error) { return count(r.AtCommit("HEAD", s, Options{})) },
		"WorkingTree": func() (int, error) { return count(r.WorkingTree(s, Options{})) },
		"Legacy": func() (int, error) {
			d, err := r.Legacy("HEAD", []string{"src"})
			if err != nil {
				return 0, err
			}
			return d.Readings[0].Files, nil
		},
		"CompareCommits": func() (int, error) {
			changes, err := r.CompareCommits("HEAD", "main", s, Options{})
			return files + len(changes), err
		},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if n, err := f(); err != nil || n != files {
					b.Fatalf("%d files, want %d: %v", n, files, err)
				}
			}
		})
	}
}

func count(m *Manifest, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	return len(m.Entries), nil
}
