package artifact

import (
	"slices"
	"testing"
)

// record is a record with nothing but what it is of.
func record(kernel, arch string, kinds ...SourceKind) Metrics {
	m := Metrics{Kernel: kernel, Arch: arch}
	for _, k := range kinds {
		m.Sources = append(m.Sources, Source{Kind: k, File: kernel + "." + string(k), Digest: "d"})
	}
	m.Notes = []string{arch}
	for _, k := range kinds {
		if k == SASS {
			m.SASSCode = &Code{}
		}
	}
	return m
}

func TestMergeGroups(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   []Metrics
		want []string
	}{
		{"one kernel in three forms", []Metrics{record("k", "sm_90", PTX), record("k", "", SASS),
			record("k", "sm_90a", Cubin)}, []string{"k sm_90a ptx cubin sass"}},
		{"PTX for an older architecture, one image", []Metrics{record("k", "sm_80", PTX), record("k", "sm_90", Cubin)},
			[]string{"k sm_90 ptx cubin"}},
		{"two images", []Metrics{record("k", "sm_80", PTX), record("k", "sm_90", Cubin), record("k", "sm_80", Cubin)},
			[]string{"k sm_80 ptx cubin", "k sm_90 cubin"}},
		{"two images and PTX for neither", []Metrics{record("k", "sm_100", PTX), record("k", "sm_90", Cubin),
			record("k", "sm_80", Cubin)}, []string{"k sm_100 ptx", "k sm_80 cubin", "k sm_90 cubin"}},
		{"two texts", []Metrics{record("k", "sm_80", PTX), record("k", "sm_90", PTX)},
			[]string{"k sm_80 ptx", "k sm_90 ptx"}},
		{"listings of two architectures", []Metrics{record("k", "sm_80", SASS), record("k", "sm_90", SASS),
			record("k", "sm_90", Cubin)}, []string{"k sm_80 sass", "k sm_90 cubin sass"}},
		{"other names", []Metrics{record("b", "sm_80", PTX), record("a", "sm_80", Cubin)},
			[]string{"a sm_80 cubin", "b sm_80 ptx"}},
		{"merged before", []Metrics{record("k", "sm_90", PTX, Cubin), record("k", "sm_90", SASS)},
			[]string{"k sm_90 ptx cubin sass"}},
		{"the same file twice", []Metrics{record("k", "sm_90", Cubin), record("k", "sm_90", Cubin)},
			[]string{"k sm_90 cubin", "k sm_90 cubin"}},
	} {
		var got []string
		for _, m := range Merge(tt.in) {
			line := m.Kernel + " " + m.Arch
			for _, s := range m.Sources {
				line += " " + string(s.Kind)
			}
			got = append(got, line)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestMergeFigures: of each figure the best source is kept, whichever comes first.
func TestMergeFigures(t *testing.T) {
	ptxRecord, cubinRecord := record("k", "sm_90", PTX), record("k", "sm_90", Cubin)
	zero, eight := 0, 8
	ptxRecord.Registers, cubinRecord.Registers = figure(30, Estimated), figure(28, FromCubin)
	ptxRecord.Local, cubinRecord.Local = figure(4, Declared), nil
	ptxRecord.SharedStatic, cubinRecord.SharedStatic = figure(4, Declared), figure(128, FromCubin)
	cubinRecord.SpillStores, cubinRecord.SpillLoads = figure(1, FromCubin), figure(2, FromCubin)
	ptxRecord.MaxThreads, cubinRecord.MaxThreads = &Extent{256, 1, 1, Declared}, &Extent{256, 1, 1, FromCubin}
	ptxRecord.ReqThreads = &Extent{64, 1, 1, Declared}
	dynamic := true
	ptxRecord.SharedDynamic = &dynamic
	ptxRecord.Constant = []Bank{{Bytes: Figure{8, Declared}}}
	cubinRecord.Constant = []Bank{{&zero, Figure{544, FromCubin}}}
	ptxRecord.Params = []Param{{Name: "x", Type: "u64", Offset: &zero, Size: 8}, {Name: "n", Type: "u32", Size: 4}}
	cubinRecord.Params = []Param{{Offset: &zero, Size: 8}, {Offset: &eight, Size: 4}}
	ptxRecord.PTXCode = &Code{Total: 7}
	for _, in := range [][]Metrics{{ptxRecord, cubinRecord}, {cubinRecord, ptxRecord}} {
		m := Merge(in)[0]
		check(t, "registers", m.Registers, figure(28, FromCubin))
		check(t, "local", m.Local, figure(4, Declared))
		check(t, "shared", m.SharedStatic, figure(128, FromCubin))
		check(t, "spills", m.Spills(), figure(3, FromCubin))
		check(t, "max threads", m.MaxThreads, &Extent{256, 1, 1, FromCubin})
		check(t, "req threads", m.ReqThreads, &Extent{64, 1, 1, Declared})
		check(t, "dynamic", *m.SharedDynamic, true)
		check(t, "constant", m.Constant, []Bank{{&zero, Figure{544, FromCubin}}})
		check(t, "params", m.Params, []Param{{Name: "x", Type: "u64", Offset: &zero, Size: 8},
			{Name: "n", Type: "u32", Offset: &eight, Size: 4}})
		check(t, "instructions", m.Instructions(), figure(7, Declared))
		check(t, "kind", m.Kind(), Both)
	}
	check(t, "the first record", ptxRecord.Registers, figure(30, Estimated)) // is as it was
	cubinRecord.Params = cubinRecord.Params[:1]
	check(t, "params of other lists", Merge([]Metrics{ptxRecord, cubinRecord})[0].Params, cubinRecord.Params)
}

// TestSpillsOfListing: accesses to local memory are spills if PTX declares no local memory, and arrays if the frame is
// not larger than what it declares.
func TestSpillsOfListing(t *testing.T) {
	listing := *one(t, load(t, "known.sass"), "first")
	for _, tt := range []struct {
		name     string
		declared int
		frame    int // -1: there is no cubin
		want     *Figure
	}{
		{"nothing declared", 0, -1, figure(12, FromSASS)},
		{"arrays, no cubin", 8, -1, nil},
		{"arrays alone", 8, 8, figure(0, FromSASS)},
		{"arrays and spills", 8, 64, nil},
	} {
		text := record("first", "sm_90", PTX)
		text.Local = figure(tt.declared, Declared)
		in := []Metrics{text, listing}
		if tt.frame >= 0 {
			machine := record("first", "sm_90", Cubin)
			machine.Stack, machine.Local = figure(tt.frame, FromCubin), figure(tt.frame, FromCubin)
			in = append(in, machine)
		}
		check(t, tt.name, Merge(in)[0].Spills(), tt.want)
	}
}
