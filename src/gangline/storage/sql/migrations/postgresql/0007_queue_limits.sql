-- A limit counts only what it names; limits of before named everything, and keep their zeros.
UPDATE records SET document = jsonb_set(document::jsonb, '{spec,limit}', jsonb_build_object('amounts',
    (document::jsonb #> '{spec,limit}') - 'extended' - 'gpu_memory_mib'
    || coalesce(document::jsonb #> '{spec,limit,extended}', '{}'::jsonb)))::text
WHERE kind = 'queue' AND jsonb_typeof(document::jsonb #> '{spec,limit}') = 'object';
