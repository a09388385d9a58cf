-- +goose Up
CREATE TABLE bff_backoffice.ai_decision_log (
    id              uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id       uuid NOT NULL,
    property_id     uuid,
    suggestion_id   text NOT NULL,
    inbox_entry_id  text NOT NULL,
    category        text NOT NULL,
    severity        text NOT NULL,
    outcome         text NOT NULL CHECK (outcome IN ('accepted','rejected','modified')),
    modified_delta  jsonb,
    notes_truncated text CHECK (char_length(notes_truncated) <= 200),
    decided_at      timestamptz NOT NULL DEFAULT now(),
    decided_by      text NOT NULL,
    device_id       text NOT NULL,
    provenance      jsonb NOT NULL,
    CONSTRAINT chk_ai_decision_delta CHECK ((outcome = 'modified') = (modified_delta IS NOT NULL))
);

-- Leads with the tenant: suggestion ids are the upstream's and may collide.
CREATE UNIQUE INDEX ux_ai_decision ON bff_backoffice.ai_decision_log (tenant_id, suggestion_id, decided_by);
-- The first decision wins, whoever takes it.
CREATE UNIQUE INDEX ux_ai_decision_once ON bff_backoffice.ai_decision_log (tenant_id, suggestion_id);
CREATE INDEX ix_ai_decision_tenant_time ON bff_backoffice.ai_decision_log (tenant_id, decided_at DESC);

ALTER TABLE bff_backoffice.ai_decision_log ENABLE ROW LEVEL SECURITY;
ALTER TABLE bff_backoffice.ai_decision_log FORCE ROW LEVEL SECURITY;
CREATE POLICY ai_decision_iso ON bff_backoffice.ai_decision_log
    USING (tenant_id = NULLIF(current_setting('app.tenant_id', true), '')::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id', true), '')::uuid);

GRANT SELECT, INSERT ON bff_backoffice.ai_decision_log TO bff_backoffice_app;

-- ai-decision-export reads; regulated rows are pruned by nobody here.
GRANT SELECT ON bff_backoffice.ai_decision_log TO bff_backoffice_jobs;
CREATE POLICY ai_decision_jobs_read ON bff_backoffice.ai_decision_log FOR SELECT TO bff_backoffice_jobs
    USING (true);
