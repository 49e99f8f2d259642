package main

import (
	"fmt"
	"strings"
)

// Places in pixels. A terminal's characters are all as wide, so each run of text says how wide it is: another font
// than the author's leaves columns where they are.
const (
	charWidth  = 8.4
	lineHeight = 18
	margin     = 16
	barHeight  = 34
)

// colours are the sixteen of the terminal, on its ground.
var colours = [16]string{"#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4",
	"#6e7681", "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#ffffff"}

const paper, ink = "#0d1117", "#e6edf3"

// colour names a colour for SVG.
func colour(c int, ground string) string {
	switch {
	case c < 0:
		return ground
	case c < 16:
		return colours[c]
	case c&rgb != 0:
		return fmt.Sprintf("#%06x", c&0xffffff)
	case c >= 232: // greys
		v := 8 + 10*(c-232)
		return fmt.Sprintf("#%02x%02x%02x", v, v, v)
	}
	level := func(i int) int { // of the cube of 6 by 6 by 6
		if i == 0 {
			return 0
		}
		return 55 + 40*i
	}
	c -= 16
	return fmt.Sprintf("#%02x%02x%02x", level(c/36), level(c/6%6), level(c%6))
}

// inks are the colours of letters and of what is below them.
func (st style) inks() (fg, bg string) {
	fg, bg = colour(st.fg, ink), colour(st.bg, paper)
	if st.invert {
		fg, bg = bg, fg
	}
	return fg, bg
}

var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")

// draw gives the picture: a window with what is on the screen.
func (s *screen) draw(title string) []byte {
	width := 2*margin + charWidth*float64(s.columns)
	height := barHeight + margin + lineHeight*len(s.lines)
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %d\" width=\"%.0f\" height=\"%d\" "+
		"role=\"img\">\n", width, height, width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n", escape.Replace(title))
	fmt.Fprint(&b, "<style>text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, \"DejaVu Sans Mono\", "+
		"monospace; white-space: pre; }</style>\n")
	fmt.Fprintf(&b, "<rect width=\"%.0f\" height=\"%d\" rx=\"8\" fill=%q stroke=\"#3d444d\"/>\n", width, height, paper)
	for i, c := range []string{"#ff5f57", "#febc2e", "#28c840"} {
		fmt.Fprintf(&b, "<circle cx=\"%d\" cy=\"17\" r=\"6\" fill=%q/>\n", 20+20*i, c)
	}
	fmt.Fprintf(&b, "<text x=\"%.0f\" y=\"22\" text-anchor=\"middle\" fill=\"#9198a1\">%s</text>\n", width/2,
		escape.Replace(title))
	for row, line := range s.lines {
		drawLine(&b, line, barHeight+lineHeight*row)
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// drawLine draws the runs of a line that look alike; top is the upper edge of the line.
func drawLine(b *strings.Builder, line []cell, top int) {
	for from := 0; from < len(line); {
		to := from + 1
		for to < len(line) && look(line[to]) == look(line[from]) {
			to++
		}
		drawRun(b, line[from:to], from, top)
		from = to
	}
}

// look is the style of a cell; empty ones look like none that was printed, so that runs have no empty ends.
func look(c cell) style {
	if c.r == 0 {
		return style{fg: -2, bg: -2}
	}
	return c.style
}

func drawRun(b *strings.Builder, run []cell, column, top int) {
	if run[0].r == 0 {
		return
	}
	st := run[0].style
	fg, bg := st.inks()
	x, width := margin+charWidth*float64(column), charWidth*float64(len(run))
	if bg != paper {
		fmt.Fprintf(b, "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=%q/>\n", x, top, width, lineHeight, bg)
	}
	var text strings.Builder
	for _, c := range run {
		text.WriteRune(c.r)
	}
	if strings.TrimSpace(text.String()) == "" {
		return
	}
	extra := ""
	if st.bold {
		extra += ` font-weight="bold"`
	}
	if st.faint {
		extra += ` opacity="0.7"`
	}
	if st.italic {
		extra += ` font-style="italic"`
	}
	if st.underline {
		extra += ` text-decoration="underline"`
	}
	fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%d\" fill=%q textLength=\"%.1f\" xml:space=\"preserve\"%s>%s</text>\n", x,
		top+14, fg, width, extra, escape.Replace(text.String()))
}
