package testkit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type vector struct {
	In  U64  `json:"in"`
	Out Bits `json:"out"`
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func wantError(t *testing.T, what string, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("%s = %v, want an error with %q", what, err, part)
	}
}

func TestReadFile(t *testing.T) {
	const good = `[{"in": "18446744073709551615", "out": "0x3f800000"}]`
	vs, err := readFile[[]vector](write(t, "v.json", good))
	if err != nil {
		t.Fatal(err)
	}
	if len(vs) != 1 || vs[0].In != 1<<64-1 || vs[0].Out.F64() != 1 || vs[0].Out.String() != "0x3f800000" {
		t.Errorf("readFile(%s) = %v", good, vs)
	}
	for _, tt := range []struct{ name, text, part string }{
		{"unknown field", `[{"in": "1", "uot": "0x00"}]`, `unknown field "uot"`},
		{"more behind", good + "[]", "more after the first"},
		{"rubbish behind", good + "]", "more after the first"},
		{"number for a string", `[{"in": 1}]`, "want a decimal string"},
		{"no number", `[{"in": "0x1"}]`, "want a decimal string"},
		{"too large", `[{"in": "18446744073709551616"}]`, "want a decimal string"},
		{"no prefix", `[{"out": "3f800000"}]`, "want 0x and"},
		{"odd digits", `[{"out": "0x3f80000"}]`, "want 0x and"},
		{"no digits", `[{"out": "0x"}]`, "want 0x and"},
		{"bits as number", `[{"out": 1}]`, "want a string"},
		{"empty file", "", "EOF"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := readFile[[]vector](write(t, "v.json", tt.text))
			wantError(t, "readFile("+tt.text+")", err, tt.part)
		})
	}
	_, err = readFile[[]vector](filepath.Join(t.TempDir(), "absent.json"))
	wantError(t, "readFile(absent)", err, "absent.json")
}

func TestAbsentOrEmptySetFails(t *testing.T) {
	_, err := listFiles(filepath.Join(t.TempDir(), "absent"))
	wantError(t, "listFiles(absent)", err, "absent")
	_, err = listFiles(t.TempDir())
	wantError(t, "listFiles(empty directory)", err, "the set is empty")
	wantError(t, "checkSet(0)", checkSet("s", 0), "vectors s: the set is empty")
	if err := checkSet("s", 1); err != nil {
		t.Errorf("checkSet(1) = %v, want nil", err)
	}
}

func TestEachOf(t *testing.T) {
	type set struct {
		Format     string `json:"format"`
		Streams    []any  `json:"streams"`
		Derive     []any  `json:"derive"`
		Splitmix64 []any  `json:"splitmix64"`
	}
	n := 0
	EachOf(t, "streams", Read[set](t, "rng/rng-v1.json").Streams, func(*testing.T, any) { n++ })
	if n != 11 {
		t.Errorf("EachOf(streams of rng-v1) ran %d subtests, want 11", n)
	}
}

// TestEach reads a file and a directory below a root of its own, from a directory below that root.
func TestEach(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                         "module m",
		"internal/p/p.go":                "package p",
		"testdata/vectors/p/first.json":  `[{"in": "1"}, {"in": "2"}]`,
		"testdata/vectors/p/second.json": `[{"in": "3"}]`,
		"testdata/vectors/p/notes.txt":   "not read",
	} {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(filepath.Join(root, "internal", "p"))
	for set, want := range map[string]string{
		"p":            "TestEach/first/0=1 TestEach/first/1=2 TestEach/second/0=3 ",
		"p/first.json": "TestEach/first/0=1 TestEach/first/1=2 ",
	} {
		got := ""
		Each(t, set, func(t *testing.T, v vector) { got += fmt.Sprintf("%s=%d ", t.Name(), v.In) })
		if got = strings.ReplaceAll(got, "#01", ""); got != want { // the second use of a name
			t.Errorf("Each(%q) ran %q, want %q", set, got, want)
		}
	}
}

func TestBitsF64(t *testing.T) {
	if got := (Bits{U: 0xbff8 << 48, Width: 64}).F64(); got != -1.5 {
		t.Errorf("F64() = %v, want -1.5", got)
	}
	defer func() {
		if got, want := fmt.Sprint(recover()), "testkit: 0x3c00 is not a float64 or float32"; got != want {
			t.Errorf("panic %q, want %q", got, want)
		}
	}()
	Bits{U: 0x3c00, Width: 16}.F64()
}

func TestFindRoot(t *testing.T) {
	root := Root(t)
	if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(VectorDir))); err != nil {
		t.Errorf("Root() = %s: %v", root, err)
	}
	_, err := findRoot(string(filepath.Separator))
	wantError(t, "findRoot(/)", err, "no go.mod")
}

func TestGolden(t *testing.T) {
	file := filepath.Join(t.TempDir(), "testdata", "x.golden")
	wantError(t, "golden(absent)", golden(file, []byte("a\nb\n"), false), "-update writes it")
	if err := golden(file, []byte("a\nb\n"), true); err != nil {
		t.Fatal(err)
	}
	if err := golden(file, []byte("a\nb\n"), false); err != nil {
		t.Errorf("golden(same) = %v, want nil", err)
	}
	wantError(t, "golden(changed)", golden(file, []byte("a\nc\n"), false), `line 2 is "c\n", want "b\n"`)
	wantError(t, "golden(shorter)", golden(file, []byte("a\nb"), false), `line 2 is "b", want "b\n"`)
	wantError(t, "golden(longer)", golden(file, []byte("a\nb\nc"), false), `line 3 is "c", want ""`)
}
