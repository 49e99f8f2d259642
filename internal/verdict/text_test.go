package verdict

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// fullResult has every kind of member, and texts that look like JSON.
func fullResult() Result {
	numeric := Fail
	from := Seed(1<<64 - 1)
	return Result{Index: 3, Op: `a"b\`, DType: "float32", Case: `x {"outputs":[1]} \" , é`, Seed: 1<<64 - 2, Verdict: Fail,
		Message: "a\nb\\", Candidate: ClientSide, Numeric: &numeric, ShrunkFrom: &from, Inputs: "ab", Stderr: `"}`,
		Outputs:    []Output{{Name: "y", Shape: []int{2, 3}, Worst: []Element{{Got: "]}", Want: `"`}}}, {Name: "z"}},
		Findings:   []Finding{{Kind: "overrun", Sentence: "[{"}},
		Invariants: []Invariance{{Name: "finite", Outcome: "holds"}}}
}

func TestOutline(t *testing.T) {
	r := fullResult()
	text, err := json.Marshal(&r)
	if err != nil {
		t.Fatal(err)
	}
	want := r
	want.Outputs, want.Findings, want.Invariants, want.Stderr = nil, nil, nil, ""
	for name, text := range map[string]string{"compact": string(text), "spaced": spaced(t, text)} {
		out, err := Outline([]byte(text))
		if err != nil || !json.Valid(out) {
			t.Fatalf("%s: Outline = %s, %v", name, out, err)
		}
		var got Result
		if err := json.Unmarshal(out, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: Outline = %+v, %v, want %+v", name, got, err, want)
		}
		of, err := CaseOf([]byte(text))
		if err != nil || of.Op != r.Op || of.DType != r.DType || of.Case != r.Case || of.Candidate != r.Candidate {
			t.Errorf("%s: CaseOf = %+v, %v", name, of, err)
		}
	}
}

func spaced(t *testing.T, text []byte) string {
	t.Helper()
	var any map[string]any
	if err := json.Unmarshal(text, &any); err != nil {
		t.Fatal(err)
	}
	any["seed"], any["shrunk_from"] = "18446744073709551614", "18446744073709551615"
	out, err := json.MarshalIndent(any, " ", "\t")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// A text that was cut off, or is something else, is an error and nothing worse.
func TestOutlineOfDamage(t *testing.T) {
	r := fullResult()
	text, err := json.Marshal(&r)
	if err != nil {
		t.Fatal(err)
	}
	for n := range text {
		if out, err := Outline(text[:n]); err == nil {
			t.Errorf("%q: Outline = %s", text[:n], out)
		}
	}
	for _, bad := range []string{"", "[]", "null", "1", `"a"`, `{"a"`, `{"a":`, `{"a":1`, `{"a" 1}`, `{1:2}`,
		strings.Repeat("[", 99)} {
		if out, err := Outline([]byte(bad)); err == nil {
			t.Errorf("%q: Outline = %s", bad, out)
		}
	}
}

func FuzzOutline(f *testing.F) {
	r := fullResult()
	text, err := json.Marshal(&r)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"a":[{"b":"\\\""}],"op":"x"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		out, err := Outline(text)
		var object map[string]json.RawMessage
		if json.Unmarshal(text, &object) != nil || object == nil {
			return // divided, not checked
		}
		var kept map[string]json.RawMessage
		if err != nil || json.Unmarshal(out, &kept) != nil {
			t.Fatalf("Outline(%q) = %q, %v", text, out, err)
		}
	})
}
