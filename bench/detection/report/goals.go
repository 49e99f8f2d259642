package main

import (
	"fmt"

	"gpuemu/bench/detection/record"
)

// This file implements the goals of the study, and whether the records reach them.

// The goals: how large the corpus is, how many cases every correct kernel passes, how much is found.
const (
	leastKernels = 24
	leastMutants = 300
	leastBugs    = 25
	leastCases   = 200 // of a correct kernel, in each number format and under each value strategy
	leastRecall  = 0.99
)

func (d *dataset) goalSection(p *page) {
	p.heading(2, "Goals")
	t := newTable("goal", "measured", "")
	add := func(goal, measured string, ok bool) {
		word := "ok"
		if !ok {
			word = "**short**"
		}
		t.row(goal, measured, word)
	}
	bugs := 0
	for _, m := range d.mutants {
		if m.real() {
			bugs++
		}
	}
	add(fmt.Sprintf("at least %d correct kernels, %d mutants, %d real bugs", leastKernels, leastMutants, leastBugs),
		fmt.Sprintf("%d, %d, %d", len(d.bases), len(d.mutants)-bugs, bugs),
		len(d.bases) >= leastKernels && len(d.mutants)-bugs >= leastMutants && bugs >= leastBugs)
	least, sets := d.leastCases()
	add(fmt.Sprintf("at least %d cases of every correct kernel, in each dtype, mixed and adversarial", leastCases),
		fmt.Sprintf("at least %d, in %d sets", least, sets), least >= leastCases)
	_, cases := d.ourAlarms()
	add("no false alarm", cases.ratio()+" cases", cases.k == 0 && cases.n > 0)
	all, held := recall(d.judgeOurs(), d.wrong(mutant)), recall(d.judgeOurs(), d.wrong(heldOut))
	add(fmt.Sprintf("recall of %s at %d cases, held-out operators included", percent(leastRecall), budget),
		fmt.Sprintf("%s; held out alone %s", all.both(), held.both()), all.n > 0 && held.n > 0 && all.value() >= leastRecall)
	missing := len(d.unexplained())
	add("every miss, and every difference from the GPU, is explained",
		fmt.Sprintf("%d missed, %d differ, %d without explanation", len(d.missed()), len(d.unlike()), missing),
		missing == 0 && len(d.compared()) > 0)
	p.table(t, "")
}

// leastCases is the least number of cases that a correct kernel ran in a number format under a value strategy, and how
// many such sets there are. A set that is missing has none.
func (d *dataset) leastCases() (least, sets int) {
	least = never
	for _, b := range d.bases {
		for _, setting := range []string{"mixed", "adversarial"} {
			ran := map[string]int{}
			if o := d.of(record.FalseAlarms, setting, b.id); o != nil {
				for _, r := range o.parts {
					ran[r.DType] += r.Cases - r.NotRun
				}
			}
			for _, dt := range b.dtypes {
				least = min(least, ran[dt])
				sets++
			}
		}
	}
	if sets == 0 {
		return 0, 0
	}
	return least, sets
}
