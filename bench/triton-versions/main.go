// Command triton-versions executes the launches that build.py wrote, with all checks, and writes the record.
//
//	go run ./bench/triton-versions -dir DIR [-record FILE] VERSION...
//
// DIR/VERSION.SUITE.jsonl list what was compiled. The results of a version are kept in DIR/VERSION.results.json, from
// which the record is made; with -judged they are read instead of being made. It ends with an error where findings.toml
// has nothing about a kernel that is accused or wrong.
package main

// This file implements the launches.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"gpuemu/internal/diag"
	"gpuemu/internal/emulation"
	"gpuemu/internal/launchfile"
	"gpuemu/internal/ptx"
)

// budget is how many instructions of warps a launch may execute: a hundred times what the longest one needs.
const budget = 1 << 30

// build is a line of VERSION.SUITE.jsonl.
type build struct {
	Version  string   `json:"version"`
	Suite    string   `json:"suite"`
	Kernel   string   `json:"kernel"`
	Build    string   `json:"build"`
	Error    string   `json:"error"` // why it does not compile
	Launches []string `json:"launches"`
	Project  string   `json:"project"` // of the corpus, in place of launches
}

// outcome is what came of a build and its launches.
type outcome struct {
	build
	Count    int      `json:"count"`    // launches
	Silent   int      `json:"silent"`   // launches without findings
	Wrong    []string `json:"wrong"`    // outputs that are not as expected
	Findings []string `json:"findings"` // of all launches
	Classes  []string `json:"classes"`  // of these
	Refused  []string `json:"refused"`  // launches that are not executed, and why
}

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", "", "directory that build.py wrote to")
	flag.StringVar(&o.record, "record", "", "file of the record; none if left out")
	flag.StringVar(&o.engine, "gpuemu", "bin/gpuemu", "program that runs the projects of the corpus")
	flag.IntVar(&o.cases, "cases", 12, "cases of each kernel of the corpus")
	flag.IntVar(&o.workers, "workers", 2, "builds at a time")
	flag.BoolVar(&o.judged, "judged", false, "read results that are there")
	flag.Parse()
	if err := run(&o, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "triton-versions:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	dir, record, engine string
	cases, workers      int
	judged              bool
}

func run(o *options, versions []string) error {
	all := map[string][]outcome{}
	for _, v := range versions {
		path := filepath.Join(o.dir, v+".results.json")
		results, err := readResults(path)
		if !o.judged {
			results, err = judge(o, v)
		}
		if err != nil {
			return err
		}
		text, err := json.MarshalIndent(results, "", " ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o666); err != nil {
			return err
		}
		all[v] = results
		report(v, results)
	}
	if o.record == "" {
		return nil
	}
	return writeRecord(o.record, versions, all)
}

// readResults reads what an earlier run left; no file is no results.
func readResults(path string) (list []outcome, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return list, json.Unmarshal(text, &list)
}

// judge executes all that was compiled by a version.
func judge(o *options, version string) ([]outcome, error) {
	list, err := readBuilds(o.dir, version)
	if err != nil {
		return nil, err
	}
	results := execute(o.dir, list, o.workers)
	return results, campaigns(o, results)
}

// report prints what came of a version.
func report(version string, results []outcome) {
	var total sums
	for i := range results {
		total.add(&results[i])
	}
	fmt.Printf("Triton %s: %d kernels, %d builds, %d do not compile; %d launches, %d silent, %d with findings, "+
		"%d not executed, %d outputs wrong\n", version, len(total.kernels), total.builds, total.failed, total.launches,
		total.silent, total.accused(), total.refused, total.wrong)
	for i := range results {
		r := &results[i]
		if list := slices.Concat(r.Findings, r.Wrong, r.Refused); len(list) > 0 {
			fmt.Printf("  %s: %d findings, %d wrong, %d not executed; %s\n", r.Build, len(r.Findings), len(r.Wrong),
				len(r.Refused), list[0])
		}
	}
}

// readBuilds reads the lists of a version, which must not be empty.
func readBuilds(dir, version string) (list []build, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, version+".*.jsonl"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		for line := range bytes.Lines(text) {
			var b build
			if err := json.Unmarshal(line, &b); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			list = append(list, b)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s has no builds of Triton %s: run make triton-versions", dir, version)
	}
	return list, nil
}

// execute launches all builds.
func execute(dir string, list []build, workers int) []outcome {
	results := make([]outcome, len(list))
	next := make(chan int)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for i := range next {
				results[i] = one(dir, list[i])
			}
		})
	}
	for i := range list {
		next <- i
	}
	close(next)
	group.Wait()
	return results
}

// one executes the launches of a build.
func one(dir string, b build) outcome {
	o := outcome{build: b, Count: len(b.Launches)}
	for i, file := range b.Launches {
		d, err := launch(filepath.Join(dir, file))
		if err != nil {
			o.Refused = append(o.Refused, err.Error())
			continue
		}
		for j := range d.Expected {
			if e := &d.Expected[j]; e.Wrong > 0 {
				o.Wrong = append(o.Wrong, fmt.Sprintf("launch %d, %s %s: %d of %d elements, got %s, want %s at %v (%s)", i, e.Name,
					e.Tensor, e.Wrong, e.Elements, e.Worst.Got, e.Worst.Want, e.Worst.Index, e.Rule))
			}
		}
		if len(d.Findings) == 0 {
			o.Silent++
		}
		for j := range d.Findings {
			f := &d.Findings[j]
			o.Classes = append(o.Classes, f.Class)
			o.Findings = append(o.Findings, fmt.Sprintf("launch %d, %s at PTX line %d (%s:%d), block %v, thread %v: %s", i,
				f.Class, f.PTXLine, f.Source, f.Line, f.Block, f.Thread, f.Message))
		}
	}
	return o
}

// launch executes one launch file with all checks.
func launch(path string) (*emulation.Document, error) {
	c, err := launchfile.Read(path)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(c.PTX)
	if err != nil {
		return nil, err
	}
	file, err := ptx.Parse(filepath.Base(c.PTX), string(text))
	if err != nil {
		return nil, err
	}
	prog, err := emulation.Load(file, c.Entry, "")
	if err != nil {
		return nil, reason(err)
	}
	d, err := emulation.Run(context.Background(), prog, c, emulation.Options{Budget: budget, Workers: 1})
	if err != nil {
		return nil, reason(err)
	}
	for i := range c.Expected {
		d.Compare(&c.Expected[i], c.Arg(c.Expected[i].Name))
	}
	return d, nil
}

// reason is the code and the text of an error.
func reason(err error) error {
	var d *diag.Error
	if errors.As(err, &d) {
		return fmt.Errorf("%s: %w", d.Code, err)
	}
	return err
}
