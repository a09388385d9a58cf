-- +goose Up
-- When the button was pressed, of what was taken down at a desk without a line: occurred_at is when it arrived.
SET LOCAL lock_timeout = '2s';
ALTER TABLE bff_backoffice.operator_activity ADD COLUMN pressed_at timestamptz;
