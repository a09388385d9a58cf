-- +goose Up
-- A ulid column is text in byte order with its prefix: Postgres has no ulid
-- type, and the wire form sorts as it should only under COLLATE "C".
CREATE TABLE bff_consumer.outbox (
    id              text COLLATE "C" PRIMARY KEY
                    CHECK (id ~ '^evt_[0-7][0-9A-HJKMNP-TV-Z]{25}$'),
    topic           text NOT NULL,
    payload         jsonb NOT NULL,
    headers         jsonb NOT NULL,
    retention_class text NOT NULL CHECK (retention_class IN ('operational','audit')),
    created_at      timestamptz NOT NULL DEFAULT now(),
    published_at    timestamptz,
    attempts        integer NOT NULL DEFAULT 0,
    last_error      text
);

CREATE INDEX ix_outbox_unpublished ON bff_consumer.outbox (created_at)
    WHERE published_at IS NULL;

-- event_id is text as received: producers use several id styles.
CREATE TABLE bff_consumer.inbox (
    event_id     text COLLATE "C" PRIMARY KEY,
    subject      text NOT NULL,
    received_at  timestamptz NOT NULL DEFAULT now(),
    processed_at timestamptz,
    digest       bytea NOT NULL
);

CREATE INDEX ix_inbox_received ON bff_consumer.inbox (received_at);

GRANT SELECT, INSERT, UPDATE, DELETE ON bff_consumer.outbox, bff_consumer.inbox TO bff_consumer_app;
