package ptxvm

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// This file implements printf: device code calls vprintf with a format and a buffer in which every argument stands
// aligned to its size, as C promotes it (CUDA C++ Programming Guide, formatted output).

// printLimit is how many bytes of output are kept: the size of the buffer that CUDA has by default. The rest is lost,
// as it is there.
const printLimit = 1 << 20

var anywhere = &access{space: genericSpace, size: 1, typ: "b8"}

// text reads a string that ends with a zero.
func (w *warp) text(in *ins, lane int, at uint64) string {
	var s []byte
	for len(s) < printLimit {
		data := w.reach(in, anywhere, lane, at, 1, false)
		if data[0] == 0 {
			break
		}
		s = append(s, data[0])
		at++
	}
	return string(s)
}

// printf prints for one lane and returns what vprintf does: the number of arguments.
func (w *warp) printf(in *ins, lane int, format, at uint64) int {
	a := &printArgs{w: w, in: in, lane: lane, at: at}
	text := a.format(w.text(in, lane, format))
	g := w.cta.grid
	g.printed = append(g.printed, text[:min(len(text), printLimit-len(g.printed))]...)
	return a.count
}

// printArgs reads arguments one after the other.
type printArgs struct {
	w     *warp
	in    *ins
	lane  int
	at    uint64
	count int
}

func (a *printArgs) next(size int) uint64 {
	a.at = (a.at + uint64(size) - 1) / uint64(size) * uint64(size)
	a.count++
	m := &access{space: genericSpace, size: size, typ: "b8"}
	data := a.w.reach(a.in, m, a.lane, a.at, size, false)
	a.at += uint64(size)
	return getBytes(data, size)
}

// format replaces the conversions of a format by arguments.
func (a *printArgs) format(f string) string {
	var out strings.Builder
	for f != "" {
		if f[0] != '%' {
			end := strings.IndexByte(f, '%')
			if end < 0 {
				end = len(f)
			}
			out.WriteString(f[:end])
			f = f[end:]
			continue
		}
		n := 1
		for n < len(f) && strings.IndexByte("-+ #0", f[n]) >= 0 {
			n++
		}
		spec := f[:n]
		number := func() {
			if n < len(f) && f[n] == '*' {
				spec += strconv.Itoa(int(int32(a.next(4))))
				n++
			}
			for n < len(f) && f[n] >= '0' && f[n] <= '9' {
				spec += f[n : n+1]
				n++
			}
		}
		number()
		if n < len(f) && f[n] == '.' {
			spec += "."
			n++
			number()
		}
		size := 4
		for n < len(f) && strings.IndexByte("hljztL", f[n]) >= 0 {
			switch {
			case f[n] != 'h':
				size = 8
			case size == 4:
				size = 2
			default:
				size = 1
			}
			n++
		}
		if n == len(f) {
			out.WriteString(f)
			break
		}
		out.WriteString(a.convert(spec, f[n], size))
		f = f[n+1:]
	}
	return out.String()
}

// convert prints one argument. Go's formats are those of C where nothing is said here.
func (a *printArgs) convert(spec string, verb byte, size int) string {
	whole := func() uint64 { // numbers of less than 4 bytes are passed as 4
		v := a.next(max(size, 4))
		return v << (64 - 8*size) >> (64 - 8*size)
	}
	switch verb {
	case '%':
		return "%"
	case 'd', 'i':
		v := whole()
		return fmt.Sprintf(spec+"d", int64(v<<(64-8*size))>>(64-8*size))
	case 'u':
		return fmt.Sprintf(strings.ReplaceAll(strings.ReplaceAll(spec, "+", ""), "#", "")+"d", whole())
	case 'x', 'X', 'o':
		return fmt.Sprintf(spec+string(verb), whole())
	case 'c':
		return fmt.Sprintf(spec+"s", string([]byte{byte(a.next(4))}))
	case 'p':
		return fmt.Sprintf(spec+"s", fmt.Sprintf("%#x", a.next(8)))
	case 's':
		return fmt.Sprintf(spec+"s", a.w.text(a.in, a.lane, a.next(8)))
	case 'f', 'F', 'e', 'E', 'g', 'G', 'a', 'A':
		return printFloat(spec, verb, math.Float64frombits(a.next(8)))
	}
	return spec + string(verb)
}

// printFloat prints a number as C does. Other than in Go, %g has six digits unless it says more, an exponent of %a has
// no leading zero, and what is not finite is written in small letters, without zeros in front.
func printFloat(spec string, verb byte, v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		text := "nan"
		if math.IsInf(v, 0) {
			text = "inf"
		}
		if math.Signbit(v) {
			text = "-" + text
		} else if strings.Contains(spec, "+") {
			text = "+" + text
		}
		if verb < 'a' {
			text = strings.ToUpper(text)
		}
		spec, _, _ = strings.Cut(spec, ".")
		width := strings.TrimLeft(spec, "%+ #0-")
		if strings.Contains(spec, "-") {
			width = "-" + width
		}
		return fmt.Sprintf("%"+width+"s", text)
	}
	switch verb {
	case 'g', 'G':
		if !strings.Contains(spec, ".") {
			spec += ".6"
		}
	case 'a', 'A':
		text := fmt.Sprintf(spec+map[byte]string{'a': "x", 'A': "X"}[verb], v)
		mark := strings.IndexAny(text, "pP")
		if mark >= 0 && mark+2 < len(text) && text[mark+2] == '0' {
			text = text[:mark+2] + text[mark+3:]
		}
		return text
	}
	return fmt.Sprintf(spec+string(verb), v)
}
