package config

import (
	"testing"

	"gpuemu/internal/compare"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
)

// edits set the tolerance of op x for float16 to atol 0.5, rtol 0.
var edits = []struct{ name, in, want string }{
	{"replace", `
[[ops]]
name = "y"
tolerances = { float16 = 1 }
[[ops]] # comment
name = "x"
[ops.tolerances] # kept
float32 = 1e-5
float16 = { atol = 1, rtol = 1 } # measured
# end
[[ops]]
name = "z"
`, `
[[ops]]
name = "y"
tolerances = { float16 = 1 }
[[ops]] # comment
name = "x"
[ops.tolerances] # kept
float32 = 1e-5
float16 = { atol = 0.5, rtol = 0.0 } # measured
# end
[[ops]]
name = "z"
`},
	{"replace under an alias", "[[ops]]\nname = \"x\"\n[ops.tolerances]\nf16 = 1\n",
		"[[ops]]\nname = \"x\"\n[ops.tolerances]\nf16 = { atol = 0.5, rtol = 0.0 }\n"},
	{"add a line", "[[ops]]\nname = \"x\"\n  [ops.tolerances]\n  float32 = 1 # a\n\n[ops.env]\nA = \"b\"\n",
		"[[ops]]\nname = \"x\"\n  [ops.tolerances]\n  float32 = 1 # a\n  float16 = { atol = 0.5, rtol = 0.0 }\n\n" +
			"[ops.env]\nA = \"b\"\n"},
	{"add to an empty table", "[[ops]]\nname = \"x\"\n[ops.tolerances] # none",
		"[[ops]]\nname = \"x\"\n[ops.tolerances] # none\nfloat16 = { atol = 0.5, rtol = 0.0 }\n"},
	{"add a table", "[[ops]]\nname = \"x\"\ntimeout = 3 # s\n[ops.env]\nA = \"b\"\n[[ops]]\nname = \"z\"\n",
		"[[ops]]\nname = \"x\"\ntimeout = 3 # s\n\n[ops.tolerances]\nfloat16 = { atol = 0.5, rtol = 0.0 }\n" +
			"[ops.env]\nA = \"b\"\n[[ops]]\nname = \"z\"\n"},
	{"add a table at the end", "[[ops]]\nname = \"x\"",
		"[[ops]]\nname = \"x\"\n\n[ops.tolerances]\nfloat16 = { atol = 0.5, rtol = 0.0 }\n"},
	{"carriage returns", "[[ops]]\r\nname = \"x\"\r\n",
		"[[ops]]\r\nname = \"x\"\r\n\r\n[ops.tolerances]\r\nfloat16 = { atol = 0.5, rtol = 0.0 }\r\n"},
	{"inline, replace", "[[ops]]\nname = \"x\"\ntolerances = {float32 = 1, float16 = 2} # c\n",
		"[[ops]]\nname = \"x\"\ntolerances = {float32 = 1, float16 = { atol = 0.5, rtol = 0.0 }} # c\n"},
	{"inline, add", "[[ops]]\nname = \"x\"\ntolerances = { float32 = 1 }\n",
		"[[ops]]\nname = \"x\"\ntolerances = { float16 = { atol = 0.5, rtol = 0.0 }, float32 = 1 }\n"},
	{"inline, empty", "[[ops]]\nname = \"x\"\ntolerances = {}\n",
		"[[ops]]\nname = \"x\"\ntolerances = { float16 = { atol = 0.5, rtol = 0.0 } }\n"},
	{"dotted, replace", "[[ops]]\nname = \"x\"\ntolerances.float16 = 1\n",
		"[[ops]]\nname = \"x\"\ntolerances.float16 = { atol = 0.5, rtol = 0.0 }\n"},
	{"dotted, add", "[[ops]]\nname = \"x\"\n tolerances.float32 = 1 # a\ntimeout = 1\n",
		"[[ops]]\nname = \"x\"\n tolerances.float32 = 1 # a\n tolerances.float16 = { atol = 0.5, rtol = 0.0 }\n" +
			"timeout = 1\n"},
	{"dotted parts", "[[ops]]\nname = \"x\"\ntolerances.float16.atol = 1 # a\ntimeout = 1\n",
		"[[ops]]\nname = \"x\"\ntolerances.float16.atol = 0.5 # a\ntolerances.float16.rtol = 0.0\ntimeout = 1\n"},
	{"a section per dtype, replace", "[[ops]]\nname = \"x\"\n[ops.tolerances.float16]\nrtol = 1\n",
		"[[ops]]\nname = \"x\"\n[ops.tolerances.float16]\nrtol = 0.0\natol = 0.5\n"},
	{"a section per dtype, add", "[[ops]]\nname = \"x\"\n[ops.tolerances.float32]\natol = 1\n",
		"[[ops]]\nname = \"x\"\n[ops.tolerances.float32]\natol = 1\n\n[ops.tolerances.float16]\natol = 0.5\nrtol = 0.0\n"},
}

func TestSetTolerance(t *testing.T) {
	for _, tt := range edits {
		t.Run(tt.name, func(t *testing.T) {
			in := []byte(tt.in)
			got, err := SetTolerance(in, "x", dtype.Float16, compare.Tolerance{Abs: 0.5})
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.want {
				t.Errorf("SetTolerance =\n%s\nwant\n%s", got, tt.want)
			}
			if string(in) != tt.in {
				t.Error("SetTolerance changes its argument")
			}
			again, err := SetTolerance(got, "x", dtype.Float16, compare.Tolerance{Abs: 0.5})
			if err != nil || string(again) != string(got) {
				t.Errorf("SetTolerance again = %s, %v, want the same text", again, err)
			}
		})
	}
}

func TestSetToleranceRefuses(t *testing.T) {
	half := compare.Tolerance{Abs: 0.5}
	for _, tt := range []struct {
		name, in, op string
		tol          compare.Tolerance
		code         diag.Code
	}{
		{"no such op", "[[ops]]\nname = \"softmax\"", "sotfmax", half, UnknownOp},
		{"an op in brackets", `ops = [{ name = "x" }]`, "x", half, NotEditable},
		{"dotted keys in braces", "[[ops]]\nname = \"x\"\ntolerances = { float16.atol = 1 }", "x", half, NotEditable},
		{"a negative tolerance", "[[ops]]\nname = \"x\"", "x", compare.Tolerance{Abs: -1}, compare.BadTolerance},
		{"a file with faults", "[[ops]]\nnam = \"x\"", "x", half, MissingKey},
	} {
		got, err := SetTolerance([]byte(tt.in), tt.op, dtype.Float16, tt.tol)
		if diag.CodeOf(err) != tt.code || diag.HintOf(err) == "" || got != nil {
			t.Errorf("%s: %q, %v, want code %s and a hint", tt.name, got, err, tt.code)
		}
	}
}
