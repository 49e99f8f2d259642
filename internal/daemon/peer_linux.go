// This file implements who is at the other end of a socket, on Linux.

package daemon

import "golang.org/x/sys/unix"

// maxSocketPath is the longest path of a socket: sun_path has 108 bytes with the final 0.
const maxSocketPath = 107

// peerUID returns the user of the process at the other end.
func peerUID(fd int) (int, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}
