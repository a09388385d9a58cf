-- +goose Up
CREATE TABLE bff_backoffice.offline_action_queue_hints (
    id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id   uuid NOT NULL,
    device_id   text NOT NULL,
    operator_id text NOT NULL,
    reported_at timestamptz NOT NULL DEFAULT now(),
    payload     jsonb NOT NULL,
    app_version text NOT NULL
);

CREATE INDEX ix_oaq_device_time ON bff_backoffice.offline_action_queue_hints (device_id, reported_at DESC);
CREATE INDEX ix_oaq_tenant_time ON bff_backoffice.offline_action_queue_hints (tenant_id, reported_at DESC);

ALTER TABLE bff_backoffice.offline_action_queue_hints ENABLE ROW LEVEL SECURITY;
ALTER TABLE bff_backoffice.offline_action_queue_hints FORCE ROW LEVEL SECURITY;
CREATE POLICY oaq_iso ON bff_backoffice.offline_action_queue_hints
    USING (tenant_id = NULLIF(current_setting('app.tenant_id', true), '')::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id', true), '')::uuid);

GRANT SELECT, INSERT ON bff_backoffice.offline_action_queue_hints TO bff_backoffice_app;

-- oaq-hints-prune sees and deletes what is past its 7 days, without its content.
GRANT SELECT (id, tenant_id, reported_at), DELETE ON bff_backoffice.offline_action_queue_hints TO bff_backoffice_jobs;
CREATE POLICY oaq_jobs_read ON bff_backoffice.offline_action_queue_hints FOR SELECT TO bff_backoffice_jobs
    USING (reported_at < now() - interval '7 days');
CREATE POLICY oaq_jobs_prune ON bff_backoffice.offline_action_queue_hints FOR DELETE TO bff_backoffice_jobs
    USING (reported_at < now() - interval '7 days');
