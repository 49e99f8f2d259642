// This file implements the rows of a campaign as such: what is not the user's code, and how it grows.

package main

import (
	"fmt"
	"time"
)

// largeShape is that of the rows with large cases.
var largeShape = []int{8, 128, 1025}

func shareRows() []row {
	const note = "The part of the wall time of gpuemu fuzz, start and end included, that is not spent in the " +
		"candidate and the reference, both numpy functions in workers, as they measure it; times the number of cases " +
		"at a time. Theirs is the time in the two functions."
	return []row{
		{name: "fuzz softmax [8,128,1025] float32, all but the user's functions", goal: goal{atMost: 30}, note: note,
			why: "The two functions take 5 ms where they took 20: workers keep their memory between calls, which saves " +
				"numpy the page faults. Of the rest, about half is in the program (inputs, two images written, two read, the " +
				"comparison) and half in the workers (inputs read, compared with what came, outputs written): 30 bytes " +
				"written for each element, and more read.",
			measure: func(b *bench) (*result, error) { return b.share("large", 300) }},
		{name: "fuzz softmax [4,16,257] float32, all but the user's functions", note: note,
			measure: func(b *bench) (*result, error) { return b.share("functions", functionCases) }},
	}
}

// share measures what part of a campaign is not the user's code.
func (b *bench) share(op string, cases int) (*result, error) {
	res := &result{unit: " %", figure: 100}
	var walls series
	for range b.rounds {
		s, err := b.fuzz(op, cases, true)
		if err != nil {
			return nil, err
		}
		user, all := s.report.user(), s.wall*time.Duration(cores())
		walls = append(walls, s.wall)
		if part := 100 * (1 - user.Seconds()/all.Seconds()); part < res.figure {
			res.figure = part
			n := time.Duration(cases)
			res.ours = fmt.Sprintf("%s of %s, CPU %s", short((all-user)/n), short(all/n), short(s.cpu/n))
			res.theirs = short(user / n)
		}
	}
	res.noise = walls.noise()
	return res, nil
}

// Cases of the rows of growth.
const (
	fewCases  = 1000
	manyCases = 10000
)

func growthRows() []row {
	const note = "gpuemu fuzz, softmax [4,16,257], the catalogue's reference, a report in JSON. Time of a case: " +
		"from a tenth of the cases to the last, so that the start is not counted."
	return []row{
		{name: "time of a case, 10,000 cases over 1,000", goal: goal{atMost: 1.1}, note: note,
			measure: func(b *bench) (*result, error) {
				return b.growth(func(s *sample) time.Duration {
					list := s.report.Results
					from := len(list) / 10
					return list[len(list)-1].Time.Sub(list[from].Time) / time.Duration(len(list)-from-1)
				}, rate)
			}},
		{name: "peak memory of the program, 10,000 cases over 1,000", goal: goal{atMost: 1.2},
			note: note + " Memory: of the program without its workers; the store's cache, which takes 8 MB, fills with the " +
				"first thousands of cases.",
			measure: func(b *bench) (*result, error) {
				return b.growth(func(s *sample) time.Duration { return time.Duration(s.peak) }, func(d time.Duration) string {
					return number(float64(d)/1e6) + " MB"
				})
			}},
	}
}

// growth compares a figure of many cases with that of few; figures of any kind are carried as durations.
func (b *bench) growth(figure func(*sample) time.Duration, show func(time.Duration) string) (*result, error) {
	side := func(cases int) func() (time.Duration, error) {
		return func() (time.Duration, error) {
			s, err := b.fuzz("bound", cases, true)
			if err != nil {
				return 0, err
			}
			return figure(s), nil
		}
	}
	s, err := b.turns(side(manyCases), side(fewCases))
	if err != nil {
		return nil, err
	}
	many, few := s[0].best(), s[1].best()
	return &result{ours: show(many), theirs: show(few), figure: float64(many) / float64(few), unit: "×",
		noise: max(s[0].noise(), s[1].noise())}, nil
}
