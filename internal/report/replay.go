// This file implements the command that repeats a case.

package report

import (
	"fmt"

	"gpuemu/internal/verdict"
)

// maxSeeds is how many seeds of failed cases are remembered to tell which are ambiguous. Beyond it commands name the
// whole case, which never is.
const maxSeeds = 1 << 16

// replays knows the seeds of the failed cases. gpuemu reproduce SEED takes the newest failing case of that seed, so
// only failed ones compete. The zero value is ready.
type replays struct {
	seeds map[verdict.Seed]*seedUse
	full  bool
}

// seedUse is the first case of a seed, and who else has the seed.
type seedUse struct {
	op, text string
	ops      bool // another op has it
	cases    bool // another case of the same op has it
}

// add notes a result.
func (p *replays) add(r *verdict.Result) {
	if !r.Verdict.Failed() {
		return
	}
	if p.seeds == nil {
		p.seeds = map[verdict.Seed]*seedUse{}
	}
	u := p.seeds[r.Seed]
	switch {
	case u == nil && len(p.seeds) == maxSeeds:
		p.full = true
	case u == nil:
		p.seeds[r.Seed] = &seedUse{op: r.Op, text: r.Case}
	case u.op != r.Op:
		if u.ops {
			u.cases = true // a third case: whether of this op or not is not known any more
		}
		u.ops = true
	case u.text != r.Case:
		u.cases = true
	}
}

// command returns the command that repeats the case, "" where there is none: a case that could not be made has neither
// seed nor text.
func (p *replays) command(r *verdict.Result) string {
	if r.Seed == 0 && r.Case == "" {
		return ""
	}
	u := p.seeds[r.Seed]
	switch {
	case r.Case != "" && (p.full || u != nil && u.cases):
		return "gpuemu reproduce " + shell(r.Case)
	case u != nil && u.ops:
		return fmt.Sprintf("gpuemu reproduce %d --op %s", r.Seed, shell(r.Op))
	}
	return fmt.Sprintf("gpuemu reproduce %d", r.Seed)
}
