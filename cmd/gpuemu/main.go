// Command gpuemu decides whether a GPU kernel is right over its whole input domain.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"gpuemu/internal/cli"
)

// version is set by the linker: -X main.version=v1.2.3.
var version string

func main() {
	os.Exit(cli.Main(cli.Env{
		Args:    os.Args[1:],
		Stdin:   os.Stdin,
		Stdout:  os.Stdout,
		Stderr:  os.Stderr,
		Getenv:  os.Getenv,
		Version: version,
		Interrupt: func() (context.Context, context.CancelFunc) {
			return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		},
	}))
}
