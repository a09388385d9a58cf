-- +goose Up
-- tx_id is the transaction that wrote a row as it stands, set by the database whatever
-- the writer says. Moments and ids are given before commit, so neither is the order in
-- which rows appear; a reader that walks tx_id, and remembers the transactions that were
-- running, misses none, and finds a row again when it was changed.
-- +goose StatementBegin
CREATE FUNCTION bff_backoffice.stamp_transaction() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.tx_id := pg_current_xact_id();
    RETURN NEW;
END $$;
-- +goose StatementEnd

ALTER TABLE bff_backoffice.operator_activity ADD COLUMN tx_id xid8 NOT NULL DEFAULT pg_current_xact_id();
ALTER TABLE bff_backoffice.alert_ack_log ADD COLUMN tx_id xid8 NOT NULL DEFAULT pg_current_xact_id();
ALTER TABLE bff_backoffice.ai_decision_log ADD COLUMN tx_id xid8 NOT NULL DEFAULT pg_current_xact_id();
ALTER TABLE bff_backoffice.lock_action_proxy_audit ADD COLUMN tx_id xid8 NOT NULL DEFAULT pg_current_xact_id();

CREATE TRIGGER stamp BEFORE INSERT OR UPDATE ON bff_backoffice.operator_activity
    FOR EACH ROW EXECUTE FUNCTION bff_backoffice.stamp_transaction();
CREATE TRIGGER stamp BEFORE INSERT OR UPDATE ON bff_backoffice.alert_ack_log
    FOR EACH ROW EXECUTE FUNCTION bff_backoffice.stamp_transaction();
CREATE TRIGGER stamp BEFORE INSERT OR UPDATE ON bff_backoffice.ai_decision_log
    FOR EACH ROW EXECUTE FUNCTION bff_backoffice.stamp_transaction();
CREATE TRIGGER stamp BEFORE INSERT OR UPDATE ON bff_backoffice.lock_action_proxy_audit
    FOR EACH ROW EXECUTE FUNCTION bff_backoffice.stamp_transaction();

-- For jobs, across tenants.
CREATE INDEX ix_activity_jobs ON bff_backoffice.operator_activity (tx_id, tenant_id, id);
CREATE INDEX ix_alert_ack_jobs ON bff_backoffice.alert_ack_log (tx_id, tenant_id, id);
CREATE INDEX ix_ai_decision_jobs ON bff_backoffice.ai_decision_log (tx_id, tenant_id, id);
CREATE INDEX ix_lock_audit_jobs ON bff_backoffice.lock_action_proxy_audit (tx_id, tenant_id, id);

-- One hash chain per tenant over the rows of the four tables. seq has no gaps; pos
-- grows in the order of commits, because one sealer at a time adds entries, and is what
-- exports walk. unsettled has the row as it was sealed if it may still change, in which
-- case it is sealed again as the next version.
CREATE TABLE bff_backoffice.audit_chain (
    tenant    uuid NOT NULL,
    seq       bigint NOT NULL,
    pos       bigint GENERATED ALWAYS AS IDENTITY,
    tab       text NOT NULL,
    row_id    uuid NOT NULL,
    version   int NOT NULL,
    at        timestamptz NOT NULL,
    sealed_at timestamptz NOT NULL,
    row_hash  bytea NOT NULL,
    hash      bytea NOT NULL,
    unsettled bytea,
    tx_id     xid8 NOT NULL,
    PRIMARY KEY (tenant, seq)
);
CREATE UNIQUE INDEX ux_audit_chain_row ON bff_backoffice.audit_chain (tenant, tab, row_id, version);
CREATE INDEX ix_audit_chain_jobs_tab ON bff_backoffice.audit_chain (tab, pos);
CREATE INDEX ix_audit_chain_jobs ON bff_backoffice.audit_chain (pos);

-- Signed ends of the chains. What is published or kept elsewhere of them holds even
-- against an administrator who rewrites everything here.
CREATE TABLE bff_backoffice.audit_heads (
    tenant    uuid NOT NULL,
    seq       bigint NOT NULL,
    hash      bytea NOT NULL,
    sealed_at timestamptz NOT NULL,
    key_id    text NOT NULL,
    signature bytea NOT NULL,
    PRIMARY KEY (tenant, seq)
);

-- Where each chain ends, up to where it is signed, and which heads were exported.
CREATE TABLE bff_backoffice.audit_tips (
    tenant       uuid PRIMARY KEY,
    seq          bigint NOT NULL,
    hash         bytea NOT NULL,
    head_seq     bigint NOT NULL DEFAULT 0,
    exported_seq bigint NOT NULL DEFAULT 0
);

-- Requests have no right to any of these tables, which therefore need no row level
-- security; and neither role of the service changes or removes what was sealed.
GRANT SELECT, INSERT ON bff_backoffice.audit_chain, bff_backoffice.audit_heads TO bff_backoffice_jobs;
GRANT SELECT, INSERT, UPDATE (seq, hash, head_seq, exported_seq) ON bff_backoffice.audit_tips TO bff_backoffice_jobs;

-- Up to where the sealer has read each table, and which transactions before that were
-- still running: their rows appear behind the cursor.
CREATE TABLE bff_backoffice.audit_cursors (
    tab    text PRIMARY KEY,
    tx_id  xid8 NOT NULL,
    tenant uuid NOT NULL,
    row_id uuid NOT NULL,
    holes  xid8[] NOT NULL
);
GRANT SELECT, INSERT, UPDATE ON bff_backoffice.audit_cursors TO bff_backoffice_jobs;

-- One row per export: the entries of a table behind position first up to last. A range
-- is written down before its files are, so that every attempt at it writes the same
-- rows; nothing is pruned that lies behind the last confirmed range.
CREATE TABLE bff_backoffice.audit_exports (
    tab          text NOT NULL,
    first        bigint NOT NULL,
    last         bigint NOT NULL,
    planned_at   timestamptz NOT NULL DEFAULT now(),
    confirmed_at timestamptz,
    loaded_at    timestamptz,
    rows         bigint,
    manifest     jsonb,
    PRIMARY KEY (tab, first)
);
GRANT SELECT, INSERT, UPDATE (confirmed_at, loaded_at, rows, manifest) ON bff_backoffice.audit_exports TO bff_backoffice_jobs;
