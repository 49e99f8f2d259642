package receipt

// This file implements the strict reader of JSON: what two readers could understand in two ways is refused.

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"gpuemu/internal/diag"
)

// Limits bound what DecodeStrict reads. A zero field stands for its default.
type Limits struct {
	Bytes     int  // size of the text; default 64 MiB
	Depth     int  // nesting of arrays and objects; default 64
	NonFinite bool // NaN, Infinity and -Infinity may stand bare, as Python writes them
}

// Defaults and fixed limits of reading.
const (
	maxBytes  = 64 << 20
	maxDepth  = 64      // receipts have 10 levels; what is left is for metadata
	maxValues = 2 << 20 // "[{},{},…" needs forty times its size in memory; 100,000 tests have half as many
	maxDigits = 4300    // Python's own limit on the digits of an integer (sys.int_info.default_max_str_digits)
)

// DecodeStrict returns the one JSON value of b: map[string]any, []any, string, json.Number, bool or nil. Numbers keep
// their text; bare NaN and infinities, where limits allow them, are numbers, too. Refused are: text that is not UTF-8,
// a byte order mark, half a surrogate pair, a key that comes twice at any depth, anything behind the value, and what
// is larger or deeper than limits say. The error's position counts lines and columns (bytes) from 1.
func DecodeStrict(b []byte, limits Limits) (any, error) {
	if limits.Bytes == 0 {
		limits.Bytes = maxBytes
	}
	if limits.Depth == 0 {
		limits.Depth = maxDepth
	}
	if len(b) > limits.Bytes {
		return nil, diag.Errorf(TooLarge, "receipts of this size are not read: record less metadata, or merge fewer parts",
			"%d bytes, at most %d are read", len(b), limits.Bytes)
	}
	d := &decoder{text: b, limits: limits}
	if len(b) >= 3 && b[0] == 0xef && b[1] == 0xbb && b[2] == 0xbf {
		return nil, d.fail(Encoding, "save the file as UTF-8 without a byte order mark",
			"the text begins with a byte order mark")
	}
	v, err := d.value(0)
	if err != nil {
		return nil, err
	}
	if d.space(); d.at < len(b) {
		return nil, d.fail(Syntax, "a file holds one JSON value", "%s behind the value", d.here())
	}
	return v, nil
}

// decoder is a recursive-descent reader over text; at is the next byte.
type decoder struct {
	text   []byte
	at     int
	values int
	limits Limits
}

// fail returns an error at the present place.
func (d *decoder) fail(code diag.Code, hint, format string, args ...any) error {
	pos := diag.Pos{Line: 1, Col: 1}
	for _, c := range d.text[:min(d.at, len(d.text))] {
		if pos.Col++; c == '\n' {
			pos.Line, pos.Col = pos.Line+1, 1
		}
	}
	return diag.Errorf(code, hint, format, args...).At(pos)
}

// here names the byte at the present place for a message.
func (d *decoder) here() string {
	if d.at >= len(d.text) {
		return "the end"
	}
	r, n := utf8.DecodeRune(d.text[d.at:])
	if r == utf8.RuneError && n <= 1 {
		return fmt.Sprintf("the byte 0x%02x", d.text[d.at])
	}
	return strconv.QuoteToASCII(string(r))
}

func (d *decoder) space() {
	for d.at < len(d.text) {
		switch d.text[d.at] {
		case ' ', '\t', '\r', '\n':
			d.at++
		default:
			return
		}
	}
}

func (d *decoder) value(depth int) (any, error) {
	d.space()
	if d.values++; d.values > maxValues {
		return nil, d.fail(TooLarge, "", "more than %d values", maxValues)
	}
	if d.at >= len(d.text) {
		return nil, d.fail(Syntax, "the file is cut short, or empty", "a value is missing at the end")
	}
	switch c := d.text[d.at]; {
	case c == '{' || c == '[':
		if depth >= d.limits.Depth {
			return nil, d.fail(TooDeep, "flatten the metadata", "nested deeper than %d levels", d.limits.Depth)
		}
		if c == '{' {
			return d.object(depth)
		}
		return d.array(depth)
	case c == '"':
		return d.string()
	case c == '-' || '0' <= c && c <= '9':
		return d.number()
	}
	for _, w := range []struct {
		text  string
		value any
	}{{"true", true}, {"false", false}, {"null", nil}} {
		if d.word(w.text) {
			return w.value, nil
		}
	}
	if d.text[d.at] == 'N' || d.text[d.at] == 'I' {
		return d.nonFinite()
	}
	return nil, d.fail(Syntax, "", "%s where a value is expected", d.here())
}

// word steps over text if it stands here.
func (d *decoder) word(text string) bool {
	end := d.at + len(text)
	if end > len(d.text) || string(d.text[d.at:end]) != text {
		return false
	}
	d.at = end
	return true
}

// nonFinite reads NaN, Infinity or -Infinity.
func (d *decoder) nonFinite() (any, error) {
	start := d.at
	for _, w := range []string{"NaN", "Infinity", "-Infinity"} {
		if d.word(w) {
			if d.limits.NonFinite {
				return json.Number(w), nil
			}
			d.at = start
			return nil, d.fail(NotFinite, "JSON has no such number: leave the field out, or write text", "%s is not JSON", w)
		}
	}
	return nil, d.fail(Syntax, "", "%s where a value is expected", d.here())
}

func (d *decoder) object(depth int) (any, error) {
	d.at++
	object := map[string]any{}
	for d.space(); ; d.space() {
		if d.at < len(d.text) && d.text[d.at] == '}' && len(object) == 0 {
			d.at++
			return object, nil
		}
		if d.at >= len(d.text) || d.text[d.at] != '"' {
			return nil, d.fail(Syntax, "", "%s where a key is expected", d.here())
		}
		start := d.at
		key, err := d.string()
		if err != nil {
			return nil, err
		}
		if _, twice := object[key]; twice {
			d.at = start
			return nil, d.fail(DuplicateKey, "keep one of the two", "the key %q stands twice in one object", key)
		}
		if d.space(); !d.word(":") {
			return nil, d.fail(Syntax, "", "%s behind the key %q, a colon is expected", d.here(), key)
		}
		if object[key], err = d.value(depth + 1); err != nil {
			return nil, err
		}
		if d.space(); d.word("}") {
			return object, nil
		}
		if !d.word(",") {
			return nil, d.fail(Syntax, "", "%s in an object, a comma or } is expected", d.here())
		}
	}
}

func (d *decoder) array(depth int) (any, error) {
	d.at++
	list := []any{}
	if d.space(); d.word("]") {
		return list, nil
	}
	for {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		if d.space(); d.word("]") {
			return list, nil
		}
		if !d.word(",") {
			return nil, d.fail(Syntax, "", "%s in a list, a comma or ] is expected", d.here())
		}
	}
}

// number reads a number as JSON spells it and keeps its text.
func (d *decoder) number() (any, error) {
	start := d.at
	if d.word("-") && d.at < len(d.text) && d.text[d.at] == 'I' {
		d.at = start
		return d.nonFinite()
	}
	if !d.word("0") && d.digits() == 0 {
		return nil, d.fail(Syntax, "", "%s in a number", d.here())
	}
	if d.word(".") && d.digits() == 0 {
		return nil, d.fail(Syntax, "", "%s in a number", d.here())
	}
	if d.word("e") || d.word("E") {
		if !d.word("+") {
			d.word("-")
		}
		if d.digits() == 0 {
			return nil, d.fail(Syntax, "", "%s in a number", d.here())
		}
	}
	text := string(d.text[start:d.at])
	if len(text) > maxDigits {
		d.at = start
		return nil, d.fail(TooLarge, "", "a number of %d characters, at most %d are read", len(text), maxDigits)
	}
	if !d.limits.NonFinite && isNonFinite(json.Number(text)) {
		d.at = start
		return nil, d.fail(NotFinite, "", "the number %s is larger than a double can hold", text)
	}
	return json.Number(text), nil
}

func (d *decoder) digits() int {
	start := d.at
	for d.at < len(d.text) && '0' <= d.text[d.at] && d.text[d.at] <= '9' {
		d.at++
	}
	return d.at - start
}

// string reads a string; the present byte is its opening quote.
func (d *decoder) string() (string, error) {
	d.at++
	start := d.at
	for d.at < len(d.text) && d.text[d.at] != '"' && d.text[d.at] != '\\' && 0x20 <= d.text[d.at] && d.text[d.at] < 0x80 {
		d.at++
	}
	out := append([]byte(nil), d.text[start:d.at]...)
	for d.at < len(d.text) {
		switch c := d.text[d.at]; {
		case c == '"':
			d.at++
			return string(out), nil
		case c == '\\':
			r, err := d.escape()
			if err != nil {
				return "", err
			}
			out = utf8.AppendRune(out, r)
		case c < 0x20:
			return "", d.fail(Syntax, "write it as an escape", "the control character 0x%02x in a string", c)
		default:
			r, n := utf8.DecodeRune(d.text[d.at:])
			if r == utf8.RuneError && n <= 1 {
				return "", d.fail(Encoding, "save the file as UTF-8", "the byte 0x%02x is not UTF-8", c)
			}
			out = append(out, d.text[d.at:d.at+n]...)
			d.at += n
		}
	}
	return "", d.fail(Syntax, "the file is cut short", "a string without its closing quote")
}

// escape reads one escape of a string, a surrogate pair as one.
func (d *decoder) escape() (rune, error) {
	if d.at+1 >= len(d.text) {
		return 0, d.fail(Syntax, "the file is cut short", "an escape without its end")
	}
	const plain = `"\/bfnrt`
	const meaning = "\"\\/\b\f\n\r\t"
	for i := range len(plain) {
		if d.text[d.at+1] == plain[i] {
			d.at += 2
			return rune(meaning[i]), nil
		}
	}
	first, ok := d.unit(d.at)
	if !ok {
		return 0, d.fail(Syntax, "", "an escape that JSON does not have")
	}
	if first < 0xd800 || first > 0xdfff {
		d.at += 6
		return first, nil
	}
	second, ok := d.unit(d.at + 6)
	if first > 0xdbff || !ok || second < 0xdc00 || second > 0xdfff {
		return 0, d.fail(Encoding, "half of a surrogate pair is no character: take it out",
			"the escape \\u%04x stands alone", first)
	}
	d.at += 12
	return 0x10000 + (first-0xd800)<<10 + (second - 0xdc00), nil
}

// unit reads the \uXXXX at offset at.
func (d *decoder) unit(at int) (rune, bool) {
	if at+6 > len(d.text) || d.text[at] != '\\' || d.text[at+1] != 'u' {
		return 0, false
	}
	var n rune
	for _, c := range d.text[at+2 : at+6] {
		switch {
		case '0' <= c && c <= '9':
			n = n<<4 | rune(c-'0')
		case 'a' <= c && c <= 'f':
			n = n<<4 | rune(c-'a'+10)
		case 'A' <= c && c <= 'F':
			n = n<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return n, true
}
