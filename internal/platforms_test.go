package internal_test

import (
	"go/build"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// platforms are the systems that gpuemu runs on, which README names. make check builds for all of them.
var platforms = []string{"linux", "darwin"}

// otherSystem is a decision at run time for a system that is none of platforms.
var otherSystem = regexp.MustCompile(`GOOS [!=]= "(windows|freebsd|netbsd|openbsd|js|wasip1|plan9|solaris|aix)"`)

// otherInText is the same in other files, by how their names end: in Python also an import that only Windows lacks, and
// a comment that names it.
var otherInText = map[string]*regexp.Regexp{
	".py": regexp.MustCompile(`sys\.platform [!=]= "win|platform\.startswith\("win|os\.name [!=]= "nt"|` +
		`platform\.system\(\) [!=]= "Windows"|\bmsvcrt\b|\b_?winapi\b|\bwinreg\b|#.*\bWindows\b|` +
		`try:\s+(import|from) (fcntl|grp|pwd|resource|termios)\b|\b(fcntl|grp|pwd|resource) is (not )?None`),
	".txt": regexp.MustCompile(`(?m)^\[!?(windows|freebsd|netbsd|openbsd|plan9|solaris)\]`), // testscripts
}

// otherSystemIn returns what decides in a file for a system that gpuemu does not run on; "" where nothing does.
func otherSystemIn(name, text string) string {
	if strings.HasSuffix(name, ".go") {
		return otherSystem.FindString(text)
	}
	for end, pattern := range otherInText {
		if strings.HasSuffix(name, end) {
			return pattern.FindString(text)
		}
	}
	return ""
}

// TestPlatforms: there is no code for a system that nothing builds or tests.
func TestPlatforms(t *testing.T) {
	for _, f := range goFiles(t) {
		if !built(t, f) {
			t.Errorf("%s is built on none of %s: remove it", f, strings.Join(platforms, ", "))
		}
	}
	for _, f := range trackedFiles(t) {
		if found := otherSystemIn(f, readText(t, filepath.Join("..", f))); found != "" {
			t.Errorf("%s has %q, and gpuemu does not run there: remove it", f, found)
		}
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "gpuemu runs on Linux and macOS") {
		t.Error("README.md does not say that gpuemu runs on Linux and macOS")
	}
}

// TestOtherSystemsAreSeen: the patterns of TestPlatforms find what they are for, and nothing else.
func TestOtherSystemsAreSeen(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		seen       bool
	}{
		{"a.go", "if runtime.GOOS == " + `"windows" {`, true},
		{"a.go", `if runtime.GOOS != "linux" {`, false},
		{"a.py", "try:\n    import fcntl\nexcept ImportError:\n    fcntl = None\n", true},
		{"a.py", "import fcntl\n", false},
		{"a.py", "if fcntl is not None:\n", true},
		{"a.py", `if os.name == "nt":`, true},
		{"a.py", "x = 1  # as on Windows", true},
		{"a.py", `note = "2x2 windows lose NaN"  # sliding windows`, false},
		{"a.txt", "exec true\n[!windows] exec stat f\n", true},
		{"a.txt", "[exec:nvcc] skip\n[!root] exec true\n", false},
	} {
		if got := otherSystemIn(tt.name, tt.text) != ""; got != tt.seen {
			t.Errorf("%s with %q: seen %v, want %v", tt.name, tt.text, got, tt.seen)
		}
	}
}

// built reports whether a file belongs to the build on one of the platforms, with or without assembly and detector.
func built(t *testing.T, file string) bool {
	t.Helper()
	for _, system := range platforms {
		for _, arch := range []string{"amd64", "arm64"} {
			for _, tags := range [][]string{nil, {"purego"}, {"race"}, {"ignore"}} {
				c := build.Default
				c.GOOS, c.GOARCH, c.CgoEnabled = system, arch, true
				c.BuildTags = slices.Concat(c.BuildTags, tags)
				ok, err := c.MatchFile(filepath.Join("..", filepath.Dir(file)), filepath.Base(file))
				if err != nil {
					t.Fatal(err)
				}
				if ok {
					return true
				}
			}
		}
	}
	return false
}
