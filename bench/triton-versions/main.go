// Command triton-versions executes the launches that build.py wrote, with all checks, and writes the record.
//
//	go run ./bench/triton-versions -dir DIR [-record FILE] VERSION...
//
// DIR/VERSION.jsonl lists what was compiled. The results of a version are kept in DIR/VERSION.results.json. The record
// needs those of all versions.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"gpuemu/internal/diag"
	"gpuemu/internal/emulation"
	"gpuemu/internal/launchfile"
	"gpuemu/internal/ptx"
)

// budget is how many instructions of warps a launch may execute: a hundred times what the longest one needs.
const budget = 1 << 30

// build is a line of VERSION.jsonl.
type build struct {
	Version  string   `json:"version"`
	Suite    string   `json:"suite"`
	Kernel   string   `json:"kernel"`
	Build    string   `json:"build"`
	Error    string   `json:"error"` // why it does not compile
	Launches []string `json:"launches"`
}

// outcome is what came of a build and its launches.
type outcome struct {
	build
	Silent   int      `json:"silent"`   // launches without findings
	Wrong    []string `json:"wrong"`    // outputs that are not as expected
	Findings []string `json:"findings"` // of all launches
	Classes  []string `json:"classes"`  // of these
	Refused  []string `json:"refused"`  // launches that are not executed, and why
}

func main() {
	dir := flag.String("dir", "", "directory that build.py wrote to")
	record := flag.String("record", "", "file of the record; none if left out")
	workers := flag.Int("workers", 1, "builds at a time")
	flag.Parse()
	if err := run(*dir, *record, *workers, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "triton-versions:", err)
		os.Exit(1)
	}
}

func run(dir, record string, workers int, versions []string) error {
	for _, v := range versions {
		list, err := readBuilds(filepath.Join(dir, v+".jsonl"))
		if err != nil {
			return err
		}
		results := execute(dir, list, workers)
		text, err := json.MarshalIndent(results, "", " ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, v+".results.json"), text, 0o666); err != nil {
			return err
		}
		row := count(v, results)
		fmt.Println(row.line())
		for _, r := range results {
			for _, text := range append(append(append([]string{}, r.Findings...), r.Wrong...), r.Refused...) {
				fmt.Printf("  %s: %s\n", r.Build, text)
			}
		}
	}
	if record == "" {
		return nil
	}
	return writeRecord(dir, record)
}

// readBuilds reads the list of a version, which must not be empty.
func readBuilds(path string) (list []build, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var b build
		if err := json.Unmarshal(lines.Bytes(), &b); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		list = append(list, b)
	}
	if len(list) == 0 && lines.Err() == nil {
		return nil, fmt.Errorf("%s has no builds", path)
	}
	return list, lines.Err()
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
	o := outcome{build: b}
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
