package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"gpuemu/internal/diag"
)

// This file implements the checks of files named on the command line.

// readFile reads a whole file of at most limit bytes.
func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, readError(err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, readError(err)
	}
	if int64(len(b)) > limit {
		return nil, diag.Errorf(ReadFailed, "", "%s: file is larger than %d bytes", path, limit)
	}
	return b, nil
}

// checkConfig refuses a configuration that is named but is not there, whether or not the command needs one: the user
// believes that it counts. source is the flag or the variable that names it.
func checkConfig(source, path string) error {
	info, err := os.Stat(path)
	switch {
	case path == "":
		return diag.Errorf(Usage, "name a file", "%s is empty", source)
	case errors.Is(err, fs.ErrNotExist):
		return diag.Errorf(Usage, "check the path", "%s: there is no file %q", source, path)
	case err != nil:
		return fmt.Errorf("%s: %w", source, readError(err))
	case info.IsDir():
		return diag.Errorf(Usage, "name the file in it", "%s: %q is a directory", source, path)
	}
	return nil
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

// outputPath checks a path to write to before any time is spent on what goes there, and follows links: a result
// replaces a file as a whole, and a link should stay one. For the same reason a device or a pipe cannot take it. The
// file at input is still needed.
func outputPath(path, input string) (string, error) {
	if path == "-" {
		return "", diag.Errorf(Usage, "name a file; one called - is ./-", "the output cannot go to standard output")
	}
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return "", diag.Errorf(WriteFailed, "create the directory first", "output %q: %w", path, err)
	case !info.IsDir():
		return "", diag.Errorf(WriteFailed, "", "output %q: %s is not a directory", path, dir)
	}
	info, err = os.Stat(path)
	if err != nil {
		return path, nil // a new file; what else may be wrong shows when it is written
	}
	if !info.Mode().IsRegular() {
		return "", diag.Errorf(WriteFailed, "name a new file or a regular one", "output %q is not a regular file", path)
	}
	if in, err := os.Stat(input); err == nil && os.SameFile(in, info) {
		return "", diag.Errorf(Usage, "name another file", "output %q is the file of the inputs", path)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", diag.Errorf(WriteFailed, "", "output %q: %w", path, err)
	}
	return real, nil
}
