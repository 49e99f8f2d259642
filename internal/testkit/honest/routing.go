// This file implements the routing of tokens to experts.

package honest

// moeRouting takes the k most probable experts of each row, ranked by probability or by logit (AltFold).
func moeRouting(e *eval) {
	a, ok := e.in("logits", 2)
	if !ok {
		return
	}
	rows, n, k := a.Shape[0], a.Shape[1], e.int("k", 2)
	if k < 0 || k > n {
		e.fail("k is %d, with %d experts", k, n)
		return
	}
	weights, indices := e.out("weights", rows*k), e.out("indices", rows*k)
	if e.err != nil {
		return
	}
	p := e.scratch(6, n)
	for r := range rows {
		logits := a.X[r*n : (r+1)*n]
		e.softmaxRow(p, logits)
		score := p
		if e.alt(AltFold) {
			score = logits
		}
		w := weights[r*k : (r+1)*k]
		for j, i := range e.rank(score, k) {
			w[j], indices[r*k+j] = p[i], float64(i)
		}
		if e.flag("renormalize", false) {
			sum := e.Sum(w)
			for j, x := range w {
				w[j] = e.Div(x, sum)
			}
		}
	}
}
