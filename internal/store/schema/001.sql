-- Campaigns and results. Times are nanoseconds since 1970 in UTC, 0 where there is none; seeds are the 64 bits of an
-- unsigned integer in a signed one; bodies are JSON.
PRAGMA application_id = 1735423333; -- "gpue"

CREATE TABLE campaigns (
	id            INTEGER PRIMARY KEY,
	name          TEXT    NOT NULL UNIQUE,
	kind          TEXT    NOT NULL,
	project       TEXT    NOT NULL,
	config_path   TEXT    NOT NULL,
	config_digest TEXT    NOT NULL,
	code_digest   TEXT    NOT NULL,
	seed          INTEGER NOT NULL,
	request       TEXT    NOT NULL, -- "" where there is none
	planned       INTEGER NOT NULL,
	shard         TEXT    NOT NULL,
	state         TEXT    NOT NULL,
	started       INTEGER NOT NULL,
	finished      INTEGER NOT NULL,
	summary       TEXT    NOT NULL, -- "" where there is none
	pid           INTEGER NOT NULL
);
CREATE INDEX campaigns_by_start ON campaigns (started);

CREATE TABLE results (
	id       INTEGER PRIMARY KEY,
	campaign INTEGER NOT NULL REFERENCES campaigns (id),
	idx      INTEGER NOT NULL,
	op       TEXT    NOT NULL,
	dtype    TEXT    NOT NULL,
	seed     INTEGER NOT NULL,
	verdict  TEXT    NOT NULL,
	failed   INTEGER NOT NULL, -- 1 for the verdicts fail and error
	max_abs  REAL,             -- NULL for NaN
	finished INTEGER NOT NULL,
	inputs   TEXT    NOT NULL, -- key of the tensors, "" where they are regenerated
	body     TEXT    NOT NULL,
	UNIQUE (campaign, idx)
);
CREATE INDEX results_by_time      ON results (finished);
CREATE INDEX results_by_op        ON results (op, finished);
CREATE INDEX results_by_seed      ON results (seed, finished);
CREATE INDEX failures_by_time     ON results (finished)           WHERE failed = 1;
CREATE INDEX failures_by_op       ON results (op, finished)       WHERE failed = 1;
CREATE INDEX failures_by_campaign ON results (campaign, finished) WHERE failed = 1;
CREATE INDEX results_by_inputs    ON results (inputs)             WHERE inputs <> '';
