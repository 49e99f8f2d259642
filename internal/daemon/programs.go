// This file implements the memory of kernels that were made ready to run: a wrapper launches the same few of them again
// and again, and to parse and to translate one takes as long as a small launch.

package daemon

import (
	"sync"

	"gpuemu/internal/ptx"
	"gpuemu/internal/ptxvm"
)

// maxPrograms is how many kernels are kept, and maxProgramText how long the text of one may be, in bytes: programs take
// some fifty times as much memory as their text.
const (
	maxPrograms    = 64
	maxProgramText = 1 << 18
)

// programKey is all that a program is made of: a text is equal or is another program.
type programKey struct {
	name, text, entry, arch string
	numerics                ptxvm.Numerics
}

// programs are kernels by what they are made of. Programs do not change once they are made, so launches share them.
type programs struct {
	mu   sync.Mutex
	kept map[programKey]*ptxvm.Program // guarded by mu
}

// load returns a program that is kept, or parses the text and makes one.
func (p *programs) load(key programKey, load func(*ptx.File) (*ptxvm.Program, error)) (*ptxvm.Program, error) {
	p.mu.Lock()
	prog := p.kept[key]
	p.mu.Unlock()
	if prog != nil {
		return prog, nil
	}
	file, err := ptx.Parse(key.name, key.text)
	if err != nil {
		return nil, err
	}
	if prog, err = load(file); err != nil || len(key.text) > maxProgramText {
		return prog, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept == nil || len(p.kept) >= maxPrograms {
		p.kept = map[programKey]*ptxvm.Program{}
	}
	p.kept[key] = prog
	return prog, nil
}
