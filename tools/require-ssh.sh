#!/bin/sh
# require-ssh.sh: stops with one clear line where a program of OpenSSH is missing that tests compare signatures with.
for program in ssh-keygen ssh-agent ssh-add; do
	if ! command -v "$program" >/dev/null 2>&1; then
		echo "the tests of signatures need OpenSSH, and there is no \"$program\" on PATH: apt-get install openssh-client" >&2
		exit 1
	fi
done
