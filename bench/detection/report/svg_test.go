package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

// texts reads a picture as XML, which it must be, and gives what it says.
func texts(t *testing.T, svg []byte) []string {
	t.Helper()
	var list []string
	d := xml.NewDecoder(bytes.NewReader(svg))
	inText := false
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatalf("not XML: %v\n%s", err, svg)
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			inText = tok.Name.Local == "text"
		case xml.EndElement:
			inText = false
		case xml.CharData:
			if inText {
				list = append(list, string(tok))
			}
		}
	}
}

func TestPicturesAreXML(t *testing.T) {
	for name, tt := range map[string]struct {
		svg  []byte
		says []string
	}{
		"survival": {survivalChart(`a < b & "c"`, "cases", []series{{"ours", []float64{1, 0.5, 0.25}}, {"x<y", []float64{1,
			1, 1}}}),
			[]string{`a < b & "c"`, "ours", "x<y", "20 %"}},
		"scatter": {scatterChart("t", "x", "y", []string{"rules"}, []point{{"one & all", 0.5, 0.9, 0}}),
			[]string{"one & all", "rules"}},
		"heat map": {heatMap("t", []string{"row"}, []string{"mask", "index"}, [][]float64{{0.996, math.NaN()}}),
			[]string{"row", "mask", "99", "–"}},
	} {
		got := strings.Join(texts(t, tt.svg), "\n") + "\n"
		for _, want := range tt.says {
			if !strings.Contains(got, want+"\n") {
				t.Errorf("%s says %q, want %q in it", name, got, want)
			}
		}
		if !bytes.Contains(tt.svg, []byte("prefers-color-scheme: dark")) {
			t.Errorf("%s has no colours for dark pages", name)
		}
	}
}

// TestLabelsStayApart: labels of equal points can all be read, keep their order and stay within the frame.
func TestLabelsStayApart(t *testing.T) {
	f := frame{top: 60, bottom: 420}
	list := []point{{y: 1}, {y: 1}, {y: 0.99}, {y: 0.5}, {y: 0}, {y: 0}, {y: 0}}
	at := apart(list, f)
	for i := 1; i < len(at); i++ {
		if at[i]-at[i-1] < 15.99 {
			t.Errorf("labels %d and %d are %.1f apart: %v", i-1, i, at[i]-at[i-1], at)
		}
	}
	if at[0] < f.top-20 || at[len(at)-1] > f.bottom+20 {
		t.Errorf("labels leave the frame: %v", at)
	}
}

func TestWholePercent(t *testing.T) {
	for v, want := range map[float64]string{1: "100", 0.999: "99", 0.001: "1", 0: "0", 0.5: "50"} {
		if got := wholePercent(v); got != want {
			t.Errorf("wholePercent(%v) = %q, want %q", v, got, want)
		}
	}
}
