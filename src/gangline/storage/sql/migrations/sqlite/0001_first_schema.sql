-- A job is one JSON document plus the columns that lists filter by.
CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    queue TEXT NOT NULL,
    phase TEXT NOT NULL,
    created_at REAL NOT NULL,
    finished_at REAL,
    unfinished INTEGER NOT NULL,
    deleting INTEGER NOT NULL,
    document TEXT NOT NULL
);

-- A name is free again as soon as the job that bears it is being deleted.
CREATE UNIQUE INDEX jobs_name ON jobs (tenant, name) WHERE deleting = 0;
CREATE INDEX jobs_deleting_name ON jobs (tenant, name) WHERE deleting = 1;
CREATE INDEX jobs_unfinished ON jobs (id) WHERE unfinished = 1;

-- These hold every column that a list filters by, so that a condition which few jobs meet is searched for in
-- a narrow index and not in rows that carry whole documents.
CREATE INDEX jobs_newest ON jobs (created_at, id, phase, queue, finished_at, name);
CREATE INDEX jobs_tenant_newest ON jobs (tenant, created_at, id, phase, queue, finished_at, name);
CREATE INDEX jobs_phase_newest ON jobs (phase, created_at, id, tenant, queue, finished_at, name);

-- The creation time is repeated here so that the newest jobs of a label are found without sorting.
CREATE TABLE labels (
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    created_at REAL NOT NULL,
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    PRIMARY KEY (key, value, created_at, job_id)
) WITHOUT ROWID;
CREATE INDEX labels_job ON labels (job_id);

CREATE TABLE journal (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    document TEXT NOT NULL
);
CREATE INDEX journal_job ON journal (job_id, number);

-- A value that is no number is kept as NULL, for SQLite has no NaN.
CREATE TABLE metrics (
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    at REAL NOT NULL,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    replica INTEGER NOT NULL,
    step INTEGER NOT NULL,
    value REAL,
    PRIMARY KEY (job_id, at, name, role, replica, step)
) WITHOUT ROWID;

CREATE TABLE latest_metrics (
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    role TEXT NOT NULL,
    replica INTEGER NOT NULL,
    name TEXT NOT NULL,
    at REAL NOT NULL,
    step INTEGER NOT NULL,
    value REAL,
    PRIMARY KEY (job_id, role, replica, name)
) WITHOUT ROWID;

CREATE TABLE queues (
    name TEXT PRIMARY KEY,
    document TEXT NOT NULL
);
