package main

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"gpuemu/bench/detection/record"
)

// This file implements which pictures there are, and what they show.

// plots are the pictures of docs/evidence/plots, by name.
func (d *dataset) plots() map[string][]byte {
	return map[string][]byte{
		"survival.svg":            d.survivalPlot(),
		"survival-strategies.svg": d.strategyPlot(),
		"recall-alarms.svg":       d.recallPlot(),
		"baselines.svg":           d.baselinePlot(),
	}
}

// notFound is the curve of a judge on a group.
func (d *dataset) notFound(name string, j judge, group func(*subject) bool) (series, bool) {
	cases, _ := firsts(j, d.wrong(group))
	return series{name, survival(cases, budget)}, len(cases) > 0
}

func (d *dataset) survivalPlot() []byte {
	var list []series
	for _, g := range []struct {
		name string
		in   func(*subject) bool
	}{{"known operators", tuned}, {"held-out operators", heldOut}, {"real bugs", realBug}} {
		if s, ok := d.notFound(g.name, d.judgeOurs(), g.in); ok {
			list = append(list, s)
		}
	}
	return survivalChart("Wrong kernels not yet found", "cases", list)
}

func (d *dataset) strategyPlot() []byte {
	var list []series
	for _, setting := range d.settings(record.Strategies) {
		if s, ok := d.notFound(setting, d.judgeSetting(record.Strategies, setting), nil); ok {
			list = append(list, s)
		}
	}
	return survivalChart("Wrong kernels not yet found, by strategy", "cases", list)
}

// recallPlot shows recall against false alarms, the coin's two sides.
func (d *dataset) recallPlot() []byte {
	groups := []string{"gpuemu", "strategies", "tolerance regimes", "other harnesses"}
	var list []point
	add := func(name string, group int, j judge, kernels share) {
		s := recall(j, d.wrong(nil))
		if s.n > 0 && kernels.n > 0 {
			list = append(list, point{name, kernels.value(), s.value(), group})
		}
	}
	kernels, _ := d.ourAlarms()
	add("gpuemu", 0, d.judgeOurs(), kernels)
	for group, run := range map[int]string{1: record.Strategies, 2: record.Regimes, 3: record.Baselines} {
		for _, setting := range d.settings(run) {
			if setting == "ours" || setting == usual || strings.Contains(setting, "/") {
				continue // the first point already, or on values of the fixed tolerances' choice
			}
			j := d.judgeSetting(run, setting)
			kernels, _ := d.alarms(j)
			name := setting
			if run == record.Baselines {
				name = harnessName(setting)
			}
			add(name, group, j, kernels)
		}
	}
	slices.SortFunc(list, func(x, y point) int {
		return cmp.Or(cmp.Compare(y.y, x.y), cmp.Compare(x.x, y.x), cmp.Compare(x.group, y.group), cmp.Compare(x.name,
			y.name))
	})
	return scatterChart("Wrong kernels found, correct ones accused", "correct kernels accused", "wrong kernels found",
		groups,
		list)
}

// baselinePlot shows who finds which class.
func (d *dataset) baselinePlot() []byte {
	names, judges := d.judges()
	var classes []string
	values := make([][]float64, len(judges))
	for _, class := range append(d.values(func(s *subject) string { return s.class }), "") {
		list := d.wrong(func(s *subject) bool { return s.class == class || class == "" })
		if len(list) == 0 {
			continue
		}
		if class == "" {
			class = "all"
		}
		classes = append(classes, class)
		for i, j := range judges {
			v := math.NaN()
			if s := recall(j, list); s.n > 0 {
				v = s.value()
			}
			values[i] = append(values[i], v)
		}
	}
	return heatMap("Wrong kernels found, by class of fault, in percent", names, classes, values)
}
