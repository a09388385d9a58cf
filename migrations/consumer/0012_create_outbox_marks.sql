-- +goose Up
-- Batches that were published while there was a backlog and whose rows are still
-- to be marked. One insert per batch is a fraction of the price of turning over
-- every row; the relay marks the rows as soon as the backlog is gone, and one
-- that takes over reads from here what is published already.
CREATE TABLE bff_consumer.outbox_marks (
    seq          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    published_at timestamptz NOT NULL,
    ids          text[] NOT NULL
);
-- Ids are random: compressing them costs time and saves nothing.
ALTER TABLE bff_consumer.outbox_marks ALTER COLUMN ids SET STORAGE EXTERNAL;
GRANT SELECT, INSERT, DELETE ON bff_consumer.outbox_marks TO bff_consumer_app;
