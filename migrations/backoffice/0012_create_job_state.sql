-- +goose Up
-- What a job must remember between runs, above all up to where an export was
-- confirmed: nothing is pruned beyond it.
CREATE TABLE bff_backoffice.job_state (
    job        text PRIMARY KEY,
    state      jsonb NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT, INSERT, UPDATE ON bff_backoffice.job_state TO bff_backoffice_jobs;
