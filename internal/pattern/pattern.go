// Package pattern matches instructions by their opcode and modifiers: ld.global.v4 stands for every ld that has the
// modifiers global and v4 in this order, whatever else stands between and behind them.
//
// It knows the names of PTX and the opcodes of SASS, so that a pattern that they show to match nothing is refused
// instead of being satisfied for ever. An instruction that has two names in PTX is found by both. It does not look at
// operands. The main type is Pattern.
package pattern

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"gpuemu/internal/diag"
	"gpuemu/internal/ptx"
)

// Dialect is a language of instructions.
type Dialect uint8

// Dialects. A pattern without an opcode of its own (*.ftz) is of both.
const (
	PTX Dialect = 1 << iota
	SASS
)

// maxLength is the longest pattern in bytes: the longest mnemonics of PTX have some 150.
const maxLength = 256

// Pattern is a parsed pattern. The zero Pattern matches nothing.
type Pattern struct {
	text     string
	dialects Dialect
	op       string   // with *
	mods     []string // with *, without those that are * alone
}

// Parse reads a pattern: an opcode and modifiers between dots. A * stands for any text inside one of them, and alone
// also for none. What PTX knows in lower case is a pattern of PTX; everything else is one of SASS, in any case.
func Parse(text string) (Pattern, error) {
	p := Pattern{text: text}
	if text == "" || len(text) > maxLength || strings.ContainsFunc(text, func(c rune) bool { return !allowed(c) }) {
		return Pattern{}, diag.Errorf(Syntax, "write an opcode and modifiers: ld.global.v4, mma.*, HMMA.*",
			"%.80q is no pattern of instructions", text)
	}
	parts := strings.Split(text, ".")
	if slices.Contains(parts, "") {
		return Pattern{}, diag.Errorf(Syntax, "write an opcode and modifiers: ld.global.v4, mma.*, HMMA.*",
			"%q has nothing between two dots", text)
	}
	p.op = parts[0]
	for _, m := range parts[1:] {
		if strings.Trim(m, "*") != "" {
			p.mods = append(p.mods, m)
		}
	}
	return p, p.check()
}

// allowed reports whether a character may stand in a mnemonic or is *.
func allowed(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._:*", c)
}

var ptxOpcodes = sync.OnceValue(ptx.Opcodes)

// check finds the dialects and refuses what neither has.
func (p *Pattern) check() error {
	p.dialects = 0
	ptxOps, sassOps := ptxOpcodes(), sassOpcodes
	if slices.ContainsFunc(ptxOps, func(op string) bool { return glob(p.op, op) }) {
		p.dialects |= PTX
	}
	// A name that both have (bar, ret, call) is one of PTX in lower case and one of SASS in upper case.
	if p.dialects == 0 || strings.Trim(p.op, "*") == "" {
		upper := strings.ToUpper(p.op)
		if slices.ContainsFunc(sassOps, func(op string) bool { return glob(upper, op) }) {
			p.dialects |= SASS
		}
	}
	if p.dialects == 0 {
		near, far := ptxOps, sassOps // names of the language that the pattern looks like are suggested first
		if p.op == strings.ToUpper(p.op) {
			near, far = far, near
		}
		hint := diag.Suggest(p.op, far, "patterns begin with an opcode of PTX or SASS, or with *")
		return diag.Errorf(UnknownOpcode, diag.Suggest(p.op, near, hint),
			"pattern %q can match nothing: no instruction is called %q", p.text, p.op)
	}
	return p.checkModifiers()
}

// checkModifiers refuses modifiers that PTX does not have. Those of SASS have no list.
func (p *Pattern) checkModifiers() error {
	if p.dialects&PTX == 0 {
		return nil
	}
	for _, m := range p.mods {
		if strings.Contains(m, "*") || ptx.IsModifier(m) {
			continue
		}
		if p.dialects&SASS != 0 {
			p.dialects = SASS // *.MOVM
			return nil
		}
		return diag.Errorf(UnknownModifier, diag.Suggest(m, ptx.Modifiers(), "modifiers are those of the PTX ISA"),
			"pattern %q can match nothing: no instruction of PTX has the modifier %q", p.text, m)
	}
	err := p.checkTogether()
	if err != nil && p.dialects&SASS != 0 {
		p.dialects = SASS
		return nil
	}
	return err
}

// String returns the pattern as it was written.
func (p Pattern) String() string { return p.text }

// Of reports whether the pattern can match instructions of a dialect.
func (p Pattern) Of(d Dialect) bool { return p.dialects&d != 0 }

// Match reports whether a mnemonic, an opcode with its modifiers, fits the pattern.
func (p Pattern) Match(d Dialect, mnemonic string) bool {
	if p.dialects&d == 0 {
		return false
	}
	op, mods, fits := p.op, p.mods, fitsPTX
	if d == SASS {
		op, mnemonic, fits = strings.ToUpper(op), strings.ToUpper(mnemonic), glob
	}
	have, rest, _ := strings.Cut(mnemonic, ".")
	if all, ok := barrierNames(have, rest); d == PTX && ok {
		if rest = all; !glob(op, "bar") && !glob(op, "barrier") {
			return false
		}
	} else if !glob(op, have) {
		return false
	}
	// The first fit is the best one: it leaves the most modifiers for the rest of the pattern.
	for len(mods) > 0 {
		if rest == "" {
			return false
		}
		have, rest, _ = strings.Cut(rest, ".")
		want := mods[0]
		if d == SASS {
			want = strings.ToUpper(want)
		}
		if fits(want, have) {
			mods = mods[1:]
		}
	}
	return true
}

// glob reports whether a text fits a word in which * stands for any text.
func glob(word, text string) bool {
	head, tail, star := strings.Cut(word, "*")
	if !star {
		return word == text
	}
	if !strings.HasPrefix(text, head) {
		return false
	}
	text = text[len(head):]
	for {
		var next string
		next, tail, star = strings.Cut(tail, "*")
		if !star {
			return strings.HasSuffix(text, next)
		}
		i := strings.Index(text, next)
		if i < 0 {
			return false
		}
		text = text[i+len(next):]
	}
}

// MarshalJSON writes the text.
func (p Pattern) MarshalJSON() ([]byte, error) { return json.Marshal(p.text) }

// UnmarshalJSON reads and checks a text.
func (p *Pattern) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	parsed, err := Parse(text)
	if err != nil {
		return err
	}
	*p = parsed
	return nil
}
