-- +goose Up
-- The tenants that answers of search-aggregation named: tenant-service has no list
-- of tenants, and one that was suspended before the service subscribed to events
-- is found only by asking for its status.
CREATE TABLE bff_consumer.tenants_seen (
    tenant_id uuid PRIMARY KEY,
    seen_at   timestamptz NOT NULL DEFAULT now() -- give or take a day
);
GRANT SELECT, INSERT, UPDATE, DELETE ON bff_consumer.tenants_seen TO bff_consumer_app;

INSERT INTO bff_consumer.tenants_seen (tenant_id)
SELECT tenant_id FROM bff_consumer.wishlist_anonymous UNION SELECT tenant_id FROM bff_consumer.handoff_replay_log;
