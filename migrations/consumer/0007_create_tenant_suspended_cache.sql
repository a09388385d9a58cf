-- +goose Up
CREATE TABLE bff_consumer.tenant_suspended_cache (
    tenant_id    uuid PRIMARY KEY,
    suspended_at timestamptz NOT NULL,
    reason       text NOT NULL,
    refreshed_at timestamptz NOT NULL DEFAULT now()
);

GRANT SELECT, INSERT, UPDATE, DELETE ON bff_consumer.tenant_suspended_cache TO bff_consumer_app;
