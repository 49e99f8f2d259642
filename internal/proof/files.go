package proof

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"gpuemu/internal/atomicfile"
	"gpuemu/internal/command"
	"gpuemu/internal/diag"
)

// This file implements reading and writing of files named on the command line.

const (
	// maxReceipt is the largest receipt that is read, which is package receipt's limit, too. The longest known has 4,656
	// tests and under 2 MiB.
	maxReceipt = 64 << 20
	// maxReport is the largest result file or report of another runner.
	maxReport = 256 << 20
	// maxSmall is the largest policy, list of skips or file of allowed signers.
	maxSmall = 16 << 20
)

// readFile reads a whole file of at most limit bytes; "-" is standard input.
func readFile(env Env, path string, limit int64) ([]byte, error) {
	b, err := readUpTo(env, path, limit+1)
	if err == nil && int64(len(b)) > limit {
		return nil, diag.Errorf(ReadFailed, "", "%s: larger than %d MiB", path, limit>>20)
	}
	return b, err
}

// readReceipt reads a receipt. Of one that is too large so much is read that the parser sees it: it is refused then,
// and not a fault of the arguments.
func readReceipt(env Env, path string) ([]byte, error) { return readUpTo(env, path, maxReceipt+1) }

func readUpTo(env Env, path string, most int64) ([]byte, error) {
	from := env.Stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, readError(err)
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.IsDir() {
			return nil, diag.Errorf(ReadFailed, "name a file in it", "%s is a directory", path)
		}
		from = f
	}
	b, err := io.ReadAll(io.LimitReader(from, most))
	if err != nil {
		return nil, readError(err)
	}
	return b, nil
}

// readError gives a file system error its code and next step; its text already names the operation and the path.
func readError(err error) error {
	hint := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		hint = "check the path"
	case errors.Is(err, fs.ErrPermission):
		hint = "check the permissions of the file"
	}
	return diag.Errorf(ReadFailed, hint, "%w", err)
}

// writeFile replaces a file as a whole. A new one is there to be read by all: it is a receipt.
func writeFile(path string, b []byte) error {
	err := atomicfile.Replace(path, 0o644, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
	switch {
	case errors.Is(err, atomicfile.ErrNotRegular):
		return diag.Errorf(WriteFailed, "name a file", "%s is no regular file", path)
	case err != nil:
		return command.NotRun(diag.Errorf(WriteFailed, "", "%w", err))
	}
	return nil
}
