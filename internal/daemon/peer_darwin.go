// This file implements who is at the other end of a socket, on macOS.

package daemon

import "golang.org/x/sys/unix"

// maxSocketPath is the longest path of a socket: sun_path has 104 bytes with the final 0.
const maxSocketPath = 103

// peerOf returns user and number of the process at the other end.
func peerOf(fd int) (uid, pid int, err error) {
	cred, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return 0, 0, err
	}
	pid, err = unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	return int(cred.Uid), pid, err
}
