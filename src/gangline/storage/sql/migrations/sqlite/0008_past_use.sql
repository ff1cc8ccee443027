-- What deleted jobs had used.
CREATE TABLE IF NOT EXISTS past_use (number INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, finished_at REAL NOT NULL, document TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS past_use_by_end ON past_use (finished_at);
