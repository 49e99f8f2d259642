// Speed compares parts of gpuemu with numpy doing the same work, on the same machine and in the same run, and prints
// one table of ratios. bench/speed/run.sh sets numpy up and calls it.
//
// To add rows: write a function in a file of its own that returns []Row, name it in rows below, and put the numpy side
// under @snippet into numpy_side.py. gemm.go is an example.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"time"

	"gpuemu/bench/machine"
)

// rows returns the whole table, in the order in which it is printed.
func rows() []Row {
	return slices.Concat(
		compareRows(),
		gemmRows(),
		oracleRows(),
		genRows(),
		loopRows(),
	)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "speed:", err)
		os.Exit(1)
	}
}

// gcPercent lets the heap grow to five times what is live before it is collected. Cases live shortly and hold a few
// hundred KiB: at Go's default, 100, collections of a heap of 4 MiB take more time than the cases.
const gcPercent = 400

func run() error {
	debug.SetGCPercent(gcPercent)
	b := &Bench{peers: map[int]*peer{}}
	defer b.close()
	flag.StringVar(&b.python, "python", "python3", "interpreter that has numpy")
	flag.StringVar(&b.script, "script", "bench/speed/numpy_side.py", "the numpy side")
	flag.IntVar(&b.rounds, "rounds", 15, "samples of each side, taken in turns; the best counts")
	flag.DurationVar(&b.sample, "sample", 60*time.Millisecond, "least time of a sample")
	flag.DurationVar(&b.pause, "pause", 150*time.Millisecond, "rest before each sample, for threads of the other side")
	only := flag.String("run", "", "only rows whose name matches this regular expression")
	out := flag.String("o", "", "also write the table as Markdown, with facts of the machine, to this file")
	strict := flag.Bool("strict", false, "exit with an error if a row is short of its goal")
	flag.Parse()
	match, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	if b.rounds < 1 || flag.NArg() > 0 {
		return fmt.Errorf("want -rounds of at least 1 and no arguments, got %d and %q", b.rounds, flag.Args())
	}

	facts, err := machineFacts(b)
	if err != nil {
		return err
	}
	todo := slices.DeleteFunc(rows(), func(r Row) bool { return !match.MatchString(r.Name) })
	if len(todo) == 0 {
		return fmt.Errorf("-run %q matches no row", *only)
	}
	machine.Print(os.Stdout, facts)
	var results []Result
	printHead(os.Stdout, todo)
	for i := range todo {
		res, err := b.measure(&todo[i])
		if err != nil {
			return fmt.Errorf("%s: %w", todo[i].Name, err)
		}
		results = append(results, res)
		printLine(os.Stdout, res, todo)
	}
	short := slices.Collect(shortOf(results))
	fmt.Printf("%d of %d rows short of their goal\n", len(short), len(results))
	if *out != "" {
		if err := os.WriteFile(*out, markdown(facts, results), 0o644); err != nil {
			return err
		}
	}
	if *strict && len(short) > 0 {
		return fmt.Errorf("short of their goal: %q", short)
	}
	return nil
}
