// Package machine tells what a measurement was made on: the facts at the head of every page of docs/evidence that a
// bench writes. It measures nothing.
package machine

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// Fact is one line of the head of a record.
type Fact struct{ Name, Value string }

// Processor is the processor and how much of it is in use.
func Processor() Fact {
	name := "unknown processor"
	text, _ := os.ReadFile("/proc/cpuinfo") // other systems have none: the name stays unknown
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			name = strings.TrimSpace(value)
			break
		}
	}
	return Fact{"processor", fmt.Sprintf("%s, %d in use (%s/%s)", name, runtime.GOMAXPROCS(0), runtime.GOOS,
		runtime.GOARCH)}
}

// Load is how busy the machine was during the last minute: a record of a busy one is worth less.
func Load() Fact {
	text, err := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(text)); err == nil && len(fields) > 0 {
		return Fact{"load before", fields[0]}
	}
	return Fact{"load before", "unknown"}
}

// Date is the day of the record.
func Date() Fact { return Fact{"date", time.Now().UTC().Format(time.DateOnly)} }

// Print writes facts for a terminal.
func Print(w io.Writer, facts []Fact) {
	for _, f := range facts {
		fmt.Fprintf(w, "%-12s %s\n", f.Name, f.Value)
	}
	fmt.Fprintln(w)
}

// Markdown writes facts as a list.
func Markdown(w io.Writer, facts []Fact) {
	for _, f := range facts {
		fmt.Fprintf(w, "- %s: %s\n", f.Name, f.Value)
	}
}
