-- +goose Up
-- Who refused telemetry, known by the peppered hash of the session's id alone. It
-- outlives the session in Redis: a guest who refused is not counted again after a
-- loss there, and a hand-off made meanwhile is not left without its event.
CREATE TABLE bff_consumer.telemetry_refusals (
    session_hash bytea PRIMARY KEY CHECK (octet_length(session_hash) = 32),
    silent       boolean NOT NULL, -- refused with the first request: no event ever left
    seen_at      timestamptz NOT NULL
);
CREATE INDEX ix_refusals_seen ON bff_consumer.telemetry_refusals (seen_at);
GRANT SELECT, INSERT, UPDATE, DELETE ON bff_consumer.telemetry_refusals TO bff_consumer_app;

-- When the guest's cookie was last sent: live wishes go thirty days after the
-- session ended, which Redis alone knew.
ALTER TABLE bff_consumer.wishlist_anonymous ADD COLUMN seen_at timestamptz NOT NULL DEFAULT now();
CREATE INDEX ix_wishlist_seen ON bff_consumer.wishlist_anonymous (seen_at) WHERE removed_at IS NULL;
