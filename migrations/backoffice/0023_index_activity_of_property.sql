-- +goose Up
-- GET /activity reads the ledger of one property, the newest first, page by page; or
-- what was done about one resource, which may be rare among the property's rows.
CREATE INDEX ix_activity_property_time ON bff_backoffice.operator_activity (tenant_id, property_id, occurred_at DESC, id DESC);
CREATE INDEX ix_activity_resource_time ON bff_backoffice.operator_activity (tenant_id, resource_id, occurred_at DESC, id DESC)
    WHERE resource_id IS NOT NULL;
