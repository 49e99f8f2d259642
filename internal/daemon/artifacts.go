// This file implements the requests about compiled kernels: lint, and what is stored of them.

package daemon

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"gpuemu/internal/campaign"
	"gpuemu/internal/diag"
	"gpuemu/internal/inspect"
	"gpuemu/internal/store"
	"gpuemu/internal/verdict"
	"gpuemu/internal/wire"
)

// lint handles POST /v1/lint.
func (s *Server) lint(ctx context.Context, req *wire.LintRequest) (*wire.LintReply, error) {
	p, err := s.project(req.Config, "", req.Env)
	if err != nil {
		return nil, err
	}
	var doc *inspect.Document
	if req.PTX != nil {
		doc, err = lintText(ctx, s.store, p, *req.PTX, req.Kernel, req.Strict)
	} else {
		doc, err = lintProject(ctx, s.store, p, req.Kernels, req.Strict)
	}
	if err != nil {
		return nil, err
	}
	doc.Version = s.opt.Version
	text, err := marshal(doc)
	return &wire.LintReply{Lint: text, ExitCode: doc.ExitCode(), Saved: s.opt.Now().UTC()}, err
}

// lintProject looks at the kernels of a configuration, those of the names or all, and stores what it found.
func lintProject(
	ctx context.Context, st *store.Store, p campaign.Project, names []string, strict bool,
) (*inspect.Document, error) {
	targets, err := inspect.Configured(p.Config, names, strict)
	if err != nil {
		return nil, err
	}
	return lookAt(ctx, st, p, targets)
}

// lintText looks at a PTX text and stores what it found under the names of the kernels in gpuemu.toml or in the text,
// or under name where that is given and the text has one kernel. A text that cannot be read is an error.
func lintText(
	ctx context.Context, st *store.Store, p campaign.Project, text, name string, strict bool,
) (*inspect.Document, error) {
	target, err := inspect.Named(p.Config, name, inspect.Target{Name: name, Text: &text}, strict)
	if err != nil {
		return nil, err
	}
	doc, err := inspect.Looker{Env: p.Env}.Look(ctx, []inspect.Target{target})
	if err != nil {
		return nil, err
	}
	if len(doc.Unread) > 0 {
		return nil, doc.Unread[0].Err
	}
	if err := doc.Misspelt(p.Config, name); err != nil {
		return nil, err
	}
	if len(doc.Kernels) > 1 {
		for i := range doc.Kernels {
			if k := &doc.Kernels[i]; k.Name == target.Name {
				k.Name = "" // a name for one kernel cannot stand for several
			}
		}
	}
	return doc, keep(ctx, st, p, doc)
}

// lookAt looks at targets and stores what was found.
func lookAt(
	ctx context.Context, st *store.Store, p campaign.Project, targets []inspect.Target,
) (*inspect.Document, error) {
	doc, err := inspect.Looker{Env: p.Env}.Look(ctx, targets)
	if err != nil {
		return nil, err
	}
	return doc, keep(ctx, st, p, doc)
}

// keep stores the kernels of a document under their names.
func keep(ctx context.Context, st *store.Store, p campaign.Project, doc *inspect.Document) error {
	labels, by := doc.ByLabel()
	for _, label := range labels {
		body, err := json.Marshal(by[label])
		if err != nil {
			return err
		}
		if err := st.PutArtifact(ctx, projectKey(p), label, body); err != nil {
			return err
		}
	}
	return nil
}

// kept returns the stored kernels of a project as one snapshot.
func kept(ctx context.Context, st *store.Store, project string) (*inspect.Snapshot, error) {
	list, err := st.Artifacts(ctx, project)
	if err != nil {
		return nil, err
	}
	all := inspect.NewSnapshot()
	for i := range list {
		s, err := inspect.DecodeSnapshot(list[i].Kernel, list[i].Body)
		if err != nil {
			return nil, err
		}
		all.Join(s)
	}
	return all, nil
}

// lintSummary is what a campaign's summary says of compiled kernels.
func lintSummary(doc *inspect.Document) (*verdict.Lint, error) {
	text, err := marshal(doc.Short())
	return &verdict.Lint{Kernels: doc.Total, Errors: doc.Errors, Notes: doc.Notes, Unread: len(doc.Unread), Report: text},
		err
}

// kernelsOf returns the stored kernels that a campaign looked at or, where it looked at none, those of the
// configuration. A kernel that could not be read is not among them: what is stored of it is older.
func (s *Server) kernelsOf(ctx context.Context, p campaign.Project, lint *verdict.Lint) (*inspect.Snapshot, error) {
	all, err := kept(ctx, s.store, projectKey(p))
	if err != nil {
		return nil, err
	}
	wanted := map[string]bool{}
	switch {
	case lint != nil && lint.Report != nil:
		var doc inspect.Document
		if err := json.Unmarshal(lint.Report, &doc); err != nil {
			return nil, diag.Errorf(inspect.BadSnapshot, "run gpuemu test again", "stored lint results: %w", err)
		}
		for i := range doc.Kernels {
			wanted[doc.Kernels[i].Label()] = true
		}
	case p.Config != nil:
		for i := range p.Config.Kernels {
			for _, k := range p.Config.Compiled(&p.Config.Kernels[i]) {
				wanted[k.Name] = true
			}
		}
	}
	all.Kernels = slices.DeleteFunc(all.Kernels, func(r inspect.Record) bool { return !wanted[r.Label()] })
	all.DropTexts()
	return all, nil
}

// addKernels adds to a report what the request asks for of compiled kernels.
func (s *Server) addKernels(ctx context.Context, p campaign.Project, src *source, req *wire.ReportRequest) error {
	if lint := src.Summary.Lint; lint != nil && !req.IncludeLint {
		short := *lint
		short.Report = nil
		src.Summary.Lint = &short
	} else if lint == nil && req.IncludeLint && p.Config != nil && len(p.Config.Kernels) > 0 {
		src.Notes = append(src.Notes, "this campaign looked at no compiled kernel: gpuemu test, ci and lint do")
	}
	if !req.IncludeArtifacts {
		return nil
	}
	kernels, err := s.kernelsOf(ctx, p, src.Summary.Lint)
	if err == nil && len(kernels.Kernels) > 0 {
		src.Artifacts = kernels
	}
	return err
}

// configParam is the key of the project that a query names.
func configParam(r *http.Request) (string, error) { return applying(r.URL.Query().Get("config"), nil) }

// artifacts handles GET /v1/artifacts.
func (s *Server) artifacts(r *http.Request) (*wire.ArtifactsReply, error) {
	key, err := configParam(r)
	if err != nil {
		return nil, err
	}
	list, err := s.store.Artifacts(r.Context(), key)
	if err != nil {
		return nil, err
	}
	out := &wire.ArtifactsReply{Artifacts: []wire.ArtifactInfo{}}
	for i := range list {
		snapshot, err := inspect.DecodeSnapshot(list[i].Kernel, list[i].Body)
		if err != nil {
			return nil, err
		}
		snapshot.Texts = nil // megabytes that a list has no use for
		text, err := marshal(snapshot)
		if err != nil {
			return nil, err
		}
		out.Artifacts = append(out.Artifacts, wire.ArtifactInfo{Kernel: list[i].Kernel, Saved: list[i].Saved,
			Artifact: text})
	}
	return out, nil
}

// artifact handles GET /v1/artifacts/{kernel}.
func (s *Server) artifact(r *http.Request) (*wire.ArtifactInfo, error) {
	name := r.PathValue("kernel")
	key, err := configParam(r)
	if err != nil {
		return nil, err
	}
	a, ok, err := s.store.Artifact(r.Context(), key, name)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, diag.Errorf(NoArtifact, "gpuemu lint stores the kernels of a project",
			"there is no stored kernel %q", cut(name, 200))
	}
	return &wire.ArtifactInfo{Kernel: a.Kernel, Saved: a.Saved, Artifact: a.Body}, nil
}
