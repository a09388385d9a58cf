-- +goose Up
CREATE TABLE bff_backoffice.alert_ack_log (
    id              uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id       uuid NOT NULL,
    property_id     uuid,
    alert_id        text NOT NULL,
    category        text NOT NULL,
    severity        text NOT NULL,
    raised_at       timestamptz NOT NULL,
    acknowledged_at timestamptz NOT NULL DEFAULT now(),
    acknowledged_by text NOT NULL,
    device_id       text NOT NULL,
    notes_truncated text CHECK (char_length(notes_truncated) <= 200)
);

-- Leads with the tenant: alert ids are the upstream's and may collide.
CREATE UNIQUE INDEX ux_alert_ack ON bff_backoffice.alert_ack_log (tenant_id, alert_id, acknowledged_by);
CREATE INDEX ix_alert_ack_tenant_time ON bff_backoffice.alert_ack_log (tenant_id, acknowledged_at DESC);

ALTER TABLE bff_backoffice.alert_ack_log ENABLE ROW LEVEL SECURITY;
ALTER TABLE bff_backoffice.alert_ack_log FORCE ROW LEVEL SECURITY;
CREATE POLICY alert_ack_iso ON bff_backoffice.alert_ack_log
    USING (tenant_id = NULLIF(current_setting('app.tenant_id', true), '')::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id', true), '')::uuid);

GRANT SELECT, INSERT ON bff_backoffice.alert_ack_log TO bff_backoffice_app;

-- alert-ack-export reads everything and prunes what is past its 365 days.
GRANT SELECT, DELETE ON bff_backoffice.alert_ack_log TO bff_backoffice_jobs;
CREATE POLICY alert_ack_jobs_read ON bff_backoffice.alert_ack_log FOR SELECT TO bff_backoffice_jobs
    USING (true);
CREATE POLICY alert_ack_jobs_prune ON bff_backoffice.alert_ack_log FOR DELETE TO bff_backoffice_jobs
    USING (acknowledged_at < now() - interval '365 days');
