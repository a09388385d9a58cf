-- +goose Up
-- The roles with which the operator acted, as they were then.
ALTER TABLE bff_backoffice.operator_activity
    ADD COLUMN roles text[] NOT NULL DEFAULT '{}',
    ADD CONSTRAINT chk_activity_outcome CHECK (outcome IN ('success', 'failure', 'denied', 'unknown'));

-- The row of an action that another service carries out is committed before that
-- service is called, with the outcome unknown, and its outcome is filled in once:
-- a crash in between leaves a row that says so. After that the database itself
-- refuses to touch it.
CREATE POLICY activity_once ON bff_backoffice.operator_activity AS RESTRICTIVE FOR UPDATE TO bff_backoffice_app
    USING (outcome = 'unknown') WITH CHECK (true);
GRANT UPDATE (outcome, latency_ms, error_code) ON bff_backoffice.operator_activity TO bff_backoffice_app;
