-- +goose Up
-- form is how the row was written for its hash (docs/audit.md), bytes how much that was: exports take pages by weight. since is when the
-- sealer had last read the row's table to its end, without finding the row: one that says it is much older was put in afterwards.
ALTER TABLE bff_backoffice.audit_chain
    ADD COLUMN form  smallint NOT NULL DEFAULT 1,
    ADD COLUMN bytes int,
    ADD COLUMN since timestamptz;

-- A transaction that was running when the sealer passed may turn out to have any number of rows: hole is the one that is being read, with
-- the last row that was. passed_at is when a walk last reached the end of the table.
ALTER TABLE bff_backoffice.audit_cursors
    ADD COLUMN hole        xid8,
    ADD COLUMN hole_tenant uuid,
    ADD COLUMN hole_row    uuid,
    ADD COLUMN passed_at   timestamptz;

-- Rows that the sealer could not read or add. The others do not wait for them; each run tries them again and reports what is left.
CREATE TABLE bff_backoffice.audit_deferred (
    tab      text NOT NULL,
    tenant   uuid NOT NULL,
    row_id   uuid NOT NULL,
    reason   text NOT NULL,
    since    timestamptz NOT NULL DEFAULT now(),
    tried_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tab, tenant, row_id)
);
CREATE INDEX ix_audit_deferred_jobs ON bff_backoffice.audit_deferred (tried_at);
GRANT SELECT, INSERT, UPDATE (reason, tried_at), DELETE ON bff_backoffice.audit_deferred TO bff_backoffice_jobs;

-- A table that has never had rows has been read to its end. (Row level security would hide rows from the owner: the size does not.)
INSERT INTO bff_backoffice.audit_cursors (tab, tx_id, tenant, row_id, holes, passed_at)
SELECT tab, '0', '00000000-0000-0000-0000-000000000000', '00000000-0000-0000-0000-000000000000', '{}', now()
FROM unnest(ARRAY['operator_activity', 'alert_ack_log', 'ai_decision_log', 'lock_action_proxy_audit']) AS tab
WHERE pg_relation_size('bff_backoffice.' || tab) = 0
ON CONFLICT DO NOTHING;
