package postgres

import "testing"

func TestDescribe(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]statement{
		"":                                       {},
		"SELECT 1":                               {operation: "SELECT"},
		"select a from s.t where b = 'x from y'": {"SELECT", "s.t"},
		"SELECT a FROM (SELECT b FROM s.t) AS q": {"SELECT", "s.t"},
		"SELECT a FROM unnest($1::text[]) JOIN u ON true":                     {operation: "SELECT"},
		"INSERT INTO s.t (a, b) SELECT c, d FROM u":                           {"INSERT", "s.t"},
		"INSERT INTO s.t(a) VALUES (1) ON CONFLICT DO UPDATE SET a = 2":       {"INSERT", "s.t"},
		"UPDATE s.t SET a = (SELECT b FROM u)":                                {"UPDATE", "s.t"},
		"DELETE FROM s.t WHERE a IN (SELECT b FROM u FOR UPDATE SKIP LOCKED)": {"DELETE", "s.t"},
		"WITH q AS (SELECT b FROM u) INSERT INTO s.t SELECT b FROM q":         {"INSERT", "s.t"},
		"WITH q AS (SELECT b FROM u) SELECT b FROM q":                         {"SELECT", "u"},
		"begin; select set_config('app.tenant_id', 'secret', true)":           {operation: "BEGIN"},
		"LISTEN channel":                  {operation: "LISTEN"},
		"SELECT 'it''s', 'from s.secret'": {operation: "SELECT"},
		"SELECT 'open":                    {operation: "SELECT"},
	} {
		if got := describe(sql); got != want {
			t.Errorf("%s: %+v, want %+v", sql, got, want)
		}
	}
}
