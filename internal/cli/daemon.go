package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuemu/internal/command"
	"gpuemu/internal/daemon"
	"gpuemu/internal/diag"
	"gpuemu/internal/escape"
)

// This file implements the command daemon: start, stop, status, logs.

// Times of the daemon's life. Opening a large store takes a second or two; stopping waits for running cases to be
// cancelled.
const (
	startLimit = 20 * time.Second
	stopLimit  = 30 * time.Second
	// idleLimit is how long a daemon that a client started on demand outlives its last request: longer than somebody
	// thinks between two runs, shorter than a session whose environment has gone.
	idleLimit = 15 * time.Minute
)

func daemonCommand(term *terminal, env Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "daemon",
		Short: "Start, stop and look at the daemon",
		Long: "The daemon keeps the engine running between commands and serves the Python client, editors and the\n" +
			"published gpuemu client on one Unix socket. Every command works without it.",
		Example: "  gpuemu daemon start --background\n  gpuemu daemon logs -f\n  gpuemu daemon stop",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return diag.Errorf(Usage, "use start, stop, status or logs", "daemon: no subcommand given")
			}
			return diag.Errorf(UnknownCommand, diag.Suggest(args[0], []string{"start", "stop", "status", "logs"},
				"use start, stop, status or logs"), "unknown command %q for daemon", args[0])
		},
		RunE: func(*cobra.Command, []string) error { return nil }, // never reached: Args refuses everything
	}
	cmd.AddCommand(daemonStart(term, env), daemonStop(term, env), daemonStatus(term, env), daemonLogs(term, env))
	return cmd
}

func (p *place) logFile() string { return filepath.Join(p.home, "logs", "daemon.log") }

func daemonStart(term *terminal, env Env) *cobra.Command {
	var background, onDemand, whileStdin bool
	var logFile string
	var tcp tcpFlags
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Start the daemon, here or in the background",
		Long: "The daemon answers on a Unix socket, to processes of the same user. With --listen it also answers other\n" +
			"machines over TLS; whoever has the token may then run code here, as with ssh.",
		Args: codes.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			p, err := newPlace(env, term)
			if err != nil {
				return err
			}
			if err := tcp.check(); err != nil {
				return err
			}
			args := tcp.args()
			if onDemand {
				p.idle, args = idleLimit, append(args, "--on-demand")
			}
			if background && whileStdin {
				return diag.Errorf(Usage, "give one of them", "--background and --while-stdin exclude each other")
			}
			if background {
				return p.startInBackground(args)
			}
			if whileStdin {
				p.env = p.env.untilEOF()
			}
			return p.serve(logFile, tcp)
		},
	}
	cmd.Flags().BoolVarP(&background, "background", "b", false, "return as soon as the daemon answers; it logs to a file")
	cmd.Flags().BoolVar(&onDemand, "on-demand", false,
		"end after 15 minutes without a request or a campaign, as daemons do that the Python client starts")
	cmd.Flags().BoolVar(&whileStdin, "while-stdin", false,
		"end when standard input does, with the program that writes to it")
	tcp.register(cmd)
	cmd.Flags().StringVar(&logFile, "log-file", "", "log to this `FILE`, which is rotated, instead of standard error")
	return cmd
}

// serve runs the daemon in this process until it is told to stop.
func (p *place) serve(logFile string, tcp tcpFlags) error {
	var out io.Writer = p.term.err
	if logFile != "" {
		file, err := openRotating(logFile, maxLogBytes, maxLogFiles)
		if err != nil {
			return diag.Errorf(WriteFailed, "", "log file: %w", err)
		}
		defer file.Close()
		out = file
	}
	options := &slog.HandlerOptions{Level: p.term.level}
	var handler slog.Handler = slog.NewTextHandler(logSink{out, false}, options)
	if p.term.jsonLog {
		handler = slog.NewJSONHandler(logSink{out, true}, options)
	}
	ctx, stop := p.env.interruptible()
	defer stop()
	server, err := p.server(ctx, slog.New(handler))
	if err != nil {
		return err
	}
	if err := tcp.open(ctx, server); err != nil {
		return errors.Join(err, server.Close())
	}
	err = server.ListenAndServe(ctx)
	if closeErr := server.Close(); err == nil {
		err = closeErr
	}
	return err
}

// startInBackground starts this program again, detached, and waits until its socket answers.
func (p *place) startInBackground(more []string) error {
	ctx, stop := p.env.interruptible()
	defer stop()
	if client, err := daemon.Dial(ctx, p.socket); err == nil {
		defer client.Close()
		return diag.Errorf(DaemonRunning, "gpuemu daemon status shows it; gpuemu daemon stop ends it",
			"a daemon is already running on %s", p.socket)
	}
	if err := os.MkdirAll(filepath.Dir(p.logFile()), 0o700); err != nil {
		return diag.Errorf(WriteFailed, "set GPUEMU_HOME to a directory of yours", "logs: %w", err)
	}
	exe, err := os.Executable()
	if err != nil {
		return command.NotRun(diag.Errorf(Internal, "", "path of this program: %w", err))
	}
	// What goes wrong before the log is open, and a crash, end up here.
	crash, err := os.OpenFile(p.logFile()+".stderr", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return diag.Errorf(WriteFailed, "", "logs: %w", err)
	}
	defer crash.Close()
	before := int64(0) // lines of earlier daemons say nothing about this one
	if info, err := os.Stat(p.logFile()); err == nil {
		before = info.Size()
	}
	args := append([]string{"daemon", "start", "--log-file", p.logFile()}, more...)
	if p.config != "" {
		args = append(args, "--config", p.config)
	}
	if p.term.verbose {
		args = append(args, "--verbose")
	}
	cmd := exec.Command(exe, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, crash, crash
	cmd.SysProcAttr = detached()
	if err := cmd.Start(); err != nil {
		return command.NotRun(diag.Errorf(Internal, "", "starting the daemon: %w", err))
	}
	died := make(chan error, 1)
	go func() { died <- cmd.Wait() }()
	up := pollUntil(ctx, startLimit, func() bool {
		if len(died) > 0 {
			return true
		}
		client, err := daemon.Dial(ctx, p.socket)
		if err == nil {
			client.Close()
		}
		return err == nil
	})
	if !up || len(died) > 0 {
		if len(died) == 0 {
			_ = cmd.Process.Kill() // it did not come up in time: do not leave it half started
		}
		<-died
		said, _ := linesFrom(p.logFile()+".stderr", 0, 10)
		logged, _ := linesFrom(p.logFile(), before, 10)
		err := diag.Errorf(DaemonFailed, "the log is "+p.logFile(), "the daemon did not start; it said:\n%s",
			strings.TrimRight(said+logged, "\n"))
		if cmd.ProcessState.ExitCode() == command.ExitUsage { // the path of its socket, say
			return err
		}
		return command.NotRun(err)
	}
	p.term.print(fmt.Sprintf("daemon started on %s (pid %d)", p.socket, cmd.Process.Pid))
	return nil
}

func daemonStop(term *terminal, env Env) *cobra.Command {
	return &cobra.Command{
		Use:   "stop",
		Short: "Stop the daemon; running campaigns are kept and can be resumed",
		Args:  codes.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			ctx, stop := env.interruptible()
			defer stop()
			p, err := newPlace(env, term)
			if err != nil {
				return err
			}
			client, err := daemon.Dial(ctx, p.socket)
			if err != nil {
				return command.NotRun(err)
			}
			defer client.Close()
			if err := client.Shutdown(ctx); err != nil {
				return command.NotRun(err)
			}
			gone := pollUntil(ctx, stopLimit, func() bool {
				other, err := daemon.Dial(ctx, p.socket)
				if err == nil {
					other.Close()
					return false
				}
				_, err = os.Lstat(p.socket) // it is removed last: from then on another daemon may start
				return errors.Is(err, fs.ErrNotExist)
			})
			if !gone {
				return command.NotRun(diag.Errorf(DaemonFailed, "gpuemu daemon logs shows what it does",
					"the daemon does not stop"))
			}
			term.print("daemon stopped")
			return nil
		},
	}
}

func daemonStatus(term *terminal, env Env) *cobra.Command {
	format := newChoice("text", "json")
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say whether a daemon is running, and what it does",
		Args:  codes.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			ctx, stop := env.interruptible()
			defer stop()
			p, err := newPlace(env, term)
			if err != nil {
				return err
			}
			client, err := daemon.Dial(ctx, p.socket)
			if err != nil {
				return command.NotRun(err)
			}
			defer client.Close()
			st, err := client.Status(ctx)
			if err != nil {
				return command.NotRun(err)
			}
			if format.value == "json" {
				return term.printJSON(st)
			}
			printStatus(term, st, servedBy(st))
			return nil
		},
	}
	format.register(cmd, "format", "output format")
	return cmd
}

func daemonLogs(term *terminal, env Env) *cobra.Command {
	var lines int
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs",
		Short: "Print the daemon's log",
		Args:  codes.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if lines < 0 {
				return diag.Errorf(Usage, "give 0 or more", "--lines is %d", lines)
			}
			p, err := newPlace(env, term)
			if err != nil {
				return err
			}
			if _, err := os.Stat(p.logFile()); errors.Is(err, fs.ErrNotExist) {
				return command.NotRun(diag.Errorf(ReadFailed, "a daemon started with --background writes one",
					"there is no log at %s", p.logFile()))
			}
			text, end := linesFrom(p.logFile(), 0, lines)
			term.out.WriteString(text)
			if !follow {
				return nil
			}
			ctx, stop := env.interruptible()
			defer stop()
			return followFile(ctx, term, p.logFile(), end)
		},
	}
	cmd.Flags().IntVarP(&lines, "lines", "l", 50, "the last `N` lines")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on printing what is added, until interrupted")
	return cmd
}

// maxTail bounds what linesFrom reads of a log.
const maxTail = 1 << 20

// linesFrom returns the last n lines of a file that lie behind an offset, "" if it cannot be read, and where they end.
func linesFrom(path string, offset int64, n int) (text string, end int64) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", 0
	}
	if end = info.Size(); offset > end {
		offset = 0 // the file was rotated since
	}
	offset = max(offset, end-maxTail)
	var lines []string
	s := bufio.NewScanner(io.NewSectionReader(f, offset, end-offset))
	s.Buffer(nil, maxTail)
	for s.Scan() {
		lines = append(lines, s.Text())
		if len(lines) > n {
			lines = lines[1:]
		}
	}
	for _, line := range lines {
		text += escape.Line(line) + "\n"
	}
	return text, end
}

// lineCopier prints the lines of a file that grows.
type lineCopier struct {
	term *terminal
	part string // of a line that is not complete yet, at most maxTail bytes
}

func (c *lineCopier) copy(r io.Reader) error {
	in := bufio.NewReader(r)
	for {
		text, err := in.ReadSlice('\n')
		c.part += string(text)
		if strings.HasSuffix(c.part, "\n") || len(c.part) > maxTail {
			if err := c.term.printChecked(strings.TrimSuffix(c.part, "\n")); err != nil {
				return err
			}
			c.part = ""
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil && err != bufio.ErrBufferFull:
			return readError(err)
		}
	}
}

// followFile prints what is added to a file behind an offset, also after it was rotated, until the context ends.
func followFile(ctx context.Context, term *terminal, path string, from int64) error {
	f, err := os.Open(path)
	if err != nil {
		return readError(err)
	}
	defer func() { f.Close() }()
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return readError(err)
	}
	lines := &lineCopier{term: term}
	for ctx.Err() == nil {
		if err := lines.copy(f); err != nil {
			return err
		}
		if err := term.flush(); err != nil {
			return stdoutError(err)
		}
		if now, err := os.Stat(path); err == nil {
			if old, err := f.Stat(); err == nil && !os.SameFile(now, old) {
				if next, err := os.Open(path); err == nil {
					f.Close()
					f = next
					continue
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
	return nil
}
