-- Who changed what: added to, never edited. The database itself refuses anything else.
CREATE TABLE audit (number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant TEXT NOT NULL, document TEXT NOT NULL);
CREATE INDEX audit_of_tenant ON audit (tenant, number);
CREATE FUNCTION refuse_change_of_audit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the audit record is append-only'; END $$;
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_audit();
