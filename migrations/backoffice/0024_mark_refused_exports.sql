-- +goose Up
-- An export that the warehouse refuses for good does not hold up later ones: it is marked
-- and passed over until an operator has it tried again (refused_at is cleared), or says
-- that it will never be loaded (waived_at). Until then its rows are not pruned.
ALTER TABLE bff_backoffice.audit_exports
    ADD COLUMN refused_at timestamptz,
    ADD COLUMN refusal    text,
    ADD COLUMN waived_at  timestamptz;
GRANT UPDATE (refused_at, refusal, waived_at) ON bff_backoffice.audit_exports TO bff_backoffice_jobs;
