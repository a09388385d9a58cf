-- +goose Up
-- The key leads with the tenant: under row level security a collision with
-- another tenant's key would be invisible, and ON CONFLICT DO NOTHING would drop
-- the write in silence.
--
-- A row is claimed before the upstream is called (state in_flight, status 0,
-- response null) and completed after; a claim whose process died is taken over
-- by age of claimed_at.
CREATE TABLE bff_backoffice.idempotency (
    idem_key     text NOT NULL,
    request_hash text NOT NULL,
    response     jsonb NOT NULL,
    status_code  int NOT NULL,
    tenant_id    uuid NOT NULL,
    device_id    text NOT NULL,
    operator_id  text NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz NOT NULL DEFAULT now() + interval '24 hours',
    state        text NOT NULL DEFAULT 'done' CHECK (state IN ('in_flight','done')),
    claimed_at   timestamptz NOT NULL DEFAULT now(),
    claim_token  uuid,
    PRIMARY KEY (tenant_id, idem_key)
);

CREATE INDEX ix_idem_expiry ON bff_backoffice.idempotency (expires_at);
CREATE INDEX ix_idem_tenant ON bff_backoffice.idempotency (tenant_id, created_at DESC);

-- An unset or empty tenant matches nothing instead of raising, and so does what
-- a transaction-local setting leaves behind when it ends.
ALTER TABLE bff_backoffice.idempotency ENABLE ROW LEVEL SECURITY;
ALTER TABLE bff_backoffice.idempotency FORCE ROW LEVEL SECURITY;
CREATE POLICY idem_tenant_iso ON bff_backoffice.idempotency
    USING (tenant_id = NULLIF(current_setting('app.tenant_id', true), '')::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id', true), '')::uuid);

GRANT SELECT, INSERT ON bff_backoffice.idempotency TO bff_backoffice_app;
GRANT UPDATE (request_hash, response, status_code, device_id, operator_id, created_at, expires_at, state, claimed_at, claim_token)
    ON bff_backoffice.idempotency TO bff_backoffice_app;

-- idempotency-cleanup sees and deletes expired keys of every tenant, never what
-- they answered.
GRANT SELECT (tenant_id, idem_key, expires_at), DELETE ON bff_backoffice.idempotency TO bff_backoffice_jobs;
CREATE POLICY idem_jobs_read ON bff_backoffice.idempotency FOR SELECT TO bff_backoffice_jobs
    USING (expires_at < now());
CREATE POLICY idem_jobs_prune ON bff_backoffice.idempotency FOR DELETE TO bff_backoffice_jobs
    USING (expires_at < now());
