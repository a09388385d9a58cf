-- +goose Up
-- The archive has the shape of the outbox, so that a row can move back as it was.
ALTER TABLE bff_backoffice.outbox_archive ADD COLUMN held boolean NOT NULL DEFAULT false;

-- outbox-dlq-prune moves dead letters here when they are old; dlq list --archived
-- finds them.
CREATE INDEX ix_outbox_archive_dlq ON bff_backoffice.outbox_archive (enqueued_at DESC)
    WHERE dlq = true AND published_at IS NULL;
