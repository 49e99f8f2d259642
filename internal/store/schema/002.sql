-- Records that are not results: baselines, calibrations, metrics of artifacts, configurations of the published fuzzer.
CREATE TABLE baselines (
	tag       TEXT    NOT NULL,
	project   TEXT    NOT NULL,
	body      TEXT    NOT NULL,
	artifacts TEXT    NOT NULL, -- "" where there are none
	saved     INTEGER NOT NULL,
	PRIMARY KEY (project, tag)
);

CREATE TABLE calibrations (
	project TEXT    NOT NULL,
	op      TEXT    NOT NULL,
	dtype   TEXT    NOT NULL,
	atol    REAL    NOT NULL,
	rtol    REAL    NOT NULL,
	body    TEXT    NOT NULL, -- "" where there is none
	saved   INTEGER NOT NULL,
	PRIMARY KEY (project, op, dtype)
);

CREATE TABLE artifacts (
	project TEXT    NOT NULL,
	kernel  TEXT    NOT NULL,
	body    TEXT    NOT NULL,
	saved   INTEGER NOT NULL,
	PRIMARY KEY (project, kernel)
);

CREATE TABLE fuzz_configs (
	seed  INTEGER PRIMARY KEY, -- master seed
	body  TEXT    NOT NULL,
	saved INTEGER NOT NULL
);
