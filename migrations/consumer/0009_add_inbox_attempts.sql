-- +goose Up
-- Delivery attempts are counted here, so that poison goes to the dead-letter
-- topic after the configured number whatever the broker does.
ALTER TABLE bff_consumer.inbox
    ADD COLUMN attempts   integer NOT NULL DEFAULT 0,
    ADD COLUMN last_error text;
