package store

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/verdict"
)

// layOld writes a database as the last version without checksums left it (commit 61a684a: a test run that passed and is
// a baseline, a fuzz run that failed, ten results of a client).
func layOld(t *testing.T) (dir string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "version4.db.gz"))
	ok(t, err)
	r, err := gzip.NewReader(bytes.NewReader(b))
	ok(t, err)
	b, err = io.ReadAll(r)
	ok(t, err)
	dir = filepath.Join(t.TempDir(), "db")
	lay(t, dir, map[string][]byte{fileName: b})
	return dir
}

// openOld opens an old database as its program did: with the VFS of the system and a write-ahead log.
func openOld(t *testing.T, dir string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, fileName))
	ok(t, err)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	for _, statement := range []string{"PRAGMA journal_mode = WAL", "PRAGMA wal_autocheckpoint = 0"} {
		_, err := db.Exec(statement)
		ok(t, err)
	}
	return db
}

// oldResults and oldFailures are how many results it has.
const oldResults, oldFailures = 33, 13

// wantOld checks that everything of the old database is there: results, campaigns, the baseline, and profiles.
func wantOld(t *testing.T, s *Store, results int) {
	t.Helper()
	ctx := context.Background()
	u, err := s.Usage(ctx)
	ok(t, err)
	if u.Schema != SchemaVersion || u.Results != results || u.Failures != oldFailures || u.Campaigns != 2 {
		t.Errorf("Usage = %+v, want version %d, %d results, %d failures, 2 campaigns", u, SchemaVersion, results, oldFailures)
	}
	config := "/tmp/oldp/gpuemu.toml"
	found, err := s.List(ctx, Filter{FailedOnly: true, ConfigPath: config})
	ok(t, err)
	if len(found) != oldFailures || found[0].Op != "wrong" || found[0].Reason != verdict.Mismatch {
		t.Errorf("%d failures, want %d", len(found), oldFailures)
	}
	if list, err := s.Baselines(ctx); err != nil || len(list) != 1 || list[0].Tag != "main" {
		t.Errorf("baselines = %+v, %v", list, err)
	}
	wantSame(t, s, Filter{ConfigPath: config})
	if tally, _ := counted(t, s, Filter{}); tally.Counts().Total != results || tally.Counts().Failed != oldFailures {
		t.Errorf("profiles: %+v, want %d", tally.Counts(), results)
	}
	for _, line := range healthy(t, s) {
		if !line.OK {
			t.Errorf("health: %+v", line)
		}
	}
}

func healthy(t *testing.T, s *Store) []HealthLine {
	t.Helper()
	lines, err := s.Health(context.Background())
	ok(t, err)
	return lines
}

// wantNoLeftovers checks that a store has no files but its own.
func wantNoLeftovers(t *testing.T, dir string) {
	t.Helper()
	for name := range image(t, dir) {
		if !slices.Contains([]string{fileName, fileName + "-wal", fileName + "-shm", commitsName}, name) &&
			!strings.HasPrefix(name, ownerDir) {
			t.Errorf("%s is left", name)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, convertDir)); err == nil {
		t.Errorf("%s is left", convertDir)
	}
}

func TestOldDatabaseIsConverted(t *testing.T) {
	ctx := context.Background()
	dir := layOld(t)
	before := image(t, dir)[fileName]
	_, err := Open(ctx, dir, Options{ReadOnly: true})
	wantCode(t, err, Unconverted)
	want := filepath.Join(dir, fileName) + ": written by an older gpuemu, without checksums: it cannot be read before " +
		"it is converted [store-unconverted]"
	if err.Error() != want ||
		diag.HintOf(err) != "run any gpuemu command that writes, such as gpuemu test, to convert it" {
		t.Errorf("error %q, hint %q", err, diag.HintOf(err))
	}
	if !bytes.Equal(before, image(t, dir)[fileName]) {
		t.Error("a store that is opened read-only was changed")
	}
	ok(t, os.Chmod(filepath.Join(dir, fileName), 0o640))
	s := open(t, Options{}, dir)
	wantOld(t, s, oldResults)
	fill(t, s, campaign(t, s, Campaign{}), 0, 30) // and it can be written to
	wantNoLeftovers(t, dir)
	if info, err := os.Stat(s.file()); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the database lost its permissions: %v, %v", info.Mode(), err)
	}
	read := open(t, Options{ReadOnly: true}, dir)
	if u, err := read.Usage(ctx); err != nil || u.Results != oldResults+30 {
		t.Errorf("read-only: %+v, %v", u, err)
	}
}

// crashedOld is an old database of a process that was killed: what it stored last, two packs and a configuration with a
// negative id among it, is in the log alone.
func crashedOld(t *testing.T) map[string][]byte {
	t.Helper()
	dir := layOld(t)
	db := openOld(t, dir)
	_, err := db.Exec(`INSERT INTO packs (campaign, op, first, last, count, newest, seeds, body)
		SELECT campaign, op, min(idx) + 100, max(idx) + 100, count(*), max(finished), zeroblob(8 * count(*)),
		json_group_array(json(body)) FROM results WHERE campaign = 3 GROUP BY campaign, op
		UNION ALL SELECT campaign, op, min(idx) + 200, max(idx) + 200, count(*), max(finished), zeroblob(8 * count(*)),
		json_group_array(json(body)) FROM results WHERE campaign = 3 GROUP BY campaign, op;
		INSERT INTO fuzz_configs (seed, body, saved) VALUES (-9223372036854775808, '{}', 1), (-1, '{}', 1), (5, '{}', 1)`)
	ok(t, err)
	crashed := image(t, dir)
	delete(crashed, fileName+"-shm")
	if len(crashed[fileName+"-wal"]) == 0 {
		t.Fatal("there is no log")
	}
	return crashed
}

func TestOldDatabaseWithALogIsConverted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	lay(t, dir, crashedOld(t))
	s := open(t, Options{}, dir)
	wantOld(t, s, oldResults+20)
	for _, seed := range []uint64{1 << 63, 1<<64 - 1, 5} {
		if _, found, err := s.FuzzConfig(context.Background(), seed); err != nil || !found {
			t.Errorf("configuration %d: %v, %v", seed, found, err)
		}
	}
	wantNoLeftovers(t, dir)
}

// TestKilledConversion: whenever a conversion is killed, the next one finds everything, and removes what the killed one
// left. The files at a moment are what a process killed then leaves.
func TestKilledConversion(t *testing.T) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "db")
	lay(t, dir, crashedOld(t))
	left := map[string]map[string][]byte{}
	opt := Options{converting: func(stage string) {
		left[stage] = image(t, dir)
		left[stage][".gpuemu-HALF"] = []byte("half of a copy")
	}}
	s, err := Open(ctx, dir, opt)
	ok(t, err)
	ok(t, s.Close())
	for _, stage := range []string{"seized", "copied", "replaced"} {
		if left[stage] == nil {
			t.Fatalf("the conversion did not come to %q", stage)
		}
		if stage == "replaced" {
			delete(left[stage], ".gpuemu-HALF") // it was renamed
		}
		again := filepath.Join(t.TempDir(), "db")
		lay(t, again, left[stage])
		wantOld(t, open(t, Options{}, again), oldResults+20)
		wantNoLeftovers(t, again)
	}
}

// TestOneOfManyConverts: of many who open an old database at once one converts it, and all see everything.
func TestOneOfManyConverts(t *testing.T) {
	dir := layOld(t)
	var mu sync.Mutex
	var all sync.WaitGroup
	conversions := 0
	opt := Options{converting: func(stage string) {
		if mu.Lock(); stage == "replaced" {
			conversions++
		}
		mu.Unlock()
	}}
	stores := make([]*Store, 8)
	errs := make([]error, len(stores))
	for i := range stores {
		all.Go(func() { stores[i], errs[i] = Open(context.Background(), dir, opt) })
	}
	all.Wait()
	for i, s := range stores {
		ok(t, errs[i])
		wantOld(t, s, oldResults)
	}
	for _, s := range stores {
		ok(t, s.Close())
	}
	if conversions != 1 {
		t.Errorf("%d conversions, want 1", conversions)
	}
}

// TestOldDatabaseInUse: as long as an older gpuemu has the database open, it is not converted, and nothing is changed
// but that its log may be copied into it.
func TestOldDatabaseInUse(t *testing.T) {
	ctx := context.Background()
	dir := layOld(t)
	old := openOld(t, dir)
	var rows int
	ok(t, old.QueryRow("SELECT count(*) FROM results").Scan(&rows))
	for _, open := range []func(context.Context, string, Options) (*Store, error){Open, OpenReadable} {
		_, err := open(ctx, dir, Options{convertWait: 1})
		wantCode(t, err, Unconverted)
		want := fmt.Sprintf("%[1]s: written by an older gpuemu, without checksums, and cannot be converted: %[1]s: "+
			"another process has it open [store-locked] [store-unconverted]", filepath.Join(dir, fileName))
		if hint := diag.HintOf(err); err.Error() != want || !strings.HasPrefix(hint, "end the older gpuemu") {
			t.Errorf("error %q, hint %q, want %q", err, hint, want)
		}
	}
	_, err := old.Exec("INSERT INTO fuzz_configs (seed, body, saved) VALUES (8, '{}', 1)")
	ok(t, err)
	ok(t, old.Close())
	s := open(t, Options{}, dir)
	wantOld(t, s, oldResults)
	if _, found, err := s.FuzzConfig(ctx, 8); err != nil || !found {
		t.Errorf("what the older gpuemu stored last is not there: %v", err)
	}
}

// TestOldDatabasesThatAreNot: a damaged one and a newer one are told by their own codes, and stay as they are.
func TestOldDatabasesThatAreNot(t *testing.T) {
	ctx := context.Background()
	for name, c := range map[string]struct {
		change string
		code   diag.Code
	}{
		"newer":   {fmt.Sprintf("PRAGMA user_version = %d", SchemaVersion+1), Newer},
		"another": {"PRAGMA application_id = 7", Damaged},
		"pages":   {"SELECT 1", Damaged},
		"damaged": {"UPDATE results SET body = '{' WHERE id = 5", Damaged},
	} {
		dir := layOld(t)
		old := openOld(t, dir)
		_, err := old.Exec(c.change)
		ok(t, err)
		ok(t, old.Close())
		if name == "pages" {
			overwrite(t, filepath.Join(dir, fileName), 10*4096, slices.Repeat([]byte{0x5a}, 20*4096))
		}
		before := image(t, dir)[fileName]
		_, err = Open(ctx, dir, Options{})
		wantCode(t, err, c.code)
		if hint := diag.HintOf(err); c.code == Damaged && !strings.HasPrefix(hint, "move "+filepath.Join(dir, fileName)+",") {
			t.Errorf("%s: hint %q", name, hint)
		}
		if name != "damaged" && name != "pages" && !bytes.Equal(before, image(t, dir)[fileName]) {
			t.Errorf("%s: the database was changed", name)
		}
		if _, err := os.Stat(filepath.Join(dir, convertDir)); err == nil {
			t.Errorf("%s: a copy is left", name)
		}
	}
}
