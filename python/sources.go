// Package python holds the sources of the Python client, for the engine to hand to interpreters in which nothing of
// gpuemu is installed. It has no code of its own.
package python

import "embed"

// Sources are the files of the package gpuemu, below src/gpuemu.
//
//go:embed src/gpuemu/*.py src/gpuemu/frameworks/*.py
var Sources embed.FS
