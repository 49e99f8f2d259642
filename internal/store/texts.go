package store

// This file implements failures as texts, for those who pass them on: to parse one takes longer than to find it.

import (
	"context"
	"encoding/json"

	"gpuemu/internal/diag"
)

// FailureTexts calls yield with the JSON of each failure that the filter selects, newest first, and stops with its
// error. The filter has a limit. Failures are single rows, never in packs.
func (s *Store) FailureTexts(ctx context.Context, f Filter, yield func(json.RawMessage) error) error {
	if f.Limit <= 0 {
		return diag.Errorf(Internal, "", "failures are asked for without a limit")
	}
	f.FailedOnly = true
	query, args := f.query(nil, f.Limit)
	rows, err := s.r.QueryContext(ctx, "SELECT body FROM ("+query+")", args...)
	if err != nil {
		return s.fault("read failures", err)
	}
	defer rows.Close()
	for rows.Next() {
		var body []byte
		if err := rows.Scan(&body); err != nil {
			return s.fault("read failures", err)
		}
		if err := yield(body); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return s.fault("read failures", err)
	}
	return nil
}
