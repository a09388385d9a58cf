-- +goose Up
-- Entries of the ledger are most of the chain: two for each row that it keeps, for ever. Those behind a signed head that was exported are in the
-- lake, and the head pins them: they go after a week. pruned_seq is that head's, from which a chain is followed here.
ALTER TABLE bff_backoffice.audit_tips ADD COLUMN pruned_seq bigint NOT NULL DEFAULT 0;
GRANT UPDATE (pruned_seq) ON bff_backoffice.audit_tips TO bff_backoffice_jobs;

-- Jobs remove nothing else that was sealed, and nobody changes it.
ALTER TABLE bff_backoffice.audit_chain ENABLE ROW LEVEL SECURITY;
CREATE POLICY chain_jobs_read ON bff_backoffice.audit_chain FOR SELECT TO bff_backoffice_jobs USING (true);
CREATE POLICY chain_jobs_add ON bff_backoffice.audit_chain FOR INSERT TO bff_backoffice_jobs WITH CHECK (true);
CREATE POLICY chain_jobs_prune ON bff_backoffice.audit_chain FOR DELETE TO bff_backoffice_jobs
    USING (tab = 'operator_activity' AND sealed_at < now() - interval '7 days');
GRANT DELETE ON bff_backoffice.audit_chain TO bff_backoffice_jobs;
