package fingerprint

import (
	"context"
	"encoding/csv"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// This file implements reading the machine: its platform and its GPUs, as the vendors' tools tell them.

// Environment is where a run took place, as far as this machine says.
type Environment struct {
	Platform       string   `json:"platform"` // linux/amd64
	GPUs           []GPU    `json:"gpus"`
	VisibleDevices *string  `json:"cuda_visible_devices"` // nil: the variable is not set
	Sources        []string `json:"sources"`              // the tools that were asked, with their full paths
	Notes          []string `json:"notes"`                // tools that are there and did not answer
}

// GPU is one device.
type GPU struct {
	Index             string `json:"index"`
	UUID              string `json:"uuid"`
	Name              string `json:"name"`
	Driver            string `json:"driver_version"`
	Memory            string `json:"memory"`
	ComputeCapability string `json:"compute_capability"` // of NVIDIA "9.0", of AMD "gfx942"
}

const (
	toolTime   = 10 * time.Second // nvidia-smi takes seconds where the driver is not kept loaded
	toolAnswer = 1 << 20          // bytes
	maxGPUs    = 1024
	maxField   = 256 // bytes of one field
)

// tool is a program that lists GPUs. It is looked for in places of the system only: the first nvidia-smi in PATH may
// be a file of the tree under test that prints whatever it likes.
type tool struct {
	places []string
	args   []string
	parse  func([]byte) ([]GPU, bool)
}

// tools returns the known tools, at most one for each vendor being asked.
func tools() [][]tool {
	nvidia := tool{places: []string{"/usr/bin/nvidia-smi", "/usr/lib/wsl/lib/nvidia-smi",
		"/usr/local/nvidia/bin/nvidia-smi", "/run/current-system/sw/bin/nvidia-smi", "/opt/bin/nvidia-smi"},
		args:  []string{"--query-gpu=index,uuid,name,driver_version,memory.total,compute_cap", "--format=csv,noheader"},
		parse: parseNvidia}
	return [][]tool{{nvidia}, {
		{places: []string{"/opt/rocm/bin/amd-smi", "/usr/bin/amd-smi"},
			args: []string{"static", "--asic", "--driver", "--vram", "--json"}, parse: parseAMD},
		{places: []string{"/opt/rocm/bin/rocm-smi", "/usr/bin/rocm-smi"},
			args:  []string{"--showproductname", "--showuniqueid", "--showdriverversion", "--showmeminfo", "vram", "--json"},
			parse: parseROCm},
	}}
}

// ReadEnvironment asks the machine. A machine without a GPU has none; that is no error.
func ReadEnvironment(ctx context.Context) Environment { return readEnvironment(ctx, tools()) }

func readEnvironment(ctx context.Context, vendors [][]tool) Environment {
	env := Environment{Platform: runtime.GOOS + "/" + runtime.GOARCH, GPUs: []GPU{},
		Sources: []string{}, Notes: []string{}}
	if v, ok := os.LookupEnv("CUDA_VISIBLE_DEVICES"); ok {
		v = cleanField(v)
		env.VisibleDevices = &v
	}
	for _, vendor := range vendors {
		gpus, source, silent := askVendor(ctx, vendor)
		env.Notes = append(env.Notes, silent...)
		if source != "" {
			env.Sources = append(env.Sources, source)
			env.GPUs = append(env.GPUs, gpus...)
		}
	}
	return env
}

// askVendor asks a vendor's tools until one answers; silent has a note for each that is there and did not.
func askVendor(ctx context.Context, vendor []tool) (gpus []GPU, source string, silent []string) {
	for _, t := range vendor {
		for _, path := range t.find() {
			if gpus, ok := t.ask(ctx, path); ok {
				return gpus, path, silent
			}
			silent = append(silent, path+" gave no list of GPUs")
		}
	}
	return nil, "", silent
}

// find returns the places that have the tool, as a program that only the system's owner can change.
func (t tool) find() []string {
	var found []string
	for _, p := range t.places {
		real, err := filepath.EvalSymlinks(p)
		if err != nil {
			continue
		}
		if info, err := os.Stat(real); err == nil && info.Mode().IsRegular() && ownedBySystem(info) {
			found = append(found, p)
		}
	}
	return found
}

// ask runs the tool. It sees no variable of the environment but a PATH of the system's own folders.
func (t tool) ask(ctx context.Context, path string) ([]GPU, bool) {
	ctx, cancel := context.WithTimeout(ctx, toolTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, t.args...)
	cmd.Dir = filepath.Dir(path)
	cmd.Env = []string{"LC_ALL=C", "PATH=/usr/bin:/bin:/usr/sbin:/sbin"}
	if filepath.Dir(path) == "/usr/local/nvidia/bin" { // images that mount the driver there find its libraries so
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH=/usr/local/nvidia/lib64")
	}
	if root, ok := os.LookupEnv("SystemRoot"); ok {
		cmd.Env = append(cmd.Env, "SystemRoot="+root)
	}
	cmd.WaitDelay = time.Second
	out := &bounded{limit: toolAnswer + 1}
	cmd.Stdout = out
	if err := cmd.Run(); err != nil || out.buf.Len() > toolAnswer {
		return nil, false
	}
	return t.parse(out.buf.Bytes())
}

// parseNvidia reads one line a GPU, with the fields of the query.
func parseNvidia(out []byte) ([]GPU, bool) {
	r := csv.NewReader(strings.NewReader(string(out)))
	r.TrimLeadingSpace, r.FieldsPerRecord, r.LazyQuotes = true, 6, true
	var gpus []GPU
	for {
		f, err := r.Read()
		if err == io.EOF {
			return gpus, true
		}
		if err != nil || len(gpus) == maxGPUs {
			return nil, false
		}
		if _, err := strconv.ParseUint(strings.TrimSpace(f[0]), 10, 16); err != nil {
			return nil, false // a message where the first GPU should be
		}
		for i := range f {
			f[i] = cleanField(f[i])
		}
		gpus = append(gpus, GPU{Index: f[0], UUID: f[1], Name: f[2], Driver: f[3], Memory: f[4], ComputeCapability: f[5]})
	}
}

// cleanField makes one printable line of at most maxField bytes.
func cleanField(s string) string {
	s = strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), "?")
	s = strings.Map(func(c rune) rune {
		if !strconv.IsPrint(c) {
			return '?'
		}
		return c
	}, s)
	if len(s) > maxField {
		s = strings.ToValidUTF8(s[:maxField], "")
	}
	return s
}

// sortGPUs puts devices in the order of their numbers.
func sortGPUs(gpus []GPU) {
	slices.SortStableFunc(gpus, func(x, y GPU) int {
		nx, _ := strconv.Atoi(x.Index)
		ny, _ := strconv.Atoi(y.Index)
		return nx - ny
	})
}
