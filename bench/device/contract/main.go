// Command contract checks the catalogue's contracts against the kernels everybody trusts: PyTorch's own, on a GPU.
//
//	contract pack -o cases.safetensors           write cases of every op
//	torch_contract.py cases.safetensors DIR      run them on the device, one output file per backend
//	contract check -cases cases.safetensors -o docs/evidence/torch-contract.md DIR/*.safetensors
//
// An alarm in the last step is a bug in a contract, or a finding about PyTorch.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpuemu/internal/compare"
	"gpuemu/internal/dtype"
	"gpuemu/internal/gen"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/tensor"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "contract:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("want a verb: pack or check")
	}
	fs := flag.NewFlagSet(args[0], flag.ContinueOnError)
	out := fs.String("o", "", "file to write")
	cases := fs.String("cases", "", "file made by pack")
	count := fs.Int("count", 24, "cases per op and dtype")
	elems := fs.Int("max-elems", 4096, "largest tensor of a case")
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "pack":
		return pack(*out, *count, *elems)
	case "check":
		return check(*cases, *out, fs.Args())
	}
	return fmt.Errorf("unknown verb %q: want pack or check", args[0])
}

// note is what the device needs to know of a case beside its tensors.
type note struct {
	Op    string         `json:"op"`
	DType string         `json:"dtype"`
	Attrs map[string]any `json:"attrs"`
	Case  string         `json:"case"`
}

// deviceSchema returns the op's schema with the sizes a library kernel takes: cuBLAS multiplies fp8 in multiples of 16
// only.
func deviceSchema(op *oracle.Op) *opspec.Schema {
	if op.Name != "fp8_matmul" {
		return op.Schema
	}
	s := *op.Schema
	s.Relations = append([]string{"M % 16 == 0", "N % 16 == 0", "K % 16 == 0"}, s.Relations...)
	s.Dims = append([]opspec.Dim(nil), s.Dims...)
	for i := range s.Dims {
		s.Dims[i].Candidates, s.Dims[i].Min, s.Dims[i].Tile = []int{16, 32, 48, 128, 256}, 16, 16
	}
	return &s
}

func pack(path string, count, elems int) error {
	var named []tensor.Named
	meta := map[string]string{}
	values := []string{"mixed", "adversarial", "normal", "nan_injected", "offset", "rising_max", "cancelling", "near_eps"}
	for _, op := range oracle.Ops() {
		for _, d := range op.Schema.AllowedDTypes() {
			for i := range count {
				s, err := gen.Cases(deviceSchema(op), gen.Strategy{
					Shapes: []string{"default", "tile_aware", "boundary"}[i%3], Values: values[i%len(values)],
					DTypes: []dtype.DType{d}, MaxElems: elems, Layouts: []tensor.Layout{tensor.Contiguous},
				}, 7)
				if err != nil {
					return err
				}
				c, err := s.Case(i)
				if err != nil {
					return err
				}
				in, err := gen.Inputs(op.Schema, c)
				if err != nil {
					return err
				}
				key := fmt.Sprintf("%05d", len(meta))
				for _, spec := range op.Schema.Inputs {
					named = append(named, tensor.Named{Name: key + "/" + spec.Name, Tensor: in[spec.Name]})
				}
				b, err := json.Marshal(note{op.Name, d.String(), c.AttrMap(), c.String()})
				if err != nil {
					return err
				}
				meta[key] = string(b)
			}
		}
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := tensor.WriteSafetensors(f, named, meta); err != nil {
		return err
	}
	fmt.Printf("%d cases of %d ops\n", len(meta), len(oracle.Ops()))
	return f.Close()
}

// row is what was seen of one op and dtype on one backend.
type row struct {
	cases, elems, undetermined, failed int
	worst                              float64 // largest error over bound
}

type checker struct {
	cases *tensor.File
	rows  map[string]*row
	fails map[string][]string // by backend, op and dtype
}

func check(cases, out string, files []string) error {
	f, err := tensor.OpenSafetensors(cases)
	if err != nil {
		return err
	}
	defer f.Close()
	ck := &checker{cases: f, rows: map[string]*row{}, fails: map[string][]string{}}
	for _, path := range files {
		if err := ck.file(path); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	text := ck.table()
	fmt.Print(text)
	if out == "" {
		return nil
	}
	return os.WriteFile(out, []byte(text), 0o644)
}

func (ck *checker) file(path string) error {
	f, err := tensor.OpenSafetensors(path)
	if err != nil {
		return err
	}
	defer f.Close()
	got := map[string]map[string]*tensor.Tensor{}
	for _, n := range f.Tensors {
		key, name, _ := strings.Cut(n.Name, "/")
		if got[key] == nil {
			got[key] = map[string]*tensor.Tensor{}
		}
		got[key][name] = n.Tensor
	}
	backend := strings.TrimSuffix(filepath.Base(path), ".safetensors")
	for key, outs := range got {
		if err := ck.one(backend, key, outs); err != nil {
			return fmt.Errorf("case %s: %w", key, err)
		}
	}
	return nil
}

func (ck *checker) one(backend, key string, outs map[string]*tensor.Tensor) error {
	var n note
	if err := json.Unmarshal([]byte(ck.cases.Metadata[key]), &n); err != nil {
		return err
	}
	op, ok := oracle.Lookup(n.Op)
	if !ok {
		return fmt.Errorf("unknown op %q", n.Op)
	}
	c, err := opspec.ParseCase(n.Case)
	if err != nil {
		return err
	}
	in := map[string]*tensor.Tensor{}
	for _, spec := range op.Schema.Inputs {
		t, ok := ck.cases.Lookup(key + "/" + spec.Name)
		if !ok {
			return fmt.Errorf("input %q is missing", spec.Name)
		}
		in[spec.Name] = t
	}
	want, err := oracle.Evaluate(op, in, c.AttrMap(), c.DType)
	if err != nil {
		return err
	}
	id := backend + "|" + n.Op + "|" + n.DType
	r := ck.rows[id]
	if r == nil {
		r = &row{}
		ck.rows[id] = r
	}
	r.cases++
	opt := compare.DefaultOptions()
	opt.Regime = compare.Bound
	for name, w := range want {
		t, ok := outs[name]
		if !ok {
			continue // a backend may give only some outputs
		}
		rep, err := compare.Compare(t, w, opt)
		if err != nil {
			return err
		}
		r.elems += w.Shape.Elems()
		r.undetermined += rep.Counts.Undetermined
		r.worst = max(r.worst, rep.Stats.MaxRatio)
		if rep.Verdict == compare.Fail || rep.Verdict == compare.Error {
			r.failed++
			ck.fails[id] = append(ck.fails[id], fmt.Sprintf("%s: %s output %q: %s", backend, c, name, brief(rep)))
		}
	}
	return nil
}

// table renders what was seen: a line per backend, a line per op and dtype with an alarm, and the first alarm of each.
func (ck *checker) table() string {
	byBackend, alarmed := map[string]*row{}, []string{}
	for id, r := range ck.rows {
		backend, _, _ := strings.Cut(id, "|")
		t := byBackend[backend]
		if t == nil {
			t = &row{}
			byBackend[backend] = t
		}
		t.add(r)
		if r.failed > 0 {
			alarmed = append(alarmed, id)
		}
	}
	var b strings.Builder
	b.WriteString(header)
	const columns = " cases | elements | undetermined | largest error/bound | alarms |\n"
	b.WriteString("| backend |" + columns + "|---|---:|---:|---:|---:|---:|\n")
	for _, backend := range slices.Sorted(maps.Keys(byBackend)) {
		fmt.Fprintf(&b, "| %s | %s\n", backend, byBackend[backend])
	}
	b.WriteString("\n## Alarms\n\n| backend | op | dtype |" + columns + "|---|---|---|---:|---:|---:|---:|---:|\n")
	slices.Sort(alarmed)
	for _, id := range alarmed {
		fmt.Fprintf(&b, "| %s | %s\n", strings.ReplaceAll(id, "|", " | "), ck.rows[id])
	}
	b.WriteString("\nThe first of each:\n")
	for _, id := range alarmed {
		b.WriteString("\n```\n" + slices.Min(ck.fails[id]) + "\n```\n")
	}
	return b.String()
}

// header opens the record; what the alarms mean is said in docs/evidence/README.md.
const header = `# PyTorch's kernels against the contracts

Made by bench/device/contract (see its doc comment for the three commands) on an H200 with PyTorch 2.11 and Triton 3.6.
torch-eager: PyTorch's CUDA kernels; torch-compiled: Inductor's Triton kernels; torch-sdpa-*: the backends of
scaled_dot_product_attention; torch-cpu: CPU kernels of a few ops. Values: mixed, adversarial, normal, nan_injected,
offset, rising_max, cancelling, near_eps in turn.

`

func (r *row) add(o *row) {
	r.cases += o.cases
	r.elems += o.elems
	r.undetermined += o.undetermined
	r.failed += o.failed
	r.worst = max(r.worst, o.worst)
}

func (r *row) String() string {
	return fmt.Sprintf("%d | %d | %.1f %% | %.3g | %d |", r.cases, r.elems,
		100*float64(r.undetermined)/float64(max(1, r.elems)), r.worst, r.failed)
}

// brief shows how many elements of a failing report are wrong, and the worst.
func brief(r *compare.Report) string {
	s := fmt.Sprintf("%s %s, %d of %d wrong", r.Verdict, r.Reason, r.Counts.Mismatched, r.Counts.Total)
	for _, list := range [][]compare.Element{r.Worst.Class, r.Worst.Ratio} {
		if len(list) > 0 {
			e := list[0]
			s += fmt.Sprintf("\n  %v at %v: got %v, want %v, bound %.3g (%.3g times)",
				e.Kind, e.Index, e.Got, e.Want, e.Bound, e.Ratio)
		}
	}
	return s
}
