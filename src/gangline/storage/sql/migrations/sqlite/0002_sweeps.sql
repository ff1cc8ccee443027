-- A sweep is one JSON document; its trials are jobs and bear its label.
CREATE TABLE sweeps (
    id TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at REAL NOT NULL,
    document TEXT NOT NULL
);
CREATE UNIQUE INDEX sweeps_name ON sweeps (tenant, name);
