-- A limit counts only what it names; limits of before named everything, and keep their zeros.
UPDATE records SET document = json_set(document, '$.spec.limit', json_object('amounts', json_patch(
    json_remove(json_extract(document, '$.spec.limit'), '$.extended', '$.gpu_memory_mib'),
    coalesce(json_extract(document, '$.spec.limit.extended'), '{}'))))
WHERE kind = 'queue' AND json_type(document, '$.spec.limit') = 'object';
