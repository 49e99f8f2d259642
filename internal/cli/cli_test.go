package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpuemu/internal/command"
	"gpuemu/internal/compare"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
)

// run executes a command in process.
func run(t *testing.T, getenv func(string) string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = Main(Env{Args: args, Stdout: &out, Stderr: &err, Getenv: getenv, Version: "v1.2.3"})
	return code, out.String(), err.String()
}

func noEnv(string) string { return "" }

func TestMainPrintsLinkedVersion(t *testing.T) {
	code, stdout, stderr := run(t, noEnv, "version")
	if code != command.ExitOK || !strings.HasPrefix(stdout, "gpuemu v1.2.3 (") || stderr != "" {
		t.Errorf("version = %d, %q, %q, want 0 and gpuemu v1.2.3", code, stdout, stderr)
	}
}

func TestMainSurvivesPanic(t *testing.T) {
	code, stdout, stderr := run(t, func(string) string { panic("on purpose") }, "version")
	if code != command.ExitNotRun || stdout != "" {
		t.Errorf("a panic exits with %d and stdout %q, want %d and none", code, stdout, command.ExitNotRun)
	}
	for _, want := range []string{"gpuemu: internal error: on purpose", "goroutine", "[cli-internal]", "hint: this is a"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("stderr of a panic has no %q:\n%s", want, stderr)
		}
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken") }

func TestMainReportsBrokenStdout(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"ops"}, {"ops", "--format", "json"}, {"completion", "bash"}} {
		var stderr bytes.Buffer
		code := Main(Env{Args: args, Stdout: brokenWriter{}, Stderr: &stderr, Getenv: noEnv})
		if code != command.ExitNotRun || !strings.Contains(stderr.String(), "standard output: broken [cli-write-failed]") {
			t.Errorf("%q with a broken stdout = %d, %q, want %d", args, code, stderr.String(), command.ExitNotRun)
		}
	}
}

func TestExitCode(t *testing.T) {
	plain := diag.Errorf(Usage, "", "x")
	for _, tt := range []struct {
		name string
		err  error
		want int
	}{
		{"none", nil, 0},
		{"usage", plain, 2},
		{"not run", command.NotRun(plain), 3},
		{"not run, wrapped", errors.Join(command.NotRun(plain)), 3},
	} {
		if got := exitCode(tt.err); got != tt.want {
			t.Errorf("exitCode(%s) = %d, want %d", tt.name, got, tt.want)
		}
	}
	if err := command.NotRun(plain); diag.CodeOf(err) != Usage || err.Error() != plain.Error() {
		t.Errorf("command.NotRun(%v) = %v, want code and text kept", plain, err)
	}
}

func TestSeed(t *testing.T) {
	for text, want := range map[string]uint64{
		"0": 0, "1": 1, "010": 10, "18446744073709551615": math.MaxUint64, "0x10": 16, "0XFFFFFFFFFFFFFFFF": math.MaxUint64,
		"9007199254740993": 1<<53 + 1,
	} {
		var s seed
		if err := s.Set(text); err != nil || uint64(s) != want {
			t.Errorf("seed.Set(%q) = %d, %v, want %d", text, s, err, want)
		}
	}
	for _, text := range []string{"", "-1", "1.0", "1e3", "18446744073709551616", "0x", "1_000", " 1"} {
		var s seed
		if err := s.Set(text); err == nil {
			t.Errorf("seed.Set(%q) = %d, want an error", text, s)
		}
	}
}

func TestWantTensors(t *testing.T) {
	value, bound := wantTensors(&compare.Want{
		DType: dtype.Float16, Shape: tensor.MustShape(3), Value: []float64{1, 2, math.Inf(1)},
		Bound: []float64{0.25, 0.5, 0}, Undetermined: []bool{false, true, false},
	})
	if got, want := value.Float64s(), []float64{1, 2, math.Inf(1)}; !slices.Equal(got, want) {
		t.Errorf("values = %v, want %v", got, want)
	}
	if got, want := bound.Float64s(), []float64{0.25, math.Inf(1), 0}; !slices.Equal(got, want) {
		t.Errorf("bounds = %v, want %v: an undetermined element has no bound", got, want)
	}
	if value.DType != dtype.Float64 || bound.DType != dtype.Float64 {
		t.Errorf("dtypes = %s, %s, want float64", value.DType, bound.DType)
	}
	exact := tensor.FromFloat64s(dtype.Int64, tensor.MustShape(2), []float64{7, -8})
	value, bound = wantTensors(&compare.Want{DType: dtype.Int64, Shape: tensor.MustShape(2), Exact: exact})
	if !slices.Equal(value.Float64s(), []float64{7, -8}) || !slices.Equal(bound.Float64s(), []float64{0, 0}) {
		t.Errorf("exact reference = %v ± %v, want [7 -8] ± [0 0]", value.Float64s(), bound.Float64s())
	}
}

// TestCaseSettings: attributes come from the flags, then from the case of the inputs, then from the schema.
func TestCaseSettings(t *testing.T) {
	op, err := findOp(nil, "leaky_relu")
	if err != nil {
		t.Fatal(err)
	}
	const text = "leaky_relu dtype=float16 dims=B:1,S:1,H:1 attrs=alpha:0.25 " +
		"in=input:float16[1,1,1]:contiguous:normal seed=1 gen=1"
	for _, tt := range []struct {
		name, text string
		flags      oracleFlags
		alpha      float64
		dtype      dtype.DType
	}{
		{"schema", "", oracleFlags{}, op.Schema.DefaultAttrs().Float("alpha"), dtype.Invalid},
		{"case", text, oracleFlags{}, 0.25, dtype.Float16},
		{"flag", text, oracleFlags{attrs: []string{"alpha=0.75"}, dtype: "f32"}, 0.75, dtype.Float32},
		{"case of another op", "x" + text, oracleFlags{}, op.Schema.DefaultAttrs().Float("alpha"), dtype.Invalid},
		{"not a case", "hello", oracleFlags{}, op.Schema.DefaultAttrs().Float("alpha"), dtype.Invalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			term := newTerminal(Env{Stdout: new(bytes.Buffer), Stderr: new(bytes.Buffer)})
			attrs, d, err := caseSettings(term, op, tt.flags, tt.text)
			if err != nil || attrs.Float("alpha") != tt.alpha || d != tt.dtype {
				t.Errorf("caseSettings = %v, %v, %v, want alpha %v and dtype %v", attrs, d, err, tt.alpha, tt.dtype)
			}
		})
	}
}

// TestCaseSettingsChecks: a file can hold anything, and a value of the wrong type would silently count as 0.
func TestCaseSettingsChecks(t *testing.T) {
	op, err := findOp(nil, "leaky_relu")
	if err != nil {
		t.Fatal(err)
	}
	for attrs, want := range map[string]diag.Code{
		"alpha:steep":          opspec.AttrInvalid,
		"alpha:true":           opspec.AttrInvalid,
		"alpha:0.5,math:quick": opspec.AttrInvalid,
		"alpha:0.5,beta:0.5":   BadInput,
	} {
		text := "leaky_relu dtype=float16 dims=B:1,S:1,H:1 attrs=" + attrs +
			" in=input:float16[1,1,1]:contiguous:normal seed=1 gen=1"
		term := newTerminal(Env{Stdout: new(bytes.Buffer), Stderr: new(bytes.Buffer)})
		got, _, err := caseSettings(term, op, oracleFlags{inputs: "in.safetensors"}, text)
		if diag.CodeOf(err) != want || !strings.HasPrefix(err.Error(), `in.safetensors: metadata "case": `) {
			t.Errorf("caseSettings(%q) = %v, %v, want code %s", attrs, got, err, want)
		}
	}
}

// TestCasesJSON: the list is printed item by item, as if it had been printed as a whole.
func TestCasesJSON(t *testing.T) {
	for _, count := range []string{"1", "3"} {
		code, stdout, stderr := run(t, noEnv, "cases", "--op", "relu", "--format", "json", "--count", count)
		var list struct {
			Cases []caseInfo `json:"cases"`
		}
		if err := json.Unmarshal([]byte(stdout), &list); err != nil || code != command.ExitOK || stderr != "" {
			t.Fatalf("cases --count %s = %d, %q, %v, want JSON", count, code, stderr, err)
		}
		var whole bytes.Buffer
		term := newTerminal(Env{Stdout: &whole})
		if err := errors.Join(term.printJSON(map[string]any{"cases": list.Cases}), term.flush()); err != nil {
			t.Fatal(err)
		}
		if stdout != whole.String() || strconv.Itoa(len(list.Cases)) != count {
			t.Errorf("cases --count %s prints\n%swant\n%s", count, stdout, whole.String())
		}
	}
}

// TestCasesStopsOnBrokenStdout: nobody waits for a billion cases that go nowhere.
func TestCasesStopsOnBrokenStdout(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var stderr bytes.Buffer
		code := Main(Env{Args: []string{"cases", "--op", "relu", "--count", "1000000000", "--format", format},
			Stdout: brokenWriter{}, Stderr: &stderr, Getenv: noEnv})
		if code != command.ExitNotRun || strings.Count(stderr.String(), "standard output: broken [cli-write-failed]") != 1 {
			t.Errorf("cases --format %s = %d, %q, want %d", format, code, stderr.String(), command.ExitNotRun)
		}
	}
}

// TestInterrupted: a request to stop is no success, and leaves whole files or none.
func TestInterrupted(t *testing.T) {
	dir := t.TempDir()
	cases, output := filepath.Join(dir, "cases"), filepath.Join(dir, "out.safetensors")
	if code, _, stderr := run(t, noEnv, "cases", "--op", "relu", "--count", "1", "-o", cases); code != command.ExitOK {
		t.Fatal(stderr)
	}
	inputs := filepath.Join(cases, "0.safetensors")
	ended := func() (context.Context, context.CancelFunc) {
		ctx, stop := context.WithCancel(t.Context())
		stop()
		return ctx, stop
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"cases", "--op", "relu", "--count", "3", "-o", dir},
			"gpuemu: interrupted: the inputs of 0 of 3 cases are in " + dir + " [cli-interrupted]\n"},
		{[]string{"oracle", "relu", "--inputs", inputs, "-o", output},
			"gpuemu: interrupted: " + output + " is not written [cli-interrupted]\n"},
	} {
		var stdout, stderr bytes.Buffer
		code := Main(Env{Args: tt.args, Stdout: &stdout, Stderr: &stderr, Getenv: noEnv, Interrupt: ended})
		if code != command.ExitNotRun || stdout.Len() > 0 || stderr.String() != tt.want {
			t.Errorf("%s = %d, %q, %q, want %d, %q", tt.args[0], code, &stdout, &stderr, command.ExitNotRun, tt.want)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%d files are left (%v), want the directory of the inputs alone", len(files), err)
	}
}

func TestWrapped(t *testing.T) {
	words := strings.Fields(strings.Repeat("distribution ", 14))
	got := wrapped(words)
	if want := strings.Join(words, ","); strings.NewReplacer("\n", "", " ", "").Replace(got) != want {
		t.Errorf("wrapped = %q, want the words of %q", got, want)
	}
	for line := range strings.SplitSeq(got, "\n") {
		if len(line) > 100 {
			t.Errorf("wrapped has a line of %d bytes: %q", len(line), line)
		}
	}
}

// TestReplaceFile: a report keeps the permissions of the file that it replaces, behind a link, too.
func TestReplaceFile(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "report.json"), filepath.Join(dir, "link.json")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Symlink("report.json", link)); err != nil {
		t.Fatal(err)
	}
	err := replaceFile(link, func(w io.Writer) error {
		_, err := io.WriteString(w, "{}")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); string(text) != "{}" || err != nil {
		t.Errorf("the file has %q, %v, want {}", text, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v (%v), want 0600", info.Mode(), err)
	}
	if to, err := os.Readlink(link); to != "report.json" || err != nil {
		t.Errorf("the link leads to %q, %v", to, err)
	}
}
