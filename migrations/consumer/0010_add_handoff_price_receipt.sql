-- +goose Up
-- children_ages, like source_campaign, is not signed and comes back from
-- consume. shown and price_check are the price receipt.
ALTER TABLE bff_consumer.handoff_replay_log
    ADD COLUMN children_ages smallint[] NOT NULL DEFAULT '{}',
    ADD COLUMN shown         jsonb,
    ADD COLUMN price_check   jsonb;
