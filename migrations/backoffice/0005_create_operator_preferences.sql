-- +goose Up
CREATE TABLE bff_backoffice.operator_preferences (
    id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id   uuid NOT NULL,
    operator_id text NOT NULL,
    property_id uuid,
    payload     jsonb NOT NULL,
    version     int NOT NULL DEFAULT 1,
    updated_at  timestamptz NOT NULL DEFAULT now()
);

CREATE UNIQUE INDEX ux_prefs_op_prop
    ON bff_backoffice.operator_preferences (tenant_id, operator_id, COALESCE(property_id, '00000000-0000-0000-0000-000000000000'::uuid));

ALTER TABLE bff_backoffice.operator_preferences ENABLE ROW LEVEL SECURITY;
ALTER TABLE bff_backoffice.operator_preferences FORCE ROW LEVEL SECURITY;
CREATE POLICY prefs_iso ON bff_backoffice.operator_preferences
    USING (tenant_id = NULLIF(current_setting('app.tenant_id', true), '')::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id', true), '')::uuid);

GRANT SELECT, INSERT ON bff_backoffice.operator_preferences TO bff_backoffice_app;
GRANT UPDATE (payload, version, updated_at) ON bff_backoffice.operator_preferences TO bff_backoffice_app;
