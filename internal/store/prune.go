package store

// This file implements keeping the store within its budget: passing results go first, failures last.

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// pruneBatch is how many results one transaction deletes: others wait for it.
	pruneBatch = 2000
	// pruneGrace protects tensors whose result is still on its way to the database.
	pruneGrace = time.Hour
	// pruneRunning is how long a campaign that says it is running is believed.
	pruneRunning = 30 * 24 * time.Hour
)

// kept is what is left of a budget that was exceeded: nine tenths, so that the next campaign does not prune again.
func kept(budget int64) int64 { return budget / 10 * 9 }

// PruneReport says what Prune took away.
type PruneReport struct {
	Passing    int   // results that did not fail
	Failing    int   // results that failed
	Tensors    int   // tensor files
	TensorSize int64 // their bytes
}

// Prune brings a store that is over its budget back to nine tenths of it. Results: those that did not fail, oldest
// first, then those that did. Tensors: those that no result names, then those of results that did not fail, then the
// rest. Campaigns, their summaries, baselines, calibrations and whatever belongs to a running campaign are kept.
func (s *Store) Prune(ctx context.Context) (PruneReport, error) {
	return s.prune(ctx, s.opt.BlobBudget)
}

// prune is Prune with another budget of tensors.
func (s *Store) prune(ctx context.Context, tensors int64) (PruneReport, error) {
	var rep PruneReport
	if err := s.pruneResults(ctx, &rep); err != nil {
		return rep, err
	}
	return rep, s.pruneTensors(ctx, tensors, &rep)
}

func (s *Store) pruneResults(ctx context.Context, rep *PruneReport) error {
	var span, count int64
	err := s.r.QueryRowContext(ctx, `SELECT coalesce((SELECT max(id) FROM results) - (SELECT min(id) FROM results), -1) + 1
		+ (SELECT coalesce(sum(count), 0) FROM packs)`).Scan(&span)
	if err != nil || span <= s.opt.RowBudget { // there are no more rows than that, and it is found without counting
		return s.faultOrNil("prune", err)
	}
	if err := s.r.QueryRowContext(ctx, `SELECT count(*) + (SELECT coalesce(sum(count), 0) FROM packs)
		FROM results`).Scan(&count); err != nil {
		return s.fault("prune", err)
	}
	if count <= s.opt.RowBudget {
		return nil
	}
	excess := int(count - kept(s.opt.RowBudget))
	for failed, counter := range []*int{&rep.Passing, &rep.Failing} {
		for since := int64(0); excess > 0; {
			n, last, err := s.deleteSome(ctx, failed, since, min(excess, pruneBatch))
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
			*counter += n
			excess -= n
			since = last
		}
	}
	return s.vacuum(ctx)
}

// faultOrNil is fault for an error that may be nil.
func (s *Store) faultOrNil(what string, err error) error {
	if err == nil {
		return nil
	}
	return s.fault(what, err)
}

// deleteSome deletes the oldest results: about limit packed ones where these are older than all others, else at most
// limit of the others. since is the time of the last row that was deleted, and last that of this time.
func (s *Store) deleteSome(ctx context.Context, failed int, since int64, limit int) (n int, last int64, err error) {
	oldest := func(query string, args ...any) (int64, error) {
		var t sql.NullInt64
		err := s.r.QueryRowContext(ctx, query, args...).Scan(&t)
		if err != nil || !t.Valid {
			t.Int64 = math.MaxInt64
		}
		return t.Int64, s.faultOrNil("prune", err)
	}
	upTo := int64(math.MaxInt64)
	if failed == 0 {
		before, err := oldest(`SELECT min(finished) FROM results WHERE failed = 0 AND finished >= $1 AND `+idle, since,
			s.believed())
		if err != nil {
			return 0, since, err
		}
		if n, err := s.deletePacks(ctx, before, limit); n > 0 || err != nil {
			return n, since, err
		}
		if upTo, err = oldest(`SELECT min(newest) FROM packs`); err != nil {
			return 0, since, err
		}
	}
	return s.deleteOldest(ctx, failed, since, upTo, limit)
}

// idle is the condition on results that they do not belong to a campaign that runs.
const idle = `campaign NOT IN (SELECT id FROM campaigns WHERE state = 'running' AND started > $2)`

// believed is when a campaign must have started to be believed that it runs.
func (s *Store) believed() int64 { return nanos(s.opt.Now().Add(-pruneRunning)) }

// deleteOldest deletes at most limit results that are not older than since and not newer than upTo. It returns how
// many, and the time of the last.
func (s *Store) deleteOldest(
	ctx context.Context, failed int, since, upTo int64, limit int,
) (n int, last int64, err error) {
	err = s.update(ctx, "prune", func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT id, campaign, finished FROM results
			WHERE failed = $1 AND finished >= $3 AND finished <= $4 AND `+idle+`
			ORDER BY finished LIMIT $5`, failed, s.believed(), since, upTo, limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		var ids []int64
		campaigns := map[int64][]int64{}
		for rows.Next() {
			var id, campaign int64
			if err := rows.Scan(&id, &campaign, &last); err != nil {
				return err
			}
			ids = append(ids, id)
			campaigns[campaign] = append(campaigns[campaign], id)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return err
		}
		n = len(ids)
		return deleteRows(ctx, tx, campaigns)
	})
	return n, last, err
}

// deleteRows deletes results, given by campaign, with their profiles, and counts them in their campaigns.
func deleteRows(ctx context.Context, tx *sql.Tx, campaigns map[int64][]int64) error {
	for campaign, gone := range campaigns {
		list, err := json.Marshal(gone)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM results WHERE id IN (SELECT value FROM json_each($1))`,
			string(list)); err != nil {
			return err
		}
		if err := forgetFailures(ctx, tx, string(list)); err != nil {
			return err
		}
		slices.Sort(gone)
		if err := dropProfiles(ctx, tx, campaign, gone); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE campaigns SET pruned = pruned + $1 WHERE id = $2`, len(gone),
			campaign); err != nil {
			return err
		}
	}
	return nil
}

// ClearFailures deletes the failures of a project, of one op or, with op "", of all. Those of a campaign that runs
// stay. It returns how many they were.
func (s *Store) ClearFailures(ctx context.Context, configPath, op string) (n int, err error) {
	err = s.update(ctx, "clear failures", func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT r.id, r.campaign FROM results r JOIN campaigns c ON c.id = r.campaign
			WHERE r.failed = 1 AND c.config_path = $1 AND c.state <> 'running' AND ($2 = '' OR r.op = $2)`, configPath, op)
		if err != nil {
			return err
		}
		defer rows.Close()
		campaigns := map[int64][]int64{}
		for rows.Next() {
			var id, campaign int64
			if err := rows.Scan(&id, &campaign); err != nil {
				return err
			}
			campaigns[campaign] = append(campaigns[campaign], id)
			n++
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return err
		}
		return deleteRows(ctx, tx, campaigns)
	})
	return n, err
}

// vacuum gives pages back to the system when more than a quarter of the database is unused. The rest is filled again.
func (s *Store) vacuum(ctx context.Context) error {
	const step = 1000 // pages per transaction: 4 MiB
	for {
		var free, all int
		err := s.w.QueryRowContext(ctx, `SELECT freelist_count, page_count FROM pragma_freelist_count, pragma_page_count`).
			Scan(&free, &all)
		if err != nil || free < step || free*4 < all {
			return s.faultOrNil("prune", err)
		}
		rows, err := s.w.QueryContext(ctx, `PRAGMA incremental_vacuum(1000)`) // the same number
		if err != nil {
			return s.fault("prune", err)
		}
		for rows.Next() { // one step per page
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return s.fault("prune", err)
		}
	}
}

// blobFile is a tensor file that may go.
type blobFile struct {
	path  string
	size  int64
	class int   // 0: no result names it, 1: results that did not fail, 2: one that failed
	time  int64 // of the newest result, or of the file
}

// blobs calls visit for every tensor file and every unfinished one.
func (s *Store) blobs(visit func(path string, info fs.FileInfo) error) error {
	root := filepath.Join(s.dir, blobDir)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // another process was faster
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return visit(path, info)
	})
	if err != nil {
		return fileFault(IOFailed, root, "list tensors", err)
	}
	return nil
}

func (s *Store) pruneTensors(ctx context.Context, budget int64, rep *PruneReport) error {
	var total int64
	var files []blobFile
	fresh := s.opt.Now().Add(-pruneGrace)
	err := s.blobs(func(path string, info fs.FileInfo) error {
		if strings.HasPrefix(info.Name(), tempPrefix) && info.ModTime().Before(fresh) {
			return remove(path) // its process is gone
		}
		total += info.Size()
		if info.ModTime().Before(fresh) {
			files = append(files, blobFile{path: path, size: info.Size(), time: info.ModTime().UnixNano()})
		}
		return nil
	})
	if err != nil || total <= budget {
		return err
	}
	for i := range files {
		if err := s.classify(ctx, &files[i]); err != nil {
			return err
		}
	}
	slices.SortFunc(files, func(x, y blobFile) int {
		return cmp.Or(cmp.Compare(x.class, y.class), cmp.Compare(x.time, y.time))
	})
	for _, f := range files {
		if total <= kept(budget) {
			break
		}
		if info, err := os.Stat(f.path); err == nil && !info.ModTime().Before(fresh) {
			continue // it was saved again meanwhile
		}
		if err := remove(f.path); err != nil {
			return fileFault(IOFailed, f.path, "prune", err)
		}
		total -= f.size
		rep.Tensors++
		rep.TensorSize += f.size
	}
	return nil
}

// remove deletes a file that another process may have deleted already.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// classify finds out which results name the file.
func (s *Store) classify(ctx context.Context, f *blobFile) error {
	key := strings.TrimSuffix(filepath.Base(f.path), filepath.Ext(f.path))
	var failed, finished sql.NullInt64
	err := s.r.QueryRowContext(ctx, `SELECT max(failed), max(finished) FROM results
		WHERE inputs = $1 AND inputs <> ''`, key).Scan(&failed, &finished)
	if err != nil {
		return s.fault("prune", err)
	}
	if failed.Valid {
		f.class, f.time = 1+int(failed.Int64), finished.Int64
	}
	return nil
}
