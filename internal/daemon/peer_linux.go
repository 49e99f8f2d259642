// This file implements who is at the other end of a socket, on Linux.

package daemon

import "golang.org/x/sys/unix"

// maxSocketPath is the longest path of a socket: sun_path has 108 bytes with the final 0.
const maxSocketPath = 107

// peerOf returns user and number of the process at the other end.
func peerOf(fd int) (uid, pid int, err error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, 0, err
	}
	return int(cred.Uid), int(cred.Pid), nil
}
