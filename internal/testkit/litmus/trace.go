package litmus

import (
	"fmt"
	"slices"
)

// This file implements what single threads can do: the events of a thread for every choice of values that its reads
// may return, from whoever they come.

// kind is what an event is.
type kind uint8

const (
	access kind = iota + 1
	fence
	arrive    // at a barrier
	wait      // for the others at a barrier
	copyReady // of asynchronous copies of this thread
)

// event is one operation of one thread.
type event struct {
	thread  int
	kind    kind
	stmt    *Stmt
	sem     Sem
	scope   Scope
	place   set  // pieces of memory that it accesses
	read    bool // a value is returned or computed with
	write   bool
	atomic  bool
	red     bool
	spun    bool // of a loop that did not yet see what it waits for
	async   bool // not in program order with what its thread does later
	got     value
	put     value
	start   int   // address of the first byte
	pair    int   // of elements of one vector: the same number; 0 for none
	deps    set   // reads of the thread that this event, a write, depends on
	covered []int // copyReady: asynchronous copies that are complete
}

func (e *event) strong() bool { return e.kind == fence || e.kind == access && e.sem != Weak }
func (e *event) acquire() bool {
	return e.sem == Acquire || e.sem == AcqRel || e.kind == fence && e.sem == SC
}
func (e *event) release() bool {
	return e.sem == Release || e.sem == AcqRel || e.kind == fence && e.sem == SC
}

// thread is one lane of a warp.
type thread struct{ warp, lane int }

// trace is what a thread did, with the values that it read.
type trace struct {
	events []event
	regs   map[string]value
}

// layout cuts memory into the pieces that no access takes a part of.
type layout struct {
	prog *Program
	cuts []int
}

// blockStride separates the copies of shared memory that blocks have.
const blockStride = 1 << 20

func (l *layout) address(pl Place, w *Warp, lane int) int {
	v := &l.prog.Vars[pl.Var]
	at := v.offset + v.Width*int(pl.Index.eval(lane, nil).n)
	if v.Space == Shared {
		at += blockStride * (w.Block + 1)
	}
	return at
}

func newLayout(p *Program) (*layout, error) {
	l := &layout{prog: p}
	var err error
	for i := range p.Warps {
		w := &p.Warps[i]
		each(w.Body, func(s *Stmt) {
			places := []Place{s.Place, s.From}
			switch s.Op {
			case OpLoad, OpStore, OpAtom:
				places = places[:1]
			case OpAsync:
			default:
				return
			}
			for _, pl := range places {
				for lane := range w.Lanes {
					at := l.address(pl, w, lane)
					l.cuts = append(l.cuts, at, at+s.Width)
					if s.Pair {
						l.cuts = append(l.cuts, at+2*s.Width)
					}
					if at%s.Width != 0 {
						err = fmt.Errorf("%s: %q is not aligned", p.Name, s.Text)
					}
				}
			}
		})
	}
	slices.Sort(l.cuts)
	l.cuts = slices.Compact(l.cuts)
	if len(l.cuts) > setLimit {
		err = fmt.Errorf("%s: more than %d pieces of memory", p.Name, setLimit)
	}
	return l, err
}

// pieces of an access.
func (l *layout) pieces(at, width int) set {
	var s set
	i, _ := slices.BinarySearch(l.cuts, at)
	for ; l.cuts[i] < at+width; i++ {
		s.add(i)
	}
	return s
}

// part takes the value of one piece out of that of an access.
func (l *layout) part(n uint64, start, piece int) uint64 {
	return truncate(n>>(8*(l.cuts[piece]-start)), l.cuts[piece+1]-l.cuts[piece])
}

// initial is the value of a piece before anything is written.
func (l *layout) initial(piece int) uint64 {
	at := l.cuts[piece] % blockStride
	for i := range l.prog.Vars {
		v := &l.prog.Vars[i]
		if at >= v.offset && at < v.offset+v.Count*v.Width {
			return truncate(v.Init>>(8*((at-v.offset)%v.Width)), l.cuts[piece+1]-l.cuts[piece])
		}
	}
	return 0
}

// expander makes the traces of all threads.
type expander struct {
	*layout
	threads []thread
	asked   []bool           // by variable: its values decide something
	domain  map[int][]uint64 // by piece: values that somebody may have written
	learned map[int][]uint64 // what is not yet in the domain
	fault   error
}

// expand gives the traces of each thread. With all set, every value is followed.
func (p *Program) expand(all bool) (*expander, [][]trace, error) {
	l, err := newLayout(p)
	if err != nil {
		return nil, nil, err
	}
	x := &expander{layout: l, domain: map[int][]uint64{}, asked: p.relevant(all)}
	writes := 0
	for i := range p.Warps {
		for lane := range p.Warps[i].Lanes {
			x.threads = append(x.threads, thread{i, lane})
		}
		each(p.Warps[i].Body, func(s *Stmt) {
			if s.Op == OpStore || s.Op == OpAtom {
				writes += p.Warps[i].Lanes
			}
		})
	}
	for i := range len(l.cuts) - 1 {
		x.domain[i] = []uint64{l.initial(i)}
	}
	// A value travels through each write at most once, for values do not come out of thin air: what is learned later
	// has no execution.
	traces := make([][]trace, len(x.threads))
	for round := 0; ; round++ {
		x.learned = map[int][]uint64{}
		for i := range x.threads {
			traces[i] = x.thread(i)
		}
		if x.fault != nil {
			return nil, nil, fmt.Errorf("%s: %w", p.Name, x.fault)
		}
		if len(x.learned) == 0 || round == writes {
			return x, traces, nil
		}
		for g, values := range x.learned {
			x.domain[g] = append(x.domain[g], values...)
		}
	}
}

// learn adds what a thread writes to the domain, be it on a way that does not end.
func (x *expander) learn(events []event) {
	for i := range events {
		e := &events[i]
		if !e.write || !e.put.known {
			continue
		}
		for g := range e.place.all {
			n := x.part(e.put.n, e.start, g)
			if !slices.Contains(x.domain[g], n) && !slices.Contains(x.learned[g], n) {
				x.learned[g] = append(x.learned[g], n)
			}
		}
	}
}

// explained reports whether somebody writes each value that is read. It only saves work: most choices fail here.
func (x *expander) explained(traces []trace) bool {
	for i := range traces {
		for k := range traces[i].events {
			e := &traces[i].events[k]
			if !e.read || !e.got.known {
				continue
			}
			for g := range e.place.all {
				n := x.part(e.got.n, e.start, g)
				if n != x.initial(g) && !x.written(traces, e, g, n) {
					return false
				}
			}
		}
	}
	return true
}

// written reports whether somebody but reader writes n to a piece.
func (x *expander) written(traces []trace, reader *event, piece int, n uint64) bool {
	for i := range traces {
		for k := range traces[i].events {
			e := &traces[i].events[k]
			if e.write && e != reader && e.place.has(piece) && (!e.put.known || x.part(e.put.n, e.start, piece) == n) {
				return true
			}
		}
	}
	return false
}

// relevant says for each variable whether its values decide what a thread does.
func (p *Program) relevant(all bool) []bool {
	asked := make([]bool, len(p.Vars))
	regs := map[string]bool{}
	for changed := true; changed; {
		changed = false
		ask := func(v int) {
			changed = changed || !asked[v]
			asked[v] = true
		}
		reg := func(e Expr) {
			for _, r := range e.registers() {
				changed = changed || !regs[r]
				regs[r] = true
			}
		}
		for i := range p.Warps {
			each(p.Warps[i].Body, func(s *Stmt) {
				if s.Cond != nil {
					reg(s.Cond.A)
					reg(s.Cond.B)
				}
				if s.Op != OpLoad && s.Op != OpStore && s.Op != OpAtom && s.Op != OpAsync {
					return
				}
				v := s.Place.Var
				if s.Until != nil || s.RMW == "cas" || s.Dest != "" && regs[s.Dest] || all {
					ask(v)
				}
				if s.Until != nil {
					reg(s.Until.B)
				}
				if asked[v] {
					for _, a := range s.Args {
						reg(a)
					}
				}
			})
		}
	}
	return asked
}

// thread gives the traces of one thread: all choices, one after the other.
func (x *expander) thread(i int) []trace {
	var out []trace
	w := &x.prog.Warps[x.threads[i].warp]
	var choices []int
	for {
		r := &run{x: x, warp: w, lane: x.threads[i].lane, choices: choices, regs: map[string]value{}}
		r.body(w.Body)
		x.learn(r.events)
		if !r.dead {
			for k := range r.events {
				r.events[k].thread = i
			}
			out = append(out, trace{r.events, r.regs})
		}
		choices = r.choices[:r.used]
		n := len(choices)
		for n > 0 && choices[n-1]+1 == r.options[n-1] {
			n--
		}
		if n == 0 || x.fault != nil {
			return out
		}
		choices = slices.Clone(choices[:n])
		choices[n-1]++
	}
}

// run is one way of a thread.
type run struct {
	x       *expander
	warp    *Warp
	lane    int
	choices []int
	options []int
	used    int
	events  []event
	regs    map[string]value
	control set // reads that decided what is executed from here on
	dead    bool
	ended   bool    // it has left the kernel
	spun    bool    // some loop has not seen at once what it waits for
	groups  [][]int // committed asynchronous copies
	pending []int   // those that are not
}

// choose gives one of n.
func (r *run) choose(n int) int {
	if n == 0 {
		panic("litmus: internal error: nothing to choose from")
	}
	if r.used == len(r.choices) {
		r.choices = append(r.choices, 0)
	}
	r.options = append(r.options, n)
	r.used++
	return r.choices[r.used-1]
}

func (r *run) body(list []*Stmt) {
	for _, s := range list {
		if r.dead || r.ended {
			return
		}
		r.step(s)
	}
}

func (r *run) step(s *Stmt) {
	e := event{stmt: s, sem: s.Sem, scope: s.Scope}
	switch s.Op {
	case OpLoad, OpStore, OpAtom:
		r.access(s)
	case OpFence:
		e.kind = fence
		r.events = append(r.events, e)
	case OpBarSync, OpWarpSync:
		if s.Op == OpWarpSync && s.Mask>>r.lane&1 == 0 {
			r.x.fault = fmt.Errorf("%q: lane %d is not in the mask", s.Text, r.lane)
		}
		e.kind = arrive
		r.events = append(r.events, e)
		e.kind = wait
		r.events = append(r.events, e)
	case OpBarArrive:
		e.kind = arrive
		r.events = append(r.events, e)
	case OpIf:
		a, b := s.Cond.A.eval(r.lane, r.regs), s.Cond.B.eval(r.lane, r.regs)
		if !a.known || !b.known {
			r.x.fault = fmt.Errorf("%q depends on what is not followed", s.Text)
		}
		r.control = r.control.union(a.deps).union(b.deps)
		if s.Cond.holds(a.n, b.n) {
			r.body(s.Then)
		} else {
			r.body(s.Else)
		}
	case OpExit:
		r.ended = true
	case OpShuffle, OpBallot, OpActive:
		r.regs[s.Dest] = value{}
	default:
		r.async(s, e)
	}
}

// async executes what has to do with asynchronous copies.
func (r *run) async(s *Stmt, e event) {
	switch s.Op {
	case OpAsync:
		from, to := r.x.address(s.From, r.warp, r.lane), r.x.address(s.Place, r.warp, r.lane)
		e.kind, e.async = access, true
		load, store := e, e
		load.read, load.start, load.place = true, from, r.x.pieces(from, s.Width)
		store.write, store.start, store.place = true, to, r.x.pieces(to, s.Width)
		store.deps.add(len(r.events))
		r.pending = append(r.pending, len(r.events)+1)
		r.events = append(r.events, load, store)
	case OpCommit:
		r.groups, r.pending = append(r.groups, r.pending), nil
	case OpWaitGroup:
		e.kind = copyReady
		for _, g := range r.groups[:max(len(r.groups)-s.N, 0)] {
			e.covered = append(e.covered, g...)
		}
		r.events = append(r.events, e)
	default:
		panic(fmt.Sprintf("litmus: internal error: statement %q", s.Text))
	}
}

// access reads and writes memory. A loop that spins may find once what it does not wait for.
func (r *run) access(s *Stmt) {
	if s.Until != nil && !r.spun && r.choose(2) == 1 {
		r.spun = true
		r.once(s, false)
	}
	if !r.dead {
		r.once(s, true)
	}
}

// once is one access, which in a loop has to be the last one, or not.
func (r *run) once(s *Stmt, last bool) {
	at := r.x.address(s.Place, r.warp, r.lane)
	e := event{kind: access, stmt: s, sem: s.Sem, scope: s.Scope, start: at, place: r.x.pieces(at, s.Width),
		atomic: s.Op == OpAtom, red: s.Red, write: s.Op == OpStore, read: s.Op != OpStore, spun: !last, deps: r.control}
	asked := r.x.asked[s.Place.Var]
	if s.Pair {
		e.pair = len(r.events) + 1
	}
	args := make([]value, len(s.Args))
	for i, a := range s.Args {
		args[i] = a.eval(r.lane, r.regs)
		e.deps = e.deps.union(args[i].deps)
		if asked && !args[i].known {
			r.x.fault = fmt.Errorf("%q stores what is not followed", s.Text)
		}
	}
	if s.Op == OpStore {
		e.put = args[0]
		e.put.n = truncate(e.put.n, s.Width)
		r.events = append(r.events, e)
		if s.Pair {
			r.events = append(r.events, r.second(e))
		}
		return
	}
	if s.Pair {
		first := e
		if asked {
			first.got = r.value(e.place, at)
		}
		r.events = append(r.events, first)
		e = r.second(e)
		at = e.start
	}
	if asked {
		e.got = r.value(e.place, at)
	}
	e.got.deps = set{}
	e.got.deps.add(len(r.events))
	if s.Op == OpAtom {
		e.write = true
		if asked {
			e.put, e.write = s.combine(e.got.n, args)
		}
	}
	if s.Until != nil {
		b := s.Until.B.eval(r.lane, r.regs)
		if !b.known {
			r.x.fault = fmt.Errorf("%q waits for what is not followed", s.Text)
		}
		if s.Until.holds(e.got.n, b.n) != last {
			r.dead = true
			return
		}
		r.control = r.control.union(e.got.deps).union(b.deps)
	}
	r.events = append(r.events, e)
	if s.Dest != "" {
		r.regs[s.Dest] = e.got
	}
}

// second is the second element of a vector.
func (r *run) second(e event) event {
	e.start += e.stmt.Width
	e.place = r.x.pieces(e.start, e.stmt.Width)
	return e
}

// value chooses what a read returns.
func (r *run) value(place set, start int) value {
	v := value{known: true}
	for g := range place.all {
		d := r.x.domain[g]
		n := d[r.choose(len(d))]
		v.n |= n << (8 * (r.x.cuts[g] - start))
	}
	return v
}

// combine computes what an atomic operation writes, if it does.
func (s *Stmt) combine(old uint64, args []value) (value, bool) {
	v := value{n: old, known: true}
	switch s.RMW {
	case "add":
		v.n = old + args[0].n
	case "exch":
		v.n = args[0].n
	case "max":
		v.n = max(old, args[0].n)
	case "or":
		v.n = old | args[0].n
	case "inc":
		v.n = old + 1
		if old >= args[0].n {
			v.n = 0
		}
	case "cas":
		if old != args[0].n {
			return value{}, false
		}
		v.n = args[1].n
	default:
		panic("litmus: internal error: " + s.RMW)
	}
	v.n = truncate(v.n, s.Width)
	return v, true
}
