package pagesum

import (
	"errors"
	"fmt"
	"os"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// This file implements a look at a database that may be open in this process.

// First returns the first page of a file, or all of a shorter one. It reads with the VFS of the system, which keeps the
// locks that SQLite holds on the file in this process. Closing an os.File would drop them: POSIX locks belong to the
// process and not to the descriptor.
func First(path string) ([]byte, error) {
	tls := libc.NewTLS()
	defer tls.Close()
	system := sqlite3.Xsqlite3_vfs_find(tls, 0)
	if system == 0 {
		return nil, errors.New("pagesum: SQLite has no default VFS")
	}
	name, err := libc.CString(path + "\x00") // the VFS takes parameters for a second string, which is empty
	if err != nil {
		return nil, fmt.Errorf("pagesum: %w", err)
	}
	defer libc.Xfree(tls, name)
	file := libc.Xcalloc(tls, 1, libc.Tsize_t(at[sqlite3.Tsqlite3_vfs](system).FszOsFile))
	buf := libc.Xcalloc(tls, 1, PageSize+8) // and the size of the file
	defer libc.Xfree(tls, file)
	defer libc.Xfree(tls, buf)
	if file == 0 || buf == 0 {
		return nil, errors.New("pagesum: out of memory")
	}
	rc := function[openFunc](at[sqlite3.Tsqlite3_vfs](system).FxOpen)(tls, system, name, file,
		sqlite3.SQLITE_OPEN_READONLY|sqlite3.SQLITE_OPEN_MAIN_DB, 0)
	if rc != sqlite3.SQLITE_OK {
		return nil, reason(path, rc)
	}
	table := at[ioMethods](at[sqlite3.Tsqlite3_file](file).FpMethods)
	defer function[fileFunc](table.FxClose)(tls, file)
	if rc := function[sizeFunc](table.FxFileSize)(tls, file, buf+PageSize); rc != sqlite3.SQLITE_OK {
		return nil, reason(path, rc)
	}
	n := int32(min(*at[int64](buf + PageSize), PageSize))
	if n == 0 {
		return nil, nil
	}
	if rc := function[accessFunc](table.FxRead)(tls, file, buf, n, 0); rc != sqlite3.SQLITE_OK {
		return nil, reason(path, rc)
	}
	return append([]byte(nil), bytesAt(buf, n)...), nil
}

type sizeFunc = func(tls *libc.TLS, file, size uintptr) int32

// reason is the error of a file that SQLite cannot read: what the system says of it, where it says anything.
func reason(path string, rc int32) error {
	f, err := os.Open(path)
	if err == nil {
		err = errors.Join(fmt.Errorf("pagesum: read %s: result code %d of SQLite", path, rc), f.Close())
	}
	return err
}
