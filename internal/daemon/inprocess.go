// This file implements requests without sockets: the handler runs in a goroutine of the client's process.

package daemon

import (
	"context"
	"io"
	"net/http"
	"sync"
)

// localTransport hands requests to a handler. Bodies are streamed through a pipe, so that events arrive when they are
// sent and nothing is kept whole.
type localTransport struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper. As with a socket, the context of the handler ends when the client closes the
// body before its end.
func (t localTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	body, w := io.Pipe()
	rw := &localWriter{header: http.Header{}, pipe: w, sent: make(chan struct{})}
	in := req.Clone(ctx)
	in.RequestURI = req.URL.RequestURI()
	if in.Body == nil {
		in.Body = http.NoBody
	}
	go func() {
		defer cancel()
		defer in.Body.Close()
		defer rw.finish()
		t.handler.ServeHTTP(rw, in)
	}()
	select {
	case <-rw.sent:
	case <-req.Context().Done():
		body.CloseWithError(req.Context().Err())
		return nil, req.Context().Err()
	}
	// The body of a response is not cut off by the end of the context unless somebody does it.
	stop := context.AfterFunc(req.Context(), func() { body.CloseWithError(context.Cause(req.Context())) })
	return &http.Response{
		Status: http.StatusText(rw.status), StatusCode: rw.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: rw.final, ContentLength: -1, Request: req, Body: &localBody{body, cancel, stop},
	}, nil
}

// localBody is the body of a response; closing it tells the handler that nobody listens any more.
type localBody struct {
	*io.PipeReader
	cancel context.CancelFunc
	stop   func() bool
}

func (b *localBody) Close() error {
	b.stop()
	b.cancel()
	return b.PipeReader.Close()
}

// localWriter is the handler's side of a response.
type localWriter struct {
	header http.Header
	pipe   *io.PipeWriter
	once   sync.Once
	sent   chan struct{} // closed when status and final are set
	status int
	final  http.Header
}

func (w *localWriter) Header() http.Header { return w.header }

func (w *localWriter) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.final = status, w.header.Clone()
		close(w.sent)
	})
}

func (w *localWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.pipe.Write(b)
}

// Flush has nothing to do: a pipe keeps nothing.
func (w *localWriter) Flush() { w.WriteHeader(http.StatusOK) }

// finish ends the response. A handler that aborts it (http.ErrAbortHandler) leaves a broken body, as on a socket.
func (w *localWriter) finish() {
	var end error
	if p := recover(); p != nil {
		end = io.ErrUnexpectedEOF
	}
	w.WriteHeader(http.StatusOK)
	w.pipe.CloseWithError(end)
}
