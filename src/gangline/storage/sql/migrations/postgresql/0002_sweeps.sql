-- A sweep is one JSON document; its trials are jobs and bear its label.
CREATE TABLE sweeps (
    id TEXT COLLATE "C" PRIMARY KEY,
    version BIGINT NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    document TEXT NOT NULL
);
CREATE UNIQUE INDEX sweeps_name ON sweeps (tenant, name);
