// Package daemon answers requests for the engine: over HTTP on a Unix socket, over protocol v1 on the same socket, and
// in process. It holds the server, its campaigns and their events, and the client of both kinds.
//
// It judges nothing and prints nothing: handlers convert a request of package wire, call package campaign, store or
// report, and convert what comes back (convert.go). The main types are Server and Client. Only processes of the same
// user are served. One route table (routes.go) makes the mux and the OpenAPI document; see docs/formats/http.md.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"gpuemu/internal/campaign"
	"gpuemu/internal/config"
	"gpuemu/internal/diag"
	"gpuemu/internal/emulation"
	"gpuemu/internal/nng"
	"gpuemu/internal/store"
	"gpuemu/internal/tensor"
	"gpuemu/internal/wire"
)

// This file implements the server's life and what its handlers share.

// Options are what a server is made of.
type Options struct {
	Home    string // GPUEMU_HOME
	Socket  string
	Version string // of the program
	Log     *slog.Logger
	Now     func() time.Time
	Memory  int64  // bytes for all launches on the CPU together; 0: half of what the process may use
	Python  string // interpreter where neither the op, the project nor the request names one
	// Idle is how long a daemon that was started on demand waits for work before it ends; 0: it was started by hand, and
	// stays. After is the clock it waits by; nil: time.After.
	Idle   time.Duration
	After  func(time.Duration) <-chan time.Time
	Config string // gpuemu.toml of protocol v1, whose requests name none; "": that of the working directory
}

// Server answers requests. It is safe for concurrent use.
//
// Its goroutines: one per running campaign, which alone writes to that campaign's feed; those of net/http and nng, one
// per connection or request; and, where it was started on demand, one that waits for the end of work.
type Server struct {
	opt     Options
	store   *store.Store
	engine  *campaign.Engine
	runDir  string
	started time.Time
	mux     *http.ServeMux
	v1      *v1Handler
	configs config.Cache
	images  tensor.Images // of submissions
	patience
	onSocket    *peers           // connections
	environment wire.Environment // of this process
	machines    chan struct{}    // has an element for each launch that is executed
	kernels     programs         // of launches

	ctx  context.Context // ends when the server is to stop; requests and campaigns end with it
	stop context.CancelCauseFunc
	work sync.WaitGroup // campaigns, and requests

	mu     sync.Mutex
	closed bool            // guarded by mu: no new work
	runs   map[string]*run // guarded by mu: running campaigns
	slots  int             // guarded by mu: campaigns running or being prepared
	active int             // guarded by mu: requests
	used   time.Time       // guarded by mu: when the last request or campaign ended
	held   int64           // guarded by mu: bytes that requests hold
	once   sync.Once       // of Close
	err    error           // of Close
}

// patience is how long peers may take: the constants, except in tests.
type patience struct{ first, header, body time.Duration }

// errStopping is why work ends when the server does.
var errStopping = fmt.Errorf("the daemon is stopping: %w", context.Canceled)

// New opens the store below Home and makes a private directory for this process. Campaigns whose process died are
// marked as interrupted.
func New(ctx context.Context, o Options) (*Server, error) {
	if o.Home == "" {
		return nil, diag.Errorf(BadHome, "set GPUEMU_HOME", "there is no directory to keep results in")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.After == nil {
		o.After = time.After
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	home, err := filepath.Abs(o.Home)
	if err != nil {
		return nil, diag.Errorf(BadHome, "", "%s: %w", o.Home, err)
	}
	o.Home = home
	if abs, err := filepath.Abs(o.Socket); err == nil && o.Socket != "" {
		o.Socket = abs
	}
	if err := os.MkdirAll(o.Home, 0o700); err != nil {
		return nil, diag.Errorf(BadHome, "set GPUEMU_HOME to a directory of your own", "%w", err)
	}
	if err := checkOwner(o.Home); err != nil {
		return nil, err
	}
	st, err := store.OpenReadable(ctx, filepath.Join(o.Home, "db"), store.Options{Now: o.Now})
	if err != nil {
		return nil, err
	}
	runDir, err := makeRunDir(o.Home)
	if err != nil && (st.Unwritable() != nil || errors.Is(err, syscall.ENOSPC)) {
		runDir, err = os.MkdirTemp("", "gpuemu-run-") // questions are answered without a place at home
	}
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	s := &Server{opt: o, store: st, runDir: runDir, started: o.Now(), runs: map[string]*run{},
		used: o.Now(), environment: wire.EnvironmentOf(os.Environ()),
		patience: patience{firstBytes, headerTimeout, nng.Patience}, onSocket: newPeers(maxConnections, maxOfProcess),
		machines: make(chan struct{}, runtime.GOMAXPROCS(0))}
	s.engine = &campaign.Engine{Store: st, RunDir: runDir, Python: o.Python, Now: o.Now, Pool: emulation.NewPool(o.Memory),
		Hold: s.lend}
	s.engine.Emulator = s
	s.ctx, s.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	s.mux = s.newMux()
	s.v1 = &v1Handler{engine: s.engine, project: s.v1Project, started: s.started, version: o.Version, now: o.Now,
		shutdown: s.shut, log: o.Log}
	if gone, err := st.Interrupt(ctx); store.Unwritable(err) {
		o.Log.Warn("the store cannot be written to", "error", err)
	} else if err != nil {
		return nil, errors.Join(err, s.Close())
	} else if len(gone) > 0 {
		o.Log.Warn("campaigns of a process that died are interrupted", "campaigns", gone)
	}
	return s, nil
}

// checkOwner refuses a directory of another user: who owns it can replace the programs that are started from it.
func checkOwner(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return diag.Errorf(BadHome, "set GPUEMU_HOME to a directory of your own", "%w", err)
	}
	if uid, known := ownerOf(info); known && uid != os.Geteuid() {
		return diag.Errorf(BadHome, "set GPUEMU_HOME to a directory of your own",
			"%s belongs to another user (%d, you are %d)", dir, uid, os.Geteuid())
	}
	return nil
}

// makeRunDir makes a directory for this process and removes those of processes that are gone.
func makeRunDir(home string) (string, error) {
	parent := filepath.Join(home, "run")
	fail := func(err error) (string, error) {
		return "", diag.Errorf(BadHome, "set GPUEMU_HOME to a directory of your own", "%w", err)
	}
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return fail(err)
	}
	if err := checkOwner(parent); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(parent)
	if err != nil {
		return fail(err)
	}
	for _, e := range entries {
		var pid int
		if n, _ := fmt.Sscanf(e.Name(), "%d-", &pid); n == 1 && e.IsDir() && pid != os.Getpid() && !alive(pid) {
			_ = os.RemoveAll(filepath.Join(parent, e.Name())) // what cannot be removed does no harm
		}
	}
	dir, err := os.MkdirTemp(parent, fmt.Sprintf("%d-*", os.Getpid())) // mode 0700
	if err != nil {
		return fail(err)
	}
	return dir, nil
}

// Close interrupts what is running, waits for it, and releases the store and the run directory.
func (s *Server) Close() error {
	s.once.Do(func() {
		s.shut()
		s.work.Wait()
		s.engine.Close()
		s.err = errors.Join(s.store.Close(), os.RemoveAll(s.runDir))
	})
	return s.err
}

// shut lets no new work in and tells what is running to end.
func (s *Server) shut() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop(errStopping)
}

// enter counts a request as work, unless the server is stopping. leave must be called at its end.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.active++
	s.work.Add(1)
	return true
}

func (s *Server) leave() {
	s.mu.Lock()
	s.active--
	s.used = s.opt.Now()
	s.mu.Unlock()
	s.work.Done()
}

// retire ends a server that was started on demand when nobody has wanted anything of it for long enough. It is a
// goroutine of ListenAndServe.
func (s *Server) retire() {
	for left := s.idleLeft(); left > 0; left = s.idleLeft() {
		select {
		case <-s.opt.After(left):
		case <-s.ctx.Done():
			return
		}
	}
	s.opt.Log.Info("nobody has wanted anything of the daemon, which was started on demand", "for", s.opt.Idle)
	s.shut()
}

// idleLeft is how long the server may still have nothing to do. Where that is over no new work is let in, so that no
// request meets a server that ends.
func (s *Server) idleLeft() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active > 0 || s.slots > 0 {
		return s.opt.Idle
	}
	left := s.opt.Idle - s.opt.Now().Sub(s.used)
	s.closed = s.closed || left <= 0
	return left
}

// applying returns the gpuemu.toml that a client means: the file at a path or, where a directory is named, the one that
// applies there. "" is none. That a directory has none is no error: operators of the catalogue need none. The home
// directory, which bounds the search, is the caller's.
func applying(path string, env wire.Environment) (string, error) {
	if path == "" {
		return "", nil
	}
	if !filepath.IsAbs(path) {
		return "", diag.Errorf(BadRequest, "send an absolute path", "config %q is not an absolute path", path)
	}
	user := env["HOME"]
	if env == nil {
		user, _ = os.UserHomeDir() // no home, no search above the directory
	}
	found, err := config.Applying(path, user)
	if diag.CodeOf(err) == config.NotFound {
		return "", nil
	}
	return found, err
}

// project is the project that a request is about, by the path it sends (see applying). The file is read each time, and
// parsed where it has changed. What it executes has the interpreter and the environment of the caller; of a client that
// sends none, those that this process was started with.
func (s *Server) project(path, python string, env wire.Environment) (campaign.Project, error) {
	if env == nil {
		env = s.environment
	}
	p := campaign.Project{Python: python, Env: env.List()}
	path, err := applying(path, env)
	if path == "" || err != nil {
		return p, err
	}
	cfg, err := s.configs.Load(path)
	if err != nil {
		return p, err
	}
	p.Config = cfg
	return p, nil
}

// v1Project is project for protocol v1, whose requests name none: "" is the gpuemu.toml that the daemon was started
// with, else the one that applies where it started, if there is one.
func (s *Server) v1Project(path string) (campaign.Project, error) {
	if path = cmp.Or(path, s.opt.Config); path == "" {
		var err error
		if path, err = os.Getwd(); err != nil {
			return campaign.Project{}, diag.Errorf(config.Unreadable, "", "working directory: %w", err)
		}
	}
	return s.project(path, "", nil)
}

// serveV1 answers one message of protocol v1.
func (s *Server) serveV1(ctx context.Context, body []byte) []byte {
	if !s.enter() {
		return v1Fault("the daemon is stopping")
	}
	defer s.leave()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })()
	return s.v1.serve(ctx, body)
}
