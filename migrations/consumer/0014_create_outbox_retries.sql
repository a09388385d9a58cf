-- +goose Up
-- held: the event waits for another attempt, its own or that of an earlier event
-- of its ordering key, or for its topic. The drain index leaves such events out:
-- however many wait, the relay never reads past them to reach the others.
ALTER TABLE bff_consumer.outbox ADD COLUMN held boolean NOT NULL DEFAULT false;

CREATE INDEX ix_outbox_ready ON bff_consumer.outbox (tx_id, id)
    WHERE published_at IS NULL AND dlq = false AND held = false;
DROP INDEX bff_consumer.ix_outbox_drain;
CREATE INDEX ix_outbox_held ON bff_consumer.outbox (topic, ordering_key, tx_id, id)
    WHERE published_at IS NULL AND dlq = false AND held = true;

-- What waits: one row per topic and ordering key with held events, or per held
-- event without a key, and when its first event may be tried again.
CREATE TABLE bff_consumer.outbox_retries (
    topic        text NOT NULL,
    ordering_key text NOT NULL,
    event_id     text COLLATE "C" NOT NULL, -- '' if there is an ordering key
    due_at       timestamptz NOT NULL,
    PRIMARY KEY (topic, ordering_key, event_id)
);
CREATE INDEX ix_outbox_retries_due ON bff_consumer.outbox_retries (topic, due_at);
-- Each attempt rewrites a row: dead rows must not pile up before the due ones.
ALTER TABLE bff_consumer.outbox_retries SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
GRANT SELECT, INSERT, UPDATE, DELETE ON bff_consumer.outbox_retries TO bff_consumer_app;
