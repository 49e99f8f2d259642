package cli

import (
	"context"
	"errors"
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
)

// This file implements the way to the engine: a daemon that answers on the socket, else the same handler in this
// process.

// place is where a command works: the directories of the user and the project.
type place struct {
	env    Env
	term   *terminal
	home   string // GPUEMU_HOME
	socket string
	dir    string // working directory
	config string // as given with --config or GPUEMU_CONFIG; "": searched for
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
}

// findProject loads the configuration: the one named, else the one found. Whether there must be one is the command's
// business.
func (p *place) findProject(required bool) (project, error) {
	path := p.config
	if path == "" {
		user, err := os.UserHomeDir()
		if err != nil {
			user = ""
		}
		found, err := config.Find(p.dir, user)
		switch {
		case err != nil && required:
			return project{}, err
		case err != nil && diag.CodeOf(err) == config.NotFound:
			return p.withPython(project{})
		case err != nil:
			return project{}, err
		}
		path = found
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return project{}, diag.Errorf(ReadFailed, "", "%s: %w", path, err)
	}
	cfg, err := config.Load(path)
	if err != nil {
		return project{}, err
	}
	return p.withPython(project{Config: cfg, path: path})
}

// withPython resolves the interpreter. One that was named and is not there is an error; none at all is not: the ops
// may not need one.
func (p *place) withPython(pr project) (project, error) {
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

// connect returns a client of the daemon on the socket or, where none answers, of the engine in this process.
func (p *place) connect(ctx context.Context) (*daemon.Client, error) {
	client, err := daemon.Dial(ctx, p.socket)
	if err == nil {
		p.term.detail("using the daemon on %s", p.socket)
		return client, nil
	}
	if diag.CodeOf(err) != daemon.Unreachable {
		return nil, err
	}
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
	return daemon.New(ctx, daemon.Options{
		Home: p.home, Socket: p.socket, Version: command.ReadVersion(p.env.Version).Version, Log: log, Now: time.Now,
	})
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
