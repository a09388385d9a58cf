-- +goose Up
CREATE TABLE bff_backoffice.lock_action_proxy_audit (
    id                  uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id           uuid NOT NULL,
    property_id         uuid NOT NULL,
    operator_id         text NOT NULL,
    device_id           text NOT NULL,
    reservation_id      text NOT NULL,
    action              text NOT NULL CHECK (action IN ('issue','revoke','rebind','extend')),
    vendor              text NOT NULL,
    occurred_at         timestamptz NOT NULL DEFAULT now(),
    outcome             text NOT NULL CHECK (outcome IN ('success','failure')),
    error_code          text,
    mfa_attestation_id  text,
    upstream_request_id text NOT NULL,
    upstream_latency_ms int NOT NULL
);

CREATE INDEX ix_lock_audit_tenant_time ON bff_backoffice.lock_action_proxy_audit (tenant_id, occurred_at DESC);
CREATE INDEX ix_lock_audit_property_time ON bff_backoffice.lock_action_proxy_audit (property_id, occurred_at DESC);
CREATE INDEX ix_lock_audit_operator_time ON bff_backoffice.lock_action_proxy_audit (operator_id, occurred_at DESC);
CREATE INDEX ix_lock_audit_reservation ON bff_backoffice.lock_action_proxy_audit (reservation_id, occurred_at DESC);

ALTER TABLE bff_backoffice.lock_action_proxy_audit ENABLE ROW LEVEL SECURITY;
ALTER TABLE bff_backoffice.lock_action_proxy_audit FORCE ROW LEVEL SECURITY;
CREATE POLICY lock_audit_iso ON bff_backoffice.lock_action_proxy_audit
    USING (tenant_id = NULLIF(current_setting('app.tenant_id', true), '')::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id', true), '')::uuid);

-- The row is written before the vendor is called, as failure with
-- LOCK_OUTCOME_UNKNOWN, and its outcome is filled in once: after that the
-- database itself refuses to touch it.
CREATE POLICY lock_audit_once ON bff_backoffice.lock_action_proxy_audit AS RESTRICTIVE FOR UPDATE
    USING (outcome = 'failure' AND error_code LIKE '%LOCK_OUTCOME_UNKNOWN')
    WITH CHECK (true);

GRANT SELECT, INSERT ON bff_backoffice.lock_action_proxy_audit TO bff_backoffice_app;
GRANT UPDATE (vendor, outcome, error_code, upstream_request_id, upstream_latency_ms)
    ON bff_backoffice.lock_action_proxy_audit TO bff_backoffice_app;

-- lock-audit-export reads; regulated rows are pruned by nobody here.
GRANT SELECT ON bff_backoffice.lock_action_proxy_audit TO bff_backoffice_jobs;
CREATE POLICY lock_audit_jobs_read ON bff_backoffice.lock_action_proxy_audit FOR SELECT TO bff_backoffice_jobs
    USING (true);
