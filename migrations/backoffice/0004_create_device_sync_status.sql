-- +goose Up
CREATE TABLE bff_backoffice.device_sync_status (
    id                     uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id              uuid NOT NULL,
    device_id              text NOT NULL,
    property_id            uuid,
    operator_id            text,
    last_heartbeat_at      timestamptz,
    last_sync_handshake_at timestamptz,
    last_pull_cursor       text,
    last_push_ack          text,
    cursor_version         int NOT NULL DEFAULT 0,
    app_version            text,
    app_platform           text,
    installer_channel      text NOT NULL DEFAULT 'stable',
    network_profile        text,
    status                 text NOT NULL DEFAULT 'online',
    pending_hints          jsonb NOT NULL DEFAULT '[]'::jsonb,
    updated_at             timestamptz NOT NULL DEFAULT now()
);

CREATE UNIQUE INDEX ux_device_sync_status_device
    ON bff_backoffice.device_sync_status (tenant_id, device_id);
CREATE INDEX ix_device_sync_status_status_heartbeat
    ON bff_backoffice.device_sync_status (status, last_heartbeat_at DESC);

ALTER TABLE bff_backoffice.device_sync_status ENABLE ROW LEVEL SECURITY;
ALTER TABLE bff_backoffice.device_sync_status FORCE ROW LEVEL SECURITY;
CREATE POLICY device_sync_iso ON bff_backoffice.device_sync_status
    USING (tenant_id = NULLIF(current_setting('app.tenant_id', true), '')::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id', true), '')::uuid);

GRANT SELECT, INSERT ON bff_backoffice.device_sync_status TO bff_backoffice_app;
GRANT UPDATE (property_id, operator_id, last_heartbeat_at, last_sync_handshake_at, last_pull_cursor, last_push_ack,
              cursor_version, app_version, app_platform, installer_channel, network_profile, status, pending_hints, updated_at)
    ON bff_backoffice.device_sync_status TO bff_backoffice_app;

-- device-status-sweep turns online into offline and nothing else. Its SELECT
-- must also cover the row that it has just turned, or the update is refused.
GRANT SELECT (id, tenant_id, device_id, property_id, operator_id, last_heartbeat_at, app_version, app_platform, status, updated_at),
      UPDATE (status, updated_at)
    ON bff_backoffice.device_sync_status TO bff_backoffice_jobs;
CREATE POLICY device_sync_jobs_read ON bff_backoffice.device_sync_status FOR SELECT TO bff_backoffice_jobs
    USING (true);
CREATE POLICY device_sync_jobs_sweep ON bff_backoffice.device_sync_status FOR UPDATE TO bff_backoffice_jobs
    USING (status = 'online') WITH CHECK (status = 'offline');
