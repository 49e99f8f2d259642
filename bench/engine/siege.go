// This file implements the rows of an owner whose daemon is under siege: clients that never finish their requests.

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"gpuemu/internal/daemon"
	"gpuemu/internal/tensor"
	"gpuemu/internal/wire"
)

const (
	// halfSent and slowClients are how many besiege the daemon; the first is three times as many as it has places.
	halfSent, slowClients = 1500, 250
	// ownerAsks is how often the owner asks in a round, each time over a connection of its own.
	ownerAsks = 40
	// siegeTime is how long a siege counts: the daemon hangs up on who sends nothing for 5 s, and the rest is easy.
	siegeTime = 4 * time.Second
	// drip is the time between two bytes of a slow client.
	drip = 20 * time.Millisecond

	halfHeader = "POST /v1/cases HTTP/1.1\r\nHost: gpuemu\r\nContent-Ty"
	slowBody   = "POST /v1/cases HTTP/1.1\r\nHost: gpuemu\r\nContent-Length: 1000000\r\n\r\n{"
)

func siegeRows() []row {
	const note = "A daemon in a process of its own. Its owner connects, asks for the status and for a small case, and " +
		"hangs up: the longest that took. Half-sent requests are half of a header each, opened anew for every round; " +
		"slow clients send a byte of a body every 20 ms. They are in the process of the owner, which shares its places " +
		"with them."
	const why = "Owner, clients and daemon share the cores."
	return []row{
		{name: fmt.Sprintf("daemon, its owner beside %d half-sent requests, longest answer", halfSent),
			goal: goal{atMost: 1000}, note: note, why: why,
			measure: func(b *bench) (*result, error) { return b.besieged(halfSent, halfHeader, false) }},
		{name: fmt.Sprintf("daemon, its owner beside %d slow clients, longest answer", slowClients),
			goal: goal{atMost: 1000}, note: note, why: why,
			measure: func(b *bench) (*result, error) { return b.besieged(slowClients, slowBody, true) }},
	}
}

// besieged measures what the owner of a daemon waits while n clients hang.
func (b *bench) besieged(n int, text string, dripping bool) (*result, error) {
	var all series
	err := b.withDaemon(smallCase, false, func(s *session) error {
		for range b.rounds {
			list, err := s.siege(n, text, dripping)
			if err != nil {
				return err
			}
			all = append(all, list...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	longest := slices.Max(all)
	return &result{ours: fmt.Sprintf("median %s, longest %s", short(all.median()), short(longest)),
		figure: longest.Seconds() * 1e3, unit: " ms", noise: all.noise()}, nil
}

// siege opens connections that hang, and returns how long the owner's answers took beside them.
func (s *session) siege(n int, text string, dripping bool) (list series, err error) {
	begin := time.Now()
	stop := make(chan struct{})
	defer close(stop)
	for range n {
		conn, err := net.Dial("unix", s.socket)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, text) // the daemon may have hung up
		if dripping {
			go dripInto(conn, stop)
		}
	}
	for range ownerAsks {
		start := time.Now()
		if err := s.owner(); err != nil {
			return nil, fmt.Errorf("the owner is not served: %w", err)
		}
		list = append(list, time.Since(start))
		if time.Since(begin) > siegeTime {
			break
		}
	}
	return list, nil
}

// dripInto sends a byte now and then.
func dripInto(conn net.Conn, stop chan struct{}) {
	tick := time.NewTicker(drip)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			if _, err := io.WriteString(conn, " "); err != nil {
				return
			}
		}
	}
}

// owner asks what an owner asks, over a new connection.
func (s *session) owner() error {
	ctx := context.Background()
	client, err := daemon.Dial(ctx, s.socket)
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := client.Status(ctx); err != nil {
		return err
	}
	return client.Cases(ctx, &wire.CasesRequest{Config: s.header.Config, Case: smallCase},
		func(*wire.CaseHeader, []tensor.Named) error { return nil })
}
