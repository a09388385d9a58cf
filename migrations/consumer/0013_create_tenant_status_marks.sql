-- +goose Up
-- When the newest event about a tenant's standing happened: a reinstated tenant
-- has no row among the suspended to remember when, and a late suspension must
-- not undo a newer reinstatement.
CREATE TABLE bff_consumer.tenant_status_marks (
    tenant_id   uuid PRIMARY KEY,
    subject     text NOT NULL,
    occurred_at timestamptz NOT NULL
);
GRANT SELECT, INSERT, UPDATE ON bff_consumer.tenant_status_marks TO bff_consumer_app;
DELETE FROM bff_consumer.inbox WHERE starts_with(event_id, 'latest:');

-- A guest who leaves has all answers forgotten at once.
CREATE INDEX ix_idempotency_guest ON bff_consumer.idempotency_keys (guest_session_id);
