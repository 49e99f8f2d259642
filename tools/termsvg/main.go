// Command termsvg draws what a program printed on a terminal as an SVG picture: it reads the bytes that script(1)
// captured, obeys colours and cursor movements as a terminal does, and writes what is left on the screen. It draws
// nothing that was not printed.
//
// make picture uses it for docs/images/demo.svg.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
)

func run() error {
	columns := flag.Int("columns", 100, "width of the terminal, in characters")
	rows := flag.Int("rows", 0, "height of the terminal, in lines: what has scrolled away is not drawn; 0: draw all")
	title := flag.String("title", "", "title of the window, and of the picture")
	output := flag.String("o", "", "file to write; standard output without it")
	flag.Parse()
	if flag.NArg() > 0 || *columns < 20 || *columns > 500 || *rows < 0 {
		return fmt.Errorf("usage: termsvg [-columns 20..500] [-rows N] [-title TEXT] [-o FILE] < captured bytes")
	}
	captured, err := io.ReadAll(bufio.NewReader(os.Stdin))
	if err != nil {
		return err
	}
	s := newScreen(*columns)
	if err := s.write(string(captured)); err != nil {
		return err
	}
	if s.empty() {
		return fmt.Errorf("nothing was printed: is the capture empty?")
	}
	s.scroll(*rows)
	picture := s.draw(*title)
	if *output == "" {
		_, err = os.Stdout.Write(picture)
		return err
	}
	return os.WriteFile(*output, picture, 0o644)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "termsvg:", err)
		os.Exit(1)
	}
}
