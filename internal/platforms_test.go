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

var windowsInPython = regexp.MustCompile(`sys\.platform [!=]= "win|os\.name [!=]= "nt"`)

// TestPlatforms: there is no code for a system that nothing builds or tests.
func TestPlatforms(t *testing.T) {
	for _, f := range goFiles(t) {
		if !built(t, f) {
			t.Errorf("%s is built on none of %s: remove it", f, strings.Join(platforms, ", "))
		}
		text, err := os.ReadFile(filepath.Join("..", f))
		if err != nil {
			t.Fatal(err)
		}
		if found := otherSystem.Find(text); found != nil {
			t.Errorf("%s has %s, and gpuemu does not run there: remove it", f, found)
		}
	}
	for _, f := range trackedFiles(t) {
		if strings.HasSuffix(f, ".py") && windowsInPython.MatchString(readText(t, filepath.Join("..", f))) {
			t.Errorf("%s decides for Windows, and gpuemu does not run there: remove it", f)
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
