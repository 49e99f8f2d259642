package sass

// This file implements the reader of listings, line by line.

import (
	"strconv"
	"strings"

	"gpuemu/internal/diag"
)

// Limits on listings. The largest libraries have some 100 MB of them; a line has a name in it at most.
const (
	maxText = 1 << 30
	maxLine = 128 << 10
)

// parser is the state between two lines.
type parser struct {
	file      string
	line      int
	arch      string
	functions []Function
	open      bool // lines belong to the last function
	source    Source
	sourceSet bool // source was set by the line before: further lines say where that code was inlined
}

// Parse reads the listing in text; name is for error messages. Listings of cuobjdump -sass and of nvdisasm, with or
// without encodings, source lines and register life ranges, are known by themselves. Data sections are passed over.
func Parse(name string, text []byte) ([]Function, error) {
	if len(text) > maxText {
		return nil, diag.Errorf(TooLarge, "list one kernel: cuobjdump -sass -fun NAME",
			"the listing has %d bytes, at most %d are read", len(text), maxText).At(diag.Pos{File: name})
	}
	p := parser{file: name}
	for line := range strings.Lines(string(text)) {
		p.line++
		if len(line) > maxLine {
			return nil, p.errorf(TooLarge, "give a listing of cuobjdump -sass or nvdisasm -c",
				"the line has %d bytes, at most %d are read", len(line), maxLine)
		}
		if err := p.readLine(strings.TrimSpace(line)); err != nil {
			return nil, err
		}
	}
	if len(p.functions) == 0 {
		return nil, p.noFunction(string(text[:min(len(text), 4096)]))
	}
	return p.functions, nil
}

// noFunction says what a text without functions probably is.
func (p *parser) noFunction(start string) error {
	p.line = 0
	hint := "make it with cuobjdump -sass FILE, or with nvdisasm -c FILE"
	trimmed := strings.TrimSpace(start)
	switch {
	case strings.HasPrefix(start, "\x7fELF") || strings.HasPrefix(start, "\x50\xed\x55\xba"):
		return p.errorf(NotListing, hint, "this is a binary, not a listing of one")
	case strings.HasPrefix(trimmed, "digraph"):
		return p.errorf(NotListing, hint, "this is a control-flow graph (nvdisasm -cfg), not a listing")
	case strings.HasPrefix(trimmed, "[{"):
		return p.errorf(NotListing, hint, "this is JSON (nvdisasm -json), not a listing")
	case strings.Contains(start, ".version") && strings.Contains(start, ".entry"):
		return p.errorf(NotListing, "read it as PTX", "this is PTX, not a listing of machine code")
	}
	return p.errorf(NotListing, hint, "no function in it: neither a line \"Function : …\" nor a section .text.…")
}

func (p *parser) errorf(code diag.Code, hint, format string, args ...any) *diag.Error {
	return diag.Errorf(code, hint, format, args...).At(diag.Pos{File: p.file, Line: p.line})
}

// readLine reads one line without the spaces around it.
func (p *parser) readLine(line string) error {
	if strings.HasPrefix(line, "//## ") {
		p.readSource(line)
		return nil
	}
	p.sourceSet = false
	switch {
	case line == "" || strings.HasPrefix(line, "//"):
	case strings.HasPrefix(line, "/*"):
		if p.open {
			return p.readAddressed(line)
		}
	case strings.HasPrefix(line, "nvdisasm ") || strings.HasPrefix(line, "cuobjdump "):
		return p.readMessage(line)
	case strings.HasPrefix(line, "Function :"):
		return p.startFunction(strings.TrimSpace(strings.TrimPrefix(line, "Function :")))
	case strings.HasPrefix(line, "code for "):
		p.arch, p.open = strings.TrimSpace(strings.TrimPrefix(line, "code for ")), false
	case strings.HasPrefix(line, "."):
		return p.readDirective(line)
	case !p.open || isLabel(line):
	default:
		return p.errorf(Syntax, "give the listing as the tool printed it",
			"a line inside function %.80q is neither an instruction nor a label: %.60q", p.last().Name, line)
	}
	return nil
}

// readMessage reads what a tool said to its user while both of its outputs went to the same file. After a fault the
// listing is not complete.
func (p *parser) readMessage(line string) error {
	if strings.Contains(line, " fatal ") || strings.Contains(line, " error ") {
		return p.errorf(Syntax, "see why the tool failed, and make the listing again", "the tool failed: %.200q", line)
	}
	return nil
}

func (p *parser) last() *Function { return &p.functions[len(p.functions)-1] }

// isLabel reports whether the line is "name:", maybe with a comment behind it.
func isLabel(line string) bool {
	line, _, _ = strings.Cut(line, " //")
	return strings.HasSuffix(strings.TrimSpace(line), ":")
}

// startFunction begins a function.
func (p *parser) startFunction(name string) error {
	if name == "" {
		return p.errorf(Syntax, "give the listing as the tool printed it", "a function has no name")
	}
	p.functions = append(p.functions, Function{Name: name, Arch: p.arch, Line: p.line})
	p.open, p.source = true, Source{}
	return nil
}

// readDirective reads a line that starts with a dot: directives, local labels, and the dots after a function.
func (p *parser) readDirective(line string) error {
	word, rest, _ := strings.Cut(strings.ReplaceAll(line, "\t", " "), " ")
	rest = strings.TrimSpace(rest)
	switch {
	case word == ".section":
		section, _, _ := strings.Cut(rest, ",")
		name, isCode := strings.CutPrefix(strings.Trim(section, `"`), ".text.")
		if isCode {
			return p.startFunction(name)
		}
		p.open = false
	case word == ".target":
		p.arch, _, _ = strings.Cut(rest, ",")
	case word == ".headerflags" && !p.open:
		p.arch = archOfFlags(rest) // cuobjdump says it before the function, in "code for"
	case strings.Trim(line, ".") == "":
		p.open = false
	}
	return nil
}

// archOfFlags finds the architecture in `@"EF_CUDA_ACCELERATORS EF_CUDA_SM90 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM90)"`.
func archOfFlags(flags string) string {
	const prefix = "EF_CUDA_SM"
	arch, suffix := "", ""
	for flag := range strings.FieldsSeq(strings.Trim(flags, `@"`)) {
		if number, ok := strings.CutPrefix(flag, prefix); ok && arch == "" {
			arch = "sm_" + number
		}
		if flag == "EF_CUDA_ACCELERATORS" {
			suffix = "a"
		}
	}
	if arch == "" {
		return ""
	}
	return arch + suffix
}

// readSource reads `//## File "name", line 7 inlined at "name", line 12`. Of lines that follow each other the first is
// for the code itself, the others are for the places it was inlined at.
func (p *parser) readSource(line string) {
	if p.sourceSet {
		return
	}
	_, rest, found := strings.Cut(line, `File "`)
	name, rest, closed := strings.Cut(rest, `", line `)
	if !found || !closed {
		return
	}
	digits, _, _ := strings.Cut(rest, " ")
	number, err := strconv.Atoi(strings.TrimRight(digits, ","))
	if err != nil || number < 0 {
		return // a comment of another form
	}
	p.source, p.sourceSet = Source{File: name, Line: number}, true
}

// readAddressed reads a line that starts with a comment: `/*0010*/ @P0 LDG.E R0, [R2] ; /* 0x… */`, data with an
// address, or the rest of an encoding.
func (p *parser) readAddressed(line string) error {
	comment, rest, closed := strings.Cut(line[2:], "*/")
	if !closed {
		return p.errorf(Syntax, "give the listing as the tool printed it", "a comment does not end: %.60q", line)
	}
	comment = strings.TrimSpace(comment)
	if strings.HasPrefix(comment, "0x") {
		return nil // the second half of an encoding, or the control word of three instructions
	}
	address, err := strconv.ParseUint(comment, 16, 64)
	if err != nil {
		return p.errorf(Syntax, "give the listing as the tool printed it", "%.40q is no address", comment)
	}
	rest = strings.TrimSpace(rest)
	if strings.HasPrefix(rest, "/*") { // older tools print the encoding in front
		_, rest, _ = strings.Cut(rest, "*/")
		rest = strings.TrimSpace(rest)
	}
	if strings.HasPrefix(rest, ".") {
		return nil // data
	}
	in, err := p.readInstr(rest)
	if err != nil {
		return err
	}
	in.Address, in.Line, in.Source = address, p.line, p.source
	f := p.last()
	f.Instrs = append(f.Instrs, in)
	return nil
}

// readInstr reads `@P0 LDG.E R0, [R2] ;`. Two instructions that older architectures issue together stand in braces, and
// the second ends with the brace.
func (p *parser) readInstr(text string) (Instr, error) {
	body, _, ended := strings.Cut(text, ";")
	if !ended {
		if body, _, ended = strings.Cut(text, "}"); !ended {
			return Instr{}, p.errorf(Syntax, "give the listing as the tool printed it",
				"an instruction does not end with a semicolon: %.60q", text)
		}
	}
	body = strings.TrimSpace(strings.TrimPrefix(body, "{"))
	var in Instr
	if strings.HasPrefix(body, "@") {
		in.Predicate, body, _ = strings.Cut(body[1:], " ")
		body = strings.TrimSpace(body)
	}
	mnemonic, operands, _ := strings.Cut(strings.TrimSpace(body), " ")
	in.Opcode, in.Modifiers, _ = strings.Cut(mnemonic, ".")
	in.Operands = strings.TrimSpace(operands)
	if !isOpcode(in.Opcode) {
		return Instr{}, p.errorf(Syntax, "give the listing as the tool printed it",
			"%.40q is no opcode, in %.60q", in.Opcode, text)
	}
	return in, nil
}

// isOpcode reports whether a word looks like an opcode: capital letters, digits and underscores.
func isOpcode(word string) bool {
	for i := range len(word) {
		c := word[i]
		if !('A' <= c && c <= 'Z' || i > 0 && ('0' <= c && c <= '9' || c == '_')) {
			return false
		}
	}
	return word != ""
}
