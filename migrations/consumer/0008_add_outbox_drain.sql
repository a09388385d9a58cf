-- +goose Up
-- tx_id is the inserting transaction. Ids are minted before commit, so id order
-- is not commit order; a reader that stays below the oldest running transaction
-- and orders by (tx_id, id) never has a row appear behind it.
ALTER TABLE bff_consumer.outbox
    ADD COLUMN tx_id           xid8 NOT NULL DEFAULT pg_current_xact_id(),
    ADD COLUMN ordering_key    text NOT NULL DEFAULT '',
    ADD COLUMN next_attempt_at timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN dlq             boolean NOT NULL DEFAULT false;

-- Serves the drain order. ix_outbox_unpublished is on created_at and would sort
-- the whole backlog for every batch.
CREATE INDEX ix_outbox_drain ON bff_consumer.outbox (tx_id, id)
    WHERE published_at IS NULL AND dlq = false;
CREATE INDEX ix_outbox_dlq ON bff_consumer.outbox (created_at DESC)
    WHERE dlq = true;

-- Draining turns every row over once; wait for a fifth of the table before
-- vacuuming and the dead rows of a busy day pile up.
ALTER TABLE bff_consumer.outbox SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
