package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// This file implements the cases of the corpus, which gpuemu fuzz draws and judges: bounds of its values are those of
// the operators of the catalogue.

// fuzzReport is what is read of a report in JSON.
type fuzzReport struct {
	Results []struct {
		Op       string `json:"op"`
		DType    string `json:"dtype"`
		Case     string `json:"case"`
		Verdict  string `json:"verdict"`
		Message  string `json:"message"`
		Findings []struct {
			Kind     string `json:"kind"`
			Sentence string `json:"sentence"`
		} `json:"findings"`
		Numeric string `json:"numeric"` // what the values alone deserve, where there are findings
	} `json:"results"`
}

// campaigns runs the projects of the corpus, and adds their cases to the outcomes of their builds.
func campaigns(o *options, results []outcome) error {
	builds := map[string]*outcome{}
	done := map[string]bool{}
	for i := range results {
		if r := &results[i]; r.Project != "" {
			builds[r.Project+"/"+r.Build] = r
		}
	}
	for i := range results {
		project := results[i].Project
		if project == "" || done[project] {
			continue
		}
		done[project] = true
		list, err := fuzz(o, filepath.Join(o.dir, project))
		if err != nil {
			return err
		}
		arch := filepath.Ext(project) // .sm_80
		for j := range list.Results {
			r := &list.Results[j]
			to := builds[project+"/"+r.Op+"."+r.DType+arch]
			if to == nil {
				return fmt.Errorf("%s: no build for op %s in %s", project, r.Op, r.DType)
			}
			to.Count++
			switch r.Verdict {
			case "pass", "undecided":
				to.Silent++
			case "fail":
				for _, f := range r.Findings {
					to.Classes = append(to.Classes, f.Kind)
					to.Findings = append(to.Findings, fmt.Sprintf("%s: %s: %s", r.Case, f.Kind, f.Sentence))
				}
				if len(r.Findings) == 0 {
					to.Silent++
				}
				if len(r.Findings) == 0 || r.Numeric == "fail" {
					to.Wrong = append(to.Wrong, r.Case+": "+r.Message)
				}
			default:
				to.Refused = append(to.Refused, r.Case+": "+cmp.Or(r.Message, r.Verdict))
			}
		}
	}
	return nil
}

// fuzz runs gpuemu fuzz on a project, which fails where a case does.
func fuzz(o *options, dir string) (*fuzzReport, error) {
	path := filepath.Join(dir, "report.json")
	if err := os.RemoveAll(path); err != nil {
		return nil, err
	}
	command := exec.Command(o.engine, "fuzz", "--config", filepath.Join(dir, "gpuemu.toml"), "--seed", "1", "--iterations",
		strconv.Itoa(o.cases), "--parallel", strconv.Itoa(o.workers), "--format", "json", "--output", path)
	said, err := command.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", command, err, said)
	}
	report := &fuzzReport{}
	if err := json.Unmarshal(text, report); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(report.Results) == 0 {
		return nil, fmt.Errorf("%s has no cases: %s", path, said)
	}
	return report, nil
}
