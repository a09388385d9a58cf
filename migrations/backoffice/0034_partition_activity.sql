-- +goose Up
-- The ledger by month (DATA_MODEL §7): what is past its 90 days is dropped with its month, whatever its number of rows. What lies in no month is in
-- operator_activity_other, so that an action is never refused because a job did not run.
--
-- Four indexes. A key that is unique over all months has the moment in it. A property's page is found in one index whatever it is filtered by;
-- no route reads by operator or action over a whole tenant.
DROP POLICY activity_iso ON bff_backoffice.operator_activity;
DROP POLICY activity_once ON bff_backoffice.operator_activity;
DROP POLICY activity_jobs_read ON bff_backoffice.operator_activity;
DROP POLICY activity_jobs_prune ON bff_backoffice.operator_activity;
DROP POLICY activity_jobs_settle ON bff_backoffice.operator_activity;
REVOKE ALL ON bff_backoffice.operator_activity FROM bff_backoffice_app, bff_backoffice_jobs;
DROP TRIGGER stamp ON bff_backoffice.operator_activity;
DROP TRIGGER timely ON bff_backoffice.operator_activity;
ALTER TABLE bff_backoffice.operator_activity DROP CONSTRAINT operator_activity_pkey;
DROP INDEX bff_backoffice.ix_activity_tenant_time;
DROP INDEX bff_backoffice.ix_activity_operator_time;
DROP INDEX bff_backoffice.ix_activity_action_time;
DROP INDEX bff_backoffice.ix_activity_property_time;
DROP INDEX bff_backoffice.ix_activity_resource_time;
DROP INDEX bff_backoffice.ix_activity_jobs;
DROP INDEX bff_backoffice.ix_activity_key;
ALTER TABLE bff_backoffice.operator_activity RENAME TO operator_activity_before;

CREATE TABLE bff_backoffice.operator_activity (LIKE bff_backoffice.operator_activity_before INCLUDING DEFAULTS INCLUDING CONSTRAINTS)
    PARTITION BY RANGE (occurred_at);
ALTER TABLE bff_backoffice.operator_activity ADD PRIMARY KEY (tenant_id, id, occurred_at);
CREATE INDEX ix_activity_property_time ON bff_backoffice.operator_activity (tenant_id, property_id, occurred_at DESC, id DESC)
    INCLUDE (operator_id, resource_kind, resource_id);
CREATE INDEX ix_activity_key ON bff_backoffice.operator_activity (tenant_id, key_hash) WHERE key_hash IS NOT NULL;
CREATE INDEX ix_activity_jobs ON bff_backoffice.operator_activity (tx_id, tenant_id, id);

CREATE TRIGGER stamp BEFORE INSERT OR UPDATE ON bff_backoffice.operator_activity
    FOR EACH ROW EXECUTE FUNCTION bff_backoffice.stamp_transaction();
CREATE TRIGGER timely BEFORE INSERT ON bff_backoffice.operator_activity FOR EACH ROW
    WHEN (current_setting('is_superuser') = 'off' AND current_user <> 'bff_backoffice_owner') EXECUTE FUNCTION bff_backoffice.refuse_other_times();

ALTER TABLE bff_backoffice.operator_activity ENABLE ROW LEVEL SECURITY;
ALTER TABLE bff_backoffice.operator_activity FORCE ROW LEVEL SECURITY;
CREATE POLICY activity_iso ON bff_backoffice.operator_activity TO bff_backoffice_app
    USING (tenant_id = NULLIF(current_setting('app.tenant_id', true), '')::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id', true), '')::uuid);
CREATE POLICY activity_once ON bff_backoffice.operator_activity AS RESTRICTIVE FOR UPDATE TO bff_backoffice_app
    USING (outcome = 'unknown') WITH CHECK (true);
CREATE POLICY activity_jobs_read ON bff_backoffice.operator_activity FOR SELECT TO bff_backoffice_jobs USING (true);
CREATE POLICY activity_jobs_prune ON bff_backoffice.operator_activity FOR DELETE TO bff_backoffice_jobs
    USING (occurred_at < now() - interval '90 days');
GRANT SELECT, INSERT, UPDATE (outcome, latency_ms, error_code) ON bff_backoffice.operator_activity TO bff_backoffice_app;
CREATE POLICY activity_jobs_settle ON bff_backoffice.operator_activity FOR UPDATE TO bff_backoffice_jobs
    USING (outcome = 'unknown' AND category = 'lock') WITH CHECK (true);
GRANT SELECT, DELETE, UPDATE (outcome, latency_ms, error_code) ON bff_backoffice.operator_activity TO bff_backoffice_jobs;

-- add_activity_part makes a part as strict as the whole: the policies of a partitioned table hold only for statements that name it. The application
-- has no right to any part.
-- +goose StatementBegin
CREATE FUNCTION bff_backoffice.add_activity_part(part text, bounds text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TABLE IF NOT EXISTS bff_backoffice.%I (LIKE bff_backoffice.operator_activity INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part);
    EXECUTE format('ALTER TABLE bff_backoffice.%I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', part);
    EXECUTE format('GRANT SELECT, DELETE ON bff_backoffice.%I TO bff_backoffice_jobs', part);
    EXECUTE format('CREATE POLICY activity_jobs_read ON bff_backoffice.%I FOR SELECT TO bff_backoffice_jobs USING (true)', part);
    EXECUTE format('CREATE POLICY activity_jobs_prune ON bff_backoffice.%I FOR DELETE TO bff_backoffice_jobs USING (occurred_at < now() - interval ''90 days'')', part);
    EXECUTE format('ALTER TABLE bff_backoffice.operator_activity ATTACH PARTITION bff_backoffice.%I %s', part, bounds);
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION bff_backoffice.add_activity_part FROM PUBLIC;

-- make_activity_month makes the part of a month and reports whether it did. Jobs call it as the owner, who alone makes tables: a month near today,
-- and nothing else. Rows of the month that lie in operator_activity_other already stay there.
-- +goose StatementBegin
CREATE FUNCTION bff_backoffice.make_activity_month(moment timestamptz) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET lock_timeout = '2s' AS $$
DECLARE
    first timestamptz := date_trunc('month', moment);
    part  text := 'operator_activity_' || to_char(first, 'YYYY_MM');
BEGIN
    IF moment NOT BETWEEN now() - interval '7 months' AND now() + interval '7 months' OR moment IS NULL THEN
        RAISE EXCEPTION 'a month far from today is not made' USING ERRCODE = 'insufficient_privilege';
    ELSIF to_regclass('bff_backoffice.' || part) IS NOT NULL THEN
        RETURN false;
    END IF;
    PERFORM bff_backoffice.add_activity_part(part, format('FOR VALUES FROM (%L) TO (%L)', first, first + interval '1 month'));
    RETURN true;
EXCEPTION WHEN check_violation OR invalid_object_definition THEN -- its rows are elsewhere
    RETURN false;
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION bff_backoffice.make_activity_month FROM PUBLIC;
GRANT EXECUTE ON FUNCTION bff_backoffice.make_activity_month TO bff_backoffice_jobs;

-- drop_activity_month drops a part whose last moment is past its time, as jobs may delete its rows.
-- +goose StatementBegin
CREATE FUNCTION bff_backoffice.drop_activity_month(part text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET lock_timeout = '2s' AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
            WHERE i.inhparent = 'bff_backoffice.operator_activity'::regclass AND c.relname = part
                AND substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''([^'']+)''\)')::timestamptz <= now() - interval '90 days') THEN
        RAISE EXCEPTION '% is no month of the ledger that is past its time', part USING ERRCODE = 'insufficient_privilege';
    END IF;
    EXECUTE format('DROP TABLE bff_backoffice.%I', part);
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION bff_backoffice.drop_activity_month FROM PUBLIC;
GRANT EXECUTE ON FUNCTION bff_backoffice.drop_activity_month TO bff_backoffice_jobs;

-- Rows that are there stay where they are: their table is the part of all months up to this one. (Row level security would hide them from the
-- owner: the size does not.)
-- +goose StatementBegin
DO $$
BEGIN
    PERFORM bff_backoffice.add_activity_part('operator_activity_other', 'DEFAULT');
    IF pg_relation_size('bff_backoffice.operator_activity_before') = 0 THEN
        DROP TABLE bff_backoffice.operator_activity_before;
    ELSE
        PERFORM bff_backoffice.add_activity_part('operator_activity_before', format('FOR VALUES FROM (MINVALUE) TO (%L)',
            date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' + interval '1 month'));
    END IF;
    FOR ahead IN 0..3 LOOP
        PERFORM bff_backoffice.make_activity_month(now() + ahead * interval '1 month');
    END LOOP;
END $$;
-- +goose StatementEnd
