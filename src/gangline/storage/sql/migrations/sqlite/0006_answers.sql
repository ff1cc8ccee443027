-- What was answered to requests with an Idempotency-Key.
CREATE TABLE IF NOT EXISTS answers (who TEXT NOT NULL, request_key TEXT NOT NULL, began_at REAL NOT NULL, document TEXT NOT NULL, PRIMARY KEY (who, request_key));
CREATE INDEX IF NOT EXISTS answers_by_age ON answers (began_at);
