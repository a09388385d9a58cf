-- +goose Up
-- Sessions that their guests had cleared, known by the peppered hash of the id alone,
-- for as long as an old card of theirs can be used: Redis, which refuses such an id,
-- may be lost.
CREATE TABLE bff_consumer.cleared_sessions (
    session_hash bytea PRIMARY KEY CHECK (octet_length(session_hash) = 32),
    cleared_at   timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ix_cleared_sessions_at ON bff_consumer.cleared_sessions (cleared_at);
GRANT SELECT, INSERT, UPDATE, DELETE ON bff_consumer.cleared_sessions TO bff_consumer_app;
