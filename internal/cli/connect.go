package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"gpuemu/internal/command"
	"gpuemu/internal/config"
	"gpuemu/internal/daemon"
	"gpuemu/internal/diag"
	"gpuemu/internal/runner"
	"gpuemu/internal/wire"
)

// This file implements the way to the engine: a daemon that answers on the socket, else the same handler in this
// process.

// place is where a command works: the directories of the user and the project.
type place struct {
	env    Env
	term   *terminal
	home   string // GPUEMU_HOME
	socket string
	dir    string        // working directory
	config string        // as given with --config or GPUEMU_CONFIG; "": searched for
	unused string        // why the engine of this process is used although a daemon may answer
	idle   time.Duration // of the daemon that is started: see daemon.Options
}

// newPlace reads the environment. Nothing is created.
func newPlace(env Env, term *terminal) (*place, error) {
	p, err := homelessPlace(env, term)
	if err != nil {
		return nil, err
	}
	p.home, p.socket = env.Getenv("GPUEMU_HOME"), env.Getenv("GPUEMU_SOCKET")
	if p.home == "" {
		user, err := os.UserHomeDir()
		if err != nil {
			return nil, diag.Errorf(Usage, "set GPUEMU_HOME to a directory of yours", "there is no home directory: %w", err)
		}
		p.home = filepath.Join(user, ".gpuemu")
	}
	if p.home, err = filepath.Abs(p.home); err != nil {
		return nil, diag.Errorf(ReadFailed, "", "GPUEMU_HOME: %w", err)
	}
	if p.socket == "" {
		p.socket = filepath.Join(p.home, "gpuemu.sock")
	}
	return p, nil
}

// localConfig is the gpuemu.toml that applies to a command that stores nothing and asks no daemon; nil: none does.
func localConfig(env Env, term *terminal) (*config.Config, error) {
	p, err := homelessPlace(env, term)
	if err != nil {
		return nil, err
	}
	return p.configuration(false)
}

// homelessPlace is a place for commands that store nothing and ask no daemon: it knows where to look for a
// configuration, no more.
func homelessPlace(env Env, term *terminal) (*place, error) {
	p := &place{env: env, term: term, config: term.config}
	if p.config == "" {
		p.config = env.Getenv("GPUEMU_CONFIG")
		if p.config != "" {
			if err := checkConfig("GPUEMU_CONFIG", p.config); err != nil {
				return nil, err
			}
		}
	}
	var err error
	if p.dir, err = os.Getwd(); err != nil {
		return nil, diag.Errorf(ReadFailed, "", "working directory: %w", err)
	}
	return p, nil
}

// project is the configuration a command works on.
type project struct {
	*config.Config
	path   string // absolute; "": there is none
	python string // "": none was found, which matters only if one is needed
	env    wire.Environment
}

// configuration loads the gpuemu.toml named, else the one that applies here; nil: there is none. Whether there must be
// one is the command's business.
func (p *place) configuration(required bool) (*config.Config, error) {
	user, err := os.UserHomeDir()
	if err != nil {
		user = "" // no home, no search above the directory
	}
	path, err := config.Applying(cmp.Or(p.config, p.dir), user)
	switch {
	case err != nil && !required && diag.CodeOf(err) == config.NotFound:
		return nil, nil
	case err != nil:
		return nil, err
	case !filepath.IsAbs(path): // the engine may stand elsewhere
		path = filepath.Join(p.dir, path)
	}
	return config.Load(path)
}

// findProject is configuration with what running its ops needs.
func (p *place) findProject(required bool) (project, error) {
	cfg, err := p.configuration(required)
	switch {
	case err != nil:
		return project{}, err
	case cfg == nil:
		return p.withPython(project{})
	}
	return p.withPython(project{Config: cfg, path: cfg.Path})
}

// withPython resolves the interpreter, and notes the environment that requests carry. An interpreter that was named and
// is not there is an error; none at all is not: the ops may not need one.
func (p *place) withPython(pr project) (project, error) {
	if p.env.Environ != nil {
		pr.env = wire.EnvironmentOf(p.env.Environ)
	}
	explicit, dir := []string{}, p.dir
	if pr.Config != nil {
		explicit, dir = append(explicit, pr.Project.Python), pr.Dir
	}
	path, err := runner.FindPython(explicit, p.env.Getenv, dir)
	named := p.env.Getenv("GPUEMU_PYTHON") != "" || len(explicit) > 0 && explicit[0] != ""
	if err != nil && named {
		return project{}, err
	}
	pr.python = path
	return pr, nil
}

// connect returns a client of the daemon on the socket. Where none answers, none is wanted, or it is of another
// version, which may judge otherwise, it is one of the engine in this process.
func (p *place) connect(ctx context.Context) (*daemon.Client, error) {
	if p.alone() {
		p.unused = "not asked (--no-daemon or GPUEMU_NO_DAEMON)"
		return p.inProcess(ctx)
	}
	client, err := daemon.Dial(ctx, p.socket)
	switch code := diag.CodeOf(err); {
	case err == nil && client.Daemon().Version == p.version():
		p.term.detail("using the daemon on %s (pid %d)", p.socket, client.Daemon().PID)
		return client, nil
	case err == nil:
		other := client.Daemon()
		p.unused = fmt.Sprintf("not used: the one on %s (pid %d) is gpuemu %s, this is %s", p.socket, other.PID,
			other.Version, p.version())
		err = client.Close()
	case code == daemon.OtherVersion:
		p.unused, err = "not used: "+err.Error(), nil
	case code == daemon.Unreachable:
		err = nil
	}
	if err != nil {
		return nil, err
	}
	if p.unused != "" {
		p.term.note("daemon %s", p.unused)
		p.term.note("the engine of this command is used; gpuemu daemon stop ends the other one")
	}
	return p.inProcess(ctx)
}

// alone reports whether no daemon is to be asked. A variable of 0 asks for one.
func (p *place) alone() bool {
	wish := p.env.Getenv("GPUEMU_NO_DAEMON")
	return p.term.noDaemon || wish != "" && wish != "0"
}

func (p *place) version() string { return command.ReadVersion(p.env.Version).Version }

func (p *place) inProcess(ctx context.Context) (*daemon.Client, error) {
	server, err := p.server(ctx, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return daemon.InProcess(server), nil
}

// server opens the engine.
func (p *place) server(ctx context.Context, log *slog.Logger) (*daemon.Server, error) {
	if info, err := os.Stat(p.home); err == nil && !info.IsDir() {
		return nil, diag.Errorf(Usage, "set GPUEMU_HOME to a directory", "%s is not a directory", p.home)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, diag.Errorf(Usage, "set GPUEMU_HOME to a directory of yours", "GPUEMU_HOME: %w", err)
	}
	options := daemon.Options{Home: p.home, Socket: p.socket, Version: p.version(), Log: log, Now: time.Now,
		Idle: p.idle}
	if options.Config = p.config; options.Config != "" && !filepath.IsAbs(options.Config) {
		options.Config = filepath.Join(p.dir, options.Config)
	}
	return daemon.New(ctx, options)
}

// engine is what most commands need: a place, its project and a client.
type engine struct {
	*place
	project project
	client  *daemon.Client
}

// open connects; needConfig says whether a gpuemu.toml must exist.
func open(ctx context.Context, env Env, term *terminal, needConfig bool) (*engine, error) {
	p, err := newPlace(env, term)
	if err != nil {
		return nil, err
	}
	pr, err := p.findProject(needConfig)
	if err != nil {
		return nil, err
	}
	client, err := p.connect(ctx)
	if err != nil {
		return nil, err
	}
	return &engine{place: p, project: pr, client: client}, nil
}

func (e *engine) close() {
	if err := e.client.Close(); err != nil {
		e.term.detail("closing: %v", err)
	}
}
