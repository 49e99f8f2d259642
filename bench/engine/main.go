// Engine measures the whole product: the program gpuemu on projects and over its socket, against what it replaces or
// against a limit, on one machine and in one run. It prints one table; bench/engine/run.sh sets numpy and the program
// up and calls it.
//
// To add rows: write a function in a file of its own that returns []row and name it in rows below.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"

	"gpuemu/bench/machine"
)

// rows returns the whole table, in the order in which it is printed.
func rows() []row {
	return slices.Concat(publishedRows(), loopRows(), shareRows(), growthRows(), daemonRows(), emulateRows(),
		crowdRows(), siegeRows(), startRows(), storedRows())
}

// bench is what rows use.
type bench struct {
	python  string // interpreter with numpy
	program string // gpuemu
	root    string // of the repository
	dir     string // scratch directory
	project string // directory of the project of the rows
	rounds  int
	homes   int // made so far
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "engine:", err)
		os.Exit(1)
	}
}

func run() error {
	b := &bench{}
	flag.StringVar(&b.python, "python", "python3", "interpreter that has numpy")
	flag.StringVar(&b.program, "gpuemu", ".cache/bench/gpuemu", "the program")
	flag.StringVar(&b.root, "root", ".", "root of the repository")
	flag.IntVar(&b.rounds, "rounds", 5, "samples of each side, taken in turns; the best counts")
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
	todo := slices.DeleteFunc(rows(), func(r row) bool { return !match.MatchString(r.name) })
	if len(todo) == 0 {
		return fmt.Errorf("-run %q matches no row", *only)
	}
	if err := b.prepare(); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	facts, err := b.facts()
	if err != nil {
		return err
	}
	results, err := b.measureAll(todo, facts)
	if err != nil {
		return err
	}
	short := 0
	for i := range results {
		if !results[i].met() {
			short++
		}
	}
	fmt.Printf("%d of %d rows short of their goal\n", short, len(results))
	if *out != "" {
		if err := os.WriteFile(*out, markdown(facts, results), 0o644); err != nil {
			return err
		}
	}
	if *strict && short > 0 {
		return fmt.Errorf("%d rows are short of their goal", short)
	}
	return nil
}

// measureAll measures the rows and prints each as soon as it is there.
func (b *bench) measureAll(todo []row, facts []machine.Fact) ([]result, error) {
	machine.Print(os.Stdout, facts)
	printHead(os.Stdout, todo)
	var results []result
	for i := range todo {
		res, err := todo[i].measure(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", todo[i].name, err)
		}
		res.row = &todo[i]
		results = append(results, *res)
		printLine(os.Stdout, res, todo)
	}
	return results, nil
}
