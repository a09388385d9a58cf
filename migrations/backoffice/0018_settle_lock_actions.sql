-- +goose Up
-- A lock action may end long after its request: the vendor takes its time, or no
-- answer came. These columns say where it stands, so that it can be settled later:
-- by the vendor's event, or by the job that asks lock-integration. One that was
-- refused before lock-integration was called (no second factor) is settled at once.
ALTER TABLE bff_backoffice.lock_action_proxy_audit
    ADD COLUMN state text NOT NULL DEFAULT 'unknown'
        CHECK (state IN ('unknown', 'pending', 'issued', 'revoked', 'failed', 'refused')),
    ADD COLUMN credential_id text,
    ADD COLUMN activity_ids uuid[] NOT NULL DEFAULT '{}', -- of every attempt with this key
    ADD COLUMN attempted_at timestamptz NOT NULL DEFAULT now(), -- of the last attempt with this key
    ADD COLUMN asked_at timestamptz,                      -- when lock-integration was last asked what became of it
    ADD COLUMN settled_at timestamptz;

-- Actions from before are what their outcome says. The owner, whose statement this is,
-- is bound by row level security and sees no row of any tenant but for this moment.
ALTER TABLE bff_backoffice.lock_action_proxy_audit NO FORCE ROW LEVEL SECURITY;
UPDATE bff_backoffice.lock_action_proxy_audit SET
    attempted_at = occurred_at,
    settled_at = CASE WHEN outcome = 'failure' AND error_code LIKE '%LOCK_OUTCOME_UNKNOWN' THEN NULL ELSE occurred_at END,
    state = CASE WHEN outcome = 'failure' AND error_code LIKE '%LOCK_OUTCOME_UNKNOWN' THEN 'unknown'
        WHEN outcome = 'failure' THEN 'failed' WHEN action = 'revoke' THEN 'revoked' ELSE 'issued' END;
ALTER TABLE bff_backoffice.lock_action_proxy_audit FORCE ROW LEVEL SECURITY;

ALTER TABLE bff_backoffice.lock_action_proxy_audit
    ADD CONSTRAINT chk_lock_audit_settled CHECK ((settled_at IS NULL) = (state IN ('unknown', 'pending'))),
    ADD CONSTRAINT chk_lock_audit_unknown CHECK (settled_at IS NOT NULL OR (outcome = 'failure' AND error_code LIKE '%LOCK_OUTCOME_UNKNOWN') IS TRUE);

-- One row per action at lock-integration: an attempt that takes over finds it.
CREATE UNIQUE INDEX ux_lock_audit_request ON bff_backoffice.lock_action_proxy_audit (tenant_id, upstream_request_id)
    WHERE state <> 'refused';
-- What is yet to be settled, across tenants: the job's and the alert's.
CREATE INDEX ix_lock_audit_unsettled ON bff_backoffice.lock_action_proxy_audit (tenant_id, attempted_at)
    WHERE settled_at IS NULL;

-- What is settled stays as it is.
ALTER POLICY lock_audit_once ON bff_backoffice.lock_action_proxy_audit TO bff_backoffice_app USING (settled_at IS NULL);
GRANT UPDATE (state, credential_id, activity_ids, attempted_at, settled_at) ON bff_backoffice.lock_action_proxy_audit TO bff_backoffice_app;

-- The job settles rows of every tenant, and the activities that they belong to. It
-- sees all rows already; it may change what is unsettled, and nothing else.
GRANT UPDATE (vendor, outcome, error_code, upstream_latency_ms, state, credential_id, asked_at, settled_at)
    ON bff_backoffice.lock_action_proxy_audit TO bff_backoffice_jobs;
CREATE POLICY lock_audit_jobs_settle ON bff_backoffice.lock_action_proxy_audit FOR UPDATE TO bff_backoffice_jobs
    USING (settled_at IS NULL) WITH CHECK (true);
GRANT UPDATE (outcome, latency_ms, error_code) ON bff_backoffice.operator_activity TO bff_backoffice_jobs;
CREATE POLICY activity_jobs_settle ON bff_backoffice.operator_activity FOR UPDATE TO bff_backoffice_jobs
    USING (outcome = 'unknown' AND category = 'lock') WITH CHECK (true);
