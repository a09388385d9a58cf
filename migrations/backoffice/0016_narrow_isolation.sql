-- +goose Up
-- A tenant's rows are for the role that serves requests. While these policies
-- were everybody's, the role of jobs only had to set a tenant to see, change and
-- delete what its own narrow policies keep from it: young rows of a ledger, too.
ALTER POLICY idem_tenant_iso ON bff_backoffice.idempotency TO bff_backoffice_app;
ALTER POLICY device_sync_iso ON bff_backoffice.device_sync_status TO bff_backoffice_app;
ALTER POLICY prefs_iso ON bff_backoffice.operator_preferences TO bff_backoffice_app;
ALTER POLICY activity_iso ON bff_backoffice.operator_activity TO bff_backoffice_app;
ALTER POLICY alert_ack_iso ON bff_backoffice.alert_ack_log TO bff_backoffice_app;
ALTER POLICY ai_decision_iso ON bff_backoffice.ai_decision_log TO bff_backoffice_app;
ALTER POLICY lock_audit_iso ON bff_backoffice.lock_action_proxy_audit TO bff_backoffice_app;
ALTER POLICY oaq_iso ON bff_backoffice.offline_action_queue_hints TO bff_backoffice_app;

-- Row level security does not hide what a unique index knows: an insert with the
-- id of another tenant's row was refused as a duplicate, and so told of it. Every
-- unique key leads with the tenant.
ALTER TABLE bff_backoffice.device_sync_status
    DROP CONSTRAINT device_sync_status_pkey, ADD PRIMARY KEY (tenant_id, id);
ALTER TABLE bff_backoffice.operator_preferences
    DROP CONSTRAINT operator_preferences_pkey, ADD PRIMARY KEY (tenant_id, id);
ALTER TABLE bff_backoffice.operator_activity
    DROP CONSTRAINT operator_activity_pkey, ADD PRIMARY KEY (tenant_id, id);
ALTER TABLE bff_backoffice.alert_ack_log
    DROP CONSTRAINT alert_ack_log_pkey, ADD PRIMARY KEY (tenant_id, id);
ALTER TABLE bff_backoffice.ai_decision_log
    DROP CONSTRAINT ai_decision_log_pkey, ADD PRIMARY KEY (tenant_id, id);
ALTER TABLE bff_backoffice.lock_action_proxy_audit
    DROP CONSTRAINT lock_action_proxy_audit_pkey, ADD PRIMARY KEY (tenant_id, id);
ALTER TABLE bff_backoffice.offline_action_queue_hints
    DROP CONSTRAINT offline_action_queue_hints_pkey, ADD PRIMARY KEY (tenant_id, id);

-- So do the indexes that a tenant's reads use: they never touch the rows of
-- another, and so take no longer when another has many. ix_idem_expiry and
-- ix_device_sync_status_status_heartbeat serve jobs, across tenants.
DROP INDEX bff_backoffice.ix_activity_operator_time, bff_backoffice.ix_activity_action_time,
    bff_backoffice.ix_lock_audit_property_time, bff_backoffice.ix_lock_audit_operator_time,
    bff_backoffice.ix_lock_audit_reservation, bff_backoffice.ix_oaq_device_time;
CREATE INDEX ix_activity_operator_time ON bff_backoffice.operator_activity (tenant_id, operator_id, occurred_at DESC);
CREATE INDEX ix_activity_action_time ON bff_backoffice.operator_activity (tenant_id, action, occurred_at DESC);
CREATE INDEX ix_lock_audit_property_time ON bff_backoffice.lock_action_proxy_audit (tenant_id, property_id, occurred_at DESC);
CREATE INDEX ix_lock_audit_operator_time ON bff_backoffice.lock_action_proxy_audit (tenant_id, operator_id, occurred_at DESC);
CREATE INDEX ix_lock_audit_reservation ON bff_backoffice.lock_action_proxy_audit (tenant_id, reservation_id, occurred_at DESC);
CREATE INDEX ix_oaq_device_time ON bff_backoffice.offline_action_queue_hints (tenant_id, device_id, reported_at DESC);
