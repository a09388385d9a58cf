-- +goose Up
-- How each job last ran, in whichever process: the schedule, the metrics and the
-- alert on jobs that stopped succeeding follow from it.
CREATE TABLE bff_backoffice.job_runs (
    job          text PRIMARY KEY,
    ended_at     timestamptz NOT NULL,
    succeeded_at timestamptz, -- of the last run that did
    rows         bigint NOT NULL,
    error        text NOT NULL,
    instance     text NOT NULL
);
GRANT SELECT, INSERT, UPDATE ON bff_backoffice.job_runs TO bff_backoffice_jobs;
