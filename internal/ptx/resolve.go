package ptx

import "strings"

// This file finds what names refer to. Names are local to the block that declares them, and blocks may use the same ones:
// inline assembly does.

// entry is what a name stands for: one of these, or a prototype where all are nil.
type entry struct {
	reg     *Register
	v       *Variable
	fn      *Function
	label   *Label
	targets *Targets
}

// scope is a block, a function or the module.
type scope struct {
	outer  *scope
	names  map[string]entry
	ranges []registerRange
}

// registerRange is %r<Count>.
type registerRange struct {
	prefix string
	count  int
	v      *Variable
}

func (s *scope) declare(name string, e entry) (twice bool) {
	if _, twice = s.names[name]; twice {
		return true
	}
	if s.names == nil {
		s.names = map[string]entry{}
	}
	s.names[name] = e
	return false
}

// resolve finds what all names of the module refer to.
func (p *parser) resolve() {
	module := &scope{names: map[string]entry{}}
	for _, item := range p.file.Items {
		switch x := item.(type) {
		case *Variable:
			for i := range x.Names { // a name may be declared before it is defined
				module.names[x.Names[i].Name] = entry{v: x}
			}
		case *Function:
			if old, ok := module.names[x.Name]; !ok || old.fn == nil || old.fn.Body == nil {
				module.names[x.Name] = entry{fn: x}
			} else if x.Body != nil {
				p.fail(Redeclared, x.Pos, "", "function %s has two bodies", x.Name)
			}
		}
	}
	for _, item := range p.file.Items {
		switch x := item.(type) {
		case *Variable:
			p.resolveInits(module, nil, x)
		case *Function:
			if x.Body == nil {
				continue
			}
			s := &scope{outer: module}
			for _, list := range [][]*Variable{x.Returns, x.Params} {
				for _, v := range list {
					p.declareVariable(s, v)
				}
			}
			p.resolveBlock(s, x, x.Body)
		}
		if p.err != nil {
			return
		}
	}
}

func (p *parser) declareVariable(s *scope, v *Variable) {
	for i := range v.Names {
		n := &v.Names[i]
		if n.Count > 0 {
			s.ranges = append(s.ranges, registerRange{n.Name, n.Count, v})
		} else if n.Name != "_" && s.declare(n.Name, entry{v: v}) {
			p.redeclared(n.Pos, n.Name)
		}
	}
}

func (p *parser) redeclared(at Pos, name string) {
	p.fail(Redeclared, at, "give it another name, or put it into a block of its own { }",
		"%s is declared twice in one block", name)
}

func (p *parser) resolveBlock(s *scope, fn *Function, b *Block) {
	for _, stmt := range b.Stmts {
		name, e := "", entry{}
		switch x := stmt.(type) {
		case *Variable:
			p.declareVariable(s, x)
		case *Label:
			name, e.label = x.Name, x
		case *Targets:
			name, e.targets = x.Name, x
		case *Prototype:
			name = x.Name
		}
		if name != "" && s.declare(name, e) {
			p.redeclared(stmt.At(), name)
		}
	}
	for _, stmt := range b.Stmts {
		switch x := stmt.(type) {
		case *Instr:
			if x.Guard != nil {
				p.resolveOperand(s, fn, x.Guard)
			}
			for i := range x.Args {
				p.resolveOperand(s, fn, &x.Args[i])
			}
		case *Block:
			p.resolveBlock(&scope{outer: s}, fn, x)
		case *Targets:
			for i := range x.List {
				p.resolveOperand(s, fn, &x.List[i])
			}
		case *Variable:
			p.resolveInits(s, fn, x)
		}
		if p.err != nil {
			return
		}
	}
}

func (p *parser) resolveInits(s *scope, fn *Function, v *Variable) {
	for i := range v.Names {
		if v.Names[i].Init != nil {
			p.resolveInit(s, fn, v.Names[i].Init)
		}
	}
}

func (p *parser) resolveInit(s *scope, fn *Function, in *Init) {
	if in.List == nil {
		p.resolveOperand(s, fn, &in.Value)
	}
	for i := range in.List {
		p.resolveInit(s, fn, &in.List[i])
	}
}

// resolveOperand finds what an operand refers to. The parser calls every name a register.
func (p *parser) resolveOperand(s *scope, fn *Function, o *Operand) {
	for i := range o.List {
		p.resolveOperand(s, fn, &o.List[i])
	}
	if o.Kind != RegisterArg {
		return
	}
	e, found := lookup(s, fn, o.Text)
	switch {
	case !found && specials[o.Text]:
		o.Kind = SpecialArg
	case !found && strings.HasPrefix(o.Text, "%"):
		p.fail(Undeclared, o.Pos, "add a .reg directive for it in this scope", "register %s is not declared", o.Text)
	case !found:
		p.fail(Undeclared, o.Pos, "declare it before this function, or in it", "%s is not declared", o.Text)
	case e.reg != nil:
		o.Reg = e.reg
	case e.v != nil:
		o.Kind, o.Var = SymbolArg, e.v
	case e.fn != nil:
		o.Kind, o.Func = SymbolArg, e.fn
	default:
		o.Kind, o.Label, o.Targets = LabelArg, e.label, e.targets
	}
}

// lookup finds a name. A register gets its number where it is used first.
func lookup(s *scope, fn *Function, name string) (entry, bool) {
	for ; s != nil; s = s.outer {
		e, found := s.names[name]
		if !found {
			var v *Variable
			if v = s.inRange(name); v == nil {
				continue
			}
			e = entry{v: v}
		}
		if e.v == nil || e.v.Space != "reg" || e.reg != nil || fn == nil {
			return e, true
		}
		e.reg = &Register{Name: name, Type: e.v.Type, Vec: e.v.Vec, Index: len(fn.Registers)}
		fn.Registers = append(fn.Registers, e.reg)
		if s.names == nil {
			s.names = map[string]entry{}
		}
		s.names[name] = e
		return e, true
	}
	return entry{}, false
}

// inRange finds the declaration %r<n> that a name belongs to.
func (s *scope) inRange(name string) *Variable {
	for i := range s.ranges {
		r := &s.ranges[i]
		digits, ok := strings.CutPrefix(name, r.prefix)
		if !ok || digits == "" || len(digits) > 10 || digits[0] == '0' && len(digits) > 1 {
			continue
		}
		n := 0
		for _, c := range []byte(digits) {
			if c < '0' || c > '9' {
				n = -1
				break
			}
			n = 10*n + int(c-'0')
		}
		if n >= 0 && n < r.count {
			return r.v
		}
	}
	return nil
}
