package idempotency

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Table says how a service keeps its answers. Besides the columns named here a
// table has created_at and expires_at.
type Table struct {
	Name   string   // qualified
	Key    string   // column of the composite key
	Unique []string // columns of the key that makes duplicates conflict; nil = Key alone
	Owners []string // columns that take Request.Owner, in order
	By     []string // columns that take Request.By, in order; they change with a take-over
	Whose  string   // one of By: a key belongs to whom it names, and is refused to others; empty = to no one
	Route  string   // column of the route; empty = none
	Digest string   // column of the request's digest
	Hex    bool     // the digest's column is text, else bytea
	Status string   // column of the answer's status
	Body   string   // column of the answer's body, jsonb

	// TakeOver is for mutations whose effect is another service's: their claim
	// is committed before that service is called, so that a crash leaves a trace,
	// and taken over by a later attempt at this age. Such a table also has state
	// (in_flight or done), claimed_at and claim_token. Zero = the claim, the effect
	// and the answer are one transaction, and a crash takes all of them away.
	TakeOver time.Duration
}

// statements are a table's SQL.
type statements struct {
	find   string // key, now[, whose]
	insert string // key, digest, status, body, now, expires, [token, takeover age,] [route,] owners, by
	answer string // key, status, body[, token]
	free   string // key, token, a moment before the takeover age
	forget string // the first owner
}

func (t Table) statements() statements {
	columns := []string{t.Key, t.Digest, t.Status, t.Body, "created_at", "expires_at"}
	values := []string{"$1", "$2", "$3", "$4", "$5", "$6"}
	next := len(values) + 1
	update := []string{t.Digest, t.Status, t.Body, "created_at", "expires_at"}
	free := "k.expires_at <= excluded.created_at"
	state, mine := "'done'", ""
	if t.TakeOver > 0 {
		columns = append(columns, "state", "claimed_at", "claim_token")
		values = append(values, "'in_flight'", "$5", "$7")
		update = append(update, "state", "claimed_at", "claim_token")
		// Only the same request takes over: another body with this key is refused.
		same := fmt.Sprintf("k.%[1]s = excluded.%[1]s", t.Digest)
		if t.Whose != "" {
			same += fmt.Sprintf(" AND k.%[1]s = excluded.%[1]s", t.Whose)
		}
		free += fmt.Sprintf(" OR (k.state = 'in_flight' AND k.claimed_at <= $8 AND %s)", same)
		state, mine = "state", ", state = 'done'"
		next += 2
	}
	extra := slices.Concat(t.Owners, t.By)
	if t.Route != "" {
		extra = slices.Concat([]string{t.Route}, t.Owners, t.By)
	}
	for i, column := range extra {
		columns, values = append(columns, column), append(values, fmt.Sprintf("$%d", next+i))
	}
	update = append(update, t.By...)
	for i, column := range update {
		update[i] = column + " = excluded." + column
	}
	other := "false"
	if t.Whose != "" {
		other = t.Whose + " <> $3"
	}
	unique := t.Unique
	if len(unique) == 0 {
		unique = []string{t.Key}
	}
	s := statements{
		find: fmt.Sprintf(`SELECT %s, %s, %s::text::bytea, expires_at, %s, %s FROM %s WHERE %s = $1 AND expires_at > $2`,
			t.digestText(), t.Status, t.Body, state, other, t.Name, t.Key),
		insert: fmt.Sprintf(`INSERT INTO %s AS k (%s) VALUES (%s) ON CONFLICT (%s) DO UPDATE SET %s WHERE %s`,
			t.Name, strings.Join(columns, ", "), strings.Join(values, ", "), strings.Join(unique, ", "), strings.Join(update, ", "), free),
		answer: fmt.Sprintf(`UPDATE %s SET %s = $2, %s = $3%s WHERE %s = $1`, t.Name, t.Status, t.Body, mine, t.Key),
		free:   fmt.Sprintf(`UPDATE %s SET claimed_at = $3 WHERE %s = $1 AND claim_token = $2 AND state = 'in_flight'`, t.Name, t.Key),
	}
	if t.TakeOver > 0 {
		s.answer += " AND claim_token = $4 AND state = 'in_flight'"
	}
	if len(t.Owners) > 0 {
		s.forget = fmt.Sprintf(`DELETE FROM %s WHERE %s = $1 RETURNING %s`, t.Name, t.Owners[0], t.Key)
	}
	return s
}

// digestText reads the digest as bytes, whichever form its column has.
func (t Table) digestText() string {
	if t.Hex {
		return "decode(" + t.Digest + ", 'hex')"
	}
	return t.Digest
}
