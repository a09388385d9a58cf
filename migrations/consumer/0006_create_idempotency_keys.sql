-- +goose Up
CREATE TABLE bff_consumer.idempotency_keys (
    composite_key    text PRIMARY KEY,
    guest_session_id text NOT NULL,
    route            text NOT NULL,
    request_digest   bytea NOT NULL,
    response_status  smallint NOT NULL,
    response_body    jsonb NOT NULL,
    created_at       timestamptz NOT NULL DEFAULT now(),
    expires_at       timestamptz NOT NULL
);

CREATE INDEX ix_idempotency_expires ON bff_consumer.idempotency_keys (expires_at);

GRANT SELECT, INSERT, UPDATE, DELETE ON bff_consumer.idempotency_keys TO bff_consumer_app;
