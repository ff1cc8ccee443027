-- What deleted jobs had used.
CREATE TABLE IF NOT EXISTS past_use (number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant TEXT NOT NULL, finished_at DOUBLE PRECISION NOT NULL, document TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS past_use_by_end ON past_use (finished_at);
