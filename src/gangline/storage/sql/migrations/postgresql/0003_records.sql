-- Everything that is not a job is one JSON document, whatever its kind; '' is the tenant of what belongs to nobody.
CREATE TABLE records (
    kind TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    document TEXT NOT NULL,
    PRIMARY KEY (kind, id)
);
CREATE UNIQUE INDEX records_name ON records (kind, tenant, name);
CREATE INDEX records_newest ON records (kind, created_at, id);
CREATE INDEX records_tenant_newest ON records (kind, tenant, created_at, id);

INSERT INTO records (kind, id, version, tenant, name, created_at, document)
SELECT 'sweep', id, version, tenant, name, created_at, json_build_object(
    'id', id,
    'spec', document::json -> 'spec',
    'status', json_build_object(
        'begun', document::json -> 'begun',
        'stopped', document::json -> 'stopped',
        'finished_at', document::json -> 'finished_at'),
    'created_at', created_at,
    'deleting', document::json -> 'deleting',
    'version', version)::text
FROM sweeps;
INSERT INTO records (kind, id, version, tenant, name, created_at, document)
SELECT 'queue', name, 1, '', name, 0, json_build_object(
    'id', name, 'spec', document::json, 'status', '{}'::json, 'created_at', 0, 'version', 1)::text
FROM queues;
DROP TABLE sweeps;
DROP TABLE queues;
