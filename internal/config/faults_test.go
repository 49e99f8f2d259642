package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
)

// expected is the comment beside an offending line: column, code, part of the message, part of the hint.
var expected = regexp.MustCompile(`#! (\d+) (config-[a-z-]+): ([^|]*?)(?: \| (.*))?$`)

// faulty are documents with the faults that must be reported, all of them and no other.
var faulty = []string{
	`nmae = 1 #! 1 config-unknown-key: unknown key "nmae" in the document | known are project`,
	`[projct] #! 2 config-unknown-key: unknown key "projct" | did you mean project?
[project]
Name = "x" #! 1 config-unknown-key: unknown key "Name" in project | did you mean name?
[validation]
check_nans = true #! 1 config-unknown-key: unknown key "check_nans" in validation | did you mean check_nan or check_inf?
[[ops]]
name = "x"
tolerance_s = 1 #! 1 config-unknown-key: "tolerance_s" in ops | did you mean tolerances or tolerance?
[ops.kernel]
ptx = "x"
grid = [1]
block = [1]
args = []
grids = [1] #! 1 config-unknown-key: unknown key "grids" in ops.kernel | did you mean grid?
[ci.quik] #! 5 config-unknown-key: unknown key "quik" in ci | did you mean quick?
x.y.z = 1
[ci]
quick.dtype = [] #! 7 config-unknown-key: unknown key "dtype" in ci.quick | did you mean dtypes?`,
	`[validation]
dtypes = ["float23"] #! 11 config-bad-value: unknown dtype "float23" | did you mean float32 or
check_nan = 1 #! 13 config-wrong-type: validation.check_nan is 1, want true or false | give true or false
check_inf = "yes" #! 13 config-wrong-type: is "yes", want true or false
seed = -1 #! 8 config-bad-value: validation.seed is -1 | use a whole number from 0
values = "" #! 10 config-bad-value: validation.values is "" | leave the key out
shapes = ["default"] #! 10 config-wrong-type: validation.shapes is a list, want a string
layouts = ["contigous"] #! 12 config-bad-value: is "contigous" | did you mean contiguous?
ranks = [1, 9] #! 13 config-bad-value: validation.ranks is 9 | use a whole number from 0 to 8
tolerance = "loose" #! 13 config-bad-value: validation.tolerance is "loose" | use one of bound, calibrated, fixed
nonfinite = 3 #! 13 config-wrong-type: is 3, want a string: one of match, forbid
silence = ["a", "a"] #! 17 config-duplicate: validation.silence has "a" twice | keep one`,
	`[validation]
dtypes = [] #! 10 config-bad-value: validation.dtypes is [] | leave the key out
layouts = "strided" #! 11 config-wrong-type: want a list of memory layouts
ranks = ["two"] #! 10 config-wrong-type: is "two", want a whole number from 0 to 8
seed = "12x" #! 8 config-bad-value: is "12x" | use decimal digits, at most 18446744073709551615`,
	`validation.dtypes = ["float32", "f32"] #! 33 config-duplicate: has "f32" twice
validation.seed = "18446744073709551616" #! 19 config-bad-value: is "18446744073709551616"`,
	`[validation]
seed = 1.0 #! 8 config-wrong-type: validation.seed is 1.0, want a whole number from 0
[validation.tolerances]
float32 = -1e-5 #! 11 config-bad-value: validation.tolerances.float32 is -1e-5 | use a finite number
float16 = nan #! 11 config-bad-value: is nan
bfloat16 = { atol = inf } #! 21 config-bad-value: validation.tolerances.bfloat16.atol is inf
float64 = { atol = 1, rtl = 1 } #! 23 config-unknown-key: "rtl" in validation.tolerances.float64 | did you mean rtol?
int8 = {} #! 8 config-bad-value: validation.tolerances.int8 is {} | give atol, rtol or both
int9 = 1 #! 1 config-bad-value: unknown dtype "int9" | did you mean int8
f64 = 1 #! 1 config-duplicate: has float64 twice under different names
int16 = "0" #! 9 config-wrong-type: want a finite number`,
	`[[ops]] #! 3 config-missing-key: ops has no name | add name = …
timeout = -3 #! 11 config-bad-value: ops.timeout is -3 | use seconds above 0
[[ops]]
name = "x"
timeout = 0 #! 11 config-bad-value: ops.timeout is 0 | use seconds above 0
[[ops]]
name = "y"
timeout = 30000000 #! 11 config-bad-value: ops.timeout is 30000000 | the unit is seconds: use at most 604800
[[ops]]
name = "z"
timeout = nan #! 11 config-bad-value: ops.timeout is nan
[[ops]]
name = "u"
timeout = "30s" #! 11 config-wrong-type: ops.timeout is "30s", want a number of seconds above 0`,
	`[[ops]]
name = "x"
[[ops]]
name = "x" #! 8 config-duplicate: ops has the name "x" twice | give each its own name
[[ops]]
name = "a\nb" #! 8 config-bad-value: ops.name is "a\nb" | without control characters`,
	`[[ops]]
name = "x"
candidate = "a.py"
op_script = "b.py" #! 1 config-conflict: candidate = "a.py" and op_script = "b.py" | keep the one`,
	`[[ops]]
name = "x"
execution_mode = "server_side" #! 18 config-bad-value: ops.execution_mode is "server_side" | use one of client_side
invariants = 1 #! 14 config-wrong-type: want a list of names, or a table
attributes = { a = [1] } #! 20 config-wrong-type: ops.attributes.a is a list, want a number, a boolean or a string
kwargs = { a = [1, nan], b = 2020-01-01 } #! 20 config-bad-value: ops.kwargs.a is nan
env = { "A=B" = "x", C = 1 } #! 9 config-bad-value: "A=B" cannot be the name of a variable
schema = 3 #! 10 config-wrong-type: ops.schema is 3, want the name of an operator, or a table
raw = "x\u0000" #! 7 config-wrong-type: want true or false
module = "x\u0000" #! 10 config-bad-value: ops.module is | take out the character U+0000
input_names = ["a", 3] #! 21 config-wrong-type: ops.input_names is 3, want a string`,
	`[[ops]]
name = "x"
invariants = { finite = 1 } #! 25 config-wrong-type: ops.invariants.finite is 1, want true or false
kwargs = { b = 2020-01-01 } #! 16 config-wrong-type: ops.kwargs.b is 2020-01-01, want a number
env = { C = 1 } #! 13 config-wrong-type: ops.env.C is 1, want a string
[ops.kernel]
ptx = "k.ptx"
grid = [0] #! 9 config-bad-value: ops.kernel.grid is 0 | use a whole number from 1
block = [1, 2, 3, 4] #! 9 config-wrong-type: want a list of one to three sizes
shared = "N *" #! 13 config-bad-value: ops.kernel.shared: in "N *": unexpected token EOF | write it as ceil(N / 256)
args = "x" #! 8 config-wrong-type: want a list of names, expressions and numbers
checks = "bound" #! 10 config-bad-value: ops.kernel.checks is "bound" | all, none, or some of bounds
schedules = 20000 #! 13 config-bad-value: ops.kernel.schedules is 20000 | use at most 10000
budget = 0 #! 10 config-bad-value: ops.kernel.budget is 0 | use a whole number from 1`,
	`[[ops]]
name = "x"
memory = "much" #! 10 config-bad-value: ops.memory is "much" | write 6GiB, 512MiB or a number of bytes
[ops.kernel]
ptx = "k.ptx"
grid = ["ceil(N // 256)"] #! 17 config-bad-value: there is no operator // | a / b rounds down
block = ["\u004e //"] #! 10 config-bad-value: there is no operator //
args = ["x", "x y"] #! 17 config-bad-value: ops.kernel.args: in "x y": unexpected token
schedules = 0 #! 13 config-bad-value: ops.kernel.schedules is 0 | from 1
budget = 1.5 #! 10 config-wrong-type: ops.kernel.budget is 1.5, want a whole number
checks = 1 #! 10 config-wrong-type: ops.kernel.checks is 1`,
	`[[ops]]
name = "x"
[ops.kernel]
source = "k.{dtype}.cu" #! 10 config-bad-value: ops.kernel.source is "k.{dtype}.cu" | stands in ptx and entry alone
grid = [1]
block = [1]
args = []
[[kernels]]
name = "y"
ptx = "k.{dtype}.ptx"
sass = "k.{dtype}.sass" #! 8 config-bad-value: kernels.sass is "k.{dtype}.sass" | give the PTX of each number format`,
	`[[ops]] #! 3 config-missing-key: ops is to be emulated and has no kernel | add [ops.kernel] with ptx
name = "x"
execution_mode = "emulate"
[[ops]]
name = "y"
candidate = "f.py:f"
[ops.kernel] #! 6 config-conflict: ops has candidate = "f.py:f" and a kernel | keep the one
ptx = "k.ptx"
[[kernels]]
name = "z"
ptx = "k.ptx"
reference = "ref.py" #! 13 config-bad-value: kernels.reference is "ref.py" | use "builtin:NAME"
grid = [1]
block = [1]
args = []
[[kernels]]
name = "y" #! 8 config-duplicate: an op and a kernel that is executed are both called "y" | give each its own name
ptx = "k.ptx"
reference = "builtin:relu"
grid = [1]
block = [1]
args = []`,
	`[[ops]]
name = "x"
kernel = { entry = "k", args = [2020-01-01] } #! 33 config-wrong-type: ops.kernel.args is 2020-01-01, want a name`,
	`[[ops]]
name = "x"
kernel = { entry = "k", grid = [1], block = [1] } #! 1 config-missing-key: ops.kernel has`,
	`[[kernels]] #! 3 config-missing-key: kernels has no args | say how
name = "y"
ptx = "k.ptx"
reference = "builtin:relu"
grid = [1]
block = [1]
[[ops]]
name = "y" #! 8 config-duplicate: an op and a kernel that is executed are both called "y" | give each its own name`,
	`[[ops]]
name = "x"
[ops.schema]
dims = [{ name = "N", candidate = [1] }] #! 23 config-bad-schema: "candidate" in dims[0] | did you mean candidates?
inputs = [{ name = "x", dims = ["N"] }]`,
	`[[ops]]
name = "x"
[ops.schema]
dims = [{ name = "N", candidates = [1, 2] }]
[[ops.schema.inputs]]
name = "x"
dims = ["N"]
role = "wight" #! 8 config-bad-schema: unknown role "wight" | did you mean weight?`,
	`[[ops]]
name = "x"
[ops.schema] #! 6 config-bad-schema: ops.schema:
dims = [{ name = "N", candidates = [1, 2] }]
relations = ["N == 7"]
inputs = [{ name = "x", dims = ["N"] }]
output = { name = "y", dims = ["N"] }`,
	`[[ops]]
name = "x"
[ops.schema]
doc = nan #! 7 config-bad-value: ops.schema.doc is nan
nan = 2020-01-01 #! 7 config-wrong-type: ops.schema.nan is 2020-01-01`,
	`[ops] #! 2 config-wrong-type: ops is a table, want a list of tables | open each entry with [[ops]]
name = "x"`,
	`ops = 1 #! 1 config-wrong-type: ops is a number, want a list of tables
ci = 3 #! 6 config-wrong-type: ci is 3, want a table
project = "x" #! 11 config-wrong-type: project is "x", want a table`,
	`ops = [1] #! 8 config-wrong-type: ops is 1, want a table`,
	`[[kernels]] #! 3 config-missing-key: kernels has none of source, ptx, cubin, sass | add one
name = "k"
[[kernels]]
name = "j"
ptx = "j.ptx"
max_stack = 1
artifact_checks.max_stack = 2 #! 17 config-conflict: max_stack is 2 here and 1 in kernels | keep one
[[kernels]]
name = "j" #! 8 config-duplicate: kernels has the name "j" twice
ptx = "j.ptx"`,
	`[[kernels]]
name = "k"
ptx = "k.ptx"
arch = "90" #! 8 config-bad-value: kernels.arch is "90" | write it as sm_80 or sm_90a
[kernels.artifact_checks]
required_patterns = ["mma.*", "ldd.global"] #! 31 config-bad-value: no instruction is called "ldd" | did you mean
forbidden_patterns = ["ld local"] #! 23 config-bad-value: is no pattern of instructions | write an opcode`,
	`[ci]
parallel = 2
parallel_jobs = 3 #! 1 config-conflict: parallel is 2 and parallel_jobs is 3 | keep parallel
quick_dtypes = ["float16"] #! 1 config-conflict: dtypes of [ci.quick] are [float32] and quick_dtypes are [float16]
[ci.quick]
dtypes = ["float32"]`,
	`[ci]
fuzz_iterations = 0 #! 19 config-bad-value: ci.fuzz_iterations is 0 | use a whole number from 1
parallel = 2147483648 #! 12 config-bad-value: ci.parallel is 2147483648
thorough_timeout = false #! 20 config-wrong-type: ci.thorough_timeout is false
regression_threshold = -0.1 #! 24 config-bad-value: ci.regression_threshold is -0.1
[policies]
warn_threshold = "5%" #! 18 config-wrong-type: policies.warn_threshold is "5%"`,
	`[validation]
seed = 18446744073709551615 #! 8 config-syntax: 64-bit signed integer | write a larger seed as a string`,
	`[validation]
values = mixed #! 10 config-syntax: unexpected character | strings need quotes`,
	`[project]
name = "a"
name = "b" #! 1 config-syntax: name is already defined`,
	"\ufeffx = 1 #! 1 config-syntax: invalid character | save the file as UTF-8 without a byte order mark",
	`[project #! 10 config-syntax: expected ']'`,
}

func TestFaults(t *testing.T) {
	for i, text := range faulty {
		t.Run(fmt.Sprint(i), func(t *testing.T) { checkFaults(t, text) })
	}
}

func checkFaults(t *testing.T, text string) {
	_, err := Parse("gpuemu.toml", []byte(text))
	var got []*diag.Error
	var faults *Faults
	var one *diag.Error
	switch {
	case errors.As(err, &faults):
		got = faults.List
	case errors.As(err, &one):
		got = []*diag.Error{one}
	}
	for n, line := range strings.Split(text, "\n") {
		m := expected.FindStringSubmatch(line)
		if m == nil {
			if strings.Contains(line, "#!") {
				t.Fatalf("line %q: the expectation is not well-formed", line)
			}
			continue
		}
		place := fmt.Sprintf("gpuemu.toml:%d:%s", n+1, m[1])
		if len(got) == 0 {
			t.Errorf("%s: no error, want %s %q", place, m[2], m[3])
			continue
		}
		e := got[0]
		got = got[1:]
		if e.Pos.String() != place || string(e.Code) != m[2] || !strings.Contains(e.Msg, m[3]) ||
			!strings.Contains(e.Hint, m[4]) {
			t.Errorf("got  %s: %s\nwant %s: %s [%s]: %s", e, e.Hint, place, m[3], m[2], m[4])
		}
		// A line with two faults names the first one only.
		for len(got) > 0 && got[0].Pos.Line == n+1 {
			got = got[1:]
		}
	}
	for _, e := range got {
		t.Errorf("unexpected: %s", e)
	}
}

func TestFaultsText(t *testing.T) {
	_, err := Parse("a.toml", []byte("nmae = 1\n[project]\nnmae = \"x\"\n"))
	const want = `a.toml:1:1: unknown key "nmae" in the document [config-unknown-key]: ` +
		"known are project, validation, ops, kernels, policies, store, ci\n" +
		`a.toml:3:1: unknown key "nmae" in project [config-unknown-key]: did you mean name?`
	if err == nil || err.Error() != want {
		t.Errorf("Parse: %v, want %s", err, want)
	}
	if got := diag.CodeOf(err); got != UnknownKey {
		t.Errorf("CodeOf = %s, want %s", got, UnknownKey)
	}
	if got := diag.HintOf(err); got != "2 faults: docs/config.md describes every key" {
		t.Errorf("HintOf = %q", got)
	}
	_, err = Parse("a.toml", []byte("a.b = 1\n"+strings.Repeat("[[ops]]\n", 100)))
	if err == nil || !strings.HasSuffix(err.Error(), "\nand 81 more") {
		t.Errorf("Parse of 101 faults: %v, want the first 20 and a count", err)
	}
}

func TestLimits(t *testing.T) {
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "[[ops]]\nname = \"op%d\"\n", i)
		}
		return b.String()
	}
	for name, tt := range map[string]struct {
		text string
		code diag.Code
	}{
		"bytes":      {strings.Repeat("#\n", MaxBytes/2), ""},
		"more bytes": {strings.Repeat("#\n", MaxBytes/2) + "#", Limit},
		"ops":        {many(maxOps), ""},
		"more ops":   {many(maxOps + 1), Limit},
		"a list":     {"[validation]\nsilence = [" + strings.Repeat("'x',", maxList+1) + "]", Limit},
		"a string":   {"[project]\nname = '" + strings.Repeat("x", maxText+1) + "'", Limit},
		"deep":       {strings.Repeat("a.", 400000) + "a = 1", UnknownKey},
		"brackets":   {"a = " + strings.Repeat("[", 400000), Syntax},
	} {
		if _, err := Parse("gpuemu.toml", []byte(tt.text)); diag.CodeOf(err) != tt.code {
			t.Errorf("%s: %v, want code %q", name, err, tt.code)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range faulty {
		f.Add([]byte(text))
	}
	for _, text := range edits {
		f.Add([]byte(text.in))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("gpuemu.toml", data)
		if err != nil {
			if diag.CodeOf(err) == "" || strings.Contains(err.Error(), "%!") {
				t.Errorf("Parse: %v has no code or is badly formatted", err)
			}
			return
		}
		for i := range c.Ops {
			edited, err := SetTolerance(data, c.Ops[i].Name, dtype.Float32, c.Validation.Tolerances[dtype.Float32])
			if err != nil && diag.CodeOf(err) != NotEditable {
				t.Errorf("SetTolerance: %v\n%s", err, edited)
			}
		}
	})
}
