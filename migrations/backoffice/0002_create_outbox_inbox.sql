-- +goose Up
CREATE TABLE bff_backoffice.outbox (
    id              uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    subject         text NOT NULL,
    payload         jsonb NOT NULL,
    envelope        jsonb NOT NULL,
    enqueued_at     timestamptz NOT NULL DEFAULT now(),
    published_at    timestamptz,
    attempts        int NOT NULL DEFAULT 0,
    next_attempt_at timestamptz NOT NULL DEFAULT now(),
    dlq             boolean NOT NULL DEFAULT false,
    last_error      text
);

CREATE INDEX ix_outbox_pending ON bff_backoffice.outbox (next_attempt_at)
    WHERE published_at IS NULL AND dlq = false;
CREATE INDEX ix_outbox_dlq ON bff_backoffice.outbox (enqueued_at DESC)
    WHERE dlq = true;

CREATE TABLE bff_backoffice.inbox (
    message_id   text PRIMARY KEY,
    subject      text NOT NULL,
    received_at  timestamptz NOT NULL DEFAULT now(),
    processed_at timestamptz,
    attempts     int NOT NULL DEFAULT 0,
    last_error   text
);

CREATE INDEX ix_inbox_unprocessed ON bff_backoffice.inbox (received_at)
    WHERE processed_at IS NULL;

-- The outbox holds every tenant's events and has no tenant column: whoever
-- serves requests may only add to it. Reading it is the relay's work.
GRANT INSERT ON bff_backoffice.outbox TO bff_backoffice_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON bff_backoffice.outbox TO bff_backoffice_jobs;
GRANT SELECT, INSERT, UPDATE ON bff_backoffice.inbox TO bff_backoffice_app;
GRANT SELECT, DELETE ON bff_backoffice.inbox TO bff_backoffice_jobs;
