package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"gpuemu/internal/daemon"
	"gpuemu/internal/diag"
)

// This file implements the flags of a daemon that answers other machines.

// tcpFlags are the flags; all of them or none.
type tcpFlags struct{ listen, cert, key, token string }

func (f *tcpFlags) register(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.listen, "listen", "", "also answer on this `HOST:PORT`, over TLS and with a token")
	fl.StringVar(&f.cert, "tls-cert", "", "certificate `FILE` (PEM) for --listen")
	fl.StringVar(&f.key, "tls-key", "", "key `FILE` (PEM) for --listen")
	fl.StringVar(&f.token, "token-file", "", "`FILE` with the token that requests must carry, for --listen")
}

// check refuses half a configuration: without TLS or a token nobody should listen.
func (f *tcpFlags) check() error {
	given := 0
	for _, text := range []string{f.listen, f.cert, f.key, f.token} {
		if text != "" {
			given++
		}
	}
	if given != 0 && given != 4 {
		return diag.Errorf(Usage, "give all of --listen, --tls-cert, --tls-key and --token-file, or none",
			"a daemon for other machines needs an address, a certificate, its key and a token")
	}
	return nil
}

// args are the flags as arguments, for the process in the background.
func (f *tcpFlags) args() []string {
	if f.listen == "" {
		return nil
	}
	return []string{"--listen", f.listen, "--tls-cert", f.cert, "--tls-key", f.key, "--token-file", f.token}
}

// maxToken bounds the token file: a token is a line.
const maxToken = 4 << 10

// open opens the listener, if one was asked for. The token comes from a file: arguments can be read by everybody.
func (f *tcpFlags) open(ctx context.Context, server *daemon.Server) error {
	if f.listen == "" {
		return nil
	}
	token, err := readFile(f.token, maxToken)
	if err != nil {
		return err
	}
	_, err = server.ListenTCP(ctx, daemon.TCPOptions{Addr: f.listen, CertFile: f.cert, KeyFile: f.key,
		Token: strings.TrimSpace(string(token))})
	return err
}
