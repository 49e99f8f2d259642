package store

// This file implements failures as texts, for those who pass them on: to parse one takes longer than to find it.

import (
	"context"
	"database/sql"
	"encoding/json"

	"gpuemu/internal/diag"
)

// FailureTexts calls yield with the JSON of each failure that the filter selects, newest first, and stops with its
// error. The filter has a limit. Failures are single rows, never in packs.
func (s *Store) FailureTexts(ctx context.Context, f Filter, yield func(json.RawMessage) error) error {
	return s.failureTexts(ctx, f, func(text json.RawMessage, _ string) error { return yield(text) })
}

// failureTexts is FailureTexts with the configuration file of each.
func (s *Store) failureTexts(
	ctx context.Context, f Filter, yield func(text json.RawMessage, config string) error,
) error {
	if f.Limit <= 0 {
		return diag.Errorf(Internal, "", "failures are asked for without a limit")
	}
	f.FailedOnly = true
	query, args := f.query(nil, f.Limit)
	return s.each(ctx, "read failures", "SELECT body, config_path FROM ("+query+")", args, func(rows *sql.Rows) error {
		var body []byte
		var config string
		if err := rows.Scan(&body, &config); err != nil {
			return err
		}
		return yield(body, config)
	})
}
