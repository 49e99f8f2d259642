package ptxvm

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

// This file implements the comparison of the zoo with a GPU: the launches are written for bench/device/zoo.py, which
// executes the same PTX and records what it leaves behind.

// zooRecord is testdata/vectors/zoo/h200.json.gz.
type zooRecord struct {
	Device   string                        `json:"device"`
	Driver   string                        `json:"driver"`
	Ptxas    string                        `json:"ptxas"`
	Launches map[string]map[string]zooRuns `json:"launches"` // by name of the launch, by file
	Data     map[string]string             `json:"data"`     // outputs that are kept, by their hash: zlib, base64
}

// zooRuns are the hashes of the outputs of one version, in the order of the arguments. PTX leaves it to the assembler
// whether it fuses a product with a sum where no rounding is given, so every version ran in two ways.
type zooRuns struct {
	Plain []string `json:"plain"` // ptxas --fmad=false: nothing is fused
	Fused []string `json:"fused"` // as the driver compiles it
	Why   string   `json:"why"`   // why there is none
}

// notForThisGPU is why a version was not executed that is allowed: it was compiled for a later GPU.
const notForThisGPU = "not for this GPU"

// digest is how outputs are named: the first 8 bytes of their SHA-256.
func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// comparison is what a launch has given here, on the GPU and in float64, over all its versions. Differences are in
// parts of the largest element.
type comparison struct {
	animal     *animal
	files      []string // that were executed
	elsewhere  int      // versions that are for another GPU
	plainEqual int      // versions with the bits of the GPU where nothing is fused
	fusedEqual int      // versions with the bits of the GPU as the driver compiles
	plain      float64
	fused      float64
	reference  float64 // from float64
}

// compareWithGPU runs all versions of a launch and compares what they leave with the record.
func compareWithGPU(a *animal, rec *zooRecord) (*comparison, error) {
	list, err := a.individuals()
	if err != nil {
		return nil, err
	}
	c := &comparison{animal: a}
	for _, v := range list {
		c.files = append(c.files, v.file)
		r, args, err := a.run(v.program, AllChecks, 0)
		if err != nil {
			return nil, err
		}
		if !a.finds(r) {
			return nil, fmt.Errorf("%s: findings %v, want one of %q", v.file, r.Findings, a.finding)
		}
		for _, i := range a.outputs() {
			worst, err := a.bound(i).compare(args[i].Buffer, a.want[i])
			if err != nil {
				return nil, fmt.Errorf("%s: argument %d: %w", v.file, i, err)
			}
			c.reference = max(c.reference, worst)
		}
		p, err := LoadWith(v.program.File, a.kernel, Numerics{Contract: true})
		if err != nil {
			return nil, err
		}
		_, fused, err := a.run(p, NoChecks, 0)
		if err != nil {
			return nil, err
		}
		if err := c.add(&v, args, fused, rec); err != nil {
			return nil, fmt.Errorf("%s: %w", v.file, err)
		}
	}
	return c, nil
}

// add compares one version: what it leaves as it is written, and with products fused.
func (c *comparison) add(v *individual, plain, fused []Arg, rec *zooRecord) error {
	a := c.animal
	runs, ok := rec.Launches[a.name()][v.file]
	switch {
	case !ok:
		return errors.New("it is not in the record; see bench/device/zoo.sh")
	case runs.Why == notForThisGPU:
		c.elsewhere++
		return nil
	case runs.Why != "":
		return fmt.Errorf("the GPU did not execute it: %s", runs.Why)
	}
	for _, way := range []struct {
		name   string
		args   []Arg
		hashes []string
		equal  *int
		worst  *float64
	}{
		{"nothing is fused", plain, runs.Plain, &c.plainEqual, &c.plain},
		{"the driver compiles", fused, runs.Fused, &c.fusedEqual, &c.fused},
	} {
		if len(way.hashes) != len(a.want) {
			return fmt.Errorf("the record has %d outputs, want %d", len(way.hashes), len(a.want))
		}
		equal := true
		for k, i := range a.outputs() {
			got, b := way.args[i].Buffer, a.bound(i)
			if digest(got) == way.hashes[k] {
				continue
			}
			gpu, err := rec.output(a, way.hashes[k])
			if err != nil {
				return fmt.Errorf("argument %d differs from the GPU's where %s, and %w", i, way.name, err)
			}
			worst, err := b.compare(got, gpu)
			if !v.approximate && !bytes.Equal(got, gpu) {
				_, err = bound{}.compare(got, gpu)
			}
			if err == nil {
				_, err = b.compare(gpu, a.want[i])
			}
			if err != nil {
				return fmt.Errorf("argument %d on the GPU where %s: %w", i, way.name, err)
			}
			equal = equal && bytes.Equal(got, gpu)
			*way.worst = max(*way.worst, worst)
		}
		if equal {
			*way.equal++
		}
	}
	return nil
}

// output is an output that the record keeps.
func (rec *zooRecord) output(a *animal, hash string) ([]byte, error) {
	text, ok := rec.Data[hash]
	if !ok {
		return nil, errors.New("the record does not keep it")
	}
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	z, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(z)
	if err == nil && a.canonical != nil {
		a.canonical(b)
	}
	return b, err
}

// compareZoo compares all launches that leave something behind.
func compareZoo(t *testing.T) []*comparison {
	t.Helper()
	rec := readZooRecord(t)
	var all []*comparison
	for _, a := range zoo() {
		if a.want == nil {
			continue
		}
		c, err := compareWithGPU(&a, rec)
		if err != nil {
			t.Errorf("%s: %v", a.name(), err)
			continue
		}
		all = append(all, c)
	}
	return all
}

// through reports whether the fixtures have one of a compiler.
func (c *comparison) through(compiler string) bool {
	return slices.ContainsFunc(c.files, func(f string) bool { return strings.HasPrefix(f, compiler+"/") })
}

// TestZooOnGPU compares all launches with the record, and shows that they are as many as they have to be.
func TestZooOnGPU(t *testing.T) {
	if testing.Short() {
		t.Skip("TestZoo and TestZooWorkers run the same launches")
	}
	versions, plain, fused := 0, 0, 0
	cuda, triton := map[string]bool{}, map[string]bool{}
	for _, c := range compareZoo(t) {
		versions, plain, fused = versions+len(c.files)-c.elsewhere, plain+c.plainEqual, fused+c.fusedEqual
		if c.through("clang19") && c.through("clang22") && c.through("nvcc13") {
			cuda[c.animal.kernel] = true
		}
		if c.through("triton36") {
			triton[c.animal.kernel] = true
		}
	}
	t.Logf("%d versions; the GPU has the same bits for %d where nothing is fused, for %d as the driver compiles",
		versions, plain, fused)
	if len(cuda) < 40 || len(triton) < 15 {
		t.Errorf("%d kernels went through clang 19, clang 22 and nvcc, %d through Triton; want 40 and 15", len(cuda),
			len(triton))
	}
}

func readZooRecord(t *testing.T) *zooRecord {
	t.Helper()
	f, err := os.Open("../../testdata/vectors/zoo/h200.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(z)
	d.DisallowUnknownFields()
	rec := &zooRecord{}
	if err := d.Decode(rec); err != nil {
		t.Fatal(err)
	}
	if len(rec.Launches) == 0 {
		t.Fatal("the record has no launches")
	}
	return rec
}

// TestZooLaunches writes the launches for bench/device/zoo.sh to the file that GPUEMU_ZOO_LAUNCHES names.
func TestZooLaunches(t *testing.T) {
	path := os.Getenv("GPUEMU_ZOO_LAUNCHES")
	if path == "" || testing.Short() {
		t.Skip("GPUEMU_ZOO_LAUNCHES names no file, or this is a short test")
	}
	type argument struct {
		Buffer []byte `json:"buffer"` // base64, as encoding/json writes it; null for a value
		Value  []byte `json:"value"`
	}
	type launch struct {
		Name    string     `json:"name"`
		Entry   string     `json:"entry"`
		Files   []string   `json:"files"`
		Keep    []bool     `json:"keep"` // whether the outputs of a file are kept as they are
		Grid    []int      `json:"grid"`
		Block   []int      `json:"block"`
		Shared  int        `json:"shared"`
		Args    []argument `json:"args"`
		Outputs []int      `json:"outputs"`
	}
	var all []launch
	for _, a := range zoo() {
		if a.want == nil {
			continue // it stops itself, or does nothing but print
		}
		list, err := a.individuals()
		if err != nil {
			t.Fatal(err)
		}
		l := launch{Name: a.name(), Entry: a.kernel, Grid: []int{a.grid.X, a.grid.Y, a.grid.Z},
			Block: []int{a.block.X, a.block.Y, a.block.Z}, Shared: a.shared, Outputs: a.outputs()}
		for _, v := range list {
			l.Files, l.Keep = append(l.Files, v.file), append(l.Keep, v.approximate || a.canonical != nil)
		}
		for _, arg := range a.args {
			l.Args = append(l.Args, argument{arg.Buffer, arg.Value})
		}
		all = append(all, l)
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d launches, %d bytes", len(all), b.Len())
}
