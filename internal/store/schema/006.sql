-- Profiles of results (verdict.Profile), many to a row, in the order in which they were stored: for counts and coverage.
-- pack is the pack whose profiles they are, NULL where they are of single results.
CREATE TABLE profiles (
	id       INTEGER PRIMARY KEY,
	campaign INTEGER NOT NULL REFERENCES campaigns (id),
	pack     INTEGER,
	first    INTEGER NOT NULL, -- the least id of its results
	last     INTEGER NOT NULL, -- the largest
	count    INTEGER NOT NULL,
	newest   INTEGER NOT NULL, -- the last time that one of them finished
	body     BLOB    NOT NULL  -- see docs/formats/store.md
);
CREATE INDEX profiles_by_time     ON profiles (newest);
CREATE INDEX profiles_by_campaign ON profiles (campaign, last) WHERE pack IS NULL;
CREATE INDEX profiles_by_pack     ON profiles (pack) WHERE pack IS NOT NULL;
