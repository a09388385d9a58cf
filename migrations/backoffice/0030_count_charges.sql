-- +goose Up
-- A large charge needs a second factor, and so do several small ones that are large
-- together: what an operator charges to a folio within the house's day is added up. The
-- kept key of a charge is the memory of it: there is one row for each charge, committed
-- before billing is called, and it lives as long as the day at least.
ALTER TABLE bff_backoffice.idempotency
    ADD COLUMN charged_folio    text,
    ADD COLUMN charged_day      date,
    ADD COLUMN charged_currency text,
    ADD COLUMN charged_minor    bigint;
GRANT UPDATE (charged_folio, charged_day, charged_currency, charged_minor) ON bff_backoffice.idempotency TO bff_backoffice_app;

-- No row is in it yet: keys live for a day, and none has a charge.
CREATE INDEX ix_idem_charged ON bff_backoffice.idempotency (tenant_id, operator_id, charged_folio, charged_day)
    WHERE charged_minor IS NOT NULL;
