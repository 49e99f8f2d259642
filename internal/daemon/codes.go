// This file implements the stable error codes of the package.

package daemon

import "gpuemu/internal/diag"

const (
	// Unreachable means that no daemon answers on the socket.
	Unreachable diag.Code = "daemon-unreachable"
	// Lost means that the connection to the daemon ended before its answer did.
	Lost diag.Code = "daemon-lost"
	// OtherVersion means that the daemon speaks another version of the protocol.
	OtherVersion diag.Code = "daemon-other-version"
	// ForeignSocket means that the socket, its directory or the process behind it belongs to another user.
	ForeignSocket diag.Code = "daemon-foreign-socket"
	// AlreadyRunning means that another daemon serves the socket.
	AlreadyRunning diag.Code = "daemon-already-running"
	// BadSocket means that the socket cannot be made: its path is too long or its directory unusable.
	BadSocket diag.Code = "daemon-bad-socket"
	// BadHome means that GPUEMU_HOME cannot be used.
	BadHome diag.Code = "daemon-bad-home"
	// BadListener means that a TCP listener was asked for without what makes it safe: a certificate and a token.
	BadListener diag.Code = "daemon-bad-listener"
	// BadRequest means that a request is not of the form that the API documents.
	BadRequest diag.Code = "daemon-bad-request"
	// BadShared means that the file a request shares with the daemon cannot be used: it is not the user's own, or lacks
	// the bytes that the request names.
	BadShared diag.Code = "daemon-bad-shared"
	// TooLarge means that a request is larger than the limit for its kind.
	TooLarge diag.Code = "daemon-too-large"
	// TooSlow means that a peer began a request and does not go on with it.
	TooSlow diag.Code = "daemon-too-slow"
	// NotFound means that the API has nothing at that path.
	NotFound diag.Code = "daemon-not-found"
	// WrongMethod means that the API has that path for another method.
	WrongMethod diag.Code = "daemon-wrong-method"
	// Unauthorised means that a request over TCP does not carry the token.
	Unauthorised diag.Code = "daemon-unauthorised"
	// Stopping means that the daemon is about to end and takes no more work.
	Stopping diag.Code = "daemon-stopping"
	// Busy means that as many campaigns or connections are open, or as much memory is in use, as the daemon allows.
	Busy diag.Code = "daemon-busy"
	// NoCampaign means that a project has no campaign of the kind that is asked for.
	NoCampaign diag.Code = "daemon-no-campaign"
	// NoArtifact means that nothing is stored of a compiled kernel of that name.
	NoArtifact diag.Code = "daemon-no-artifact"
	// Cancelled means that a request was given up before its answer was complete.
	Cancelled diag.Code = "daemon-cancelled"
	// Internal means that a request hit a fault of gpuemu itself.
	Internal diag.Code = "daemon-internal"
)
