package ptx

import "iter"

// This file implements the limit of the memory that a module takes. Text from anywhere must not cost many times its
// size: a byte or two make an operand, and that has more than a hundred.

const (
	// treeFactor is how many times its text the tree of a module may take, names and what is in progress included. PTX
	// that compilers write takes 10 to 18 times its text.
	treeFactor = 20
	// treeFloor is what the tree of any module may take, in bytes: a small file may be as dense as it likes.
	treeFloor = 64 << 20
)

// Sizes of nodes, in bytes, with the pointer that leads to them; of those in slices that grow, with room to grow.
const (
	operandSize   = 120
	instrSize     = 104 + 3*8
	registerSize  = 80 + 4*8
	initSize      = 2 * 176
	statementSize = 3 * 8 // an element of Block.Stmts
	nodeSize      = 96    // of a block, a label, a location and the like
	variableSize  = 160
	nameSize      = 120
	functionSize  = 400
	wordSize      = 32  // a text or a number in a list
	entrySize     = 160 // a name that a scope knows
)

// charge counts memory of the tree. Where there is too much of it, parsing ends.
func (p *parser) charge(bytes int) {
	if p.spent += bytes; p.spent > max(treeFactor*len(p.lex.src), treeFloor) {
		p.fail(Limit, p.pos(), "split the module", "the module takes more than %d times its %d bytes of text", treeFactor,
			len(p.lex.src))
	}
}

// numbers are the elements of an initial value that are plain numbers. They stay text: tables of a module have many.
type numbers struct {
	lex lexer // behind the opening brace
	n   int
}

// IsList reports whether an initial value is a list, and not a value.
func (in *Init) IsList() bool { return in.list != nil || in.numbers != nil }

// Len is the number of elements of a list.
func (in *Init) Len() int {
	if in.numbers != nil {
		return in.numbers.n
	}
	return len(in.list)
}

// Elements yields the elements of a list in order.
func (in *Init) Elements() iter.Seq[*Init] {
	return func(yield func(*Init) bool) {
		if in.numbers == nil {
			for i := range in.list {
				if !yield(&in.list[i]) {
					return
				}
			}
			return
		}
		p := parser{lex: in.numbers.lex, file: &File{}}
		p.next()
		for range in.numbers.n {
			if e := p.init(); !yield(&e) {
				return
			}
			p.accept(',')
		}
	}
}

// isNumber reports whether an initial value is a number and nothing else.
func (in *Init) isNumber() bool {
	return !in.IsList() && in.Mask == "" && in.Value.Kind >= IntArg && in.Value.Kind <= F64Arg
}
