-- How many results of a campaign were pruned: what is left of it is not the whole.
ALTER TABLE campaigns ADD COLUMN pruned INTEGER NOT NULL DEFAULT 0;
