// This file implements index outputs: an index is right when its score is as good as that of the wanted one.

package compare

import (
	"math"

	"gpuemu/internal/diag"
)

func (t *Ties) check(w *Want, n int) error {
	bad := func(format string, args ...any) error {
		return diag.Errorf(BadWant, "", "want: ties: "+format, args...)
	}
	switch {
	case w.DType.IsFloat() || w.DType.Size() == 0:
		return bad("an output of %s holds no indexes", w.DType)
	case t.Rows < 0 || t.K < 0 || t.N < 0:
		return bad("rows %d, k %d, n %d: none may be negative", t.Rows, t.K, t.N)
	case !product(t.Rows, t.K, n):
		return bad("%d rows of %d indexes do not fit the shape %s", t.Rows, t.K, w.Shape)
	case !product(t.Rows, t.N, len(t.Score)):
		return bad("%d rows of %d need %d scores, got %d", t.Rows, t.N, t.Rows*t.N, len(t.Score))
	case t.Slack != nil && len(t.Slack) != len(t.Score):
		return bad("got %d scores and %d slacks", len(t.Score), len(t.Slack))
	case t.Distinct && t.K > t.N && t.Rows > 0:
		return bad("%d distinct indexes cannot be taken from %d", t.K, t.N)
	}
	for i, s := range t.Slack {
		if !(s >= 0) {
			return bad("slack[%d] is %v", i, s)
		}
	}
	return nil
}

// product reports whether x*y == n, without overflow.
func product(x, y, n int) bool {
	if x == 0 || y == 0 {
		return n == 0
	}
	return n%x == 0 && n/x == y
}

// reaches reports whether a score is not below another by more than the slacks of the two. NaN ranks highest, above
// +Inf.
func reaches(score, slack, than, thanSlack float64) bool {
	switch {
	case score != score:
		return true
	case than != than:
		return false
	case score >= than:
		return true
	}
	return than-score <= slack+thanSlack
}

// tieRow is one row of an index output, with what is known of each index. It is reused from row to row.
type tieRow struct {
	t         *Ties
	number    int
	score     []float64
	slack     []float64 // nil: 0
	got, want []int
	kinds     []Kind
	errs      []tieError
	taken     []int // by index: 1 + number of the last row that took it
}

func (r *tieRow) at(i int) (score, slack float64) {
	if r.slack != nil {
		slack = r.slack[i]
	}
	return r.score[i], slack
}

// compareTies judges an index output. Rows are judged one after the other: there are far fewer of them than scores,
// and reading the scores is what costs.
func (f *fullPass) compareTies() error {
	p, t := f.p, f.p.want.Ties
	f.counts.Total = p.n
	row := &tieRow{t: t, got: make([]int, t.K), want: make([]int, t.K), kinds: make([]Kind, t.K),
		errs: make([]tieError, t.K), taken: make([]int, t.N)}
	for r := range t.Rows {
		row.number, row.score = r, t.Score[r*t.N:(r+1)*t.N]
		if t.Slack != nil {
			row.slack = t.Slack[r*t.N : (r+1)*t.N]
		}
		if err := row.judgeAll(p); err != nil {
			return err
		}
		for j, k := range row.kinds {
			i := r*t.K + j
			wrong := p.count(&f.counts, k)
			if wrong {
				f.markWrong(i, k)
			}
			if k != Accepted && k != BeyondBound {
				continue
			}
			d := row.errs[j].abs
			f.out.sums[i/segmentElems].abs.add(d)
			f.hist.add(d)
			if d != 0 {
				f.rank(d, 0, 0, row.errs[j].bound, i, wrong)
			}
		}
	}
	return nil
}

// tieError is the shortfall of an index's score and what is allowed of it.
type tieError struct{ abs, bound float64 }

// judgeAll sets the kind and the shortfall of each index of the row.
func (r *tieRow) judgeAll(p *plan) error {
	t, lo := r.t, r.number*r.t.K
	for j := range t.K {
		e := p.integerElement(lo + j)
		g, inRange := e.got.index(t.N)
		w, ok := e.exact.index(t.N)
		r.kinds[j], r.got[j], r.want[j] = KindUnset, g, w
		switch {
		case !e.marked && (!e.isInt || !ok):
			return diag.Errorf(BadWant, "", "want: element %v is %v, not an index below %d",
				p.want.Shape.Unravel(lo+j), e.want, t.N)
		case !inRange:
			r.kinds[j] = OutOfRange
		case t.Distinct && r.taken[g] == r.number+1:
			r.kinds[j] = Duplicate
		case e.marked: // any order of any experts, but never an index out of range or taken twice
			r.kinds[j] = NotDetermined
		}
		if inRange {
			r.taken[g] = r.number + 1
		}
	}
	// From the last place to the first: whoever comes later, or is left out, must not clearly beat what stands here.
	rival := r.bestLeftOut()
	for j := t.K - 1; j >= 0; j-- {
		if r.kinds[j] != KindUnset {
			r.errs[j] = tieError{}
			continue
		}
		g := r.got[j]
		r.kinds[j], r.errs[j] = r.judge(g, rival)
		if t.Ordered && (rival < 0 || r.higher(g, rival)) {
			rival = g
		}
	}
	return nil
}

// judge compares the score of index g with that of its rival w, which is negative if there is none.
func (r *tieRow) judge(g, w int) (Kind, tieError) {
	if w < 0 || g == w {
		return Accepted, tieError{}
	}
	score, slack := r.at(g)
	than, thanSlack := r.at(w)
	e := tieError{bound: slack + thanSlack}
	if short := than - score; short > 0 {
		e.abs = maxFloat(short)
	} else if than != than && score == score {
		e.abs = math.MaxFloat64
	}
	if reaches(score, slack, than, thanSlack) {
		return Accepted, e
	}
	return BeyondBound, e
}

// bestLeftOut returns the index left out whose score less its slack is highest: if it does not beat an index taken in,
// none does. It returns -1 when all are taken in.
func (r *tieRow) bestLeftOut() int {
	best := -1
	for i := range r.score {
		if r.taken[i] != r.number+1 && (best < 0 || r.higher(i, best)) {
			best = i
		}
	}
	return best
}

// higher reports whether the score of i less its slack ranks above that of j, NaN highest.
func (r *tieRow) higher(i, j int) bool {
	score, slack := r.at(i)
	than, thanSlack := r.at(j)
	switch {
	case than != than:
		return false
	case score != score:
		return true
	}
	return score-slack > than-thanSlack
}

// index returns the integer as an index below n, and whether it is one.
func (w whole) index(n int) (int, bool) {
	if w.neg && w.mag != 0 || w.mag >= uint64(n) {
		return -1, false
	}
	return int(w.mag), true
}
