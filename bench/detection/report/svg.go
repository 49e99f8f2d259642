package main

import (
	"fmt"
	"math"
	"strings"
)

// This file implements the drawing of pictures as SVG: text, lines and boxes, in colours for light and dark pages.

// palette are the colours of series, told apart by the colour-blind as well (M. Okabe and K. Ito, 2008); the fourth is
// darker than theirs, which is hard to see on white.
var palette = []string{"#0072b2", "#d55e00", "#009e73", "#b8860b", "#cc79a7", "#56b4e9", "#7f7f7f", "#8c564b"}

// style is shared by all pictures. A page that is dark says so itself, also where the picture is only linked.
const style = `<style>
  text { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328; }
  .title { font-size: 15px; font-weight: 600; }
  .faint { fill: #59636e; }
  .on { fill: #ffffff; }
  .axis { stroke: #59636e; fill: none; }
  .grid { stroke: #d1d9e0; fill: none; }
  .curve { fill: none; stroke-width: 2; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .faint { fill: #9198a1; }
    .axis { stroke: #9198a1; }
    .grid { stroke: #3d444d; }
  }
</style>
`

// charWidth is about how wide a character of 12 pixels is; it only keeps labels apart.
const charWidth = 6.4

// anchor says which end of a text its place is.
type anchor string

const (
	start  anchor = "start"
	middle anchor = "middle"
	end    anchor = "end"
)

// picture is an SVG file that grows.
type picture struct {
	body          strings.Builder
	width, height float64
}

var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")

func (p *picture) printf(format string, args ...any) { fmt.Fprintf(&p.body, format, args...) }

// num prints a place: two digits behind the point are more than a screen has.
func num(x float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0") }

func (p *picture) text(x, y float64, a anchor, class, s string) {
	if class != "" {
		class = ` class="` + class + `"`
	}
	p.printf("<text x=%q y=%q text-anchor=%q%s>%s</text>\n", num(x), num(y), a, class, escape.Replace(s))
}

func (p *picture) line(x1, y1, x2, y2 float64, class string) {
	p.printf("<line x1=%q y1=%q x2=%q y2=%q class=%q/>\n", num(x1), num(y1), num(x2), num(y2), class)
}

// curve draws a line through points that are given as x, y, x, y …
func (p *picture) curve(points []float64, colour, dash string) {
	var at []string
	for i := 0; i+1 < len(points); i += 2 {
		at = append(at, num(points[i])+","+num(points[i+1]))
	}
	if dash != "" {
		dash = fmt.Sprintf(" stroke-dasharray=%q", dash)
	}
	p.printf("<polyline class=\"curve\" stroke=%q%s points=%q/>\n", colour, dash, strings.Join(at, " "))
}

func (p *picture) dot(x, y float64, colour string) {
	p.printf("<circle cx=%q cy=%q r=\"5\" fill=%q/>\n", num(x), num(y), colour)
}

// bytes gives the file. The title is also what a screen reader says.
func (p *picture) bytes(title string) []byte {
	head := fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %s %s\" width=%q height=%q "+
		"role=\"img\">\n<title>%s</title>\n", num(p.width), num(p.height), num(p.width), num(p.height), escape.Replace(title))
	return []byte(head + style + p.body.String() + "</svg>\n")
}

// series is one curve of a chart: y after 1, 2, 3 … cases.
type series struct {
	name string
	y    []float64 // y[n] is what is left after n cases
}

// frame is the part of a picture that has axes.
type frame struct{ left, top, right, bottom float64 }

// logX is the place of a number of cases, from 1 to last, on a logarithmic axis.
func (f frame) logX(n, last int) float64 {
	return f.left + (f.right-f.left)*math.Log(float64(n))/math.Log(float64(last))
}

// y is the place of a share.
func (f frame) y(s float64) float64 { return f.bottom - (f.bottom-f.top)*s }

// x is the same across.
func (f frame) x(s float64) float64 { return f.left + (f.right-f.left)*s }

// shares draws the grid of an axis of shares, upwards.
func (p *picture) shares(f frame) {
	for i := 0; i <= 10; i += 2 {
		y := f.y(float64(i) / 10)
		p.line(f.left, y, f.right, y, "grid")
		p.text(f.left-8, y+4, end, "faint", fmt.Sprintf("%d %%", 10*i))
	}
}

// survivalChart draws what is left after so many cases, as steps.
func survivalChart(title, xlabel string, list []series) []byte {
	last := 2
	for _, s := range list {
		last = max(last, len(s.y)-1)
	}
	legend := 0.0
	for _, s := range list {
		legend = max(legend, charWidth*float64(len(s.name)))
	}
	f := frame{left: 60, top: 50, right: 560, bottom: 330}
	p := &picture{width: f.right + 60 + legend, height: 380}
	p.text(f.left, 26, start, "title", title)
	p.shares(f)
	for _, n := range []int{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000} {
		if n <= last {
			p.line(f.logX(n, last), f.top, f.logX(n, last), f.bottom, "grid")
			p.text(f.logX(n, last), f.bottom+18, middle, "faint", fmt.Sprint(n))
		}
	}
	p.text((f.left+f.right)/2, f.bottom+38, middle, "faint", xlabel)
	p.printf("<rect x=%q y=%q width=%q height=%q class=\"axis\"/>\n", num(f.left), num(f.top), num(f.right-f.left),
		num(f.bottom-f.top))
	for i, s := range list {
		var points []float64
		for n := 1; n < len(s.y); n++ {
			if n > 1 {
				points = append(points, f.logX(n, last), f.y(s.y[n-1]))
			}
			points = append(points, f.logX(n, last), f.y(s.y[n]))
		}
		colour, y := palette[i%len(palette)], f.top+10+20*float64(i)
		dash := ""
		if i >= len(palette) {
			dash = "5 3"
		}
		p.curve(points, colour, dash)
		p.curve([]float64{f.right + 14, y, f.right + 38, y}, colour, dash)
		p.text(f.right+44, y+4, start, "", s.name)
	}
	return p.bytes(title)
}

// point is one place of a scatter of shares.
type point struct {
	name  string
	x, y  float64
	group int // colour
}

// scatterChart draws points by their shares of both kinds; groups name the colours.
func scatterChart(title, xlabel, ylabel string, groups []string, list []point) []byte {
	f := frame{left: 70, top: 60, right: 490, bottom: 420}
	p := &picture{width: 800, height: 480}
	p.text(f.left, 26, start, "title", title)
	p.text(f.left, 48, start, "faint", ylabel)
	p.shares(f)
	for i := 0; i <= 10; i += 2 {
		x := f.x(float64(i) / 10)
		p.line(x, f.top, x, f.bottom, "grid")
		p.text(x, f.bottom+18, middle, "faint", fmt.Sprintf("%d %%", 10*i))
	}
	p.text((f.left+f.right)/2, f.bottom+38, middle, "faint", xlabel)
	p.printf("<rect x=%q y=%q width=%q height=%q class=\"axis\"/>\n", num(f.left), num(f.top), num(f.right-f.left),
		num(f.bottom-f.top))
	for i, y := range apart(list, f) {
		colour := palette[list[i].group%len(palette)]
		p.curve([]float64{f.x(list[i].x), f.y(list[i].y), f.right + 22, y}, colour, "1 3")
		p.dot(f.x(list[i].x), f.y(list[i].y), colour)
		p.text(f.right+28, y+4, start, "", list[i].name)
	}
	at := f.left
	for i, g := range groups {
		p.dot(at+5, f.bottom+52, palette[i%len(palette)])
		p.text(at+16, f.bottom+56, start, "", g)
		at += 40 + charWidth*float64(len(g))
	}
	return p.bytes(title)
}

// apart gives heights for the labels of points, in the order of their points and so far from each other that they can
// be read. Points are sorted by y, downwards.
func apart(list []point, f frame) []float64 {
	const gap = 16
	at := make([]float64, len(list))
	next := f.top - 4
	for i, p := range list {
		at[i] = max(f.y(p.y), next)
		next = at[i] + gap
	}
	for i, low := len(at)-1, f.bottom+8; i >= 0; i-- { // what was pushed out below goes up again
		at[i] = min(at[i], low)
		low = at[i] - gap
	}
	return at
}

// heatMap draws shares of rows and columns as boxes, each with its figure. A NaN is an empty box.
func heatMap(title string, rows, columns []string, values [][]float64) []byte {
	const boxW, boxH = 62, 28
	left, tall := 0.0, 0.0
	for _, r := range rows {
		left = max(left, charWidth*float64(len(r)))
	}
	for _, c := range columns {
		tall = max(tall, charWidth*float64(len(c)))
	}
	left += 24
	top := 44 + tall*0.75
	p := &picture{width: left + boxW*float64(len(columns)) + tall*0.6 + 10, height: top + boxH*float64(len(rows)) + 16}
	p.text(12, 26, start, "title", title)
	for j, c := range columns {
		x, y := left+boxW*(float64(j)+0.4), top-8
		p.printf("<text x=%q y=%q transform=\"rotate(-45 %s %s)\">%s</text>\n", num(x), num(y), num(x), num(y),
			escape.Replace(c))
	}
	for i, r := range rows {
		y := top + boxH*float64(i)
		p.text(left-10, y+18, end, "", r)
		for j, v := range values[i] {
			p.box(left+boxW*float64(j), y, boxW, boxH, v)
		}
	}
	return p.bytes(title)
}

// box draws one share: the more, the fuller the colour, over whatever the page's own colour is.
func (p *picture) box(x, y, w, h, v float64) {
	if math.IsNaN(v) {
		p.text(x+w/2, y+18, middle, "faint", "–")
		return
	}
	opacity, class := 0.06+0.94*v, ""
	if opacity > 0.55 {
		class = "on"
	}
	p.printf("<rect x=%q y=%q width=%q height=%q fill=\"#0860a8\" fill-opacity=\"%.2f\"/>\n", num(x+1), num(y+1), num(w-2),
		num(h-2), opacity)
	p.text(x+w/2, y+18, middle, class, wholePercent(v))
}

// wholePercent prints a share without digits behind the point; only a whole one is 100, and only an empty one 0.
func wholePercent(v float64) string {
	n := math.Round(100 * v)
	if v < 1 {
		n = min(n, 99)
	}
	if v > 0 {
		n = max(n, 1)
	}
	return fmt.Sprintf("%.0f", n)
}
