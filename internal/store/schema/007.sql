-- Cases that failed, with when they failed and passed last: which failures are open is found without looking at others.
CREATE TABLE failing (
	key      INTEGER NOT NULL, -- of op, dtype, case and side; see internal/store/failing.go
	config   TEXT    NOT NULL, -- config_path of the campaign
	result   INTEGER NOT NULL, -- the newest that failed
	finished INTEGER NOT NULL, -- when it did
	failed   INTEGER NOT NULL, -- when the case failed last; of a minimized one, it or the case that it was made of
	passed   INTEGER NOT NULL, -- when it passed last, 0 for never
	origin   INTEGER,          -- key of op, seed and side of the case that a minimized one was made of
	PRIMARY KEY (key, config)
);
CREATE INDEX failing_open      ON failing (finished, result) WHERE failed > passed;
CREATE INDEX failing_by_origin ON failing (origin, config)   WHERE origin IS NOT NULL;
CREATE INDEX failing_by_result ON failing (result);
