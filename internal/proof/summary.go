package proof

import (
	"fmt"
	"os"
	"strings"

	"gpuemu/internal/command"
	"gpuemu/internal/diag"
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
	fmt.Fprintf(&b, "### GPU receipt %s: %s\n\n", markdown(v.Receipt), v.Verdict)
	if v.Summary != "" {
		fmt.Fprintf(&b, "%s", markdown(v.Summary))
		for _, s := range v.Signers {
			fmt.Fprintf(&b, ", signed by %s (%s)", markdown(s.Name), markdown(s.Key))
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
			text := markdown(f.Message)
			if f.Hint != "" {
				text += "<br>" + markdown(f.Hint)
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", list.word, markdown(f.Code), text)
		}
	}
	for _, text := range v.Notes {
		fmt.Fprintf(&b, "- %s\n", markdown(text))
	}
	return b.String() + "\n"
}

// links are where Markdown of GitHub makes a link of plain text.
var links = strings.NewReplacer("://", "&#58;//", "www.", "www&#46;")

// markdown is text that stays text: no markup, no links, no tags, no mentions, one line.
func markdown(text string) string {
	const special = "\\`*_{}[]()<>#+!|~&@$^="
	var b strings.Builder
	for _, r := range clean(text) {
		if r < 0x80 && strings.ContainsRune(special, r) {
			fmt.Fprintf(&b, "&#%d;", r)
			continue
		}
		b.WriteRune(r)
	}
	return links.Replace(b.String())
}
