package litmus

// This file implements the language: programs, statements and expressions.

// Space is where a variable lives.
type Space uint8

// Spaces of variables. Each block has its own copy of a shared one.
const (
	Global Space = iota + 1
	Shared
)

// Var is an array of words.
type Var struct {
	Name   string
	Space  Space
	Count  int    // of elements
	Width  int    // bytes of an element
	Init   uint64 // value of every element before the first instruction
	offset int    // bytes from the beginning of all variables
}

// Sem is the order of an operation on memory.
type Sem uint8

// Orders of operations.
const (
	Weak Sem = iota + 1
	Relaxed
	Acquire
	Release
	AcqRel
	SC // fences only
	Volatile
)

// Scope is the set of threads that an operation may interact with.
type Scope uint8

// Scopes, each a superset of the one before.
const (
	CTA Scope = iota + 1
	Cluster
	GPU
	Sys
)

// Warp is the code that the first lanes of a warp execute; its other lanes leave at once.
type Warp struct {
	Block, Index, Lanes int
	Body                []*Stmt
}

// Program is a litmus test.
type Program struct {
	Name    string
	Title   string // what it shows, one line
	Family  string // of programs of one file
	Fixes   string // name of the racy program of which this is the smallest fix; "" for none
	Claim   Verdict
	Outcome []string // conditions on a final state, for tests of the checker
	Vars    []Var
	Warps   []Warp
	Text    string // as it was written

	stmts int // how many statements there are, nested ones included
}

// Blocks is the number of blocks of the launch.
func (p *Program) Blocks() int {
	n := 0
	for i := range p.Warps {
		n = max(n, p.Warps[i].Block+1)
	}
	return n
}

// Op is what a statement does.
type Op uint8

// Statements.
const (
	OpLoad Op = iota + 1
	OpStore
	OpAtom
	OpFence
	OpBarSync
	OpBarArrive
	OpWarpSync
	OpShuffle
	OpBallot
	OpActive
	OpIf
	OpAsync
	OpCommit
	OpWaitGroup
	OpExit
)

// Stmt is a statement.
type Stmt struct {
	Op    Op
	Text  string
	id    int
	Dest  string // register that gets the value; "" for none
	Sem   Sem
	Scope Scope
	Plain bool // an atom or red that names neither order nor scope
	Width int  // bytes; of an access
	Pair  bool // of two elements side by side: a store writes its value to both, a load gives the second
	Place Place
	From  Place   // of an asynchronous copy
	RMW   string  // add, exch, cas, inc, max, or
	Red   bool    // without a value for the thread
	Args  []Expr  // values stored; compared and stored for cas
	Until *Cond   // spins until the value read satisfies it; its left side is the value
	Cond  *Cond   // of an if
	Then  []*Stmt // of an if
	Else  []*Stmt
	N     int    // number of a barrier, groups of wait_group
	Count int    // threads of a barrier; 0 for all
	Mask  uint32 // of lanes
	Old   bool   // a membar, not a fence
}

// Place is an element of a variable.
type Place struct {
	Var   int
	Index Expr
}

// Operand is a number, a register, or the number of the lane.
type Operand struct {
	Num  uint64
	Reg  string
	Lane bool
}

// Expr is one operand, or two with an operator; Op 0 is for one.
type Expr struct {
	A, B Operand
	Op   byte // + - * / ^ &
}

// Cond compares.
type Cond struct {
	A, B Expr
	Cmp  string // == != < <= > >=
}

// value is what a register holds; known is false where nobody asks for it.
type value struct {
	n     uint64
	known bool
	deps  set // reads that it was made of
}

func (o Operand) eval(lane int, regs map[string]value) value {
	switch {
	case o.Lane:
		return value{n: uint64(lane), known: true}
	case o.Reg != "":
		return regs[o.Reg]
	}
	return value{n: o.Num, known: true}
}

func (e Expr) eval(lane int, regs map[string]value) value {
	x := e.A.eval(lane, regs)
	if e.Op == 0 {
		return x
	}
	y := e.B.eval(lane, regs)
	out := value{known: x.known && y.known, deps: x.deps.union(y.deps)}
	if !out.known {
		return out
	}
	switch e.Op {
	case '+':
		out.n = x.n + y.n
	case '-':
		out.n = x.n - y.n
	case '*':
		out.n = x.n * y.n
	case '/':
		out.n = x.n / max(y.n, 1)
	case '^':
		out.n = x.n ^ y.n
	case '&':
		out.n = x.n & y.n
	default:
		panic("litmus: internal error: operator " + string(e.Op))
	}
	return out
}

// registers lists the registers of an expression.
func (e Expr) registers() []string {
	var out []string
	for _, o := range []Operand{e.A, e.B} {
		if o.Reg != "" {
			out = append(out, o.Reg)
		}
	}
	return out
}

// holds compares two numbers, as signed ones of 32 bits.
func (c *Cond) holds(x, y uint64) bool {
	a, b := int32(x), int32(y)
	switch c.Cmp {
	case "==":
		return x == y
	case "!=":
		return x != y
	case "<":
		return a < b
	case "<=":
		return a <= b
	case ">":
		return a > b
	}
	return a >= b
}

// each calls visit for all statements, nested ones after their if.
func each(body []*Stmt, visit func(*Stmt)) {
	for _, s := range body {
		visit(s)
		each(s.Then, visit)
		each(s.Else, visit)
	}
}

// truncate keeps the low bytes.
func truncate(n uint64, width int) uint64 {
	if width >= 8 {
		return n
	}
	return n & (1<<(8*width) - 1)
}
