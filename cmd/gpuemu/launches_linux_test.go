package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gpuemu/internal/ptx"
	"gpuemu/internal/testkit"
	"gpuemu/internal/wire"
)

// This file implements a test of the daemon with launches of kernels that were changed at random.

const (
	soakLimit   = 4 << 30   // bytes that the daemon may allocate; the system holds it to that
	soakMemory  = 256 << 20 // bytes of one launch
	soakClients = 3
	soakBudget  = 200000 // instructions of warps: most mutants that go wrong go on for ever
)

// TestMutatedLaunches: kernels with changes, and launches of any size, go through a daemon that the system gives 4 GiB.
// It answers each of them, with a document or an error of the request that has a code, and never takes more memory than
// the launches that run at once may have. GPUEMU_SOAK=100000 is what make soak-launches runs.
func TestMutatedLaunches(t *testing.T) {
	total := testkit.Soak(t, 120)
	kernels := soakKernels(t)
	d := startLimited(t)
	var done, executed, refused, ill atomic.Int64
	var group sync.WaitGroup
	for w := range soakClients {
		group.Go(func() {
			r := rand.New(rand.NewPCG(7, uint64(w)))
			for i := w; i < total && !t.Failed(); i += soakClients {
				k := kernels[r.IntN(len(kernels))]
				header := k.launch(r)
				status, err := d.launch(t.Context(), header)
				if err != nil {
					t.Errorf("launch %d of client %d: %v\nkernel %s, grid %v, block %v, shared %d\n%s", i, w, err, header.Entry,
						header.Grid, header.Block, header.DynamicShared, *header.PTX)
					return
				}
				done.Add(1)
				switch status {
				case "":
					ill.Add(1)
				case "not_run":
					refused.Add(1)
				default:
					executed.Add(1)
				}
			}
		})
	}
	group.Wait()
	peak := d.peak(t)
	t.Logf("%d launches: %d executed, %d refused, %d ill-formed; the daemon had %d MiB at most", done.Load(),
		executed.Load(), refused.Load(), ill.Load(), peak>>20)
	// Garbage may be as much as what is in use, and the daemon has something of its own.
	if limit := int64(2*soakClients*soakMemory + 256<<20); peak > limit {
		t.Errorf("the daemon had %d bytes, %d launches at once have %d", peak, soakClients, limit)
	}
	if executed.Load() == 0 || refused.Load()+ill.Load() == 0 {
		t.Error("mutants are all of one kind")
	}
}

// soakKernel is a kernel of a module.
type soakKernel struct {
	text string
	name string
	args []wire.EmulateArg
}

// soakKernels are the kernels of the modules that clang wrote whose parameters are numbers and addresses.
func soakKernels(t *testing.T) (list []soakKernel) {
	t.Helper()
	files, err := filepath.Glob("../../testdata/ptx/clang19/*.ptx")
	if err != nil || len(files) == 0 {
		t.Fatalf("no modules: %v", err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := ptx.Parse(path, string(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, fn := range f.Kernels() {
			k := soakKernel{text: string(text), name: fn.Name}
			for _, p := range fn.Params {
				a := wire.EmulateArg{Kind: "scalar", Name: p.Names[0].Name}
				if strings.HasSuffix(p.Type, "64") {
					a = wire.EmulateArg{Kind: "tensor", Name: p.Names[0].Name, DType: "float32"}
				}
				k.args = append(k.args, a)
			}
			list = append(list, k)
		}
	}
	return list
}

// launch is a launch of the kernel with a few changes.
func (k *soakKernel) launch(r *rand.Rand) *wire.EmulateHeader {
	text := k.text
	for range r.IntN(4) {
		text = soakChange(r, text)
	}
	size := func() int { return 1 << r.IntN(1+r.IntN(12)) }
	h := &wire.EmulateHeader{PTX: &text, Entry: k.name, Grid: []int{size()}, Block: []int{min(size(), 1024)},
		Budget: soakBudget, Memory: strconv.Itoa(soakMemory), Schedules: r.IntN(3)}
	if r.IntN(4) == 0 {
		h.DynamicShared = r.IntN(1 << (10 + r.IntN(12)))
	}
	for _, a := range k.args {
		if a.Kind == "scalar" {
			a.Value = strconv.Itoa(r.IntN(size()))
		} else {
			a.Role = []string{"out", "inout", "in"}[r.IntN(3)]
			a.Shape = []int64{int64(size()) << r.IntN(12)}
		}
		h.Args = append(h.Args, a)
	}
	return h
}

// soakLines are declarations and instructions that ask for much.
var soakLines = []string{".shared .align 16 .b8 big[500000000];", ".global .align 16 .b8 big[2000000000];",
	".local .align 16 .b8 big[400000];", ".const .align 4 .b8 big[65536];", ".reg .b64 %rdx<100000>;", "bar.sync 0;",
	"again: bra again;", "trap;", "ret;", ".extern .shared .align 16 .b8 more[];"}

// soakChange changes a line of a module: it goes, comes twice, changes places, gets another number, or something that
// asks for much comes before it.
func soakChange(r *rand.Rand, text string) string {
	lines := strings.Split(text, "\n")
	at := 3 + r.IntN(len(lines)-3)
	switch r.IntN(6) {
	case 0:
		lines[at] = ""
	case 1:
		lines[at] += "\n" + lines[at]
	case 2:
		other := 3 + r.IntN(len(lines)-3)
		lines[at], lines[other] = lines[other], lines[at]
	case 3:
		digits := strings.IndexAny(lines[at], "0123456789")
		if digits >= 0 {
			n := []string{"0", "1", "7", "64", "4096", "1000000", "2147483647", "-1"}[r.IntN(8)]
			lines[at] = lines[at][:digits] + n + strings.TrimLeft(lines[at][digits:], "0123456789")
		}
	case 4:
		lines[at] = soakLines[r.IntN(len(soakLines))] + "\n" + lines[at]
	case 5:
		lines[at] = strings.Replace(lines[at], []string{"bar.sync", "shared", "global", "%p1", "lt", "b32"}[r.IntN(6)],
			[]string{"bar.arrive", "local", "shared", "%p2", "ge", "b64"}[r.IntN(6)], 1)
	}
	return strings.Join(lines, "\n")
}

// limited is a daemon that the system holds to a limit.
type limited struct {
	cmd    *exec.Cmd
	client *http.Client
}

// startLimited starts a daemon whose data may have soakLimit bytes.
func startLimited(t *testing.T) *limited {
	t.Helper()
	home, err := os.MkdirTemp("", "gs") // short: sockets have a limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	cmd := exec.Command("sh", "-c", fmt.Sprintf("ulimit -d %d; exec gpuemu daemon start", soakLimit>>10))
	cmd.Env = append(os.Environ(), "GPUEMU_HOME="+home)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		select {
		case err := <-ended:
			t.Errorf("the daemon has ended: %v\n%s", err, log.String())
		default:
			_ = cmd.Process.Kill()
			<-ended
		}
	})
	d := &limited{cmd: cmd, client: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, "unix", filepath.Join(home, "gpuemu.sock"))
		}}}}
	for range 1000 {
		if resp, err := d.client.Get("http://daemon/v1/ping"); err == nil {
			resp.Body.Close()
			return d
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("the daemon does not start: %s", log.String())
	return nil
}

// launch asks for a launch and returns the status of its document; "" where the launch or the text is ill-formed.
func (d *limited) launch(ctx context.Context, h *wire.EmulateHeader) (status string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	text, err := json.Marshal(h)
	if err != nil {
		return "", err
	}
	body := append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...)
	body = binary.LittleEndian.AppendUint64(body, 0)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://daemon/v1/emulate", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/vnd.gpuemu.launch")
	resp, err := d.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return "", err
	case resp.StatusCode >= 500 || resp.StatusCode != http.StatusOK && !bytes.Contains(answer, []byte(`"code"`)):
		return "", fmt.Errorf("%s: %s", resp.Status, answer)
	case resp.StatusCode != http.StatusOK:
		return "", nil
	}
	var reply struct{ Emulation struct{ Status string } }
	n := binary.LittleEndian.Uint32(answer)
	if err := json.Unmarshal(answer[4:4+n], &reply); err != nil {
		return "", err
	}
	return reply.Emulation.Status, nil
}

// peak is the most memory that the daemon has had, in bytes.
func (d *limited) peak(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kib int64
	if _, err := fmt.Sscanf(rest, "%d kB", &kib); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return kib << 10
}
