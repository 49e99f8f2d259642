package ptx

import "strings"

// This file implements the search for what names refer to. Names are local to the block that declares them, and blocks
// may use the same ones: inline assembly does.

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
	used   int
	regs   []*Register // by number, as far as numbers are dense; the others are among the scope's names
}

// dense says which numbers of a range are looked up by index. Compilers count from 0 or 1; a file that declares a
// billion registers and uses the last one must not cost memory for all of them.
func (r *registerRange) dense(n int) bool { return n < 8*(r.used+32) }

func (s *scope) declare(name string, e entry) (twice bool) {
	if _, twice = s.names[name]; !twice {
		s.set(name, e)
	}
	return twice
}

func (s *scope) set(name string, e entry) {
	if s.names == nil {
		s.names = map[string]entry{}
	}
	s.names[name] = e
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
	p.resolveAliases(module)
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

// resolveAliases gives each name that .alias declares the function behind it, so that whoever calls one sees its body.
// The name itself has none.
func (p *parser) resolveAliases(module *scope) {
	for _, item := range p.file.Items {
		d, ok := item.(*Directive)
		if !ok || d.Name != "alias" || len(d.Args) != 2 {
			continue
		}
		name, to := module.names[d.Args[0]].fn, module.names[d.Args[1]].fn
		if name != nil && name.Body == nil && to != nil && to.Body != nil {
			module.names[d.Args[0]] = entry{fn: to}
		}
	}
}

func (p *parser) declareVariable(s *scope, v *Variable) {
	for i := range v.Names {
		n := &v.Names[i]
		if n.Count > 0 {
			s.ranges = append(s.ranges, registerRange{prefix: n.Name, count: n.Count, v: v})
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
			if x.Op == "bra" || x.Op == "brx" {
				p.branch(x)
			}
		case *Block:
			p.resolveBlock(&scope{outer: s}, fn, x)
		case *Targets:
			for i := range x.List {
				p.resolveOperand(s, fn, &x.List[i])
				if !x.Calls {
					p.isLabel(&x.List[i])
				}
			}
		case *Variable:
			p.resolveInits(s, fn, x)
		}
		if p.err != nil {
			return
		}
	}
}

// branch checks where a branch goes. Lists of targets may be shared, so the text alone does not limit what all of them
// may lead to.
func (p *parser) branch(in *Instr) {
	to := &in.Args[len(in.Args)-1]
	switch {
	case in.Op == "bra":
		p.branches++
		p.isLabel(to)
	case to.Targets == nil || to.Targets.Calls:
		p.fail(BadTarget, to.Pos, "declare a list of labels with .branchtargets", "%s does not name a list of labels",
			in.Mnemonic())
	default:
		p.branches += len(to.Targets.List)
	}
	if p.branches > maxBranches {
		p.fail(Limit, in.Pos, "", "the branches of the module lead to more than %d targets", maxBranches)
	}
}

func (p *parser) isLabel(o *Operand) {
	if o.Label == nil {
		p.fail(BadTarget, o.Pos, "branch to a label of the same function", "a branch leads to what is not a label")
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
	if !in.IsList() {
		p.resolveOperand(s, fn, &in.Value)
	}
	for i := range in.list {
		p.resolveInit(s, fn, &in.list[i])
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
	e, found := p.lookup(s, fn, o.Text)
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

// lookup finds a name. A register gets its number where it is used first; one of the module is another one in each
// function, since what calls do with it is not known here.
func (p *parser) lookup(s *scope, fn *Function, name string) (entry, bool) {
	for inner := s; s != nil; inner, s = s, s.outer {
		if r, n := s.inRange(name); r != nil {
			if n < len(r.regs) && r.regs[n] != nil {
				return entry{reg: r.regs[n]}, true
			}
			if e, found := s.names[name]; found {
				return e, true
			}
			r.used++
			reg := p.register(fn, name, r.v)
			if !r.dense(n) {
				p.charge(entrySize)
				s.declare(name, entry{reg: reg})
				return entry{reg: reg}, true
			}
			for len(r.regs) <= n {
				r.regs = append(r.regs, nil)
			}
			r.regs[n] = reg
			return entry{reg: reg}, true
		}
		e, found := s.names[name]
		if !found {
			continue
		}
		if e.v != nil && e.v.Space == "reg" && e.reg == nil && fn != nil {
			e = entry{reg: p.register(fn, name, e.v)}
			if s.outer == nil {
				s = inner
			}
			s.set(name, e)
		}
		return e, true
	}
	return entry{}, false
}

// register adds a register to those that the function uses.
func (p *parser) register(fn *Function, name string, v *Variable) *Register {
	r := &p.registers.take(1)[0]
	p.charge(registerSize)
	*r = Register{Name: name, Type: v.Type, Vec: v.Vec, Index: len(fn.Registers), Var: v}
	fn.Registers = append(fn.Registers, r)
	return r
}

// inRange finds the declaration %r<n> that a name belongs to, and its number there.
func (s *scope) inRange(name string) (*registerRange, int) {
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
			return r, n
		}
	}
	return nil, 0
}
