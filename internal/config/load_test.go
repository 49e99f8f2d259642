package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuemu/internal/diag"
)

// plant writes files under a directory and returns it.
func plant(t *testing.T, files ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		path := filepath.Join(dir, f)
		if strings.HasSuffix(f, "/") {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFind(t *testing.T) {
	for _, tt := range []struct {
		name      string
		files     []string
		dir, home string
		want      string // "": not found
	}{
		{"here", []string{"a/gpuemu.toml"}, "a", "", "a/gpuemu.toml"},
		{"here, outside of everything", []string{"a/gpuemu.toml", "h/"}, "a", "h", "a/gpuemu.toml"},
		{"not above, outside of everything", []string{"gpuemu.toml", "a/", "h/"}, "a", "h", ""},
		{"not above without a home", []string{"gpuemu.toml", "a/"}, "a", "", ""},
		{"not above with a home that is not there", []string{"gpuemu.toml", "a/"}, "a", "nowhere", ""},
		{"above in a repository", []string{"r/.git/", "r/gpuemu.toml", "r/a/b/"}, "r/a/b", "", "r/gpuemu.toml"},
		{"nearest first", []string{"r/.git/", "r/gpuemu.toml", "r/a/gpuemu.toml", "r/a/b/"}, "r/a/b", "", "r/a/gpuemu.toml"},
		{"not above a repository", []string{"r/.git/", "gpuemu.toml", "r/a/"}, "r/a", "", ""},
		{"not above a repository in the home", []string{"h/r/.git/", "h/gpuemu.toml", "h/r/a/"}, "h/r/a", "h", ""},
		{"a worktree's .git is a file", []string{"r/.git", "gpuemu.toml", "r/a/"}, "r/a", "", ""},
		{"above in the home", []string{"h/gpuemu.toml", "h/a/b/"}, "h/a/b", "h", "h/gpuemu.toml"},
		{"not above the home", []string{"gpuemu.toml", "h/a/b/"}, "h/a/b", "h", ""},
		{"the home itself", []string{"h/gpuemu.toml"}, "h", "h", "h/gpuemu.toml"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := plant(t, tt.files...)
			home := tt.home
			if home != "" {
				home = filepath.Join(root, home)
			}
			got, err := Find(filepath.Join(root, tt.dir), home)
			if tt.want == "" {
				if diag.CodeOf(err) != NotFound || !strings.Contains(diag.HintOf(err), "gpuemu init") {
					t.Errorf("Find = %q, %v, want %s and the way to make one", got, err, NotFound)
				}
				return
			}
			if err != nil || got != filepath.Join(root, tt.want) {
				t.Errorf("Find = %q, %v, want %s", got, err, tt.want)
			}
		})
	}
}

// TestFindRootAsHome: users of services have "/" as their home, and everything is below it.
func TestFindRootAsHome(t *testing.T) {
	root := plant(t, "gpuemu.toml", "a/")
	if got, err := Find(filepath.Join(root, "a"), "/"); diag.CodeOf(err) != NotFound {
		t.Errorf("Find = %q, %v, want %s", got, err, NotFound)
	}
}

func TestFindThroughLink(t *testing.T) {
	root := plant(t, "real/gpuemu.toml", "real/a/")
	if err := os.Symlink(filepath.Join(root, "real"), filepath.Join(root, "home")); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	want := filepath.Join(root, "real/gpuemu.toml")
	if got, err := Find(filepath.Join(root, "real/a"), filepath.Join(root, "home")); err != nil || got != want {
		t.Errorf("Find = %q, %v, want %s", got, err, want)
	}
}

func TestLoad(t *testing.T) {
	dir := plant(t, "gpuemu.toml", "sub/gpuemu.toml/")
	path := filepath.Join(dir, FileName)
	text := []byte("[[ops]]\nname = \"x\"\n")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	c, err := Load(FileName)
	if err != nil || c.Path != FileName || c.Dir != dir || len(c.Ops) != 1 {
		t.Fatalf("Load = %+v, %v, want one op and the directory %s", c, err, dir)
	}
	for _, tt := range []struct {
		name, path string
		code       diag.Code
	}{
		{"missing", filepath.Join(dir, "no.toml"), NotFound},
		{"directory", filepath.Join(dir, "sub/gpuemu.toml"), Unreadable},
	} {
		_, err := Load(tt.path)
		if diag.CodeOf(err) != tt.code || diag.HintOf(err) == "" || strings.Count(err.Error(), tt.path) != 1 {
			t.Errorf("%s: %v, want code %s, a hint and the path once", tt.name, err, tt.code)
		}
	}
	if err := os.WriteFile(path, make([]byte, MaxBytes+1), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); diag.CodeOf(err) != Limit {
		t.Errorf("too large: %v, want %s", err, Limit)
	}
}

// TestForeignOwner: what belongs to another user is refused, the link as well as the file.
func TestForeignOwner(t *testing.T) {
	dir := plant(t, "gpuemu.toml")
	path, link := filepath.Join(dir, FileName), filepath.Join(dir, "link.toml")
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	uid, known := ownerOf(info)
	if !known {
		t.Skip("files have no numeric owner on this system")
	}
	if _, err := read(path, uid); err != nil {
		t.Errorf("own file: %v", err)
	}
	_, err = read(path, uid+1)
	if diag.CodeOf(err) != ForeignOwner || !strings.Contains(err.Error(), "it belongs to another user") {
		t.Errorf("foreign file: %v, want %s", err, ForeignOwner)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(link); err != nil {
		t.Errorf("own link to an own file: %v", err)
	}
	if err := os.Lchown(link, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(link); diag.CodeOf(err) != ForeignOwner || !strings.Contains(err.Error(), "the link belongs") {
		t.Errorf("foreign link to an own file: %v, want %s", err, ForeignOwner)
	}
	if err := os.Lchown(link, 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(link); diag.CodeOf(err) != ForeignOwner {
		t.Errorf("own link to a foreign file: %v, want %s", err, ForeignOwner)
	}
}
