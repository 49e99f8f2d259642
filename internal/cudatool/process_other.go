//go:build !unix

package cudatool

import "os/exec"

// ownGroup does nothing: the program alone is ended.
func ownGroup(*exec.Cmd) {}

// endGroup ends the program.
func endGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }
