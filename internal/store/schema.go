package store

// This file implements the numbered migrations of the database.

import (
	"context"
	"database/sql"
	"embed"
	"fmt"

	"gpuemu/internal/diag"
)

// schemaFiles holds one script per version, 001.sql and so on. A script that was released is never changed: a change
// is a new script.
//
//go:embed schema/*.sql
var schemaFiles embed.FS

// SchemaVersion is the form of the database that this program reads and writes: the number of the newest script.
const SchemaVersion = 7

// fills compute what a version added from what was there.
var fills = map[int]func(ctx context.Context, tx *sql.Tx) error{
	profilesVersion: profileAll,
	7:               noteAll,
}

// profilesVersion is the version in which results have profiles.
const profilesVersion = 6

// migrate brings the database to SchemaVersion, in one transaction for all steps.
func (s *Store) migrate(ctx context.Context) error { return s.migrateTo(ctx, SchemaVersion) }

func (s *Store) migrateTo(ctx context.Context, target int) error {
	if have, err := s.version(ctx, s.w); err != nil || have == target {
		return err
	}
	return s.transaction(ctx, "migrate", func(tx *sql.Tx) error {
		have, err := s.version(ctx, tx) // again: another process may have been faster
		if err != nil {
			return err
		}
		for v := have + 1; v <= target; v++ {
			script, err := schemaFiles.ReadFile(fmt.Sprintf("schema/%03d.sql", v))
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, string(script)); err != nil {
				return fmt.Errorf("step %d: %w", v, err)
			}
			if fill := fills[v]; fill != nil {
				if err := fill(ctx, tx); err != nil {
					return fmt.Errorf("step %d: %w", v, err)
				}
			}
		}
		_, err = tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", target))
		return err
	})
}

// version returns the version of the database, 0 for an empty one. A newer one and a database of another program are
// errors.
func (s *Store) version(ctx context.Context, q interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}) (int, error) {
	var version, application, tables int
	err := q.QueryRowContext(ctx, `SELECT u.user_version, a.application_id, (SELECT count(*) FROM sqlite_schema)
		FROM pragma_user_version() u, pragma_application_id() a`).Scan(&version, &application, &tables)
	switch {
	case err != nil:
		return 0, s.fault("open", err)
	case tables > 0 && application != applicationID:
		return 0, diag.Errorf(Damaged, s.moveAway(), "%s: this is a database of another program", s.file())
	case version > SchemaVersion:
		return 0, diag.Errorf(Newer, "update gpuemu, or set GPUEMU_HOME to another directory",
			"%s: written by a newer gpuemu: it has version %d, this program knows up to %d", s.file(), version, SchemaVersion)
	}
	return version, nil
}

// applicationID is "gpue", as 001.sql writes it.
const applicationID = 0x67707565

// checkVersion is migrate for a store that is opened read-only.
func (s *Store) checkVersion(ctx context.Context) error {
	have, err := s.version(ctx, s.r)
	if err == nil && have != SchemaVersion {
		err = diag.Errorf(Outdated, "run any gpuemu command that writes, such as gpuemu test, to bring it up to date",
			"%s: has version %d, and this program reads version %d", s.file(), have, SchemaVersion)
	}
	return err
}
