-- +goose NO TRANSACTION
-- +goose Up
-- outbox-archive-prune removes by age what outbox-archival has moved here, which without this would read the whole table for each batch.
DROP INDEX CONCURRENTLY IF EXISTS bff_backoffice.ix_outbox_archive_age;
CREATE INDEX CONCURRENTLY ix_outbox_archive_age ON bff_backoffice.outbox_archive (archived_at);
