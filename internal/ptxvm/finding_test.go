package ptxvm

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/ptx"
)

// kernelText makes a module of a kernel with three pointers x, y, z and a number n, in registers %rd1 to %rd3 and %r1;
// %r2 is the index of the thread in the block, %r3 in the grid, %rd4 four times that.
func kernelText(body string) string {
	return `.version 8.3
.target sm_90
.address_size 64
.file 1 "k.cu"
.visible .entry k(.param .u64 x, .param .u64 y, .param .u64 z, .param .u32 n)
{
.reg .pred %p<10>; .reg .b32 %r<40>; .reg .f32 %f<10>; .reg .b64 %rd<40>; .reg .b16 %h<4>;
.shared .align 16 .b8 s[512];
.local .align 8 .b8 a[64];
ld.param.u64 %rd1, [x];
ld.param.u64 %rd2, [y];
ld.param.u64 %rd3, [z];
ld.param.u32 %r1, [n];
mov.u32 %r2, %tid.x;
mov.u32 %r38, %ctaid.x;
mov.u32 %r39, %ntid.x;
mad.lo.s32 %r3, %r38, %r39, %r2;
mul.wide.s32 %rd4, %r3, 4;
add.s64 %rd11, %rd1, %rd4;
add.s64 %rd12, %rd2, %rd4;
add.s64 %rd13, %rd3, %rd4;
shl.b32 %r4, %r2, 2;
mov.u32 %r5, s;
add.s32 %r6, %r5, %r4;
` + body + "\nret;\n}\n"
}

func loadText(t testing.TB, text string) *Program {
	t.Helper()
	f, err := ptx.Parse("k.ptx", text)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Load(f, "")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// words is a buffer of n words that count up from 1.
func words(n int) []byte {
	b := make([]byte, 4*n)
	for i := range n {
		binary.LittleEndian.PutUint32(b[4*i:], uint32(i+1))
	}
	return b
}

// textLaunch is a launch of a kernel of kernelText with buffers of 64 words.
func textLaunch(blocks, threads int) *Launch {
	return &Launch{Grid: Dim{blocks, 1, 1}, Block: Dim{threads, 1, 1}, Args: []Arg{{Name: "x", Buffer: words(64)},
		{Name: "y", Buffer: words(64), Element: 4}, {Name: "z", Buffer: words(64)}, {Value: word(64)}}}
}

func run(t testing.TB, p *Program, l *Launch) *Result {
	t.Helper()
	r, err := p.Run(l)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestOutOfBoundsGoesOn(t *testing.T) {
	p := loadText(t, kernelText(`
.loc 1 7 3
ld.global.u32 %r10, [%rd11];
.loc 1 8 5, function_name info, inlined_at 1 20 9
st.global.u32 [%rd12+8], %r10;
.loc 1 9 1
st.global.u32 [%rd13-8], %r10;
`))
	l := textLaunch(3, 32)
	r := run(t, p, l)
	if len(r.Findings) != 3 {
		t.Fatalf("%d findings: %v", len(r.Findings), r.Findings)
	}
	for _, want := range []struct {
		class         Class
		line, count   int
		block, thread int
		buffer        string
		outside       int64
		text          string
	}{
		{OutOfBoundsWrite, 9, 32, 0, 0, "z", -8, "8 bytes before z"},
		{OutOfBoundsRead, 7, 32, 2, 0, "x", 4, "4 bytes behind the end of x"},
		{OutOfBoundsWrite, 8, 34, 1, 30, "y", 4, "4 bytes behind the end of y"},
	} {
		i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Source[0].Line == want.line })
		if i < 0 {
			t.Fatalf("nothing at line %d: %v", want.line, r.Findings)
		}
		f := &r.Findings[i]
		if f.Class != want.class || f.Count != want.count || f.Block.X != want.block || f.Thread.X != want.thread ||
			f.Buffer != want.buffer || f.Outside != want.outside || !strings.Contains(f.Message, want.text) {
			t.Errorf("%v: class %s, %d times, block %s, thread %s, %d bytes from %s", f, f.Class, f.Count, f.Block,
				f.Thread, f.Outside, f.Buffer)
		}
	}
	at := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Source[0].Line == 8 })
	if s := r.Findings[at].Source; len(s) != 2 || s[1].Line != 20 || s[0].File != "k.cu" {
		t.Errorf("inlining: %v", s)
	}
	if got := binary.LittleEndian.Uint32(l.Args[1].Buffer[8:]); got != 1 {
		t.Errorf("y[2] is %d: the kernel did not go on", got)
	}
}

func TestChecksByName(t *testing.T) {
	p := loadText(t, kernelText(`st.global.u32 [%rd12+256], %r2;`))
	for text, want := range map[string]int{"all": 1, "none": 0, "bounds": 1, "race,uninit": 0, "barrier, bounds": 1} {
		l := textLaunch(1, 32)
		var err error
		if l.Checks, err = ParseChecks(text); err != nil {
			t.Fatal(err)
		}
		if r := run(t, p, l); len(r.Findings) != want {
			t.Errorf("%s: %v", text, r.Findings)
		}
	}
	var e *diag.Error
	if _, err := ParseChecks("bounds,rase"); !errors.As(err, &e) || e.Code != BadCheck {
		t.Errorf("rase: %v", err)
	}
}

func TestLimits(t *testing.T) {
	p := loadText(t, kernelText("again: bra again;"))
	code := func(l *Launch) diag.Code {
		var e *diag.Error
		_, err := p.Run(l)
		errors.As(err, &e)
		if e == nil {
			t.Fatalf("no error of ours: %v", err)
		}
		return e.Code
	}
	l := textLaunch(2, 64)
	l.MaxSteps = 100000
	if got := code(l); got != Budget {
		t.Errorf("budget: %s", got)
	}
	l.MaxMemory = 1000
	if got := code(l); got != MemoryLimit {
		t.Errorf("memory: %s", got)
	}
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(stop)
	l = textLaunch(2, 64)
	l.Context = ctx
	if _, err := p.Run(l); !errors.Is(err, stop) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestStopsAreAlwaysFound: a block that cannot go on has a finding with all checks off, too, or what it has not done
// would pass for a result.
func TestStopsAreAlwaysFound(t *testing.T) {
	for _, c := range []struct {
		body  string
		class Class
	}{
		{"setp.lt.u32 %p1, %r2, 16; @%p1 bra L; bar.sync 0; L: add.s32 %r10, %r2, 1; bar.sync 0;", BarrierDivergence},
		{"bar.sync 16;", BarrierDivergence},
		{"setp.lt.u32 %p1, %r2, 16; @%p1 bra L; shfl.sync.idx.b32 %r10, %r2, 0, 31, -1; L:", BadMask},
		{"shfl.sync.idx.b32 %r10, %r2, 0, 31, 1;", BadMask},
		{"mbarrier.arrive.shared.b64 %rd20, [s];", BarrierDivergence},
		{"A: .branchtargets L; brx.idx %r2, A; L:", OutOfBoundsRead},
	} {
		l := textLaunch(1, 32)
		l.Checks = NoChecks
		r := run(t, loadText(t, kernelText(c.body+storeOwn)), l)
		if len(r.Findings) != 1 || r.Findings[0].Class != c.class {
			t.Errorf("%s: %s, want %s", c.body, list(r), c.class)
		}
	}
}

// TestAcrossTheEnd: an access that begins in a buffer and ends behind it is told of that buffer, and a copy as a whole.
func TestAcrossTheEnd(t *testing.T) {
	for _, c := range []struct{ body, says string }{
		{"ld.global.v2.u32 {%r10, %r11}, [%rd1+248];", "reads 8 bytes at 0x800000000f8, 4 bytes behind the end of x"},
		{"cp.async.ca.shared.global [s], [%rd1+240], 16; cp.async.wait_all;",
			"reads 16 bytes at 0x800000000f0, 4 bytes behind the end of x"},
	} {
		l := textLaunch(1, 1)
		l.Args[0].Buffer = words(63)
		r := run(t, loadText(t, kernelText(c.body)), l)
		if len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Message, c.says) {
			t.Errorf("%s: %s, want %q", c.body, list(r), c.says)
		}
	}
}
