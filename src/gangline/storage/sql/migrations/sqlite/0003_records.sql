-- Everything that is not a job is one JSON document, whatever its kind; '' is the tenant of what belongs to nobody.
CREATE TABLE records (
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    version INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at REAL NOT NULL,
    document TEXT NOT NULL,
    PRIMARY KEY (kind, id)
);
CREATE UNIQUE INDEX records_name ON records (kind, tenant, name);
CREATE INDEX records_newest ON records (kind, created_at, id);
CREATE INDEX records_tenant_newest ON records (kind, tenant, created_at, id);

INSERT INTO records (kind, id, version, tenant, name, created_at, document)
SELECT 'sweep', id, version, tenant, name, created_at, json_object(
    'id', id,
    'spec', json(json_extract(document, '$.spec')),
    'status', json_object(
        'begun', json_extract(document, '$.begun'),
        'stopped', json(CASE json_extract(document, '$.stopped') WHEN 1 THEN 'true' ELSE 'false' END),
        'finished_at', json_extract(document, '$.finished_at')),
    'created_at', created_at,
    'deleting', json(CASE json_extract(document, '$.deleting') WHEN 1 THEN 'true' ELSE 'false' END),
    'version', version)
FROM sweeps;
INSERT INTO records (kind, id, version, tenant, name, created_at, document)
SELECT 'queue', name, 1, '', name, 0, json_object(
    'id', name, 'spec', json(document), 'status', json('{}'), 'created_at', 0, 'version', 1)
FROM queues;
DROP TABLE sweeps;
DROP TABLE queues;
