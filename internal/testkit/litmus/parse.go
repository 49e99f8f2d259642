package litmus

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// This file implements the parser of litmus programs.
//
//	race mp/no-fence: data passed by a plain flag     "silent", "note", "same": what its author expects
//	fixes mp/other                                    of a silent one: what it is the fix of
//	global x f b8 c[4] d=1                            variables; .b32, one element and zero if nothing is said
//	shared s[32]
//	block 0 warp 1 lanes 4                            code of a warp; warp 0 and 1 lane if nothing is said
//	  st.release.gpu s[lane^1] lane+1
//	  r = ld.acquire.cta.b64 x
//	  st.relaxed.gpu.v2 c[0] 1                        two elements; a load gives the second
//	  q = atom.acq_rel.gpu.add x 1                    and exch, max, inc, or; cas x 0 1; red without a register
//	  wait r = ld.relaxed.gpu f == 1                  spins until it holds
//	  if lane < 2 {                                   } else {  and  } stand alone on their lines
//	  fence.acq_rel.gpu      membar.gl
//	  bar.sync 0 64          bar.arrive 1 64          bar.warp.sync 0x3
//	  r = shfl q             r = ballot q             r = activemask           exit
//	  cp.async s[lane] x[lane]    cp.async.commit     cp.async.wait 0
//	exists r == 1 && [x] == 2                         an outcome; of a test of the checker

// Parse reads the programs of a file. The family is its name.
func Parse(family, text string) ([]*Program, error) {
	p := &parser{family: family}
	for i, line := range strings.Split(text, "\n") {
		if err := p.line(line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", family, i+1, err)
		}
	}
	if err := p.finish(); err != nil {
		return nil, fmt.Errorf("%s: %w", family, err)
	}
	return p.programs, nil
}

type parser struct {
	family   string
	programs []*Program
	prog     *Program
	open     []*Stmt // ifs around the next statement
	inElse   []bool
}

func (p *parser) finish() error {
	if len(p.open) > 0 {
		return fmt.Errorf("%s: an if has no end", p.prog.Name)
	}
	return nil
}

func (p *parser) line(line string) error {
	if i := strings.IndexByte(line, '#'); i >= 0 {
		line = line[:i]
	}
	text := strings.TrimSpace(line)
	if text == "" {
		return nil
	}
	head, rest, _ := strings.Cut(text, " ")
	if v, ok := verdictNames[head]; ok {
		if err := p.finish(); err != nil {
			return err
		}
		name, title, _ := strings.Cut(rest, ":")
		p.prog = &Program{Name: name, Title: strings.TrimSpace(title), Family: p.family, Claim: v}
		p.programs = append(p.programs, p.prog)
		return nil
	}
	if p.prog == nil {
		return fmt.Errorf("%q before the first program", text)
	}
	if head != "fixes" {
		p.prog.Text += strings.TrimRight(line, " ") + "\n"
	}
	switch head {
	case "fixes":
		p.prog.Fixes = rest
		return nil
	case "exists":
		p.prog.Outcome = strings.Split(rest, " && ")
		return nil
	case "global", "shared":
		return p.vars(head, strings.Fields(rest))
	case "block":
		return p.warp(strings.Fields(text))
	}
	if len(p.prog.Warps) == 0 {
		return fmt.Errorf("%q outside of a block", text)
	}
	return p.statement(text)
}

var verdictNames = map[string]Verdict{"race": Race, "silent": Silent, "note": Note, "same": SameValue,
	"test": Undecided}

var varForm = regexp.MustCompile(`^([a-z]\w*)(?:\[(\d+)\])?(?:=(\d+))?$`)

func (p *parser) vars(space string, words []string) error {
	width := 4
	for _, w := range words {
		if n, ok := widths[w]; ok {
			width = n
			continue
		}
		m := varForm.FindStringSubmatch(w)
		if m == nil {
			return fmt.Errorf("%q is no variable", w)
		}
		v := Var{Name: m[1], Space: Global, Count: 1, Width: width}
		if space == "shared" {
			v.Space = Shared
		}
		if m[2] != "" {
			v.Count, _ = strconv.Atoi(m[2])
		}
		v.Init, _ = strconv.ParseUint("0"+m[3], 10, 64)
		if n := len(p.prog.Vars); n > 0 {
			last := p.prog.Vars[n-1]
			v.offset = (last.offset + last.Count*last.Width + 15) &^ 15
		}
		p.prog.Vars = append(p.prog.Vars, v)
	}
	return nil
}

var widths = map[string]int{"b8": 1, "b16": 2, "b32": 4, "b64": 8}

func (p *parser) warp(words []string) error {
	w := Warp{Lanes: 1}
	for i := 0; i+1 < len(words); i += 2 {
		n, err := strconv.Atoi(words[i+1])
		if err != nil {
			return err
		}
		switch words[i] {
		case "block":
			w.Block = n
		case "warp":
			w.Index = n
		case "lanes":
			w.Lanes = n
		default:
			return fmt.Errorf("%q does not place a warp", words[i])
		}
	}
	p.prog.Warps = append(p.prog.Warps, w)
	return p.finish()
}

// statement reads one line of code.
func (p *parser) statement(text string) error {
	switch text {
	case "}":
		if len(p.open) == 0 {
			return fmt.Errorf("no if to end")
		}
		p.open, p.inElse = p.open[:len(p.open)-1], p.inElse[:len(p.inElse)-1]
		return nil
	case "} else {":
		if len(p.open) == 0 || p.inElse[len(p.open)-1] {
			return fmt.Errorf("no if for this else")
		}
		p.inElse[len(p.open)-1] = true
		return nil
	}
	s, err := p.instruction(text)
	if err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	s.Text, s.id = text, p.prog.stmts
	p.prog.stmts++
	n := len(p.open)
	switch {
	case n == 0:
		w := &p.prog.Warps[len(p.prog.Warps)-1]
		w.Body = append(w.Body, s)
	case p.inElse[n-1]:
		p.open[n-1].Else = append(p.open[n-1].Else, s)
	default:
		p.open[n-1].Then = append(p.open[n-1].Then, s)
	}
	if s.Op == OpIf {
		p.open, p.inElse = append(p.open, s), append(p.inElse, false)
	}
	return nil
}

func (p *parser) instruction(text string) (*Stmt, error) {
	words := strings.Fields(text)
	s := &Stmt{}
	spin := words[0] == "wait"
	if spin {
		words = words[1:]
	}
	if len(words) > 2 && words[1] == "=" {
		s.Dest, words = words[0], words[2:]
	}
	if words[0] == "if" {
		if len(words) != 5 || words[4] != "{" {
			return nil, fmt.Errorf("an if is: if a == b {")
		}
		s.Op = OpIf
		var err error
		s.Cond, err = condition(words[1:4])
		return s, err
	}
	if spin {
		n := len(words)
		if n < 4 {
			return nil, fmt.Errorf("nothing to wait for")
		}
		c, err := condition([]string{"0", words[n-2], words[n-1]})
		if err != nil {
			return nil, err
		}
		s.Until, words = c, words[:n-2]
	}
	return s, p.operation(s, words[0], words[1:])
}

// operation reads an opcode with its qualifiers, and its operands.
func (p *parser) operation(s *Stmt, opcode string, args []string) error {
	parts := strings.Split(opcode, ".")
	if opcode == "cp.async" {
		return p.copying(s, args)
	}
	if fill, ok := fixedOps[opcode]; ok {
		return fill(s, args)
	}
	if err := s.qualify(parts[1:]); err != nil {
		return err
	}
	exprs := func(from, n int) error {
		if len(args) != n {
			return fmt.Errorf("%d operands, want %d", len(args), n)
		}
		for _, a := range args[from:] {
			e, err := expression(a)
			if err != nil {
				return err
			}
			s.Args = append(s.Args, e)
		}
		return nil
	}
	var err error
	switch parts[0] {
	case "fence", "membar":
		s.Op, s.Old = OpFence, parts[0] == "membar"
		if s.Old {
			s.Sem = SC
		}
		if s.Sem == 0 {
			s.Sem = AcqRel
		}
		if s.Scope == 0 || s.Sem < Acquire || s.Sem > SC {
			return fmt.Errorf("a fence has a scope, and acquire, release, acq_rel or sc")
		}
		return exprs(0, 0)
	case "ld":
		s.Op = OpLoad
		err = exprs(1, 1)
	case "st":
		s.Op = OpStore
		err = exprs(1, 2)
	case "atom", "red":
		s.Op, s.Red = OpAtom, parts[0] == "red"
		n := 2
		if s.RMW == "cas" {
			n = 3
		}
		if s.RMW == "" || s.Red && (s.Dest != "" || s.RMW == "cas" || s.RMW == "exch") {
			return fmt.Errorf("no such atomic operation")
		}
		err = exprs(1, n)
	default:
		return fmt.Errorf("no such instruction")
	}
	if err != nil {
		return err
	}
	if s.Place, err = p.place(args[0]); err != nil {
		return err
	}
	s.complete(p.prog.Vars[s.Place.Var].Width)
	return nil
}

// copying reads the operands of an asynchronous copy of one element.
func (p *parser) copying(s *Stmt, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("cp.async has a destination and a source")
	}
	s.Op, s.Sem = OpAsync, Weak
	var err error
	if s.Place, err = p.place(args[0]); err == nil {
		s.From, err = p.place(args[1])
	}
	s.Width = p.prog.Vars[s.Place.Var].Width
	return err
}

// complete says what qualifiers that are not there mean.
func (s *Stmt) complete(width int) {
	if s.Width == 0 {
		s.Width = width
	}
	s.Plain = s.Op == OpAtom && s.Sem == 0 && s.Scope == 0
	if s.Sem == 0 {
		s.Sem = Weak
		if s.Op == OpAtom {
			s.Sem = Relaxed
		}
	}
	if s.Scope == 0 {
		s.Scope = GPU
	}
	if s.Sem == Volatile {
		s.Scope = Sys
	}
}

var (
	semNames = map[string]Sem{"weak": Weak, "relaxed": Relaxed, "acquire": Acquire, "release": Release, "acq_rel": AcqRel,
		"sc": SC, "volatile": Volatile}
	scopeNames = map[string]Scope{"cta": CTA, "cluster": Cluster, "gpu": GPU, "gl": GPU, "sys": Sys}
	rmwNames   = []string{"add", "exch", "cas", "inc", "max", "or"}
)

func (s *Stmt) qualify(parts []string) error {
	for _, q := range parts {
		switch {
		case semNames[q] != 0:
			s.Sem = semNames[q]
		case scopeNames[q] != 0:
			s.Scope = scopeNames[q]
		case widths[q] != 0:
			s.Width = widths[q]
		case q == "v2":
			s.Pair = true
		case slices.Contains(rmwNames, q):
			s.RMW = q
		default:
			return fmt.Errorf("unknown qualifier %q", q)
		}
	}
	return nil
}

// fixedOps are instructions without qualifiers.
var fixedOps = map[string]func(*Stmt, []string) error{
	"bar.sync":        func(s *Stmt, a []string) error { return s.barrier(OpBarSync, a) },
	"bar.arrive":      func(s *Stmt, a []string) error { return s.barrier(OpBarArrive, a) },
	"bar.warp.sync":   func(s *Stmt, a []string) error { return s.masked(OpWarpSync, a) },
	"shfl":            func(s *Stmt, a []string) error { return s.exchange(OpShuffle, a) },
	"ballot":          func(s *Stmt, a []string) error { return s.exchange(OpBallot, a) },
	"exit":            func(s *Stmt, _ []string) error { s.Op = OpExit; return nil },
	"activemask":      func(s *Stmt, _ []string) error { s.Op = OpActive; return nil },
	"cp.async.commit": func(s *Stmt, _ []string) error { s.Op = OpCommit; return nil },
	"cp.async.wait": func(s *Stmt, a []string) error {
		s.Op = OpWaitGroup
		return s.numbers(a, &s.N)
	},
}

func (s *Stmt) numbers(args []string, into ...*int) error {
	for i, a := range args {
		n, err := strconv.Atoi(a)
		if err != nil || i >= len(into) {
			return fmt.Errorf("operand %q", a)
		}
		*into[i] = n
	}
	return nil
}

func (s *Stmt) barrier(op Op, args []string) error {
	s.Op = op
	return s.numbers(args, &s.N, &s.Count)
}

func (s *Stmt) masked(op Op, args []string) error {
	s.Op = op
	if len(args) != 1 {
		return fmt.Errorf("a mask is missing")
	}
	n, err := strconv.ParseUint(args[0], 0, 32)
	s.Mask = uint32(n)
	return err
}

// exchange is of registers of all lanes of the warp.
func (s *Stmt) exchange(op Op, args []string) error {
	s.Op = op
	if len(args) != 1 {
		return fmt.Errorf("a register is missing")
	}
	e, err := expression(args[0])
	s.Args = []Expr{e}
	return err
}

var placeForm = regexp.MustCompile(`^([a-z]\w*)(?:\[([^]]+)\])?$`)

func (p *parser) place(text string) (Place, error) {
	m := placeForm.FindStringSubmatch(text)
	if m == nil {
		return Place{}, fmt.Errorf("%q is no place", text)
	}
	for i, v := range p.prog.Vars {
		if v.Name != m[1] {
			continue
		}
		e := Expr{}
		var err error
		if m[2] != "" {
			e, err = expression(m[2])
		}
		if len(e.registers()) > 0 {
			err = fmt.Errorf("%q: an index is made of numbers and the lane", text)
		}
		return Place{Var: i, Index: e}, err
	}
	return Place{}, fmt.Errorf("no variable %q", m[1])
}

var exprForm = regexp.MustCompile(`^([a-z]\w*|\d+)(?:([-+*/^&])([a-z]\w*|\d+))?$`)

func expression(text string) (Expr, error) {
	m := exprForm.FindStringSubmatch(text)
	if m == nil {
		return Expr{}, fmt.Errorf("%q is no expression", text)
	}
	operand := func(t string) Operand {
		if n, err := strconv.ParseUint(t, 10, 64); err == nil {
			return Operand{Num: n}
		}
		if t == "lane" {
			return Operand{Lane: true}
		}
		return Operand{Reg: t}
	}
	e := Expr{A: operand(m[1])}
	if m[2] != "" {
		e.Op, e.B = m[2][0], operand(m[3])
	}
	return e, nil
}

func condition(words []string) (*Cond, error) {
	if !slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, words[1]) {
		return nil, fmt.Errorf("%q does not compare", words[1])
	}
	a, err := expression(words[0])
	if err != nil {
		return nil, err
	}
	b, err := expression(words[2])
	return &Cond{A: a, B: b, Cmp: words[1]}, err
}
