package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuemu/internal/command"
	"gpuemu/internal/config"
	"gpuemu/internal/diag"
	newproject "gpuemu/internal/project"
	"gpuemu/internal/runner"
	"gpuemu/internal/store"
)

// This file implements the command doctor.

// Statuses of a check.
const (
	statusOK      = "ok"
	statusMissing = "missing" // not there; what needs it is not available
	statusFault   = "fault"   // there, and it cannot be used
)

// check is one line of doctor; the JSON form is its encoding.
type check struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Value  string `json:"value"`
	Fix    string `json:"fix,omitempty"` // what to do; "" when ok
	// Essential: without it no kernel can be validated.
	Essential bool `json:"essential"`
}

// Time limits of what doctor waits for: a hung tool must not hang the doctor.
const (
	doctorToolLimit   = 10 * time.Second
	doctorSocketLimit = 2 * time.Second
	doctorStoreLimit  = 60 * time.Second // the check reads the whole database
)

func doctorCommand(term *terminal, env Env) *cobra.Command {
	format := newChoice("text", "json")
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what is installed and usable, and how to mend what is not",
		Long: "Looks at the home directory, the store, the daemon, Python and its packages, the CUDA tools, the GPU,\n" +
			"git and the configuration. Exits with 3 where something is missing that every validation needs: the\n" +
			"home directory, the store, Python with numpy. All else is optional.",
		Args: codes.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			named, err := cmd.Flags().GetString("config")
			if err != nil {
				return command.NotRun(diag.Errorf(Internal, "", "%w", err))
			}
			ctx, stop := env.interruptible()
			defer stop()
			d := &doctor{ctx: ctx, env: env, config: named}
			d.examine()
			return d.report(term, format.value)
		},
	}
	format.register(cmd, "format", "output format")
	return cmd
}

// doctor collects checks.
type doctor struct {
	ctx    context.Context
	env    Env
	config string // as given with --config
	checks []check
}

func (d *doctor) ok(name, value string) { d.add(check{Name: name, Status: statusOK, Value: value}) }

func (d *doctor) missing(name, value, fix string) {
	d.add(check{Name: name, Status: statusMissing, Value: value, Fix: fix})
}

func (d *doctor) fault(name string, err error) {
	d.add(check{Name: name, Status: statusFault, Value: err.Error(), Fix: diag.HintOf(err)})
}

// add notes a check; home, store, Python and numpy are the essential ones.
func (d *doctor) add(c check) {
	kind, _, _ := strings.Cut(c.Name, ":")
	switch kind {
	case "home", "store", "python", "numpy":
		c.Essential = true
	}
	d.checks = append(d.checks, c)
}

func (d *doctor) examine() {
	d.ok("gpuemu", command.ReadVersion(d.env.Version).Line("gpuemu"))
	d.examineHome()
	d.examinePython(d.examineConfig())
	for _, tool := range []struct{ name, use string }{
		{"nvcc", "compiling .cu files"}, {"cuobjdump", "reading compiled kernels"}, {"nvdisasm", "reading SASS"},
		{"compute-sanitizer", "checking memory on a GPU"},
	} {
		d.tool(tool.name, "install the CUDA toolkit and put its bin on PATH; it is for "+tool.use)
	}
	d.examineGPU()
	d.tool("git", "install git; it is for the commit in reports")
}

// examineHome looks at the home directory and, where there is one, at the store and the daemon in it.
func (d *doctor) examineHome() {
	home := d.env.Getenv("GPUEMU_HOME")
	if home == "" {
		user, err := os.UserHomeDir()
		if err != nil {
			d.add(check{Name: "home", Status: statusFault, Value: err.Error(), Fix: "set GPUEMU_HOME to a directory of yours"})
			return
		}
		home = filepath.Join(user, ".gpuemu")
	}
	switch err := usableHome(home); {
	case errors.Is(err, fs.ErrNotExist):
		d.ok("home", home+" (not there yet; it is created when needed)")
		d.ok("store", "empty")
	case err != nil:
		d.fault("home", err)
	default:
		d.ok("home", home)
		d.examineStore(filepath.Join(home, "db"))
	}
	socket := d.env.Getenv("GPUEMU_SOCKET")
	if socket == "" {
		socket = filepath.Join(home, "gpuemu.sock")
	}
	dialer := net.Dialer{Timeout: doctorSocketLimit}
	conn, err := dialer.DialContext(d.ctx, "unix", socket)
	if err != nil {
		d.missing("daemon", "not running on "+socket,
			"gpuemu daemon start --background; commands work without it, too")
		return
	}
	_ = conn.Close() // nothing was sent
	d.ok("daemon", "answers on "+socket)
}

// usableHome says what keeps a home directory from being used.
func usableHome(home string) error {
	info, err := os.Stat(home)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return diag.Errorf(Usage, "set GPUEMU_HOME to a directory", "%s is not a directory", home)
	case info.Mode().Perm()&0o022 != 0:
		return diag.Errorf(Usage, "chmod 700 "+home, "others may write to %s: whoever can, chooses what is executed", home)
	}
	f, err := os.CreateTemp(home, ".doctor")
	if err != nil {
		return diag.Errorf(WriteFailed, "check owner and permissions of "+home, "%w", err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// examineStore checks the database without writing to it.
func (d *doctor) examineStore(dir string) {
	ctx, cancel := context.WithTimeout(d.ctx, doctorStoreLimit)
	defer cancel()
	s, err := store.Open(ctx, dir, store.Options{ReadOnly: true})
	if errors.Is(err, fs.ErrNotExist) {
		d.ok("store", "empty")
		return
	}
	if err != nil {
		d.fault("store", err)
		return
	}
	defer s.Close()
	lines, err := s.Health(ctx)
	if err != nil {
		d.fault("store", diag.Errorf(Interrupted, "wait until no campaign runs, then try again", "the check: %w", err))
		return
	}
	for _, line := range lines {
		c := check{Name: "store", Status: statusOK, Value: line.Value, Fix: line.Fix}
		if line.Name != "store" {
			c.Name = "store: " + line.Name
		}
		if !line.OK {
			c.Status = statusFault
		}
		d.add(c)
	}
}

// examineConfig looks for a gpuemu.toml and returns it; nil where there is none or it cannot be read.
func (d *doctor) examineConfig() *config.Config {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // then the repository alone bounds the search
	}
	path, err := config.Applying(cmp.Or(d.config, d.env.Getenv("GPUEMU_CONFIG"), "."), home)
	switch {
	case diag.CodeOf(err) == config.NotFound:
		d.missing("config", err.Error(), "gpuemu init writes one; only commands on your own kernels need it")
		return nil
	case err != nil:
		d.fault("config", err)
		return nil
	}
	c, err := config.Load(path)
	if err != nil {
		d.fault("config", err)
		return nil
	}
	d.ok("config", fmt.Sprintf("%s (%d ops, %d kernels)", path, len(c.Ops), len(c.Kernels)))
	return c
}

// examinePython asks the interpreter of the project what it has.
func (d *doctor) examinePython(c *config.Config) {
	explicit, dir := "", "."
	if c != nil {
		explicit, dir = c.Project.Python, c.Dir
	}
	path, err := runner.FindPython([]string{explicit}, d.env.Getenv, dir)
	if err != nil {
		d.missing("python", err.Error(), diag.HintOf(err))
		return
	}
	it, err := newproject.Probe(d.ctx, path)
	if err != nil {
		d.fault("python", err)
		return
	}
	d.ok("python", it.Version+" ("+path+")")
	uses := map[string]string{"numpy": "every kernel in Python", "ml_dtypes": "bfloat16 and float8",
		"torch": "PyTorch kernels", "jax": "JAX kernels", "tensorflow": "TensorFlow kernels", "triton": "Triton kernels",
		"cupy": "CuPy kernels"}
	for _, module := range newproject.Modules() {
		fix := path + " -m pip install " + module + "; it is for " + uses[module]
		switch text, broken := it.Broken[module]; {
		case broken:
			d.add(check{Name: module, Status: statusFault, Value: text,
				Fix: path + " -m pip install --force-reinstall " + module})
		case it.Packages[module] == "":
			d.missing(module, "not installed", fix)
		default:
			d.ok(module, it.Packages[module])
		}
	}
}

// tool looks for a program on PATH.
func (d *doctor) tool(name, fix string) {
	path, err := exec.LookPath(name)
	if err != nil {
		d.missing(name, "not on PATH", fix)
		return
	}
	d.ok(name, path)
}

// examineGPU asks the driver, else looks for its device file.
func (d *doctor) examineGPU() {
	const fix = "none is needed: kernels are validated on the CPU"
	ctx, cancel := context.WithTimeout(d.ctx, doctorToolLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	switch _, statErr := os.Stat("/dev/nvidia0"); {
	case err == nil && first != "":
		d.ok("gpu", first)
	case statErr == nil:
		d.add(check{Name: "gpu", Status: statusFault, Value: "/dev/nvidia0 is there, and nvidia-smi does not answer",
			Fix: "install the tools of the driver; " + fix})
	default:
		d.missing("gpu", "none found", fix)
	}
}

// report prints the checks; the error says that something essential is not usable.
func (d *doctor) report(term *terminal, format string) error {
	var broken []string
	for _, c := range d.checks {
		if c.Essential && c.Status != statusOK {
			broken = append(broken, c.Name)
		}
	}
	if format == "json" {
		if err := term.printJSON(map[string]any{"ok": len(broken) == 0, "checks": d.checks}); err != nil {
			return err
		}
	} else {
		rows := make([][]string, 0, len(d.checks))
		for _, c := range d.checks {
			rows = append(rows, []string{c.Status, c.Name, c.Value})
			if c.Fix != "" {
				rows = append(rows, []string{"", "", "fix: " + c.Fix})
			}
		}
		term.printTable("", rows)
	}
	if len(broken) > 0 {
		return command.NotRun(diag.Errorf(newproject.Unusable, "the lines above say how to mend it", "not usable: %s",
			strings.Join(broken, ", ")))
	}
	return nil
}
