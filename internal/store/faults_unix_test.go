//go:build unix

package store

// This file implements the tests of a disk that is full and of directories that cannot be written to.

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"gpuemu/internal/diag"
)

// limited is a child that may write no file longer than the database is plus a little: as on a full disk.
func limited(dir, campaign string) error {
	ctx := context.Background()
	signal.Ignore(syscall.SIGXFSZ)
	s, err := Open(ctx, dir, Options{})
	if err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1 << 20, Max: 1 << 20}); err != nil {
		return err
	}
	w := s.Writer(campaign)
	for i := 0; ; i++ {
		if err = w.Add(ctx, result(i)); err == nil && i%50 == 49 {
			if err = w.Flush(ctx); err == nil {
				fmt.Println(i + 1)
			}
		}
		if err != nil {
			break
		}
	}
	for _, later := range []error{w.Add(ctx, result(0)), w.Flush(ctx), w.Close()} {
		if later != err {
			return fmt.Errorf("a later call returns %v, want %w", later, err)
		}
	}
	fmt.Println("code", diag.CodeOf(err), err, diag.HintOf(err))
	return nil
}

func TestFullDiskKeepsWhatIsFinished(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	s := open(t, Options{}, dir)
	id := campaign(t, s, Campaign{})
	cmd, out := child(t, "limited", dir, id)
	promised, last := 0, ""
	for out.Scan() {
		if n, err := strconv.Atoi(out.Text()); err == nil {
			promised = n
		}
		last = out.Text()
	}
	ok(t, cmd.Wait())
	for _, part := range []string{"code " + string(IOFailed), s.file(), "check the disk and its quota"} {
		if !strings.Contains(last, part) {
			t.Errorf("the child ended with %q, want %q in it", last, part)
		}
	}
	if got := len(stored(t, s, id)); promised == 0 || got < promised {
		t.Errorf("%d results are stored, %d were flushed", got, promised)
	}
	fill(t, s, id, promised, promised+100) // room again
}

// asNobody runs f without the rights of root, under which nothing is forbidden.
func asNobody(t *testing.T, dir string, f func()) {
	t.Helper()
	ok(t, os.Chmod(filepath.Dir(dir), 0o755)) // the test's own directory
	if os.Geteuid() == 0 {
		for _, name := range []string{"", blobDir, fileName, fileName + "-wal", fileName + "-shm", commitsName} {
			if err := os.Chown(filepath.Join(dir, name), 65534, 65534); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
	}
	withoutRoot(t, f)
}

func TestReadOnlyDirectory(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	ok(t, os.Chmod(dir, 0o500))
	asNobody(t, dir, func() {
		_, err := Open(ctx, dir, Options{})
		wantCode(t, err, ReadOnly)
		if !strings.Contains(err.Error(), dir) {
			t.Errorf("the error %q does not name %s", err, dir)
		}
		_, err = Open(ctx, dir, Options{ReadOnly: true})
		wantCode(t, err, OpenFailed)
	})
}

func TestReadOnlyDatabase(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s, err := Open(ctx, dir, Options{})
	ok(t, err)
	id := campaign(t, s, Campaign{})
	fill(t, s, id, 0, 20)
	ok(t, s.Close())
	ok(t, os.Chmod(filepath.Join(dir, fileName), 0o400))
	ok(t, os.Chmod(dir, 0o500))
	asNobody(t, dir, func() {
		_, err := Open(ctx, dir, Options{})
		wantCode(t, err, ReadOnly)
		s, err := Open(ctx, dir, Options{ReadOnly: true})
		ok(t, err)
		defer s.Close()
		if got := len(stored(t, s, id)); got != 20 {
			t.Errorf("%d results can be read, want 20", got)
		}
		wantCode(t, s.CreateCampaign(ctx, &Campaign{}), ReadOnly)
		_, err = s.SaveTensors(ctx, nil, nil)
		wantCode(t, err, ReadOnly)
	})
	ok(t, os.Chmod(dir, 0o700)) // so that it can be removed
}

// crashed lays a store whose process was killed, with 20 results in the database and 20 in the log, and returns its
// directory. SQLite's index of the log is there or not.
func crashed(t *testing.T, index bool) string {
	t.Helper()
	s := open(t, Options{checkpoint: 1 << 30})
	campaign(t, s, Campaign{ID: "one"})
	fill(t, s, "one", 0, 20)
	ok(t, checkpoint(s))
	fill(t, s, "one", 20, 40)
	files := image(t, s.Dir())
	if !index {
		delete(files, fileName+"-shm")
	}
	dir := filepath.Join(t.TempDir(), "db")
	lay(t, dir, files)
	return dir
}

// reads is a child on a full disk, where no file may be written to at all: it counts results, and tries to add one.
func reads(dir, campaign string) error {
	ctx := context.Background()
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{}); err != nil {
		return err
	}
	s, err := OpenReadable(ctx, dir, Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	_, n, err := s.FinishedIndexes(ctx, campaign)
	if err != nil {
		return err
	}
	fmt.Println(n, diag.CodeOf(s.AddResult(ctx, result(1), "")))
	return nil
}

// TestFullDiskIsRead: what is stored can be read when nothing can be written, what is in the log of a killed process
// included.
func TestFullDiskIsRead(t *testing.T) {
	for _, index := range []bool{false, true} {
		dir := crashed(t, index)
		cmd, out := child(t, "reads", dir, "one")
		out.Scan()
		ok(t, cmd.Wait())
		n, code, _ := strings.Cut(out.Text(), " ")
		if n != "40" || code != string(IOFailed) && code != string(Full) {
			t.Errorf("with an index of the log %v: %q, want 40 results and the error of a full disk", index, out.Text())
		}
	}
}

// TestReadOnlyDirectoryIsRead: the same where the directory and its files may not be written to.
func TestReadOnlyDirectoryIsRead(t *testing.T) {
	ctx := context.Background()
	dir := crashed(t, true)
	ok(t, os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o755)) // the test's own directory
	for _, name := range []string{fileName, fileName + "-wal", fileName + "-shm"} {
		ok(t, os.Chmod(filepath.Join(dir, name), 0o400))
	}
	ok(t, os.Chmod(dir, 0o500))
	asNobody(t, dir, func() {
		s, err := OpenReadable(ctx, dir, Options{})
		ok(t, err)
		defer s.Close()
		if got := len(stored(t, s, "one")); got != 40 {
			t.Errorf("%d results can be read, want 40", got)
		}
		wantCode(t, s.CreateCampaign(ctx, &Campaign{}), ReadOnly)
		wantCode(t, s.Unwritable(), ReadOnly)
	})
	ok(t, os.Chmod(dir, 0o700)) // so that it can be removed
}
