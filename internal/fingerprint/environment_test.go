package fingerprint

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

func TestParseNvidia(t *testing.T) {
	// Two devices: the original's text had the second one inside the first one's memory.
	out := "0, GPU-5ab2, NVIDIA H200, 570.86.15, 143771 MiB, 9.0\n" +
		"1, GPU-77, NVIDIA A100-SXM4-80GB, 570.86.15, 81920 MiB, 8.0\n"
	want := []GPU{{"0", "GPU-5ab2", "NVIDIA H200", "570.86.15", "143771 MiB", "9.0"},
		{"1", "GPU-77", "NVIDIA A100-SXM4-80GB", "570.86.15", "81920 MiB", "8.0"}}
	if got, ok := parseNvidia([]byte(out)); !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("parseNvidia = %+v, %v, want %+v", got, ok, want)
	}
	odd := "0, GPU-\x1b[31m5, \"a, \u202eb\", [N/A], 1 MiB, 9.0\r\n"
	want = []GPU{{"0", "GPU-?[31m5", "a, ?b", "[N/A]", "1 MiB", "9.0"}}
	if got, ok := parseNvidia([]byte(odd)); !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("parseNvidia(%q) = %q, %v, want %q", odd, got, ok, want)
	}
	for _, bad := range []string{"No devices were found\n",
		"NVIDIA-SMI has failed because it couldn't communicate, a, b, c, d, e\n",
		"0, GPU-5, NVIDIA H200\n", "-1, a, b, c, d, e\n", strings.Repeat("0, a, b, c, d, e\n", maxGPUs+1)} {
		if got, ok := parseNvidia([]byte(bad)); ok {
			t.Errorf("parseNvidia(%.60q) = %+v, want a refusal", bad, got)
		}
	}
	if got, ok := parseNvidia(nil); !ok || len(got) != 0 {
		t.Errorf("parseNvidia of nothing = %+v, %v, want no GPUs", got, ok)
	}
}

func TestParseAMD(t *testing.T) {
	smi := `{"card1": {"Card Series": "AMD Instinct MI300X", "Unique ID": "0xb", "VRAM Total Memory (B)": "2060",
		"GFX Version": "gfx942"},
		"card0": {"Card series": "AMD Instinct MI210", "Unique ID": "0xa"}, "system": {"Driver version": "6.8.5"}}`
	want := []GPU{{"0", "0xa", "AMD Instinct MI210", "6.8.5", "", ""},
		{"1", "0xb", "AMD Instinct MI300X", "6.8.5", "2060 B", "gfx942"}}
	if got, ok := parseROCm([]byte(smi)); !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("parseROCm = %+v, %v, want %+v", got, ok, want)
	}
	list := `[{"gpu": 0, "asic": {"market_name": "MI300X", "asic_serial": "0xB", "target_graphics_version": "gfx942"},
		"driver": {"name": "amdgpu", "version": "6.8.5"}, "vram": {"size": {"value": 196592, "unit": "MB"}}}]`
	want = []GPU{{"0", "0xB", "MI300X", "6.8.5", "196592 MB", "gfx942"}}
	for _, text := range []string{list, `{"gpu_data": ` + list + `}`} {
		if got, ok := parseAMD([]byte(text)); !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("parseAMD(%s) = %+v, %v, want %+v", text, got, ok, want)
		}
	}
	for _, bad := range []string{"", "{}", "null", "[1]", `{"card0": 1}`, "WARNING: no driver"} {
		if got, ok := parseAMD([]byte(bad)); ok && len(got) > 0 {
			t.Errorf("parseAMD(%q) = %+v", bad, got)
		}
		if got, ok := parseROCm([]byte(bad)); ok {
			t.Errorf("parseROCm(%q) = %+v, want a refusal", bad, got)
		}
	}
}

// TestToolsOfTheSystem: row B21. A tool counts at its place in the system alone, never because PATH has it first.
func TestToolsOfTheSystem(t *testing.T) {
	bin := t.TempDir()
	mark := filepath.Join(bin, "mark")
	fake := func(name string, mode os.FileMode, script string) string {
		p := filepath.Join(bin, name)
		if err := os.WriteFile(p, []byte("#!/bin/sh\n"+script), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, name := range []string{"nvidia-smi", "rocm-smi", "amd-smi"} {
		fake(name, 0o755, "touch "+mark+"; echo 0, GPU-fake, NVIDIA H200, 1, 1 MiB, 9.0\n")
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("CUDA_VISIBLE_DEVICES", "1,\x1b0")
	env := ReadEnvironment(context.Background())
	if _, err := os.Stat(mark); err == nil || strings.Contains(strings.Join(env.Sources, " "), bin) {
		t.Errorf("a tool of PATH was run: %+v", env)
	}
	if env.Platform != runtime.GOOS+"/"+runtime.GOARCH || env.VisibleDevices == nil || *env.VisibleDevices != "1,?0" {
		t.Errorf("Environment = %+v, want the platform and CUDA_VISIBLE_DEVICES", env)
	}
	os.Unsetenv("CUDA_VISIBLE_DEVICES")
	if env := readEnvironment(context.Background(), nil); env.VisibleDevices != nil {
		t.Errorf("VisibleDevices = %q without the variable", *env.VisibleDevices)
	}

	writable := fake("writable", 0o777, "echo 0, GPU-fake, x, 1, 1, 9\n")
	if got := (tool{places: []string{writable}}).find(); len(got) > 0 {
		t.Errorf("find() = %q, a program that everybody can change", got)
	}
	if os.Geteuid() != 0 {
		if got := (tool{places: []string{filepath.Join(bin, "nvidia-smi")}}).find(); len(got) > 0 {
			t.Errorf("find() = %q, a program of a user", got)
		}
		return
	}
	foreign := fake("foreign", 0o755, "exit 1\n")
	for uid, want := range map[int]int{1234: 0, overflowUser: 1, 0: 1} {
		if err := os.Chown(foreign, uid, -1); err != nil {
			t.Fatal(err)
		}
		if got := (tool{places: []string{foreign}}).find(); len(got) != want {
			t.Errorf("find() of a program of user %d = %q, want %d", uid, got, want)
		}
	}
	good := fake("good", 0o755, "[ -z \"$HOME\" ] && echo 0, GPU-1, H200, 1, 1 MiB, 9.0\n")
	failing := fake("failing", 0o755, "echo 0, GPU-1, H200, 1, 1 MiB, 9.0; exit 9\n")
	long := fake("long", 0o755, "head -c 2000000 /dev/zero\n")
	ask := func(places ...string) tool { return tool{places: places, parse: parseNvidia} }
	got := readEnvironment(context.Background(), [][]tool{{ask("/nowhere", good), ask(good)}, {ask(failing, good)},
		{ask(long), ask(good)}})
	if len(got.GPUs) != 3 || !reflect.DeepEqual(got.Sources, []string{good, good, good}) || len(got.Notes) != 2 {
		t.Errorf("Environment = %+v, want the GPU of good three times and notes on failing and long", got)
	}
}
