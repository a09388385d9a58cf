-- +goose Up
CREATE TABLE bff_consumer.bot_score_log (
    id               text COLLATE "C" PRIMARY KEY
                     CHECK (id ~ '^bsl_[0-7][0-9A-HJKMNP-TV-Z]{25}$'),
    guest_session_id text,
    fingerprint_hash bytea NOT NULL,
    ip_hash          bytea NOT NULL,
    user_agent_hash  bytea NOT NULL,
    score            real NOT NULL CHECK (score >= 0 AND score <= 1),
    verdict          text NOT NULL CHECK (verdict IN ('human','suspect','bot')),
    signals          jsonb NOT NULL,
    action_taken     text NOT NULL CHECK (action_taken IN ('none','challenge','hard-block')),
    evaluated_at     timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX ix_botscore_evaluated ON bff_consumer.bot_score_log (evaluated_at);
CREATE INDEX ix_botscore_fingerprint ON bff_consumer.bot_score_log (fingerprint_hash, evaluated_at DESC);

-- Insert-only: DELETE is for the 7-day prune.
GRANT SELECT, INSERT, DELETE ON bff_consumer.bot_score_log TO bff_consumer_app;
