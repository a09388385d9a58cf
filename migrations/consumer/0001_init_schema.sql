-- +goose Up
-- Roles and schema stand before the files run: the files run as the owner role,
-- which may create no schema, and the table of versions lives in this one. A
-- plain CREATE ... IF NOT EXISTS would ask for the right even so.
-- +goose StatementBegin
DO $$ BEGIN
    IF to_regnamespace('bff_consumer') IS NULL THEN
        CREATE SCHEMA bff_consumer;
    END IF;
END $$;
-- +goose StatementEnd
GRANT USAGE ON SCHEMA bff_consumer TO bff_consumer_app;
