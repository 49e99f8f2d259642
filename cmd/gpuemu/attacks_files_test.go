//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// This file implements attacks with files that requests name.

var fileAttacks = []attack{
	{name: "shared file of the owner", sends: "cases to be written to a file that the owner needs",
		holds: "it is not written to", do: func(t *testing.T, v *victim) {
			for _, name := range []string{"/secret.txt", "/weights.bin"} {
				writeTo(t, v, v.elsewhere+name, refused)
			}
		}},
	{name: "shared file upwards", sends: "names with dots that lead to the owner's files", holds: "not written to",
		do: func(t *testing.T, v *victim) {
			for _, name := range []string{"/dev/shm/.." + "/.." + v.elsewhere + "/secret.txt",
				v.mine + "/../elsewhere/secret.txt", v.home + "/run/../../elsewhere/secret.txt", "../elsewhere/secret.txt",
				"secret.txt", "./secret.txt", "file://" + v.elsewhere + "/secret.txt", "~/secret.txt", v.elsewhere +
					"//secret.txt",
				"", "/", ".", "..", "/dev/shm", v.elsewhere} {
				if name != "" {
					writeTo(t, v, name, refused)
				}
			}
		}},
	{name: "shared file of the daemon", sends: "its store, its lock and its log as shared files",
		holds: "not written to",
		do: func(t *testing.T, v *victim) {
			for _, name := range []string{"db/gpuemu.db", "db/gpuemu.db-wal", "gpuemu.sock.lock", "gpuemu.sock"} {
				writeTo(t, v, filepath.Join(v.home, name), refused)
			}
			want(t, "health", v.send(asks("GET", "/v1/health")), unharmed)
		}},
	{name: "shared file by links", sends: "symbolic and hard links to the owner's files", holds: "not followed",
		do: sharedLinks},
	{name: "shared file that is none", sends: "a FIFO, devices, directories, sockets, /proc/self/mem", holds: "refused",
		do: sharedSpecial},
	{name: "shared file of others", sends: "a file of another user, and one that others may write to", holds: "refused",
		do: func(t *testing.T, v *victim) {
			path := v.sharedFile(t, "open")
			if err := os.Chmod(path, 0o666); err != nil {
				t.Fatal(err)
			}
			writeTo(t, v, path, refused)
			writeTo(t, v, foreignFile(t, v, "shared"), refused)
		}},
	{name: "ranges of a shared file", sends: "ranges that are reversed, negative, beyond the file, of 2^63",
		holds: "refused, and nothing is allocated", do: sharedRanges},
	{name: "places of outputs", sends: "judgements whose forms, seeds and places do not fit", holds: "refused",
		do: sharedPlaces},
	{name: "config that is no file", sends: "a FIFO, devices, directories, loops and a sparse 1 TiB as configuration",
		holds: "refused, and read by no one", do: configSpecial},
	{name: "config of another user", sends: "the configuration of another user", holds: "refused", do: configForeign},
	{name: "config of secrets", sends: "files that are no configuration", holds: "their text is not told",
		do: func(t *testing.T, v *victim) {
			for _, path := range []string{v.elsewhere + "/secret.txt", "/etc/passwd", "/proc/self/environ", "relative.toml",
				v.mine + "/../elsewhere/secret.txt", "/nowhere/gpuemu.toml", "\\\\evil\\share\\gpuemu.toml",
				"http://evil.example/x"} {
				for _, to := range []string{"/v1/cases", "/v1/coverage", "/v1/lint"} {
					r := v.send(request(to, object("op", "relu", "seed", "1", "count", 1, "config", path)))
					if strings.Contains(string(r.body), "secret of") || strings.Contains(string(r.body), "root:") {
						t.Errorf("%s tells of %s: %v", to, path, r)
					}
					want(t, to+" "+path, r, refused)
				}
			}
		}},
	{name: "baseline that is no report", sends: "devices, FIFOs, secrets and huge files as baseline",
		holds: "refused, and not told", do: baselineFiles},
	{name: "module that is no PTX", sends: "devices, FIFOs and secrets as the file of a launch", holds: "refused",
		do: moduleFiles},
	{name: "arguments of a compiler", sends: "flags that write files, read secrets and load code",
		holds: "nothing is written, read or loaded", do: compilerFlags},
}

// sharedFile makes a file as clients share them: where temporary files are in memory, or else among the attacker's.
func (v *victim) sharedFile(t *testing.T, name string) string {
	t.Helper()
	dir := "/dev/shm"
	if _, err := os.Stat(dir); err != nil {
		dir = v.mine
	}
	f, err := os.CreateTemp(dir, "gpuemu-shared-"+name+"-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(f.Name()) })
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// foreignFile is a file of another user: one that is made so by root, or one of root.
func foreignFile(t *testing.T, v *victim, name string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		return "/etc/passwd"
	}
	path := filepath.Join(v.mine, name)
	v.write(path, "[project]\nname = \"foreign\"\n")
	if err := os.Chown(path, 65534, 65534); err != nil {
		t.Skipf("this root may give files to nobody: %v", err)
	}
	return path
}

// writeTo asks for cases to be written to a file, in both ways.
func writeTo(t *testing.T, v *victim, path string, ok func(reply) error) {
	t.Helper()
	for _, to := range []string{"/v1/cases", "/v1/batches"} {
		r := v.send(request(to, object("op", "relu", "seed", "1", "count", 2, "shared", path)))
		want(t, to+" "+path, r, ok)
	}
}

func sharedLinks(t *testing.T, v *victim) {
	shm := filepath.Dir(v.sharedFile(t, "probe"))
	link := func(make func(old, new string) error, name, to string) string {
		path := filepath.Join(v.mine, name)
		if err := make(to, path); err != nil {
			t.Skipf("no link can be made here: %v", err)
		}
		return path
	}
	secret := filepath.Join(v.elsewhere, "secret.txt")
	writeTo(t, v, link(os.Symlink, "soft", secret), refused)
	writeTo(t, v, link(os.Link, "hard", secret), refused)
	writeTo(t, v, link(os.Symlink, "dir", v.elsewhere)+"/secret.txt", refused)
	writeTo(t, v, link(os.Symlink, "loop", filepath.Join(v.mine, "loop")), refused)
	writeTo(t, v, link(os.Symlink, "fd", "/proc/self/fd/1"), refused)
	far := filepath.Join(shm, filepath.Base(v.base)+"-link")
	if err := os.Symlink(secret, far); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(far) })
	writeTo(t, v, far, refused)
	near := filepath.Join(shm, filepath.Base(v.base)+"-dir")
	if err := os.Symlink(v.elsewhere, near); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(near) })
	writeTo(t, v, near+"/secret.txt", refused)
}

// special are paths of what is no regular file.
func (v *victim) special(t *testing.T) []string {
	t.Helper()
	fifo := filepath.Join(v.mine, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	list := []string{fifo, "/dev/zero", "/dev/null", "/dev/random", "/dev/tty", v.mine, v.socket}
	if runtime.GOOS == "linux" {
		list = append(list, "/dev/full", "/proc/self/mem", "/proc/self/maps", "/proc/self/fd/0")
	}
	return list
}

func sharedSpecial(t *testing.T, v *victim) {
	for _, path := range v.special(t) {
		writeTo(t, v, path, refused)
		r := v.send(request("/v1/submit", part(object("case", reluCase, "shared", path, "bytes", []int{0, 1 << 20}), "")))
		want(t, "/v1/submit "+path, r, refused)
		r = v.send(request("/v1/judgements", object("shared", path, "forms", []any{map[string]any{
			"case": []string{"relu ", ""}, "outputs": []any{}}}, "form", []int{0}, "seeds", []string{"1"}, "begin", []int{0})))
		want(t, "/v1/judgements "+path, r, refused)
	}
}

func sharedRanges(t *testing.T, v *victim) {
	path := v.sharedFile(t, "ranges")
	v.write(path, safetensors("{"+fine+"}", sixteen))
	for _, at := range []string{"[16, 0]", "[-16, 16]", "[0, 4611686018427387904]",
		"[9223372036854775806, 9223372036854775807]",
		"[-9223372036854775808, 9223372036854775807]", "[0, 8589934592]", "[4096, 8192]", "[0]", "[]", "[0, 16, 32]",
		"[0, 1e300]", "null", "[0, 99999999999999999999]", "[1, 17]"} {
		for _, to := range []string{"/v1/submit", "/v1/gradients", "/v1/compare", "/v1/emulate"} {
			header := fmt.Sprintf(`{"case": %q, "shared": %q, "bytes": %s}`, reluCase, path, at)
			if to == "/v1/emulate" {
				header = fmt.Sprintf(`{"grid": [1], "block": [1], "args": [], "ptx": "", "shared": %q, "bytes": %s}`, path, at)
			}
			want(t, to+" "+at, v.send(request(to, part(header, ""))), refused)
		}
	}
}

// placesForm is the form of outputs of the cases of relu.
const placesForm = `{"case": ["relu dtype=float32 dims=B:1,S:1,H:4 attrs=math:gpu ` +
	`in=input:float32[1,1,4]:contiguous:normal ` +
	`seed=", " gen=1"], "outputs": [{"name": "output", "dtype": "float32", "shape": [%s]}]}`

func sharedPlaces(t *testing.T, v *victim) {
	path := v.sharedFile(t, "places")
	v.write(path, repeat("\x00", 4096))
	whole := fmt.Sprintf(placesForm, "1, 1, 4")
	for _, columns := range []string{`"form": [1], "seeds": ["9"], "begin": [0]`,
		`"form": [-1], "seeds": ["9"], "begin": [0]`,
		`"form": [9223372036854775807], "seeds": ["9"], "begin": [0]`, `"form": [0, 0], "seeds": ["9"], "begin": [0]`,
		`"form": [0], "seeds": ["9", "9"], "begin": [0, 64]`, `"form": [0], "seeds": ["x"], "begin": [0]`,
		`"form": [0], "seeds": ["9"], "begin": [-64]`, `"form": [0], "seeds": ["9"], "begin": [4611686018427387904]`,
		`"form": [0], "seeds": ["9"], "begin": [9223372036854775744]`,
		`"form": [0, 0], "seeds": ["9", "9"], "begin": [64, 0]`,
		`"form": [0, 0], "seeds": ["9", "9"], "begin": [0, 0]`, `"form": [0], "seeds": ["9"], "begin": [1]`,
		`"form": [0], "seeds": ["9"], "begin": [0], "time_ns": [1, 2, 3]`} {
		r := v.send(request("/v1/judgements", fmt.Sprintf(`{"shared": %q, "forms": [%s], %s}`, path, whole, columns)))
		want(t, columns, r, unharmed)
		if strings.Contains(string(r.body), `"verdict":"pass"`) && !strings.Contains(columns, `"begin": [1]`) &&
			!strings.Contains(columns, "time_ns") {
			t.Errorf("%s: got %v", columns, r)
		}
	}
	for _, shape := range []string{"1, 1, 4611686018427387904", "-1, -1, 4", "9223372036854775807, 3",
		"4294967296, 4294967296", ""} {
		r := v.send(request("/v1/judgements", fmt.Sprintf(
			`{"shared": %q, "forms": [%s], "form": [0], "seeds": ["9"], "begin": [0]}`,
			path, fmt.Sprintf(placesForm, shape))))
		want(t, shape, r, unharmed)
		if strings.Contains(string(r.body), `"verdict":"pass"`) {
			t.Errorf("outputs of shape %s: got %v", shape, r)
		}
	}
}

// configSpecial: none of these may be waited for, or read to its end.
func configSpecial(t *testing.T, v *victim) {
	sparse := filepath.Join(v.mine, "sparse.toml")
	v.write(sparse, "[project]\n")
	if err := os.Truncate(sparse, 64<<30); err != nil {
		t.Logf("no sparse file can be made: %v", err)
	}
	loop := filepath.Join(v.mine, "loop.toml")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(v.mine, "dir")
	if err := os.Mkdir(inside, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(inside, "gpuemu.toml"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(v.mine, "fifo"), "/dev/zero", "/dev/tty", "/dev/random", sparse, loop,
		inside,
		v.socket, "/proc/self/mem"} {
		_ = v.special(t) // makes the FIFO
		r := v.send(request("/v1/cases", object("op", "relu", "seed", "1", "count", 1, "config", path)))
		want(t, path, r, refused)
	}
}

func configForeign(t *testing.T, v *victim) {
	path := foreignFile(t, v, "gpuemu.toml")
	for to, body := range map[string]string{"/v1/cases": object("op", "relu", "seed", "1", "count", 1, "config", path),
		"/v1/campaigns": object("kind", "fuzz", "ops", []string{"relu"}, "config", path),
		"/v1/lint":      object("config", path), "/v1/reproduce": object("case", reluCase, "config", path),
		"/v1/submit": part(object("case", reluCase, "config", path), safetensors("{"+fine+"}", sixteen))} {
		want(t, to, v.send(request(to, body)), refused)
	}
	reply, err := v1Exchange(v.dial(), object("type", "RunCi", "quick", true, "baseline", nil, "parallel_jobs", 1,
		"config", path))
	if err != nil || !strings.Contains(reply, `"Error"`) {
		t.Errorf("RunCi of another user's project: %q, %v", reply, err)
	}
}

func baselineFiles(t *testing.T, v *victim) {
	config := v.project("baseline", "builtin:relu")
	v.write(filepath.Join(v.mine, "deep.json"), repeat("[", 8<<20))
	v.write(filepath.Join(v.mine, "bomb.json"), `{"results": [`+repeat(`{},`, 8<<20)+`{}]}`)
	if told := v.followed(v.campaign(t, "test", config, 1)); !strings.Contains(told, "event: done") {
		t.Fatalf("the campaign does not end: %s", told)
	}
	for _, path := range append(v.special(t), v.elsewhere+"/secret.txt", "/etc/passwd", v.mine+"/deep.json", v.mine+
		"/bomb.json",
		"./../elsewhere/secret.txt", "http://evil.example/x.json") {
		for to, body := range map[string]string{"/v1/diff": object("config", config, "dir", v.mine, "baseline", path),
			"/v1/report": object("config", config, "dir", v.mine, "format", "text", "baseline", path)} {
			if !strings.Contains(path, "/") {
				continue
			}
			r := v.send(request(to, body))
			if strings.Contains(string(r.body), "secret of") || strings.Contains(string(r.body), "root:x") {
				t.Errorf("%s tells of %s: %v", to, path, r)
			}
			want(t, to+" "+path, r, unharmed)
		}
	}
}

func moduleFiles(t *testing.T, v *victim) {
	big := filepath.Join(v.mine, "big.ptx")
	v.write(big, "// ")
	if err := os.Truncate(big, 64<<30); err != nil {
		t.Logf("no sparse file can be made: %v", err)
	}
	for _, path := range append(v.special(t), v.elsewhere+"/secret.txt", "/etc/passwd", big, "kernel.ptx", "/nowhere") {
		r := v.send(request("/v1/emulate", part(object("file", path, "grid", []int{1}, "block", []int{1}, "args", []any{}),
			"")))
		if strings.Contains(string(r.body), "secret of") || strings.Contains(string(r.body), "root:x") {
			t.Errorf("%s is told: %v", path, r)
		}
		want(t, path, r, refused)
	}
}

// compilerFlags: where no compiler is installed all are refused; where one is, it must not do what they say.
func compilerFlags(t *testing.T, v *victim) {
	out := filepath.Join(v.elsewhere, "planted")
	plugin := filepath.Join(v.mine, "plugin.so")
	v.write(plugin, "")
	for _, flags := range [][]string{{"-o", out}, {"-o" + out}, {"-MD", "-MF", out}, {"-MMD", "-MF" + out},
		{"--output-file", out}, {"-save-temps", "-dumpdir", v.elsewhere + "/"}, {"--keep", "--keep-dir", v.elsewhere},
		{"-save-temps=cwd"}, {"-fplugin=" + plugin}, {"-Xclang", "-load", "-Xclang", plugin}, {"@" + v.elsewhere +
			"/secret.txt"},
		{"-include", v.elsewhere + "/secret.txt"}, {"-serialize-diagnostics", out}, {"--config", v.elsewhere +
			"/secret.txt"},
		{"-ccbin", plugin}, {"-Wp,-MD," + out}, {"-fprofile-instr-generate=" + out}, {"-ftime-trace=" + out},
		{"-frecord-command-line", "-fcrash-diagnostics-dir=" + v.elsewhere}, {"-B" + v.mine}, {repeat("x", 1<<20)}} {
		r := v.send(request("/v1/compile", object("source", "__global__ void one(float *y) { y[threadIdx.x] = 1; }",
			"flags", flags)))
		if strings.Contains(string(r.body), "the secret of") {
			t.Errorf("%q: the secret is told: %v", flags, r)
		}
		want(t, fmt.Sprint(flags), r, unharmed)
	}
	for _, path := range append(v.special(t), v.elsewhere+"/secret.txt") {
		r := v.send(request("/v1/compile", object("file", path)))
		if strings.Contains(string(r.body), "the secret of") {
			t.Errorf("%s: the secret is told: %v", path, r)
		}
		want(t, path, r, refused)
	}
}
