-- Results that passed and came together, many to a row. Clients send thousands, and of small cases a row with its
-- entries in four indexes costs as much as to compute one. They belong to standing campaigns alone.
CREATE TABLE packs (
	id       INTEGER PRIMARY KEY,
	campaign INTEGER NOT NULL REFERENCES campaigns (id),
	op       TEXT    NOT NULL,
	first    INTEGER NOT NULL, -- the least index
	last     INTEGER NOT NULL, -- the largest
	count    INTEGER NOT NULL,
	newest   INTEGER NOT NULL, -- the last time that one of them finished
	seeds    BLOB    NOT NULL, -- 8 bytes each, the most significant first
	body     TEXT    NOT NULL  -- a JSON array, in the order of the indexes
);
CREATE INDEX packs_by_time     ON packs (newest);
CREATE INDEX packs_by_op       ON packs (op, newest);
CREATE INDEX packs_by_campaign ON packs (campaign, first);
CREATE INDEX packs_by_last     ON packs (campaign, last);
CREATE INDEX packs_by_count    ON packs (count); -- for their sum
