-- +goose Up
-- A dump that is restored on another server has rows with transactions that this one has yet to give, and the sealer begins anew. Entries of the
-- ledger may be in the lake alone by then, so that a row without one is not new. restored_from is up to where the old sealer had read, and
-- restored_upto is behind all transactions of the old server: a row before it, with a moment before the last pass, was sealed.
SET LOCAL lock_timeout = '2s';
ALTER TABLE bff_backoffice.audit_cursors
    ADD COLUMN restored_from xid8,
    ADD COLUMN restored_upto xid8;
