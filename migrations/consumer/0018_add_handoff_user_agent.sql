-- +goose Up
-- A replayed hand-off is reported with the browser that it was minted for. NULL for
-- rows from before, whose tokens live for half an hour.
ALTER TABLE bff_consumer.handoff_replay_log ADD COLUMN user_agent_hash bytea;
