package emulation

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/launchfile"
	"gpuemu/internal/ptx"
	"gpuemu/internal/ptxvm"
	"gpuemu/internal/tensor"
)

// module has a kernel with a C++ name that stores its number in each word, and one that never ends.
const module = `.version 8.0
.target sm_80
.address_size 64
.visible .entry _Z5countPi(.param .u64 p)
{
	.reg .b32 %r<2>;
	.reg .b64 %rd<5>;
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd3, %r1, 4;
	add.s64 %rd4, %rd1, %rd3;
	st.global.u32 [%rd4], %r1;
	ret;
}
.visible .entry spin()
{
again:
	bra again;
}
`

func parse(t *testing.T) *ptx.File {
	t.Helper()
	f, err := ptx.Parse("k.ptx", module)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func launch(words int) *launchfile.Case {
	a := launchfile.Arg{Name: "p", Role: launchfile.Out, DType: dtype.Int32, Shape: tensor.MustShape(words)}
	a.Fill()
	return &launchfile.Case{PTX: "k.ptx", Entry: "count", Grid: [3]int{1, 1, 1}, Block: [3]int{4, 1, 1},
		Args: []launchfile.Arg{a}}
}

// TestTimeout: the time of a launch begins when there is memory for it.
func TestTimeout(t *testing.T) {
	prog, err := Load(parse(t), "spin", "")
	if err != nil {
		t.Fatal(err)
	}
	l := &launchfile.Case{PTX: "k.ptx", Entry: "spin", Grid: [3]int{1, 1, 1}, Block: [3]int{1, 1, 1}}
	p := NewPool(1 << 30)
	if err := p.acquire(t.Context(), 1<<30); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := Run(t.Context(), prog, l, Options{Pool: p, Timeout: 1})
		done <- err
	}()
	for waits := false; !waits; {
		p.mu.Lock()
		waits = len(p.waiting) == 1
		p.mu.Unlock()
	}
	p.release(1 << 30)
	if err := <-done; !errors.Is(err, ErrTimeout) || !strings.Contains(err.Error(), "spin did not come to its end") {
		t.Errorf("Run = %v, want %v", err, ErrTimeout)
	}
}

// TestRun: a launch by the kernel's source name, its document, and what it left in memory.
func TestRun(t *testing.T) {
	prog, err := Load(parse(t), "count", "sm_90")
	if err != nil {
		t.Fatal(err)
	}
	l := launch(4)
	d, err := Run(t.Context(), prog, l, Options{Counters: true, Schedules: 2})
	if err != nil {
		t.Fatal(err)
	}
	d.Conclude()
	if d.Status != "passed" || d.Kernel != "_Z5countPi" || d.Target != "sm_90" || d.Counters == nil ||
		len(d.Checks) != 5 || d.Schedules != 2 || binary.LittleEndian.Uint32(l.Args[0].Data[12:]) != 3 {
		t.Errorf("Run = %+v, memory %x", d, l.Args[0].Data)
	}
	text, err := json.Marshal(d)
	if err != nil || strings.Contains(string(text), "null") {
		t.Errorf("%s, %v, want no null", text, err)
	}
	d, err = Run(t.Context(), prog, launch(3), Options{Checks: ptxvm.CheckBounds})
	if err != nil {
		t.Fatal(err)
	}
	d.Conclude()
	if d.Status != "failed" || len(d.Findings) != 1 || d.Findings[0].Class != "oob_write" || len(d.Checks) != 1 {
		t.Errorf("Run = %+v, want a write out of bounds", d)
	}
}

// TestRefusals: what is not executed is told from what does not fit.
func TestRefusals(t *testing.T) {
	run := func(ctx context.Context, entry string, l *launchfile.Case) error {
		prog, err := Load(parse(t), entry, "")
		if err == nil {
			_, err = Run(ctx, prog, l, Options{Budget: 1000})
		}
		return err
	}
	spin := launch(4)
	spin.Args = nil
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name    string
		ctx     context.Context
		entry   string
		launch  *launchfile.Case
		code    diag.Code
		refusal bool
	}{
		{"budget", t.Context(), "spin", spin, ptxvm.Budget, true},
		{"arguments", t.Context(), "count", spin, ptxvm.BadLaunch, false},
		{"entry", t.Context(), "missing", spin, ptxvm.NoEntry, false},
		{"cancelled", gone, "spin", spin, "", false},
	} {
		err := run(tt.ctx, tt.entry, tt.launch)
		if err == nil || diag.CodeOf(err) != tt.code || IsRefusal(err) != tt.refusal {
			t.Errorf("%s: %v, refusal %v, want %q and %v", tt.name, err, IsRefusal(err), tt.code, tt.refusal)
		}
		if d := Refused(tt.launch, err); d.Status != "not_run" || d.Error.Code != string(tt.code) || d.Findings == nil {
			t.Errorf("%s: document %+v", tt.name, d)
		}
	}
}
