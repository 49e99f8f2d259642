package proof

import (
	"fmt"
	"os"
	"strings"

	"gpuemu/internal/command"
	"gpuemu/internal/diag"
	"gpuemu/internal/escape"
)

// This file implements the summary of a GitHub Actions step: Markdown, appended to the file that GITHUB_STEP_SUMMARY
// names.

// maxSummary keeps a summary far below the 1 MiB that GitHub takes.
const maxSummary = 64 << 10

// writeSummary appends the verdict, where the environment asks for it.
func writeSummary(env Env, v *verdict) error {
	path := env.Getenv("GITHUB_STEP_SUMMARY")
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return command.NotRun(diag.Errorf(WriteFailed, "", "GITHUB_STEP_SUMMARY: %w", err))
	}
	_, err = f.WriteString(summaryText(v))
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return command.NotRun(diag.Errorf(WriteFailed, "", "GITHUB_STEP_SUMMARY: %w", err))
	}
	return nil
}

// summaryText is the verdict in Markdown.
func summaryText(v *verdict) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### GPU receipt %s: %s\n\n", escape.Markdown(v.Receipt), v.Verdict)
	if v.Summary != "" {
		fmt.Fprintf(&b, "%s", escape.Markdown(v.Summary))
		for _, s := range v.Signers {
			fmt.Fprintf(&b, ", signed by %s (%s)", escape.Markdown(s.Name), escape.Markdown(s.Key))
		}
		b.WriteString("\n\n")
	}
	rows := 0
	for _, list := range []struct {
		word  string
		items []finding
	}{{"refused", v.Refusals}, {"unknown", v.Unknown}, {"warning", v.Warnings}} {
		for _, f := range list.items {
			if rows == 0 {
				b.WriteString("| | reason | |\n|---|---|---|\n")
			}
			rows++
			if b.Len() > maxSummary {
				b.WriteString("| | | and more |\n")
				return b.String()
			}
			text := escape.Markdown(f.Message)
			if f.Hint != "" {
				text += "<br>" + escape.Markdown(f.Hint)
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", list.word, escape.Markdown(f.Code), text)
		}
	}
	for _, text := range v.Notes {
		fmt.Fprintf(&b, "- %s\n", escape.Markdown(text))
	}
	return b.String() + "\n"
}
