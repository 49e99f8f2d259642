package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"gpuemu/internal/daemon"
	"gpuemu/internal/store"
	"gpuemu/internal/wire"
)

// This file implements the command status.

// maxInterrupted is how many interrupted campaigns status lists, the newest first.
const maxInterrupted = 5

func statusCommand(term *terminal, env Env) *cobra.Command {
	format := newChoice("text", "json")
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show version, daemon, store and running campaigns",
		Args:  codes.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			ctx, stop := env.interruptible()
			defer stop()
			p, err := newPlace(env, term)
			if err != nil {
				return err
			}
			client, err := p.connect(ctx)
			if err != nil {
				return err
			}
			defer client.Close()
			st, err := client.Status(ctx)
			if err != nil {
				return err
			}
			left, err := client.Campaigns(ctx, &wire.CampaignsRequest{State: store.Interrupted, Limit: maxInterrupted})
			if err != nil {
				return err
			}
			if format.value == "json" {
				return term.printJSON(struct {
					*wire.Status
					InProcess   bool                `json:"in_process,omitempty"` // no daemon has answered
					Interrupted []wire.CampaignInfo `json:"interrupted"`
				}{st, client.Local(), left})
			}
			printStatus(term, st, p.daemonLine(client, st))
			for _, c := range left {
				term.print(fmt.Sprintf("interrupted: %s, %d of %d cases of %s; gpuemu %s --resume=%s continues it", c.ID, c.Done,
					c.Planned, c.Config, c.Kind, c.ID))
			}
			return nil
		},
	}
	format.register(cmd, "format", "output format")
	return cmd
}

// daemonLine says which daemon has served a command, or why none has.
func (p *place) daemonLine(client *daemon.Client, st *wire.Status) string {
	switch {
	case !client.Local():
		return servedBy(st)
	case p.unused != "":
		return p.unused
	}
	return "not running (gpuemu daemon start --background)"
}

// servedBy is what a daemon says of itself: process, version, how long it runs, and who started it.
func servedBy(st *wire.Status) string {
	seconds := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)).Round(time.Second) }
	line := fmt.Sprintf("running, up %v, pid %d, gpuemu %s, started ", seconds(st.UptimeSeconds), st.PID, st.Version)
	if st.IdleSeconds == 0 {
		return line + "by hand"
	}
	return line + fmt.Sprintf("on demand: ends after %v without work", seconds(st.IdleSeconds))
}

// printStatus prints what an engine says of itself; served is the line on the daemon.
func printStatus(term *terminal, st *wire.Status, served string) {
	rows := [][]string{{"version", st.Version}, {"daemon", served}}
	rows = append(rows, []string{"socket", st.Socket}, []string{"store",
		fmt.Sprintf("%s, %d results, %s", st.Store.Path, st.Store.Rows, size(st.Store.Bytes))})
	for _, c := range st.Campaigns {
		rows = append(rows, []string{"campaign", fmt.Sprintf("%s %s %s: %d of %d cases, %d failed", c.ID, c.Kind, c.Project,
			c.Done, c.Planned, c.Failed)})
	}
	term.printTable("", rows)
}

// size is a number of bytes for people.
func size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, names := float64(n), "KMGT"
	i := -1
	for value >= unit && i < len(names)-1 {
		value /= unit
		i++
	}
	return fmt.Sprintf("%.1f %ciB", value, names[i])
}

// pollUntil asks again and again until ask is true or the time is over.
func pollUntil(ctx context.Context, limit time.Duration, ask func() bool) bool {
	deadline := time.Now().Add(limit)
	for {
		if ask() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
}
