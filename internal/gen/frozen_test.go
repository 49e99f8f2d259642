package gen

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
	"gpuemu/internal/testkit"
)

// frozenVectors are known answers of generator version 1. Whoever has to change one raises opspec.GenVersion.
type frozenVectors struct {
	Format  string            `json:"format"`
	Schemas []json.RawMessage `json:"schemas"`
	Drawn   []frozenDraw      `json:"drawn"`
	Inputs  []frozenCase      `json:"inputs"`
}

// frozenDraw says which case a stream gives.
type frozenDraw struct {
	Schema   string      `json:"schema"`
	Shapes   string      `json:"shapes"`
	Values   string      `json:"values"`
	Layouts  []string    `json:"layouts"`
	DTypes   []string    `json:"dtypes"`
	MaxElems int         `json:"max_elems"`
	Finite   bool        `json:"finite_only"`
	Master   testkit.U64 `json:"master"`
	Index    int         `json:"index"`
	Case     string      `json:"case"`
}

// frozenCase says which inputs a case gives.
type frozenCase struct {
	Schema string        `json:"schema"`
	Case   string        `json:"case"`
	Inputs []frozenInput `json:"inputs"`
}

// frozenInput is one input; the hash is that of its elements in row-major order.
type frozenInput struct {
	Name    string `json:"name"`
	SHA256  string `json:"sha256"`
	Strides []int  `json:"strides"`
	Offset  int    `json:"offset"`
}

func freezeInput(name string, x *tensor.Tensor) frozenInput {
	sum := sha256.Sum256(x.Bytes())
	return frozenInput{Name: name, SHA256: hex.EncodeToString(sum[:]), Strides: x.Strides, Offset: x.Offset}
}

func TestFrozenCases(t *testing.T) {
	v := testkit.Read[frozenVectors](t, "gen/cases-v1.json")
	schemas := map[string]*opspec.Schema{}
	for _, raw := range v.Schemas {
		s, err := opspec.ParseSchema(raw)
		if err != nil {
			t.Fatal(err)
		}
		schemas[s.Name] = s
	}
	testkit.EachOf(t, "drawn", v.Drawn, func(t *testing.T, d frozenDraw) {
		st := Strategy{Shapes: d.Shapes, Values: d.Values, MaxElems: d.MaxElems, FiniteOnly: d.Finite}
		for _, n := range d.Layouts {
			l, err := tensor.ParseLayout(n)
			if err != nil {
				t.Fatal(err)
			}
			st.Layouts = append(st.Layouts, l)
		}
		for _, n := range d.DTypes {
			dt, err := dtype.Parse(n)
			if err != nil {
				t.Fatal(err)
			}
			st.DTypes = append(st.DTypes, dt)
		}
		if got := mustCase(t, mustCases(t, schemas[d.Schema], st, uint64(d.Master)), d.Index).String(); got != d.Case {
			t.Errorf("case = %s\nwant   %s", got, d.Case)
		}
	})
	testkit.EachOf(t, "inputs", v.Inputs, func(t *testing.T, f frozenCase) {
		c, err := opspec.ParseCase(f.Case)
		if err != nil {
			t.Fatal(err)
		}
		got := mustInputs(t, schemas[f.Schema], c)
		if len(got) != len(f.Inputs) {
			t.Fatalf("%d inputs, want %d", len(got), len(f.Inputs))
		}
		for _, want := range f.Inputs {
			in := freezeInput(want.Name, got[want.Name])
			if in.SHA256 != want.SHA256 || !slices.Equal(in.Strides, want.Strides) || in.Offset != want.Offset {
				t.Errorf("input %+v, want %+v", in, want)
			}
		}
	})
}
