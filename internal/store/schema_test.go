package store

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/pagesum"
	"gpuemu/internal/verdict"
)

// openAt makes a store of an older version and returns its writing connection.
func openAt(t *testing.T, dir string, version int) *sql.DB {
	t.Helper()
	ctx := context.Background()
	s := &Store{dir: dir, opt: Options{checkpoint: checkpointPages}}
	ok(t, s.create())
	ok(t, pagesum.Register())
	var err error
	s.w, err = sql.Open("sqlite", s.dsn(false))
	ok(t, err)
	ok(t, s.enterWAL(ctx))
	ok(t, s.migrateTo(ctx, version))
	return s.w
}

// oldData are statements of the time of a version: they stay as they are when the schema goes on.
var oldData = []struct {
	version int
	sql     string
}{
	{1, `INSERT INTO campaigns (name, kind, project, config_path, config_digest, code_digest, seed, request, planned,
		shard, state, started, finished, summary, pid) VALUES ('20260101-000000', 'fuzz', 'p', 'c', 'd', 'e', -1, '{}', 2,
		'', 'finished', 1, 2, '{"campaign":"20260101-000000","seed":"18446744073709551615","planned":2}', 3);
		INSERT INTO results (campaign, idx, op, dtype, seed, verdict, failed, max_abs, finished, inputs, body) VALUES
		(1, 0, 'softmax', 'float32', -1, 'fail', 1, 0.5, 5, '', '{"index":0,"op":"softmax","verdict":"fail"}'),
		(1, 1, 'softmax', 'float32', 7, 'pass', 0, 0, 6, '', '{"index":1,"op":"softmax","verdict":"pass"}')`},
	{2, `INSERT INTO baselines (tag, project, body, artifacts, saved) VALUES ('main', 'p', '{"ops":[]}', '', 9)`},
}

func TestMigrateFromEachVersion(t *testing.T) {
	ctx := context.Background()
	for from := 0; from <= SchemaVersion; from++ {
		t.Run(fmt.Sprint(from), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "db")
			db := openAt(t, dir, from)
			for _, data := range oldData {
				if data.version <= from {
					_, err := db.Exec(data.sql)
					ok(t, err)
				}
			}
			ok(t, db.Close())
			if from > 0 && from < SchemaVersion {
				_, err := Open(ctx, dir, Options{ReadOnly: true})
				wantCode(t, err, Outdated)
			}
			s := open(t, Options{}, dir)
			if u, err := s.Usage(ctx); err != nil || u.Schema != SchemaVersion {
				t.Fatalf("schema = %d, %v, want %d", u.Schema, err, SchemaVersion)
			}
			if from >= 1 {
				c, err := s.Campaign(ctx, "20260101-000000")
				ok(t, err)
				if c.Seed != 1<<64-1 || c.Pruned != 0 || c.Summary.Planned != 2 {
					t.Errorf("campaign = %+v", c)
				}
				found, err := s.BySeed(ctx, 1<<64-1, "softmax")
				ok(t, err)
				if len(found) != 1 || found[0].Verdict != verdict.Fail || found[0].ConfigPath != "c" {
					t.Errorf("BySeed = %+v", found)
				}
			}
			if from >= 1 && from < profilesVersion {
				wantSame(t, s, Filter{ConfigPath: "c"})
				if tally, _ := counted(t, s, Filter{}); tally.Counts() != (verdict.Counts{Total: 2, Passed: 1, Failed: 1}) {
					t.Errorf("profiles of old results: %+v", tally.Counts())
				}
			}
			if from >= 2 {
				b, err := s.Baseline(ctx, "main", "p")
				ok(t, err)
				if string(b.Body) != `{"ops":[]}` || b.Artifacts != nil {
					t.Errorf("baseline = %+v", b)
				}
			}
			fill(t, s, campaign(t, s, Campaign{}), 0, 3) // and it can be written to
		})
	}
}

func TestSchemaScriptsAreNumbered(t *testing.T) {
	files, err := schemaFiles.ReadDir("schema")
	ok(t, err)
	var got, want []string
	for i, f := range files {
		got, want = append(got, f.Name()), append(want, fmt.Sprintf("%03d.sql", i+1))
	}
	if !slices.Equal(got, want) || len(got) != SchemaVersion {
		t.Errorf("scripts %q, want %q and SchemaVersion (%d) of them", got, want, SchemaVersion)
	}
}

func TestNewerDatabaseIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db := openAt(t, dir, SchemaVersion)
	_, err := db.Exec(fmt.Sprintf("PRAGMA user_version = %d", SchemaVersion+1))
	ok(t, err)
	ok(t, db.Close())
	for _, readOnly := range []bool{false, true} {
		_, err = Open(context.Background(), dir, Options{ReadOnly: readOnly})
		wantCode(t, err, Newer)
		want := fmt.Sprintf("%s: written by a newer gpuemu: it has version %d, this program knows up to %d [store-newer]",
			filepath.Join(dir, fileName), SchemaVersion+1, SchemaVersion)
		if err.Error() != want {
			t.Errorf("error %q, want %q", err, want)
		}
		if hint := diag.HintOf(err); !strings.HasPrefix(hint, "update gpuemu") {
			t.Errorf("hint %q", hint)
		}
	}
}

func TestConnectionSettings(t *testing.T) {
	s := open(t, Options{})
	for pragma, want := range map[string]int{
		"synchronous": 2, "auto_vacuum": 2, "foreign_keys": 1, "application_id": applicationID,
		"busy_timeout": int(busyTimeout.Milliseconds()),
	} {
		var got int
		ok(t, s.w.QueryRow("PRAGMA "+pragma).Scan(&got))
		if got != want {
			t.Errorf("%s = %d, want %d", pragma, got, want)
		}
	}
	if _, err := s.r.Exec("DELETE FROM results"); err == nil {
		t.Error("a reading connection can write")
	}
}

// overwrite writes bytes into the database file at an offset.
func overwrite(t *testing.T, file string, offset int64, b []byte) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	ok(t, err)
	_, err = f.WriteAt(b, offset)
	ok(t, err)
	ok(t, f.Close())
}

func TestDamagedDatabase(t *testing.T) {
	ctx := context.Background()
	wantRemedy := func(t *testing.T, err error, file string) {
		t.Helper()
		wantCode(t, err, Damaged)
		hint := diag.HintOf(err)
		if !strings.Contains(err.Error(), file) || !strings.HasPrefix(hint, "move "+file) ||
			!strings.HasSuffix(hint, "away: gpuemu keeps going with a new one; results in it are lost") {
			t.Errorf("error %q, hint %q", err, hint)
		}
	}
	for name, damage := range map[string][]byte{
		"no database": []byte(strings.Repeat("no database ", 100)),
		"short":       []byte("SQLite format 3\x00"),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, fileName)
			ok(t, os.WriteFile(file, damage, 0o600))
			_, err := Open(ctx, dir, Options{})
			wantRemedy(t, err, file)
			if after, err := os.ReadFile(file); err != nil || !slices.Equal(after, damage) {
				t.Errorf("the file was changed: %v", err)
			}
			ok(t, os.Rename(file, file+".away"))
			open(t, Options{}, dir)
		})
	}
	t.Run("pages", func(t *testing.T) {
		dir := t.TempDir()
		s, err := Open(ctx, dir, Options{})
		ok(t, err)
		id := campaign(t, s, Campaign{})
		fill(t, s, id, 0, 2000)
		ok(t, s.Close())
		overwrite(t, s.file(), 40*4096, slices.Repeat([]byte{0x5a}, 200*4096))
		s, err = Open(ctx, dir, Options{})
		ok(t, err)
		defer s.Close()
		err = s.Results(ctx, id, func(*verdict.Result) error { return nil })
		wantRemedy(t, err, s.file())
		lines, err := s.Health(ctx)
		ok(t, err)
		if i := slices.IndexFunc(lines, func(l HealthLine) bool { return !l.OK }); i < 0 || lines[i].Name != "integrity" ||
			!strings.HasPrefix(lines[i].Fix, "move "+s.file()) {
			t.Errorf("Health = %+v", lines)
		}
	})
	t.Run("another program", func(t *testing.T) {
		dir := t.TempDir()
		db, err := sql.Open("sqlite", filepath.Join(dir, fileName))
		ok(t, err)
		_, err = db.Exec("CREATE TABLE theirs (x)")
		ok(t, err)
		ok(t, db.Close())
		_, err = Open(ctx, dir, Options{})
		wantRemedy(t, err, filepath.Join(dir, fileName))
	})
}

func TestFullDatabase(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{})
	id := campaign(t, s, Campaign{})
	fill(t, s, id, 0, 100)
	var pages int
	ok(t, s.w.QueryRow("PRAGMA page_count").Scan(&pages))
	ok(t, s.w.QueryRow(fmt.Sprintf("PRAGMA max_page_count = %d", pages+10)).Scan(&pages))
	w := s.Writer(id)
	var err error
	for i := 100; i < 2000 && err == nil; i++ {
		err = w.Add(ctx, result(i))
	}
	if err == nil {
		err = w.Flush(ctx)
	}
	wantCode(t, err, Full)
	if !strings.Contains(err.Error(), s.file()) || !strings.Contains(diag.HintOf(err), "make room on the disk") {
		t.Errorf("error %q, hint %q", err, diag.HintOf(err))
	}
	if again := w.Close(); again != err {
		t.Errorf("Close = %v, want the same error", again)
	}
	if got := stored(t, s, id); len(got) < 100 {
		t.Errorf("%d results are left of 100", len(got))
	}
	ok(t, s.w.QueryRow("PRAGMA max_page_count = 1000000").Scan(&pages))
	fill(t, s, id, 100, 200)
	if got := stored(t, s, id); len(got) != 200 {
		t.Errorf("%d results, want 200", len(got))
	}
}

func TestLockedDatabase(t *testing.T) {
	s := open(t, Options{})
	id := campaign(t, s, Campaign{})
	other, err := sql.Open("sqlite", s.dsn(false))
	ok(t, err)
	defer other.Close()
	tx, err := other.Begin() // immediate: it has the lock
	ok(t, err)
	_, err = s.w.Exec("PRAGMA busy_timeout = 20") // instead of 30 s
	ok(t, err)
	w := s.Writer(id)
	ok(t, w.Add(context.Background(), result(0)))
	wantCode(t, w.Flush(context.Background()), Locked)
	wantCode(t, w.Close(), Locked)
	ok(t, tx.Rollback())
	fill(t, s, id, 0, 1)
}
