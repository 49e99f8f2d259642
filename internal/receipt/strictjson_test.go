package receipt

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/testkit"
)

func vectorFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(testkit.VectorPath(t, "gpu-proof/"+name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDecodeStrictValues(t *testing.T) {
	const text = " {\"a\\u00e9\\ud83d\\ude00\\/\\n\": [1, -0.50e+3, true, false, null, \"é\", {}, []]} \n"
	got, err := DecodeStrict([]byte(text), Limits{})
	want := map[string]any{"aé😀/\n": []any{json.Number("1"), json.Number("-0.50e+3"), true, false, nil, "é",
		map[string]any{}, []any{}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("DecodeStrict = %#v, %v, want %#v", got, err, want)
	}
}

func TestDecodeStrictRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		code       diag.Code
		pos        string
	}{
		{"empty", "", Syntax, "1:1"},
		{"blank", " \n ", Syntax, "2:2"},
		{"duplicate key", `{"a":1,"a":2}`, DuplicateKey, "1:8"},
		{"duplicate key, other spelling", `{"a":1,` + "\n" + `"\u0061":2}`, DuplicateKey, "2:1"},
		{"duplicate key, deep", `[{"x":[{"k":1,"j":2,"k":3}]}]`, DuplicateKey, "1:21"},
		{"trailing data", `{} {}`, Syntax, "1:4"},
		{"trailing comma", `{"a":1,}`, Syntax, "1:8"},
		{"trailing comma in a list", `[1,]`, Syntax, "1:4"},
		{"byte order mark", "\xef\xbb\xbf{}", Encoding, "1:1"},
		{"not UTF-8", "\"\xff\"", Encoding, "1:2"},
		{"UTF-8 of a surrogate", "\"\xed\xa0\x80\"", Encoding, "1:2"},
		{"overlong UTF-8", "\"\xc0\xaf\"", Encoding, "1:2"},
		{"UTF-16", "{\x00}\x00", Syntax, "1:2"},
		{"lone high surrogate", `"\ud800"`, Encoding, "1:2"},
		{"lone low surrogate", `"x\udc00"`, Encoding, "1:3"},
		{"last low surrogate", `"\udfff"`, Encoding, "1:2"},
		{"first low surrogate", `"\udc00"`, Encoding, "1:2"},
		{"high surrogate and a letter", `"\ud83d\u0041"`, Encoding, "1:2"},
		{"high surrogate and what is behind", `"\ud83d\ue000"`, Encoding, "1:2"},
		{"high surrogate and text", `"\ud83dxxxxxx"`, Encoding, "1:2"},
		{"surrogates in the wrong order", `"\ude00\ud83d"`, Encoding, "1:2"},
		{"control character", "\"a\nb\"", Syntax, "1:3"},
		{"unknown escape", `"\x41"`, Syntax, "1:2"},
		{"open string", `"abc`, Syntax, "1:5"},
		{"open escape", `"abc\`, Syntax, "1:5"},
		{"open list", `[1`, Syntax, "1:3"},
		{"single quotes", `{'a':1}`, Syntax, "1:2"},
		{"no colon", `{"a" 1}`, Syntax, "1:6"},
		{"leading zero", `01`, Syntax, "1:2"},
		{"leading plus", `+1`, Syntax, "1:1"},
		{"bare point", `1.`, Syntax, "1:3"},
		{"no exponent", `1e`, Syntax, "1:3"},
		{"hexadecimal", `0x10`, Syntax, "1:2"},
		{"NaN", `[NaN]`, NotFinite, "1:2"},
		{"infinity", `-Infinity`, NotFinite, "1:1"},
		{"infinite by size", `1e999`, NotFinite, "1:1"},
		{"nearly NaN", `Nan`, Syntax, "1:1"},
		{"comment", `{} // x`, Syntax, "1:4"},
		{"too deep", strings.Repeat("[", maxDepth+1), TooDeep, fmt.Sprint("1:", maxDepth+1)},
		{"long number", strings.Repeat("1", maxDigits+1), TooLarge, "1:1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v, err := DecodeStrict([]byte(tt.text), Limits{})
			var e *diag.Error
			if !errors.As(err, &e) || e.Code != tt.code || e.Pos.String() != tt.pos {
				t.Errorf("DecodeStrict(%.60q) = %v, %v, want an error %s at %s", tt.text, v, err, tt.code, tt.pos)
			}
		})
	}
}

// TestDecodeStrictNames: messages name what they found, in ASCII.
func TestDecodeStrictNames(t *testing.T) {
	for text, want := range map[string]string{"\xff": "the byte 0xff", "é": `'\u00e9'`, "x": "'x'", "[": "at the end",
		"[1 \u202e": `'\u202e'`} {
		want = strings.ReplaceAll(want, "'", `"`)
		if _, err := DecodeStrict([]byte(text), Limits{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("DecodeStrict(%q): %v, want %s in it", text, err, want)
		}
	}
}

func TestDecodeStrictLimits(t *testing.T) {
	deep := strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth)
	if _, err := DecodeStrict([]byte(deep), Limits{}); err != nil {
		t.Errorf("%d levels: %v", maxDepth, err)
	}
	if _, err := DecodeStrict([]byte("[1,2]"), Limits{Bytes: 4}); diag.CodeOf(err) != TooLarge {
		t.Errorf("5 bytes of at most 4: %v", err)
	}
	big := make([]byte, 100<<20)
	if _, err := DecodeStrict(big, Limits{}); diag.CodeOf(err) != TooLarge {
		t.Errorf("100 MiB: %v", err)
	}
	many := []byte("[" + strings.Repeat("0,", maxValues) + "0]")
	if _, err := DecodeStrict(many, Limits{}); diag.CodeOf(err) != TooLarge {
		t.Errorf("%d values: %v", maxValues+2, err)
	}
}

// TestPythonCanonicalVector: the original's signed bytes, and its file.
func TestPythonCanonicalVector(t *testing.T) {
	file := vectorFile(t, "receipts/own-ed25519.json")
	v, err := DecodeStrict(file, Limits{NonFinite: true})
	if err != nil {
		t.Fatal(err)
	}
	again, err := pythonIndented(v)
	if err != nil || string(again) != string(file) {
		t.Errorf("the file is not written as it was read: %v", err)
	}
	delete(v.(map[string]any), "signature")
	got, err := PythonCanonical(v)
	if want := vectorFile(t, "canonical/own-ed25519.signed-bytes"); err != nil || string(got) != string(want) {
		t.Errorf("PythonCanonical = %q, %v, want %q", got, err, want)
	}
}

func TestPythonNumbers(t *testing.T) {
	for in, want := range map[string]string{
		"0": "0", "-0": "0", "-0.0": "-0.0", "1.0": "1.0", "1E2": "100.0", "1e16": "1e+16",
		"9999999999999998.0": "9999999999999998.0",
		"0.0001":             "0.0001", "0.00001": "1e-05", "5e-324": "5e-324", "1e-400": "0.0", "1e400": "Infinity",
		"-1e400":                         "-Infinity",
		"123456789012345678901234567890": "123456789012345678901234567890", "0.1": "0.1",
		"1.7976931348623157e308": "1.7976931348623157e+308",
	} {
		got, err := PythonCanonical(json.Number(in))
		if err != nil || string(got) != want {
			t.Errorf("PythonCanonical(%s) = %s, %v, want %s", in, got, err, want)
		}
	}
	if _, err := PythonCanonical(3.5); err == nil {
		t.Error("PythonCanonical takes a float64, which is not what DecodeStrict returns")
	}
}

// randomJSON writes a random document with everything that Python's reader takes and ours does, too.
func randomJSON(r *rand.Rand, b *strings.Builder, depth int) {
	space := func() { b.WriteString([]string{"", "", "", " ", "\n\t"}[r.IntN(5)]) }
	space()
	defer space()
	kind := r.IntN(8)
	if depth > 5 {
		kind %= 6
	}
	switch kind {
	case 0:
		b.WriteString([]string{"true", "false", "null", "NaN", "Infinity", "-Infinity"}[r.IntN(6)])
	case 1:
		fmt.Fprintf(b, "%d", r.Int64()-r.Int64())
		for range r.IntN(3) {
			fmt.Fprintf(b, "%d", r.Uint64())
		}
	case 2:
		fmt.Fprintf(b, "%.*e", r.IntN(20), (r.Float64()-0.5)*2)
		b.WriteString([]string{"", "0", "1", "7"}[r.IntN(4)])
	case 3:
		fmt.Fprintf(b, "%.*f", 1+r.IntN(12), (r.Float64()-0.5)*[]float64{1e-6, 1, 1e6, 1e15, 1e17}[r.IntN(5)])
	case 4, 5:
		randomText(r, b, "")
	case 6:
		b.WriteString("[")
		for i := range r.IntN(5) {
			if i > 0 {
				b.WriteString(",")
			}
			randomJSON(r, b, depth+1)
		}
		b.WriteString("]")
	case 7:
		b.WriteString("{")
		for i := range r.IntN(6) {
			if i > 0 {
				b.WriteString(",")
			}
			randomText(r, b, fmt.Sprint(i)) // keys differ by their ends
			space()
			b.WriteString(":")
			randomJSON(r, b, depth+1)
		}
		b.WriteString("}")
	}
}

func randomText(r *rand.Rand, b *strings.Builder, end string) {
	b.WriteString(`"`)
	for range r.IntN(9) {
		switch r.IntN(6) {
		case 0:
			b.WriteString([]string{`\"`, `\\`, `\/`, `\b`, `\f`, `\n`, `\r`, `\t`}[r.IntN(8)])
		case 1:
			fmt.Fprintf(b, `\u%04X`, r.IntN(0xd800))
		case 2:
			fmt.Fprintf(b, `\u%04x\u%04x`, 0xd800+r.IntN(0x400), 0xdc00+r.IntN(0x400))
		case 3:
			b.WriteRune([]rune{'é', '☃', 0x2028, 0x7f, 0x80, 0xffff, 0x10ffff, '😀', '<', '&', '/'}[r.IntN(11)])
		default:
			b.WriteByte("abcxyz ~#[]{}:,0"[r.IntN(16)])
		}
	}
	b.WriteString(end + `"`)
}

// TestPythonCanonicalDifferential holds both spellings against Python's own, over random documents.
func TestPythonCanonicalDifferential(t *testing.T) {
	n := 400
	if testing.Short() {
		n = 100
	}
	r := rand.New(rand.NewPCG(7, 11))
	var docs [][]byte
	var input strings.Builder
	for range n {
		var b strings.Builder
		randomJSON(r, &b, 0)
		docs = append(docs, []byte(b.String()))
		line, err := json.Marshal(b.String())
		if err != nil {
			t.Fatal(err)
		}
		input.Write(append(line, '\n'))
	}
	const script = `
import json, sys
for line in open(sys.argv[1], encoding="utf-8"):
    v = json.loads(json.loads(line))
    print(json.dumps(v, sort_keys=True, separators=(",", ":")))
    print(json.dumps(json.dumps(v, indent=2, sort_keys=True) + "\n"))
`
	path := filepath.Join(t.TempDir(), "documents")
	if err := os.WriteFile(path, []byte(input.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(testkit.Python(t), "-c", script, path).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != 2*n {
		t.Fatalf("Python wrote %d lines, want %d", len(lines), 2*n)
	}
	for i, doc := range docs {
		v, err := DecodeStrict(doc, Limits{NonFinite: true})
		if err != nil {
			t.Errorf("document %d: %v\n%s", i, err, doc)
			continue
		}
		got, err := PythonCanonical(v)
		if err != nil || string(got) != lines[2*i] {
			t.Errorf("PythonCanonical(%s) = %s, %v, want %s", doc, got, err, lines[2*i])
		}
		var want string
		if err := json.Unmarshal([]byte(lines[2*i+1]), &want); err != nil {
			t.Fatal(err)
		}
		if got, err := pythonIndented(v); err != nil || string(got) != want {
			t.Errorf("pythonIndented(%s) = %s, %v, want %s", doc, got, err, want)
		}
	}
}

// FuzzDecodeStrict: what we read, encoding/json reads as the same value; canonical text is a fixed point.
func FuzzDecodeStrict(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e3,"x\u00e9\ud83d\ude00"],"b":{}}`, `[NaN,-Infinity]`, "\"\\ud800\"",
		`{"a":1,"a":2}`, `-0`, `1e999`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := DecodeStrict(b, Limits{})
		if err != nil {
			return
		}
		dec := json.NewDecoder(strings.NewReader(string(b)))
		dec.UseNumber()
		var want any
		if err := dec.Decode(&want); err != nil || !reflect.DeepEqual(v, want) {
			t.Fatalf("DecodeStrict(%q) = %#v, encoding/json says %#v, %v", b, v, want, err)
		}
		canonical, err := PythonCanonical(v)
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeStrict(canonical, Limits{})
		if err != nil {
			t.Fatalf("the canonical text of %q is not read: %v", b, err)
		}
		if twice, err := PythonCanonical(again); err != nil || string(twice) != string(canonical) {
			t.Fatalf("the canonical text of %q is not a fixed point: %q, %q, %v", b, canonical, twice, err)
		}
	})
}
