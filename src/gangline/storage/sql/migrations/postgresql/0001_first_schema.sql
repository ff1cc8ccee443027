-- A job is one JSON document plus the columns that lists filter by. Texts are compared byte by byte, so that the
-- order of a list does not depend on the locale of the server.
CREATE TABLE jobs (
    id TEXT COLLATE "C" PRIMARY KEY,
    version BIGINT NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    queue TEXT COLLATE "C" NOT NULL,
    phase TEXT COLLATE "C" NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    finished_at DOUBLE PRECISION,
    unfinished SMALLINT NOT NULL,
    deleting SMALLINT NOT NULL,
    document TEXT NOT NULL
);

-- A name is free again as soon as the job that bears it is being deleted.
CREATE UNIQUE INDEX jobs_name ON jobs (tenant, name) WHERE deleting = 0;
CREATE INDEX jobs_deleting_name ON jobs (tenant, name) WHERE deleting = 1;
CREATE INDEX jobs_unfinished ON jobs (id) WHERE unfinished = 1;

-- These hold every column that a list filters by, so that a condition which few jobs meet is searched for in
-- a narrow index and not in rows that carry whole documents.
CREATE INDEX jobs_newest ON jobs (created_at, id) INCLUDE (phase, queue, finished_at, name);
CREATE INDEX jobs_tenant_newest ON jobs (tenant, created_at, id) INCLUDE (phase, queue, finished_at, name);
CREATE INDEX jobs_phase_newest ON jobs (phase, created_at, id) INCLUDE (tenant, queue, finished_at, name);

-- The creation time is repeated here so that the newest jobs of a label are found without sorting.
CREATE TABLE labels (
    key TEXT COLLATE "C" NOT NULL,
    value TEXT COLLATE "C" NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    job_id TEXT COLLATE "C" NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    PRIMARY KEY (key, value, created_at, job_id)
);
CREATE INDEX labels_job ON labels (job_id);

CREATE TABLE journal (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id TEXT COLLATE "C" NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    document TEXT NOT NULL
);
CREATE INDEX journal_job ON journal (job_id, number);

-- A value that is no number is kept as NULL, as in the other dialect.
CREATE TABLE metrics (
    job_id TEXT COLLATE "C" NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    at DOUBLE PRECISION NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    role TEXT COLLATE "C" NOT NULL,
    replica BIGINT NOT NULL,
    step BIGINT NOT NULL,
    value DOUBLE PRECISION,
    PRIMARY KEY (job_id, at, name, role, replica, step)
);

CREATE TABLE latest_metrics (
    job_id TEXT COLLATE "C" NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    role TEXT COLLATE "C" NOT NULL,
    replica BIGINT NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    step BIGINT NOT NULL,
    value DOUBLE PRECISION,
    PRIMARY KEY (job_id, role, replica, name)
);

CREATE TABLE queues (
    name TEXT COLLATE "C" PRIMARY KEY,
    document TEXT NOT NULL
);
