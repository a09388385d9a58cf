-- +goose Up
-- The ledger is the long memory of keys: an answer is kept for a day, and what was done
-- with a key that comes back after two days without a line must not be done again. The
-- hash is over tenant and key (docs/runbooks/upstream-timeout.md). What has no key has
-- none, nor has what the release before has written.
ALTER TABLE bff_backoffice.operator_activity ADD COLUMN key_hash uuid;
