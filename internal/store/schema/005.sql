-- How many transactions were committed. The same number is kept in a file beside the database, which so outlives a log
-- that is damaged after a crash; name is that of the database, and tells it from others that were at its place.
CREATE TABLE commits (
	id     INTEGER PRIMARY KEY CHECK (id = 1),
	name   TEXT    NOT NULL,
	number INTEGER NOT NULL
);
INSERT INTO commits (id, name, number) VALUES (1, lower(hex(randomblob(8))), 0);
-- Commits that were lost, and when that was found.
CREATE TABLE losses (
	found   INTEGER NOT NULL,
	commits INTEGER NOT NULL
);
-- Which process runs a campaign: the name of a file that it holds a lock on. "" where none does.
ALTER TABLE campaigns ADD COLUMN owner TEXT NOT NULL DEFAULT '';
