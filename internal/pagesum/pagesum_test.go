package pagesum

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// connect opens a database of the VFS; a new one is made.
func connect(t *testing.T, path string) *sql.DB {
	t.Helper()
	if err := Register(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		if err := os.WriteFile(path, Empty(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	address := (&url.URL{Scheme: "file", Path: path, RawQuery: "vfs=" + Name + "&_pragma=cache_spill(0)" +
		"&_pragma=wal_autocheckpoint(0)&_pragma=busy_timeout(1000)"}).String()
	db, err := sql.Open("sqlite", address)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() }) // what is damaged cannot be checkpointed
	return db
}

func exec(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// total reads everything: rows with their overflow pages, and an index.
func total(db *sql.DB) (string, error) {
	var length, rows, indexed int64
	err := db.QueryRow(`SELECT sum(length(hex(body))), count(*), (SELECT count(*) FROM t INDEXED BY by_x WHERE x >= 0)
		FROM t NOT INDEXED`).Scan(&length, &rows, &indexed)
	return fmt.Sprint(length, rows, indexed), err
}

// fill makes a table of small and large rows with an index.
func fill(t *testing.T, db *sql.DB) {
	t.Helper()
	exec(t, db, "CREATE TABLE t (x INTEGER, body BLOB)", "CREATE INDEX by_x ON t (x)",
		`WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 199)
		INSERT INTO t SELECT i, zeroblob(CASE i % 50 WHEN 0 THEN 20000 ELSE 30 END) FROM n`)
}

func flip(t *testing.T, path string, offset int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, offset); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b, offset); err != nil {
		t.Fatal(err)
	}
}

// TestChangedBytesAreErrors: a changed byte in any page of a database, and in any frame of a log that is in use, is an
// error of reading with the code of changed data.
func TestChangedBytesAreErrors(t *testing.T) {
	for _, log := range []bool{false, true} {
		t.Run(fmt.Sprintf("log %v", log), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.db")
			first := connect(t, path)
			fill(t, first)
			file, start, step := path+"-wal", int64(logHeader), int64(frameSize)
			if !log {
				exec(t, first, "PRAGMA wal_checkpoint(TRUNCATE)")
				file, start, step = path, 0, PageSize
			}
			want, err := total(connect(t, path))
			if err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			damaged, places := 0, 0
			for offset := start; offset+step <= info.Size(); offset += step {
				for _, within := range []int64{step - PageSize + 18, step - PageSize + 200, step - 100, step - 1} {
					places++
					flip(t, file, offset+within)
					got, err := total(connect(t, path))
					var code *sqlite.Error
					switch {
					case err == nil && got != want:
						t.Errorf("byte %d: %s, want %s or an error", offset+within, got, want)
					case errors.As(err, &code) && code.Code()&0xff == sqlite3.SQLITE_IOERR: // of DataError, or alone
						damaged++
					case err != nil:
						t.Errorf("byte %d: %v, want an error of reading", offset+within, err)
					}
					flip(t, file, offset+within)
				}
			}
			if damaged < places/2 {
				t.Errorf("%d of %d changed bytes were found: the pages are not read", damaged, places)
			}
		})
	}
}

// TestPlainSQLiteReadsIt: the form is one of SQLite's own, and what another program writes is found.
func TestPlainSQLiteReadsIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	db := connect(t, path)
	fill(t, db)
	want, err := total(db)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	plain, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	var check string
	if err := plain.QueryRow("PRAGMA integrity_check").Scan(&check); err != nil || check != "ok" {
		t.Errorf("integrity_check = %q, %v", check, err)
	}
	if got, err := total(plain); err != nil || got != want {
		t.Errorf("read without checks: %s, %v, want %s", got, err, want)
	}
	exec(t, plain, "UPDATE t SET x = 7 WHERE x = 8")
	if err := plain.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := total(connect(t, path)); err == nil {
		t.Errorf("another program wrote, and %s is read", got)
	}
}

func TestSealed(t *testing.T) {
	page := Empty()
	if !Sealed(page) || !Sealed(page[:geometryEnd]) {
		t.Error("Sealed(Empty()) = false")
	}
	for _, header := range [][]byte{nil, page[:geometryEnd-1], append([]byte("x"), page...)} {
		if Sealed(header) {
			t.Errorf("Sealed of %d bytes = true", len(header))
		}
	}
	page[20] = 0
	if Sealed(page) {
		t.Error("a database without room for checksums is sealed")
	}
}

func TestUnsealed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plain.db")
	plain, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, plain, "CREATE TABLE t (x)")
	first, err := First(path)
	if err != nil || len(first) != PageSize || !Unsealed(first) || Sealed(first) || !Unsealed(nil) {
		t.Errorf("a database without checksums, or an empty one, is not recognized: %d bytes, %v", len(first), err)
	}
	for bit := range 8 * (geometryEnd - geometryStart) {
		page := Empty()
		page[geometryStart+bit/8] ^= 1 << (bit % 8)
		if Sealed(page) || Unsealed(page) {
			t.Errorf("bit %d of the geometry was flipped: Sealed = %v, Unsealed = %v", bit, Sealed(page), Unsealed(page))
		}
	}
	if err := plain.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := First(path + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("First of no file: %v", err)
	}
}

// TestFirstKeepsLocks: looking at a database that this process has locked does not unlock it.
func TestFirstKeepsLocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	db := connect(t, path)
	fill(t, db)
	exec(t, db, "PRAGMA locking_mode = EXCLUSIVE", "BEGIN IMMEDIATE", "INSERT INTO t VALUES (-1, '')", "COMMIT")
	locks := func() string {
		b, err := os.ReadFile("/proc/locks")
		if err != nil {
			t.Skip("the locks of this process are read from /proc/locks")
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		inode := fmt.Sprintf(":%d ", info.Sys().(*syscall.Stat_t).Ino)
		held := ""
		for line := range strings.Lines(string(b)) {
			if _, text, ok := strings.Cut(line, ": "); ok && strings.Contains(line, inode) {
				held += text
			}
		}
		return held
	}
	before := locks()
	if before == "" {
		t.Fatal("the database is not locked")
	}
	if _, err := First(path); err != nil {
		t.Fatal(err)
	}
	if after := locks(); after != before {
		t.Errorf("locks after First:\n%sbefore:\n%s", after, before)
	}
}
