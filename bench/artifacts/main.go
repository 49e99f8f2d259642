// Command artifacts measures how fast compiled kernels are read, on one core: PTX text and cubins.
//
// Beside each row stands what Go's own parser does with Go source in the same run, so that a busy or slow machine is
// seen as such. Garbage collection is part of the time.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"gpuemu/bench/machine"
	"gpuemu/internal/cubin"
	"gpuemu/internal/ptx"
)

// row is something that reads files again and again.
type row struct {
	name  string
	bytes int
	goal  float64 // MB/s; 0 for none
	run   func() error
	best  time.Duration
	all   []time.Duration
}

func (r *row) rate() float64 { return float64(r.bytes) / 1e6 / r.best.Seconds() }

// noise is how much slower than the best the median was.
func (r *row) noise() float64 {
	slices.Sort(r.all)
	return float64(r.all[len(r.all)/2])/float64(r.best) - 1
}

// files reads all files below a folder whose names end so.
func files(root, ext string) (map[string][]byte, int, error) {
	found, size := map[string][]byte{}, 0
	err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ext {
			return err
		}
		text, err := os.ReadFile(path)
		found[path] = text
		size += len(text)
		return err
	})
	if err == nil && size == 0 {
		err = fmt.Errorf("there is no %s file below %s: run this in the root of the repository", ext, root)
	}
	return found, size, err
}

// rows are everything that is measured. Each reads some megabytes.
func rows() ([]*row, error) {
	texts, ptxBytes, err := files("testdata/ptx", ".ptx")
	if err != nil {
		return nil, err
	}
	images, cubinBytes, err := files("testdata/cubin", ".cubin")
	if err != nil {
		return nil, err
	}
	sources, goBytes, err := files("internal", ".go")
	if err != nil {
		return nil, err
	}
	var parsed []*ptx.File
	modules := map[string]string{}
	for path, text := range texts {
		modules[path] = string(text)
		f, err := ptx.Parse(path, string(text))
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, f)
	}
	return []*row{
		{name: "PTX: parse and resolve", bytes: ptxBytes, goal: 50, run: func() error {
			for path, text := range modules {
				if _, err := ptx.Parse(path, text); err != nil {
					return err
				}
			}
			return nil
		}},
		{name: "PTX: print", bytes: ptxBytes, run: func() error {
			for _, f := range parsed {
				if f.String() == "" {
					return fmt.Errorf("%s prints nothing", f.Name)
				}
			}
			return nil
		}},
		{name: "PTX: control flow, post-dominators, live registers", bytes: ptxBytes, run: func() error {
			for _, f := range parsed {
				for _, fn := range f.Kernels() {
					g := ptx.NewGraph(fn)
					g.PostDominators()
					live, err := g.Liveness()
					if err != nil {
						return err
					}
					live.PeakLive()
				}
			}
			return nil
		}},
		{name: "cubin: read", bytes: cubinBytes, run: func() error {
			for path, data := range images {
				if _, err := cubin.Read(path, data); err != nil {
					return err
				}
			}
			return nil
		}},
		{name: "yardstick: go/parser on Go source", bytes: goBytes, run: func() error {
			for path, text := range sources {
				if _, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution); err != nil {
					return err
				}
			}
			return nil
		}},
	}, nil
}

func measure(list []*row, samples int) error {
	for range samples {
		for _, r := range list {
			start := time.Now()
			if err := r.run(); err != nil {
				return err
			}
			took := time.Since(start)
			if r.all = append(r.all, took); r.best == 0 || took < r.best {
				r.best = took
			}
		}
	}
	return nil
}

func write(w io.Writer, list []*row, samples int) {
	fmt.Fprint(w, "# Reading compiled kernels\n\n"+
		"Written by `make bench BENCHFLAGS=\"artifacts -o docs/evidence/artifacts-speed.md\"`: all fixtures of\n"+
		"testdata/ptx and testdata/cubin, on one core, garbage collection included. The rows take turns; the best\n"+
		"sample of each counts, and noise is how much slower than the best the median was.\n\n")
	machine.Markdown(w, []machine.Fact{machine.Processor(), machine.Load(), machine.Date(),
		{Name: "method", Value: fmt.Sprintf("best of %d samples", samples)}})
	fmt.Fprint(w, "\n| row | MB | MB/s | goal | over go/parser | noise |\n|---|---:|---:|---:|---:|---:|\n")
	yard := list[len(list)-1]
	for _, r := range list {
		goal := ""
		if r.goal > 0 {
			goal = fmt.Sprintf("≥ %.0f, ", r.goal)
			if r.rate() >= r.goal {
				goal += "ok"
			} else {
				goal += "short"
			}
		}
		fmt.Fprintf(w, "| %s | %.2f | %.1f | %s | %.2f× | %.0f %% |\n", r.name, float64(r.bytes)/1e6, r.rate(), goal,
			r.rate()/yard.rate(), 100*r.noise())
	}
}

func run() error {
	output := flag.String("o", "", "file to write the record to")
	samples := flag.Int("samples", 30, "samples of each row")
	flag.Parse()
	if flag.NArg() > 0 || *samples < 1 {
		return fmt.Errorf("usage: artifacts [-o FILE] [-samples N], not %s", strings.Join(os.Args[1:], " "))
	}
	runtime.GOMAXPROCS(1)
	list, err := rows()
	if err != nil {
		return err
	}
	if err := measure(list, *samples); err != nil {
		return err
	}
	var text bytes.Buffer
	write(&text, list, *samples)
	if _, err := os.Stdout.Write(text.Bytes()); err != nil || *output == "" {
		return err
	}
	return os.WriteFile(*output, text.Bytes(), 0o644)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "artifacts:", err)
		os.Exit(1)
	}
}
