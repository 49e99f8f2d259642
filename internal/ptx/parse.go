package ptx

import (
	"errors"
	"math"
	"os"
	"strings"

	"gpuemu/internal/diag"
)

// This file implements the parser of modules.

const (
	// maxSource is the largest file that is read: PTX of a whole library has some ten megabytes, and a tree takes up to
	// ten times the text.
	maxSource = 256 << 20
	// maxNesting is how deep blocks, initial values and constant expressions may be nested.
	maxNesting = 100
	// maxBranches is how many targets all branches of a module may have together: each costs an edge of a graph.
	maxBranches = 1 << 22
)

// ReadFile parses a file.
func ReadFile(path string) (*File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // a pipe that nobody writes to would never be read to its end
		return nil, &os.PathError{Op: "read", Path: path, Err: errors.New("this is no regular file")}
	}
	if info.Size() > maxSource {
		return nil, tooLarge(path, info.Size())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, string(text))
}

func tooLarge(name string, size int64) error {
	return diag.Errorf(Limit, "give one module at a time", "the file has %d bytes, at most %d are read", size,
		int64(maxSource)).At(diag.Pos{File: name})
}

// Parse reads a module. name is what errors call it.
func Parse(name, src string) (*File, error) {
	if len(src) > maxSource {
		return nil, tooLarge(name, int64(len(src)))
	}
	src = strings.TrimRight(src, "\x00")    // images in fatbins are padded
	src = strings.TrimPrefix(src, "\ufeff") // editors write a byte-order mark, which no column counts
	p := &parser{lex: lexer{name: name, src: src}, file: &File{Name: name, src: src},
		mnemonics: map[string]*mnemonic{}}
	// An instruction has some 30 bytes of text, two or three operands, and a new register.
	p.instrs.chunk, p.operands.chunk, p.registers.chunk = chunk(len(src)/64), chunk(len(src)/24), chunk(len(src)/64)
	p.next()
	p.module()
	if p.err == nil {
		p.resolve()
	}
	if p.err != nil {
		return nil, p.err
	}
	return p.file, nil
}

// chunk limits the size of the slices that nodes are cut from: a small file takes little, and a large one not all at
// once.
func chunk(n int) int { return min(max(n, 8), 512) }

// parser is a recursive descent over tokens. The first error ends it: from then on every token is the end of the file.
type parser struct {
	lex       lexer
	tok       token
	err       error
	file      *File
	fn        *Function // whose body is read
	loc       *Loc      // the source line in effect
	depth     int       // of nesting
	branches  int       // targets of all branches so far
	mnemonics map[string]*mnemonic
	instrs    arena[Instr]
	operands  arena[Operand]
	registers arena[Register]
	stack     []Operand // of lists that are not complete
	deepest   int       // what it has held at most
	spent     int       // bytes of the tree, about
}

// arena hands out pieces of larger slices: a module has many small nodes that live equally long.
type arena[T any] struct {
	free  []T
	chunk int // elements of a larger slice
}

func (a *arena[T]) take(n int) []T {
	if len(a.free) < n {
		a.free = make([]T, max(n, a.chunk))
	}
	s := a.free[:n:n]
	a.free = a.free[n:]
	return s
}

func (p *parser) next() {
	if p.err != nil {
		return
	}
	tok, err := p.lex.next()
	if err != nil {
		p.stop(err)
		return
	}
	p.tok = tok
}

func (p *parser) stop(err error) {
	if p.err == nil {
		p.err = err
	}
	p.tok = token{kind: tokEOF, pos: int32(len(p.lex.src)), end: int32(len(p.lex.src))}
}

// fail ends parsing with an error at an offset.
func (p *parser) fail(code diag.Code, at Pos, hint, format string, args ...any) {
	if p.err == nil {
		p.stop(p.lex.fault(code, int(at), hint, format, args...))
	}
}

func (p *parser) text() string { return p.lex.src[p.tok.pos:p.tok.end] }

func (p *parser) pos() Pos { return Pos(p.tok.pos) }

// shown is the current token for an error.
func (p *parser) shown() string {
	if p.tok.kind == tokEOF {
		return "the end of the file"
	}
	text := p.text()
	if len(text) > 40 {
		text = text[:40] + "…"
	}
	return "\"" + text + "\""
}

// unexpected says what stands here and what should.
func (p *parser) unexpected(want string) {
	p.fail(Syntax, p.pos(), "", "%s stands where %s is expected", p.shown(), want)
}

// accept steps over a token of that kind and reports whether it was there.
func (p *parser) accept(k kind) bool {
	if p.tok.kind != k {
		return false
	}
	p.next()
	return true
}

func (p *parser) expect(k kind, want string) {
	if !p.accept(k) {
		p.unexpected(want)
	}
}

// is reports whether the current token is a directive of that name.
func (p *parser) is(dot string) bool { return p.tok.kind == tokDot && p.text() == dot }

// ident returns a name.
func (p *parser) ident(want string) string {
	if p.tok.kind != tokIdent {
		p.unexpected(want)
		return ""
	}
	name := p.text()
	p.next()
	return name
}

// integer returns a whole number from lo to hi.
func (p *parser) integer(want string, lo, hi int64) int {
	if p.tok.kind != tokInt {
		p.unexpected(want)
		return 0
	}
	v, _, ok := parseInt(p.text())
	if !ok || v > math.MaxInt64 || int64(v) < lo || int64(v) > hi {
		p.fail(BadLiteral, p.pos(), "", "%s is %s, not %d to %d", want, p.text(), lo, hi)
		return 0
	}
	p.next()
	return int(v)
}

// module reads everything.
func (p *parser) module() {
	if !p.is(".version") {
		p.fail(NotPTX, p.pos(), "PTX is what nvcc -ptx, clang -S and Triton write; a .cu source must be compiled first",
			"this is not PTX: it begins with %s, not with .version", p.shown())
		return
	}
	p.next()
	p.file.Version = p.text()
	if p.tok.kind != tokFloat {
		p.unexpected("a version such as 8.4")
	}
	p.next()
	for p.tok.kind != tokEOF {
		p.item()
	}
	if p.err == nil && len(p.file.Targets) == 0 {
		p.fail(Syntax, 0, "add a line such as .target sm_80", "the module has no .target")
	}
}

// item reads one directive of a module.
func (p *parser) item() {
	at := p.pos()
	if p.tok.kind == '@' {
		p.debugLine(&p.file.Items)
		return
	}
	if p.tok.kind != tokDot {
		p.unexpected("a directive")
		return
	}
	switch p.text() {
	case ".target":
		p.target()
		return
	case ".address_size":
		p.next()
		if p.file.AddressSize = p.integer("the address size", 32, 64); p.file.AddressSize%32 != 0 {
			p.fail(BadLiteral, at, "", "the address size is %d, not 32 or 64", p.file.AddressSize)
		}
		return
	case ".version":
		p.fail(Syntax, at, "give one module at a time", "a second .version")
		return
	}
	linkage := p.linkage()
	if p.is(".entry") || p.is(".func") {
		p.function(at, linkage)
		return
	}
	var stmt Stmt
	switch {
	case p.is(".file") && linkage == nil:
		stmt = p.fileName()
	case p.is(".section") && linkage == nil:
		stmt = p.section()
	case (p.is(".pragma") || p.is(".alias")) && linkage == nil:
		stmt = p.directive()
		p.expect(';', "a semicolon")
	case p.tok.kind == tokDot && spaces[baseSpace(p.text()[1:])]:
		v := p.variable(at, linkage)
		p.expect(';', "a semicolon")
		stmt = v
	case p.tok.kind == tokDot:
		p.fail(UnknownDirective, p.pos(), "", "directive %s is not known here", p.text())
	default:
		p.unexpected("a directive")
	}
	if p.err == nil {
		p.file.Items = append(p.file.Items, stmt)
	}
}

func (p *parser) target() {
	if p.file.Targets != nil {
		p.fail(Syntax, p.pos(), "give one module at a time", "a second .target")
		return
	}
	p.next()
	for {
		p.charge(wordSize)
		p.file.Targets = append(p.file.Targets, p.ident("a target such as sm_80"))
		if !p.accept(',') {
			return
		}
	}
}

var linkages = set(".extern .visible .weak .common")

func (p *parser) linkage() []string {
	var list []string
	for p.tok.kind == tokDot && linkages[p.text()] {
		p.charge(wordSize)
		list = append(list, p.text()[1:])
		p.next()
	}
	return list
}

// debugLine reads a line that begins with @@.
func (p *parser) debugLine(list *[]Stmt) {
	at := p.tok.pos
	if !strings.HasPrefix(p.lex.src[at:], "@@") {
		p.unexpected("a directive")
		return
	}
	*list = append(*list, &DebugLine{Pos(at), p.lex.line(at)})
	p.charge(statementSize + wordSize)
	p.next()
}

// section reads a debug section.
func (p *parser) section() Stmt {
	s := &Section{Pos: p.pos()}
	p.charge(statementSize + nodeSize)
	p.next()
	s.Name = p.text()
	if p.tok.kind != tokDot && p.tok.kind != tokIdent {
		p.unexpected("the name of a section")
	}
	p.next()
	if p.tok.kind != '{' {
		p.unexpected("{")
		return s
	}
	text, err := p.lex.raw(p.tok.pos)
	if err != nil {
		p.stop(err)
	}
	s.Text = strings.TrimSpace(text)
	p.next()
	return s
}

// fileName reads .file 1 "path"[, time, size].
func (p *parser) fileName() Stmt {
	f := &FileName{Pos: p.pos()}
	p.charge(nodeSize)
	p.next()
	f.Number = p.integer("the number of a file", 0, math.MaxInt32)
	f.Path = p.quoted()
	begin := p.pos()
	for p.accept(',') {
		if p.tok.kind != tokInt {
			p.unexpected("a number")
		}
		f.Stamp = p.lex.src[begin+1 : p.tok.end]
		p.next()
	}
	f.Stamp = strings.TrimSpace(f.Stamp)
	return f
}

// quoted returns a string as written, without its quotes.
func (p *parser) quoted() string {
	if p.tok.kind != tokString {
		p.unexpected("a string in quotes")
		return ""
	}
	text := p.text()
	p.next()
	return text[1 : len(text)-1]
}

// directive reads a directive whose arguments are numbers, strings and names between commas. It ends before anything
// else.
func (p *parser) directive() *Directive {
	d := &Directive{Pos: p.pos(), Name: p.text()[1:]}
	p.charge(nodeSize)
	p.next()
	for {
		switch p.tok.kind {
		case tokInt, tokString, tokIdent:
			d.Args = append(d.Args, p.text())
			p.charge(wordSize)
			p.next()
		default:
			if len(d.Args) > 0 {
				p.unexpected("an argument")
			}
			return d
		}
		if !p.accept(',') {
			return d
		}
	}
}
