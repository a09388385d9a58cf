-- +goose Up
-- tx_id is the inserting transaction. Ids are minted before commit, so id order
-- is not commit order; a reader that stays below the oldest running transaction
-- and orders by (tx_id, id) never has a row appear behind it.
ALTER TABLE bff_backoffice.outbox
    ADD COLUMN tx_id        xid8 NOT NULL DEFAULT pg_current_xact_id(),
    ADD COLUMN ordering_key text NOT NULL DEFAULT '';

-- Serves the drain order; ix_outbox_pending is on next_attempt_at and would sort
-- the whole backlog for every batch.
CREATE INDEX ix_outbox_drain ON bff_backoffice.outbox (tx_id, id)
    WHERE published_at IS NULL AND dlq = false;

-- Draining turns every row over once; wait for a fifth of the table before
-- vacuuming and the dead rows of a busy day pile up.
ALTER TABLE bff_backoffice.outbox SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

-- outbox-archival moves rows here.
CREATE TABLE bff_backoffice.outbox_archive (
    LIKE bff_backoffice.outbox,
    archived_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (id)
);
GRANT SELECT, INSERT, DELETE ON bff_backoffice.outbox_archive TO bff_backoffice_jobs;
