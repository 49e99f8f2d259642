package daemon

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"gpuemu/internal/tensor"
	"gpuemu/internal/wire"
)

// handed is a case as a client has it.
type handed struct {
	*wire.CaseHeader
	inputs []tensor.Named
}

// handedOut asks for cases, and reads their images out of the answer or the shared file.
func handedOut(t testing.TB, c *Client, req *wire.CasesRequest) []handed {
	t.Helper()
	list, err := askCases(t, c, req)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func askCases(t testing.TB, c *Client, req *wire.CasesRequest) ([]handed, error) {
	resp, err := c.send(t.Context(), http.MethodPost, "/v1/cases", req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var list []handed
	for {
		text, err := readHeader(resp.Body)
		if err != nil || text == nil {
			return list, err
		}
		h := handed{CaseHeader: &wire.CaseHeader{}}
		if err := json.Unmarshal(text, h.CaseHeader); err != nil {
			return nil, err
		}
		if h.Error != nil {
			return list, fromWire(h.Error)
		}
		image, err := readImage(resp.Body, func(int64) error { return nil })
		if err != nil {
			return nil, err
		}
		if req.Shared != "" {
			if len(image) != 0 {
				t.Errorf("case %d has an image of %d bytes beside the shared file", h.Index, len(image))
			}
			if image, err = readFile(req.Shared, h.Bytes); err != nil {
				return nil, err
			}
		}
		if h.inputs, err = views(h.Inputs, image); err != nil {
			return nil, err
		}
		list = append(list, h)
	}
}

func readFile(path string, at []int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	image := make([]byte, at[1]-at[0])
	_, err = f.ReadAt(image, at[0])
	return image, err
}

// submissions is the body of a request, as a client makes it.
type submissions struct {
	shared string // "": images are in the parts
	parts  [][]byte
	file   []byte
}

// add adds a part.
func (s *submissions) add(t testing.TB, h *wire.SubmitHeader, tensors ...tensor.Named) {
	t.Helper()
	var image bytes.Buffer
	if len(tensors) > 0 {
		if err := tensor.WriteSafetensors(&image, tensors, nil); err != nil {
			t.Fatal(err)
		}
	}
	own := *h
	if s.shared != "" && len(tensors) > 0 {
		own.Shared, own.Bytes = s.shared, []int64{int64(len(s.file)), int64(len(s.file) + image.Len())}
		s.file = append(s.file, image.Bytes()...)
		image.Reset()
	}
	text, err := json.Marshal(own)
	if err != nil {
		t.Fatal(err)
	}
	s.raw(text, image.Bytes())
}

// raw adds a part with any header.
func (s *submissions) raw(header, image []byte) {
	b := append(binary.LittleEndian.AppendUint32(nil, uint32(len(header))), header...)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(image)))
	s.parts = append(s.parts, append(b, image...))
}

// body returns the bytes of the request and writes the shared file.
func (s *submissions) body(t testing.TB) []byte {
	t.Helper()
	if s.shared != "" {
		if err := os.WriteFile(s.shared, s.file, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return append(bytes.Join(s.parts, nil), 0, 0, 0, 0)
}

func submitAll(t testing.TB, c *Client, body []byte) []wire.Submitted {
	t.Helper()
	list, err := trySubmit(t, c, body)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func trySubmit(t testing.TB, c *Client, body []byte) ([]wire.Submitted, error) {
	resp, err := c.sendBody(t.Context(), http.MethodPost, "/v1/submissions", submitType,
		&sizedBody{bytes.NewReader(body), int64(len(body))})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	var reply wire.SubmissionsReply
	return reply.Results, json.Unmarshal(text, &reply)
}

// passed looks at the text of a result.
func passed(r wire.Submitted) bool { return strings.Contains(string(r.Result), `"verdict":"pass"`) }
