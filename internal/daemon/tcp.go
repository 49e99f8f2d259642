// This file implements the listener for other machines, which nobody gets without asking for it.

package daemon

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"net"
	"net/http"
	"strings"

	"gpuemu/internal/diag"
)

// minToken is the shortest token: 32 characters of hexadecimal are 128 bits.
const minToken = 32

// TCPOptions are what a TCP listener needs. All of it is required: whoever may send requests may run code.
type TCPOptions struct {
	Addr              string // host:port
	CertFile, KeyFile string // PEM
	Token             string // that every request carries as Authorization: Bearer TOKEN
}

// ListenTCP serves the API over TLS until the server stops, and returns the address at once.
func (s *Server) ListenTCP(ctx context.Context, o TCPOptions) (net.Addr, error) {
	if len(o.Token) < minToken {
		return nil, diag.Errorf(BadListener, "use openssl rand -hex 32", "the token has %d characters, want at least %d",
			len(o.Token), minToken)
	}
	cert, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
	if err != nil {
		return nil, diag.Errorf(BadListener, "give a certificate and its key in PEM", "TLS: %w", err)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Addr)
	if err != nil {
		return nil, diag.Errorf(BadListener, "", "%w", err)
	}
	if !s.enter() {
		l.Close()
		return nil, diag.Errorf(Stopping, "", "the daemon is stopping")
	}
	server := s.httpServer(withToken(o.Token, s.Handler()))
	places := remotePeers{l, newPeers(maxRemote, maxOfAddress)}
	secure := tls.NewListener(places, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13,
		NextProtos: []string{"http/1.1"}})
	s.opt.Log.Info("daemon listens", "address", l.Addr().String())
	go func() {
		defer s.leave()
		defer context.AfterFunc(s.ctx, func() {
			stopped, cancel := context.WithTimeout(context.Background(), stopTimeout)
			defer cancel()
			if err := server.Shutdown(stopped); err != nil {
				_ = server.Close() // what Shutdown has said is all there is to say
			}
		})()
		if err := server.Serve(secure); err != nil && err != http.ErrServerClosed {
			s.opt.Log.Error("TCP listener", "error", err)
		}
	}()
	return l.Addr(), nil
}

// withToken lets requests with the token through. Digests are compared, so that the time does not tell the length.
func withToken(token string, h http.Handler) http.Handler {
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		got := sha256.Sum256([]byte(given))
		if !ok || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			// Nothing of the body is read, and nobody waits for it.
			w.Header().Set("Connection", "close")
			w.Header().Set("WWW-Authenticate", "Bearer")
			defer (&pacedBody{}).after(w)
			sendError(w, diag.Errorf(Unauthorised, "send Authorization: Bearer TOKEN", "the request has no valid token"))
			return
		}
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), remoteKey{}, true))) // a path of theirs is not ours
	})
}
