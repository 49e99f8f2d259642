package corpus

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"gpuemu/internal/config"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/oracle"
	"gpuemu/internal/ptx"
	"gpuemu/internal/ptxvm"
)

func TestKernels(t *testing.T) {
	list := Kernels()
	if len(list) == 0 {
		t.Fatal("the corpus has no kernels")
	}
	for i := range list {
		k := &list[i]
		for what, text := range map[string]string{"title": k.Title, "family": k.Family, "provenance": k.Provenance,
			"entry": k.Entry} {
			if text == "" {
				t.Errorf("%s has no %s", k.Name, what)
			}
		}
		if strings.ContainsAny(k.Name, ".{} ") {
			t.Errorf("%s: dots and spaces are for ids of mutants", k.Name)
		}
		op, ok := oracle.Lookup(k.Op)
		if !ok {
			t.Errorf("%s: the catalogue has no op %q", k.Name, k.Op)
			continue
		}
		for _, d := range k.DTypes {
			if !slices.Contains(op.Schema.AllowedDTypes(), d) {
				t.Errorf("%s: %s does not take %s", k.Name, k.Op, d)
			}
		}
		source, err := Source(k.Name)
		if err != nil || !strings.Contains(source, k.Entry+"(") {
			t.Errorf("the source of %s has no function %s: %v", k.Name, k.Entry, err)
		}
	}
}

// TestPTX: everything that is compiled is there, and can be executed.
func TestPTX(t *testing.T) {
	list := Kernels()
	for i := range list {
		k := &list[i]
		for _, d := range k.DTypes {
			for _, arch := range Arches() {
				loads(t, k, k.Name, d, arch)
			}
		}
	}
	mutants := Mutants()
	for i := range mutants {
		m := &mutants[i]
		k := load().byKernel[m.Kernel]
		if len(m.DTypes) == 0 || len(m.DTypes) > 2 || len(m.SHA256) != len(m.DTypes) {
			t.Errorf("%s has dtypes %v and %d digests, want one or two, and as many digests", m.ID, m.DTypes, len(m.SHA256))
		}
		base := map[dtype.DType][]byte{}
		differs := false
		for _, d := range m.DTypes {
			if !slices.Contains(k.DTypes, d) {
				t.Errorf("%s: %s is no format of %s", m.ID, d, k.Name)
				continue
			}
			if base[d] == nil {
				base[d], _ = PTX(k.Name, d, MutantArch) // TestPTX has asked for it above
			}
			text := loads(t, k, m.ID, d, MutantArch)
			sum := sha256.Sum256(text)
			if got := hex.EncodeToString(sum[:]); got != m.SHA256[d.String()] {
				t.Errorf("%s, %s: the PTX has digest %s, mutants.json says %s", m.ID, d, got, m.SHA256[d.String()])
			}
			differs = differs || string(text) != string(base[d])
		}
		if !differs {
			t.Errorf("%s has the PTX of its base", m.ID)
		}
	}
}

// loads reads the PTX of a kernel or mutant as the emulator does.
func loads(t *testing.T, k *Kernel, id string, d dtype.DType, arch string) []byte {
	t.Helper()
	text, err := PTX(id, d, arch)
	if err != nil {
		t.Error(err)
		return nil
	}
	name := id + "." + d.String() + "." + arch + ".ptx"
	file, err := ptx.Parse(name, string(text))
	if err != nil {
		t.Error(err)
		return nil
	}
	prog, err := ptxvm.Load(file, k.Entry)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return nil
	}
	if len(file.Targets) != 1 || strings.TrimSuffix(file.Targets[0], "a") != arch { // Triton's sm_90 is sm_90a
		t.Errorf("%s is for %v", name, file.Targets)
	}
	if len(prog.Params) != len(k.Launch.Args) {
		t.Errorf("%s takes %d arguments, the launch has %d", name, len(prog.Params), len(k.Launch.Args))
	}
	return text
}

// TestMutants: every edit applies to the source of its base.
func TestMutants(t *testing.T) {
	mutants := Mutants()
	for i := range mutants {
		m := &mutants[i]
		if m.What == "" || m.Class == "" || m.Operator == "" || (m.Operator == Real) != (m.Ref != "") {
			t.Errorf("%s: what, class and operator are needed, and ref for real bugs alone: %+v", m.ID, m)
		}
		want := m.Kernel + "." + m.Operator + "."
		if m.Operator == Real {
			want = Real + "."
		}
		if !strings.HasPrefix(m.ID, want) {
			t.Errorf("%s is called so, want %s…", m.ID, want)
		}
		base, err := Source(m.Kernel)
		if err != nil {
			t.Fatal(err)
		}
		source, err := Source(m.ID)
		if err != nil || source == base {
			t.Errorf("%s: the edit changes nothing: %v", m.ID, err)
		}
	}
}

// TestCounts holds the corpus to what was asked for: 24 kernels in both languages and all families, 300 mutants with a
// quarter of the operators held out, and 25 real bugs.
func TestCounts(t *testing.T) {
	families, languages, operators := map[string]int{}, map[string]int{}, map[string]bool{}
	for _, k := range Kernels() {
		families[k.Family]++
		languages[k.Language]++
	}
	made, real, held := 0, 0, 0
	for _, m := range Mutants() {
		if m.Operator == Real {
			real++
			continue
		}
		made++
		if out, known := operators[m.Operator]; !known && m.HeldOut {
			held++
		} else if known && out != m.HeldOut {
			t.Errorf("operator %s is held out in some mutants", m.Operator)
		}
		operators[m.Operator] = m.HeldOut
	}
	if n := len(Kernels()); n < 24 || languages[Triton] == 0 || languages[CUDA] == 0 {
		t.Errorf("%d kernels in %v, want at least 24 in both languages", n, languages)
	}
	for _, f := range []string{"elementwise", "reduction", "norm", "softmax", "matmul", "attention", "rope", "loss",
		"quant", "scan", "conv", "index", "moe"} {
		if families[f] == 0 {
			t.Errorf("no kernel of family %q: there are %v", f, families)
		}
	}
	if made < 300 || real < 25 {
		t.Errorf("%d mutants and %d real bugs, want 300 and 25", made, real)
	}
	if 5*held < len(operators) || 3*held > len(operators) {
		t.Errorf("%d of %d operators are held out, want a quarter", held, len(operators))
	}
}

func TestEdit(t *testing.T) {
	const text = "a = 1\nb = 2; b = 2\nc = 3\n"
	for _, tt := range []struct {
		line                int
		before, after, want string
	}{
		{1, "1", "7", "a = 7\nb = 2; b = 2\nc = 3\n"},
		{2, "b = 2", "", "a = 1\n; b = 2\nc = 3\n"},
		{2, "2\nc", "x", "a = 1\nb = 2; b = x = 3\n"},
		{3, "c = 3", "c", "a = 1\nb = 2; b = 2\nc\n"},
		{1, "b = 2", "x", ""}, // it is on the next line
		{5, "c", "x", ""},
		{1, "", "x", ""},
	} {
		m := Mutant{ID: "m", Kernel: "k", Line: tt.line, Before: tt.before, After: tt.after}
		got, err := m.edit(text)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("line %d, %q to %q: %q, %v, want %q", tt.line, tt.before, tt.after, got, err, tt.want)
		}
	}
}

// TestRead: what is wrong with a corpus is an error that says where.
func TestRead(t *testing.T) {
	const kernel = "title = \"t\"\nop = \"relu\"\nlanguage = \"cuda\"\nentry = \"k\"\ndtypes = [\"float32\"]\n"
	for _, tt := range []struct{ kernel, mutants, want string }{
		{kernel, `{"mutants": []}`, ""},
		{kernel, `{"mutants": [{"id": "k.x.1", "kernel": "k"}]}`, ""},
		{kernel, `{"mutants": [{"id": "k.x.1", "kernel": "k"}, {"id": "k.x.1", "kernel": "k"}]}`, `"k.x.1" is there twice`},
		{kernel, `{"mutants": [{"id": "k", "kernel": "k"}]}`, `"k" is there twice`},
		{kernel, `{"mutants": [{"id": "j.x.1", "kernel": "j"}]}`, `j.x.1 is of kernel "j", which is not there`},
		{kernel, `[]`, "mutants.json: "},
		{kernel + "speed = 1\n", "", "kernels/k.toml: "},
		{strings.Replace(kernel, "cuda", "hip", 1), "", `kernels/k.toml: language is "hip"`},
		{strings.Replace(kernel, "float32", "float31", 1), "", "kernels/k.toml: "},
	} {
		fsys := fstest.MapFS{"kernels/k.toml": {Data: []byte(tt.kernel)}}
		if tt.mutants != "" {
			fsys["mutants.json"] = &fstest.MapFile{Data: []byte(tt.mutants)}
		}
		_, err := read(fsys)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s, %s: %v, want %q", tt.kernel, tt.mutants, err, tt.want)
		}
	}
}

func TestUnknown(t *testing.T) {
	name := Kernels()[0].Name
	if _, err := Source(name + "x"); diag.CodeOf(err) != UnknownID || !strings.Contains(diag.HintOf(err), name) {
		t.Errorf("Source(%sx): %v, hint %q", name, err, diag.HintOf(err))
	}
	if _, err := PTX(name, dtype.Bool, MutantArch); diag.CodeOf(err) != NoPTX {
		t.Errorf("PTX(%s, bool): %v", name, err)
	}
	if err := WriteProject(t.TempDir(), MutantArch, "nobody"); diag.CodeOf(err) != UnknownID {
		t.Errorf("WriteProject(nobody): %v", err)
	}
}

// TestWriteProject: gpuemu.toml says of every kernel what its description says.
func TestWriteProject(t *testing.T) {
	list := Kernels()
	var ids []string
	for i := range list {
		ids = append(ids, list[i].Name)
	}
	dir := filepath.Join(t.TempDir(), "new")
	if err := WriteProject(dir, HopperArch, ids...); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(filepath.Join(dir, "gpuemu.toml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Ops) != len(ids) {
		t.Errorf("%d ops of %d kernels", len(cfg.Ops), len(ids))
	}
	for i := range list {
		k := &list[i]
		op, ok := cfg.Op(k.Name)
		if !ok {
			continue
		}
		l := &op.Kernel.Launch
		if op.SchemaName != k.Op || op.Mode != config.Emulate || !slices.Equal(op.DTypes, k.DTypes) || l.Entry != k.Entry ||
			!maps.Equal(op.Attributes, k.Attributes) || len(l.Args) != len(k.Launch.Args) ||
			(l.Shared.Text != "") != (k.Launch.Shared != nil) {
			t.Errorf("%s is %+v, launched by %+v", k.Name, op, l)
		}
		for _, d := range k.DTypes {
			want, _ := PTX(k.Name, d, HopperArch)
			in := l.In(d)
			got, err := os.ReadFile(filepath.Join(dir, in.PTX))
			if err != nil || string(got) != string(want) || len(got) == 0 {
				t.Errorf("%s: the PTX for %s is not that of the corpus: %v", k.Name, d, err)
			}
		}
		source, _ := Source(k.Name)
		got, err := os.ReadFile(filepath.Join(dir, "source", k.Name+k.extension()))
		if err != nil || string(got) != source {
			t.Errorf("%s: the source is not that of the corpus: %v", k.Name, err)
		}
	}
}
