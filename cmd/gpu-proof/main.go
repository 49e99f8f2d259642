// Command gpu-proof signs what GPU tests found, and verifies such receipts on machines that have no GPU.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"gpuemu/internal/proof"
)

// version is set by the linker: -X main.version=v1.2.3.
var version string

func main() {
	os.Exit(proof.Main(proof.Env{
		Name:    "gpu-proof",
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
