// Command gpuemu decides whether a GPU kernel is right over its whole input domain.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"gpuemu/internal/cli"
)

// version is set by the linker: -X main.version=v1.2.3.
var version string

// ballast is never touched and so takes no memory, but counts as live: a case leaves half a MiB behind, and a heap of
// 4 MiB, where Go begins, would be collected after every fourth case, which takes a third of the time.
const ballast = 32 << 20

func main() {
	keep := make([]byte, ballast)
	status := cli.Main(cli.Env{
		Args:    os.Args[1:],
		Stdin:   os.Stdin,
		Stdout:  os.Stdout,
		Stderr:  os.Stderr,
		Getenv:  os.Getenv,
		Environ: os.Environ(),
		Version: version,
		Interrupt: func() (context.Context, context.CancelFunc) {
			if signal.Ignored(syscall.SIGHUP) { // nohup: a run is to outlive its terminal
				return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			}
			return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		},
	})
	runtime.KeepAlive(keep)
	os.Exit(status)
}
