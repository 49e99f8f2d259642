package project

import "gpuemu/internal/diag"

// This file implements the stable error codes of the package.
const (
	// BadName means that a project's name is empty, too long or has characters that cannot be printed.
	BadName diag.Code = "project-bad-name"
	// InTheWay means that files gpuemu would write exist already. Nothing was written.
	InTheWay diag.Code = "project-in-the-way"
	// Outside means that a link in the directory leads out of it, or that something to be replaced is no plain file.
	// Nothing was written.
	Outside diag.Code = "project-outside"
	// WriteFailed means that the directory or a file in it could not be written. Each file is whole or absent, and
	// gpuemu.toml is the last one.
	WriteFailed diag.Code = "project-write-failed"
	// NoAnswer means that a Python interpreter did not say what it has: it could not be started, was too slow or failed.
	NoAnswer diag.Code = "project-no-answer"
	// Unusable means that gpuemu doctor found something missing or broken that every validation needs.
	Unusable diag.Code = "project-unusable"
)
