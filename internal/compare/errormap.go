// This file implements the error map: where in the last two dimensions the wrong elements lie.

package compare

import (
	"fmt"
	"strings"

	"gpuemu/internal/tensor"
)

const (
	mapRows = 16 // most rows of the grid: what fits a terminal beside other text
	mapCols = 64
)

// ErrorMap is a grid laid over the last two dimensions; all leading dimensions lie on top of each other. A tensor of
// rank 1 is one row.
type ErrorMap struct {
	Rows, Cols         int   // sizes of the two dimensions
	Layers             int   // product of the leading dimensions
	GridRows, GridCols int   // sizes of the grid, at most those of the dimensions
	Wrong              []int // wrong elements by cell, row-major
}

func newErrorMap(s tensor.Shape) *ErrorMap {
	m := &ErrorMap{Rows: 1, Cols: 1, Layers: 1}
	for i, d := range s {
		switch len(s) - i {
		case 1:
			m.Cols = d
		case 2:
			m.Rows = d
		default:
			m.Layers *= d
		}
	}
	m.GridRows, m.GridCols = min(m.Rows, mapRows), min(m.Cols, mapCols)
	return m
}

// cells returns Wrong, which is made when first needed: most comparisons find nothing wrong.
func (m *ErrorMap) cells() []int {
	if m.Wrong == nil {
		m.Wrong = make([]int, m.GridRows*m.GridCols)
	}
	return m.Wrong
}

// add counts the wrong element at row-major position i.
func (m *ErrorMap) add(i int) {
	col := i % m.Cols
	row := i / m.Cols % m.Rows
	m.cells()[row*m.GridRows/m.Rows*m.GridCols+col*m.GridCols/m.Cols]++
}

func (m *ErrorMap) merge(o *ErrorMap) {
	for i, n := range o.Wrong {
		m.cells()[i] += n
	}
}

// Size returns the number of elements that lie in a cell.
func (m *ErrorMap) Size(gridRow, gridCol int) int {
	span := func(cell, grid, n int) int { // elements x with x*grid/n == cell
		return (n*(cell+1)+grid-1)/grid - (n*cell+grid-1)/grid
	}
	return m.Layers * span(gridRow, m.GridRows, m.Rows) * span(gridCol, m.GridCols, m.Cols)
}

// Density returns the share of wrong elements in a cell.
func (m *ErrorMap) Density(gridRow, gridCol int) float64 {
	return float64(m.Wrong[gridRow*m.GridCols+gridCol]) / float64(m.Size(gridRow, gridCol))
}

// Text draws the map: "." for a cell without wrong elements, a digit for the share of wrong ones in tenths (1: up to
// 20 %, 9: 90 % and more), "@" for a cell in which all are wrong
// ("#" would not do: two of them begin a command in logs of CI systems, and would be escaped).
func (m *ErrorMap) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "wrong elements over the last two dimensions [%d,%d]", m.Rows, m.Cols)
	if m.Layers > 1 {
		fmt.Fprintf(&b, ", %d layers on top of each other", m.Layers)
	}
	if m.GridRows < m.Rows || m.GridCols < m.Cols {
		fmt.Fprintf(&b, ", drawn as %dx%d", m.GridRows, m.GridCols)
	}
	b.WriteString(" (. none, 1-9 tenths, @ all)\n")
	for r := range m.GridRows {
		for c := range m.GridCols {
			b.WriteByte(m.glyph(r, c))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (m *ErrorMap) glyph(r, c int) byte {
	wrong, size := m.Wrong[r*m.GridCols+c], m.Size(r, c)
	switch {
	case wrong == 0:
		return '.'
	case wrong == size:
		return '@'
	}
	return byte('0' + max(1, wrong*10/size))
}
