-- Lists of thousands of records, and drivers that look for the few with work left, need not read whole documents.
ALTER TABLE records ADD COLUMN settled INTEGER NOT NULL DEFAULT 0;
ALTER TABLE records ADD COLUMN summary TEXT NOT NULL DEFAULT '';
UPDATE records SET settled = 1
WHERE json_extract(document, '$.status.finished_at') IS NOT NULL AND NOT json_extract(document, '$.deleting');
CREATE INDEX records_unsettled ON records (kind, created_at, id) WHERE settled = 0;
CREATE INDEX records_summaries ON records (kind, tenant, name, created_at, summary);
