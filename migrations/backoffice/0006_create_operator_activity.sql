-- +goose Up
CREATE TABLE bff_backoffice.operator_activity (
    id            uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id     uuid NOT NULL,
    property_id   uuid,
    operator_id   text NOT NULL,
    device_id     text NOT NULL,
    session_id    text NOT NULL,
    occurred_at   timestamptz NOT NULL,
    category      text NOT NULL,
    action        text NOT NULL,
    resource_kind text,
    resource_id   text,
    outcome       text NOT NULL,
    latency_ms    int,
    error_code    text,
    context_hash  text
);

CREATE INDEX ix_activity_tenant_time
    ON bff_backoffice.operator_activity (tenant_id, occurred_at DESC);
CREATE INDEX ix_activity_operator_time
    ON bff_backoffice.operator_activity (operator_id, occurred_at DESC);
CREATE INDEX ix_activity_action_time
    ON bff_backoffice.operator_activity (action, occurred_at DESC);

ALTER TABLE bff_backoffice.operator_activity ENABLE ROW LEVEL SECURITY;
ALTER TABLE bff_backoffice.operator_activity FORCE ROW LEVEL SECURITY;
CREATE POLICY activity_iso ON bff_backoffice.operator_activity
    USING (tenant_id = NULLIF(current_setting('app.tenant_id', true), '')::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id', true), '')::uuid);

-- A ledger: what was written stays as written.
GRANT SELECT, INSERT ON bff_backoffice.operator_activity TO bff_backoffice_app;

-- activity-export reads everything and prunes what is past its 90 days.
GRANT SELECT, DELETE ON bff_backoffice.operator_activity TO bff_backoffice_jobs;
CREATE POLICY activity_jobs_read ON bff_backoffice.operator_activity FOR SELECT TO bff_backoffice_jobs
    USING (true);
CREATE POLICY activity_jobs_prune ON bff_backoffice.operator_activity FOR DELETE TO bff_backoffice_jobs
    USING (occurred_at < now() - interval '90 days');
