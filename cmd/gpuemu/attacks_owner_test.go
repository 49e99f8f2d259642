package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"
)

// This file implements the owner of a daemon under attack: a process of its own, as limits may count the connections of
// a process, that asks what an honest client asks. It tries once: a daemon that turns its owner away has lost.

// answerLimit is how long an answer may take on a machine that does other things as well. Nothing shorter is asserted:
// that the owner waits for no limit of time of another's connection is tested with limits of an hour, by
// TestOwnerIsServed… of internal/daemon, and how long an answer takes is a row of make bench, with a goal of 1 s.
const answerLimit = 60 * time.Second

// dialSocket connects. A queue that is full (EAGAIN) is the system's answer and not the daemon's, which takes
// connections off the queue as fast as it can: then it tries again.
func dialSocket(path string) (net.Conn, error) {
	end := time.Now().Add(answerLimit)
	for {
		conn, err := net.Dial("unix", path)
		if err == nil {
			return conn, conn.SetDeadline(end)
		}
		if !errors.Is(err, syscall.EAGAIN) || time.Now().After(end) {
			return nil, err
		}
		time.Sleep(time.Millisecond)
	}
}

// asOwner is the command owner SOCKET: it fails unless the daemon answers what its owner asks.
func asOwner() {
	for _, ask := range []func(string) error{askStatus, askCases, askV1} {
		if err := ask(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	fmt.Println("served")
}

// ownerAsks sends one request and hands over the body of its answer, which must be a good one.
func ownerAsks(socket, request string, read func(io.Reader) error) error {
	what, _, _ := strings.Cut(request, "\r\n")
	conn, err := dialSocket(socket)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return fmt.Errorf("%s: no answer: %w", what, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return fmt.Errorf("%s: %s: %s", what, resp.Status, text)
	}
	if err := read(resp.Body); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func askStatus(socket string) error {
	request := "GET /v1/status HTTP/1.1\r\nHost: gpuemu\r\nConnection: close\r\n\r\n"
	return ownerAsks(socket, request, func(r io.Reader) error {
		text, err := io.ReadAll(r)
		if err == nil && !strings.Contains(string(text), `"campaigns":`) {
			err = fmt.Errorf("the status is %q", text)
		}
		return err
	})
}

func askCases(socket string) error {
	const body = `{"op": "relu", "seed": "7", "count": 2}`
	request := fmt.Sprintf("POST /v1/cases HTTP/1.1\r\nHost: gpuemu\r\nConnection: close\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	return ownerAsks(socket, request, func(r io.Reader) error {
		cases := 0
		for {
			var head [4]byte
			if _, err := io.ReadFull(r, head[:]); err != nil {
				return fmt.Errorf("after %d cases: %w", cases, err)
			}
			n := int64(binary.LittleEndian.Uint32(head[:]))
			if n == 0 {
				break
			}
			var image [8]byte
			if _, err := io.CopyN(io.Discard, r, n); err != nil {
				return err
			}
			if _, err := io.ReadFull(r, image[:]); err != nil {
				return err
			}
			if _, err := io.CopyN(io.Discard, r, int64(binary.LittleEndian.Uint64(image[:]))); err != nil {
				return err
			}
			cases++
		}
		if cases != 2 {
			return fmt.Errorf("%d cases were handed out, want 2", cases)
		}
		return nil
	})
}

// askV1 pings with protocol v1.
func askV1(socket string) error {
	conn, err := dialSocket(socket)
	if err != nil {
		return fmt.Errorf("v1 Ping: %w", err)
	}
	defer conn.Close()
	reply, err := v1Exchange(conn, `{"type": "Ping"}`)
	if err == nil && !strings.Contains(reply, `"Pong"`) {
		err = fmt.Errorf("the answer is %q", reply)
	}
	if err != nil {
		return fmt.Errorf("v1 Ping: %w", err)
	}
	return nil
}

// v1Hello is what a client of protocol v1 says first.
const v1Hello = "\x00SP\x00\x00\x30\x00\x00"

// v1Frame is a message of protocol v1.
func v1Frame(id uint32, body string) []byte {
	frame := binary.BigEndian.AppendUint64([]byte{1}, uint64(4+len(body)))
	return append(binary.BigEndian.AppendUint32(frame, id|1<<31), body...)
}

// v1Exchange greets, sends one message and reads the answer to it.
func v1Exchange(conn net.Conn, body string) (string, error) {
	sent := make(chan error, 1)
	go func() { // the answer may come before all of a message has been read
		_, err := conn.Write(append([]byte(v1Hello), v1Frame(1, body)...))
		sent <- err
	}()
	var head [8 + 9 + 4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return "", err
	}
	n := binary.BigEndian.Uint64(head[9:])
	text, err := io.ReadAll(io.LimitReader(conn, int64(n)-4))
	if err == nil && len(text) != int(n)-4 {
		err = io.ErrUnexpectedEOF
	}
	return string(text), err
}
