// This file implements the judgement of given tensors: gradients, comparisons, and the fit of a tolerance.

package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"

	"gpuemu/internal/campaign"
	"gpuemu/internal/compare"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
	"gpuemu/internal/wire"
)

// Prefixes of the names of tensors in these requests, and the name that stands for the gradient of the only output.
const (
	gradOutputPrefix = "grad_outputs/"
	gradOutputAlone  = "grad_output"
	gradsPrefix      = "grads/"
	gotPrefix        = "got/"
	wantPrefix       = "want/"
)

// maxSamples is how many errors a tolerance is fitted to: more change its percentiles no more.
const maxSamples = 1_000_000

// comparedBytes is how many bytes are in memory for one of tensors that are compared: themselves, values in float64,
// bounds and gradients.
const comparedBytes = 10

// onePart reads the one part of a request into header and calls f with the tensors of its image, by prefix. A tensor
// that has none of the prefixes is refused.
func (s *Server) onePart(
	r *http.Request, header any, prefixes []string, f func(map[string][]tensor.Named) error,
) error {
	body := bufio.NewReaderSize(r.Body, 1<<16)
	text, err := readHeader(body)
	if err == nil && text == nil {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return tooEarly(err)
	}
	if err := json.Unmarshal(text, header); err != nil {
		return diag.Errorf(BadRequest, "docs/formats/http.md describes it", "the header is not what %s takes: %w",
			cut(r.URL.Path, 100), err)
	}
	var held int64
	defer func() { s.drop(held) }()
	image, err := readImage(body, func(n int64) error {
		err := s.hold(comparedBytes * n)
		if err == nil {
			held = comparedBytes * n
		}
		return err
	})
	if err != nil {
		return tooEarly(err)
	}
	tensors, _, err := tensor.ParseSafetensors(image)
	if err != nil {
		return err
	}
	found := map[string][]tensor.Named{}
	for _, t := range tensors {
		prefix, name := "", t.Name
		for _, p := range prefixes {
			if rest, ok := strings.CutPrefix(t.Name, p); ok {
				prefix, name = p, rest
				break
			}
		}
		if prefix == "" {
			return diag.Errorf(BadRequest, "name tensors "+strings.Join(prefixes, "NAME, ")+"NAME",
				"the image has a tensor %q", cut(t.Name, 100))
		}
		if prefix == gradOutputAlone {
			prefix, name = gradOutputPrefix, gradOutputAlone
		}
		found[prefix] = append(found[prefix], tensor.Named{Name: name, Tensor: t.Tensor})
	}
	return f(found)
}

// gradients handles POST /v1/gradients.
func (s *Server) gradients(w http.ResponseWriter, r *http.Request) error {
	h := new(wire.GradientsHeader)
	prefixes := []string{inputPrefix, gradOutputPrefix, gradOutputAlone, gradsPrefix}
	return s.onePart(r, h, prefixes, func(tensors map[string][]tensor.Named) error {
		project, err := s.project(h.Config, h.Python, h.Env)
		if err != nil {
			return err
		}
		g := campaign.Gradients{Op: h.Op, Case: h.Case, Attrs: h.Kwargs, Inputs: tensors[inputPrefix],
			Outputs: tensors[gradOutputPrefix], Grads: tensors[gradsPrefix], Tolerance: tolerance(h.Tolerance)}
		if g.Store, err = storedBy(h.Store); err != nil {
			return err
		}
		if g.Op == "" && g.Case != "" {
			c, err := opspec.ParseCase(g.Case)
			if err != nil {
				return err
			}
			g.Op = c.Op
		}
		res, err := s.engine.CheckGradients(r.Context(), project, g)
		if err != nil {
			return err
		}
		reply, err := submitted(res)
		if err != nil {
			return err
		}
		return sendJSON(w, http.StatusOK, reply)
	})
}

func tolerance(t *wire.CaseTolerance) *compare.Tolerance {
	if t == nil {
		return nil
	}
	return &compare.Tolerance{Abs: t.ATol, Rel: t.RTol}
}

// compareTensors handles POST /v1/compare.
func (s *Server) compareTensors(w http.ResponseWriter, r *http.Request) error {
	h := new(wire.CompareHeader)
	return s.onePart(r, h, []string{gotPrefix, wantPrefix}, func(tensors map[string][]tensor.Named) error {
		d := dtype.Invalid
		if h.DType != "" {
			var err error
			if d, err = dtype.Parse(h.DType); err != nil {
				return badName(err)
			}
		}
		res, err := campaign.CompareTensors(tensors[gotPrefix], tensors[wantPrefix], tolerance(h.Tolerance), d, h.Errors)
		if err != nil {
			return err
		}
		reply, err := compared(res)
		if err != nil {
			return err
		}
		if h.Name != "" && reply.Message != "" {
			reply.Message = fmt.Sprintf("%s: %s", cut(h.Name, 100), reply.Message)
		}
		return sendJSON(w, http.StatusOK, reply)
	})
}

func compared(res *verdict.Result) (*wire.CompareReply, error) {
	out := &wire.CompareReply{Passed: res.Verdict == verdict.Pass, Verdict: res.Verdict.String(), Message: res.Message,
		Outputs: []json.RawMessage{}}
	for i := range res.Outputs {
		text, err := marshal(res.Outputs[i])
		if err != nil {
			return nil, err
		}
		out.Outputs = append(out.Outputs, text)
	}
	return out, nil
}

// fit handles POST /v1/fit.
func (s *Server) fit(_ context.Context, req *wire.FitRequest) (*wire.Calibration, error) {
	d, err := dtype.Parse(req.DType)
	if err != nil {
		return nil, badName(err)
	}
	if len(req.Samples) > maxSamples {
		return nil, diag.Errorf(TooLarge, "", "%d samples are given, at most %d are allowed", len(req.Samples), maxSamples)
	}
	how := compare.DefaultFit()
	if req.Percentile != nil {
		how.Percentile = *req.Percentile
	}
	if req.Factor != nil {
		how.Factor = *req.Factor
	}
	samples := make([]compare.Sample, len(req.Samples))
	for i, x := range req.Samples {
		samples[i] = compare.Sample{MaxAbs: x.MaxAbs, MaxWant: x.MaxWant}
		for _, b := range x.Bins {
			samples[i].Bins = append(samples[i].Bins, compare.ErrorBin(b))
		}
	}
	c, err := how.Calibrate(d, samples)
	if err != nil {
		return nil, err
	}
	return calibration(d.String(), c), nil
}

func calibration(d string, c *compare.Calibration) *wire.Calibration {
	out := &wire.Calibration{DType: d, ATol: c.Tol.Abs, RTol: c.Tol.Rel, Fitted: c.HeldIn, HeldOut: c.HeldOut,
		FalseAlarms: c.Alarms, FalseAlarmRate: c.Rate}
	for _, p := range c.Planted {
		miss := wire.PlantedError{Error: p.Name, Size: p.Size, Share: p.Share}
		if p.Below < math.MaxFloat64 {
			miss.Below = &p.Below
		}
		out.Misses = append(out.Misses, miss)
	}
	return out
}
