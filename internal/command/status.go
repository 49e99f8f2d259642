package command

import (
	"errors"
	"strconv"
)

// This file implements the exit codes.

// The exit codes of both programs.
const (
	ExitOK     = 0
	ExitFailed = 1 // a case failed, a regression was found, a receipt was refused
	ExitUsage  = 2 // nothing could start because of usage or configuration
	ExitNotRun = 3 // something asked for was not run, or could not be told
)

// Status is an error with an exit code. Without Err the command's output has said it all.
type Status struct {
	Code int
	Err  error
}

func (e *Status) Error() string {
	if e.Err == nil {
		return "exit status " + strconv.Itoa(e.Code)
	}
	return e.Err.Error()
}

func (e *Status) Unwrap() error { return e.Err }

// NotRun marks an error that came up after the work had started: what was asked for was not done.
func NotRun(err error) error { return &Status{ExitNotRun, err} }

// Said reports whether err is a status whose reason the output has said already.
func Said(err error) bool {
	var s *Status
	return errors.As(err, &s) && s.Err == nil
}

// ExitCode is that of err. An error without a status of its own kept the command from starting.
func ExitCode(err error) int {
	var s *Status
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &s):
		return s.Code
	}
	return ExitUsage
}
