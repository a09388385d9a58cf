-- +goose Up
-- Who can write as the service for a moment must not write history: a row says when it happened within an hour before and a minute after
-- it is written. Owner and superuser, who restore backups, could take the trigger away; what they put in is found by audit verify.
-- +goose StatementBegin
CREATE FUNCTION bff_backoffice.refuse_other_times() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz;
BEGIN
    IF TG_TABLE_NAME = 'alert_ack_log' THEN
        moment := NEW.acknowledged_at;
    ELSIF TG_TABLE_NAME = 'ai_decision_log' THEN
        moment := NEW.decided_at;
    ELSE
        moment := NEW.occurred_at;
    END IF;
    IF moment BETWEEN clock_timestamp() - interval '1 hour' AND clock_timestamp() + interval '1 minute' THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'a row of % says that it happened at another time than now', TG_TABLE_NAME USING ERRCODE = 'check_violation';
END $$;
-- +goose StatementEnd

CREATE TRIGGER timely BEFORE INSERT ON bff_backoffice.operator_activity FOR EACH ROW
    WHEN (current_setting('is_superuser') = 'off' AND current_user <> 'bff_backoffice_owner') EXECUTE FUNCTION bff_backoffice.refuse_other_times();
CREATE TRIGGER timely BEFORE INSERT ON bff_backoffice.alert_ack_log FOR EACH ROW
    WHEN (current_setting('is_superuser') = 'off' AND current_user <> 'bff_backoffice_owner') EXECUTE FUNCTION bff_backoffice.refuse_other_times();
CREATE TRIGGER timely BEFORE INSERT ON bff_backoffice.ai_decision_log FOR EACH ROW
    WHEN (current_setting('is_superuser') = 'off' AND current_user <> 'bff_backoffice_owner') EXECUTE FUNCTION bff_backoffice.refuse_other_times();
CREATE TRIGGER timely BEFORE INSERT ON bff_backoffice.lock_action_proxy_audit FOR EACH ROW
    WHEN (current_setting('is_superuser') = 'off' AND current_user <> 'bff_backoffice_owner') EXECUTE FUNCTION bff_backoffice.refuse_other_times();
