package escape

import (
	"encoding/json"
	"encoding/xml"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"gpuemu/internal/testkit"
)

func TestText(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", ""},
		{"plain text, ümlaut, 漢字, ×…", "plain text, ümlaut, 漢字, ×…"},
		{"a\tb", "a    b"},
		{"a\nb\r", `a\nb\r`},
		{"\x1b[31mred\x7f\x00", `\x1b[31mred\x7f\x00`},
		{"a\r::error::b", `a\r::error::b`},
		{"\u202egnp.exe", `\u202egnp.exe`},
		{"\u2066x\u2069", `\u2066x\u2069`},
		{"a\u200bb\u200d\u2060\ufeff", `a\u200bb\u200d\u2060\ufeff`},
		{"a\u034f\ufe0f\U000e0101\u3164", `a\u034f\ufe0f\U000e0101\u3164`}, // printable, and nobody sees them
		{"\U000e0001", `\U000e0001`},
		{"\x9bx\xff", `\x9bx\xff`}, // no UTF-8: bytes that some terminals obey
		{"\u009bx", `\u009bx`},
		{"\u2028x\u00a0", `\u2028x\u00a0`},
		{"x\ufffdy\ufffe", "x\ufffdy" + `\ufffe`},
		{"a ##[set-output name=x;]y", `a #\x23[set-output name=x;]y`},
		{"###vso[task.setvariable]", `#\x23#vso[task.setvariable]`},
		{"std::max ::x", "std::max ::x"},
	} {
		if got := Text(tt.in); got != tt.want {
			t.Errorf("Text(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

// TestKnownAnswers are those that the Python client gives, too.
func TestKnownAnswers(t *testing.T) {
	type known struct {
		In, Text, Line string
	}
	v := testkit.Read[struct {
		Format string
		Texts  []known
	}](t, "escape/text-v1.json")
	testkit.EachOf(t, "texts", v.Texts, func(t *testing.T, k known) {
		if got := Text(k.In); got != k.Text {
			t.Errorf("Text(%q) = %q, want %q", k.In, got, k.Text)
		}
		if got := Line(k.In); got != k.Line {
			t.Errorf("Line(%q) = %q, want %q", k.In, got, k.Line)
		}
	})
}

func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"::error::x": `\x3a:error::x`, "  ::error::x": `  \x3a:error::x`, "\t::x": `    \x3a:x`, "\u2003::x": `\u2003::x`,
		"std::max": "std::max", ":x::y": ":x::y", "": "",
	} {
		if got := Line(in); got != want {
			t.Errorf("Line(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestBlocks(t *testing.T) {
	const text = "one\r\n::two\n\x1b[31mthree\n \n"
	if got, want := strings.Join(Lines(text), "|"), `one|\x3a:two|\x1b[31mthree`; got != want {
		t.Errorf("Lines = %q, want %q", got, want)
	}
	if got, want := Block(text), "one\n"+`\x3a:two`+"\n"+`\x1b[31mthree`+"\n \n"; got != want {
		t.Errorf("Block = %q, want %q", got, want)
	}
	if got := Lines(" \n"); got != nil {
		t.Errorf("Lines of blanks = %q", got)
	}
	for in, want := range map[string]string{
		"\x1b[1mbold\x1b[0m \x1b[2J":      "\x1b[1mbold\x1b[0m " + `\x1b[2J`,
		"\x1b[1m::error::\x1b[0m::x":      "\x1b[1m" + `\x3a:error::` + "\x1b[0m::x",
		"\x1b[1m\x1b[0m::x\n::y":          "\x1b[1m\x1b[0m" + `\x3a:x` + "\n" + `\x3a:y`,
		"plain":                           "plain",
		"\x1b]8;;http://x\x07y\x1b]8;;\a": `\x1b]8;;http://x\ay\x1b]8;;\a`,
	} {
		if got := Painted(in); got != want {
			t.Errorf("Painted(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestSinks(t *testing.T) {
	for _, tt := range []struct {
		name     string
		escape   func(string) string
		in, want string
	}{
		{"XML", XML, "<a href=\"x\">&\x1b", `&lt;a href=&quot;x&quot;&gt;&amp;\x1b`},
		{"XML", XML, "::error::x", `\x3a:error::x`},
		{"SARIF", SARIF, "out[3](4) [click](https://x)\n", `out[3] (4) [click] (https://x)\n`},
		{"Markdown", Markdown, "<b>*x*</b> @you #1 | https://www.x",
			"&#60;b&#62;&#42;x&#42;&#60;/b&#62; &#64;you &#35;1 &#124; " +
				"https&#58;//www&#46;x"},
		{"Markdown", Markdown, "a\n- b", `a&#92;n- b`},
		{"Markdown", Markdown, "gpu-proof.json", "gpu-proof.json"},
		{"Markdown", Markdown, "[a](http://b)", "&#91;a&#93;&#40;http&#58;//b&#41;"},
		{"Markdown", Markdown, "see https://evil.example or www.evil.example",
			"see https&#58;//evil.example or www&#46;evil.example"},
		{"Markdown", Markdown, "<b>x|y</b>", "&#60;b&#62;x&#124;y&#60;/b&#62;"},
		{"Markdown", Markdown, "`x`\n# head", "&#96;x&#96;&#92;n&#35; head"},
		{"Markdown", Markdown, "@team", "&#64;team"},
		{"Shell", Shell, "softmax", "softmax"},
		{"Shell", Shell, "/tmp/a-b_1.x", "/tmp/a-b_1.x"},
		{"Shell", Shell, "a b", "'a b'"},
		{"Shell", Shell, "it's", `'it'\''s'`},
		{"Shell", Shell, "$(x)", "'$(x)'"},
		{"Shell", Shell, "$HOME", "'$HOME'"},
		{"Shell", Shell, "", "''"},
		{"Shell", Shell, "a;b", "'a;b'"},
		{"Shell", Shell, "é", "'é'"},
		{"Shell", Shell, "-x", "'-x'"},
		{"Shell", Shell, "\x1b", `'\x1b'`},
	} {
		if got := tt.escape(tt.in); got != tt.want {
			t.Errorf("%s(%q) = %q, want %q", tt.name, tt.in, got, tt.want)
		}
	}
}

// TestJSON: what the text says does not change, and nothing is raw.
func TestJSON(t *testing.T) {
	const text = "é\x1b\x7f\u009b\u202e\u200b\U000e0001##[x]\ufe0f#\n plain <"
	encoded, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	got := JSON(encoded)
	raw(t, "JSON", string(got))
	var back string
	if err := json.Unmarshal(got, &back); err != nil || back != text {
		t.Errorf("JSON(%q) = %q, which says %q, %v", encoded, got, back, err)
	}
}

// raw reports what must not arrive at any sink.
func raw(t *testing.T, name, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%s: %q is not UTF-8", name, text)
	}
	for _, r := range text {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Bidi_Control, r) || hidden(r) {
			t.Errorf("%s: %U stands in %q", name, r, text)
		}
	}
	if strings.Contains(text, "##") {
		t.Errorf("%s: a command of a CI system stands in %q", name, text)
	}
}

// FuzzSinks: nothing arrives raw at any sink, and text that is escaped stays as it is.
func FuzzSinks(f *testing.F) {
	for _, s := range []string{"plain", "::error::x",
		"\x1b[31m##[x]\u202e", "<a>&\"](x)", "\xff\x9b\U000e0001", "#\x00#", "'\t'"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for name, escape := range map[string]func(string) string{"Text": Text, "Line": Line, "XML": XML, "SARIF": SARIF,
			"Markdown": Markdown, "Shell": Shell} {
			got := escape(s)
			raw(t, name, got)
			line := name == "Line" || name == "XML" || name == "Markdown"
			if line && strings.HasPrefix(strings.TrimSpace(got), "::") {
				t.Errorf("%s(%q) = %q begins with a command", name, s, got)
			}
			if again := escape(got); (name == "Text" || name == "Line" || name == "SARIF") && again != got {
				t.Errorf("%s(%q) = %q, and %q the second time", name, s, got, again)
			}
		}
		var back string
		if err := xml.Unmarshal([]byte("<a>"+XML(s)+"</a>"), &back); err != nil || back != Line(s) {
			t.Errorf("XML(%q) = %q: %q, %v", s, XML(s), back, err)
		}
	})
}
