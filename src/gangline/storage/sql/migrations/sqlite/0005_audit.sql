-- Who changed what: added to, never edited. The database itself refuses anything else.
CREATE TABLE audit (number INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, document TEXT NOT NULL);
CREATE INDEX audit_of_tenant ON audit (tenant, number);
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit record is append-only'); END;
CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit record is append-only'); END;
