-- +goose NO TRANSACTION
-- +goose Up
-- In two statements, because one that was interrupted leaves an index that is never used.
DROP INDEX CONCURRENTLY IF EXISTS bff_backoffice.ix_activity_key;
CREATE INDEX CONCURRENTLY ix_activity_key ON bff_backoffice.operator_activity (tenant_id, key_hash) WHERE key_hash IS NOT NULL;
