-- +goose Up
-- The nightly prunes delete in batches by age; without these each batch would
-- read the whole table. The outbox needs none: its ids carry their time, so the
-- primary key serves, and marking a row published stays one index entry cheaper.
CREATE INDEX ix_handoff_minted ON bff_consumer.handoff_replay_log (minted_at);
CREATE INDEX ix_wishlist_removed ON bff_consumer.wishlist_anonymous (removed_at)
    WHERE removed_at IS NOT NULL;
