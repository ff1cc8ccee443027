-- Lists of thousands of records, and drivers that look for the few with work left, need not read whole documents.
ALTER TABLE records ADD COLUMN settled INTEGER NOT NULL DEFAULT 0;
ALTER TABLE records ADD COLUMN summary TEXT NOT NULL DEFAULT '';
UPDATE records SET settled = 1
WHERE document::json -> 'status' ->> 'finished_at' IS NOT NULL
AND coalesce(document::json ->> 'deleting', 'false') <> 'true';
CREATE INDEX records_unsettled ON records (kind, created_at, id) WHERE settled = 0;
