package postgres

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff/internal/testkit"
)

// The server is the oracle: it derives its own verifier from the password.
func TestScramVerifier(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	conn, err := pgx.Connect(ctx, testkit.NewPostgres(t, false).DatabaseURL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	const password = "correct horse battery staple"
	var theirs string
	if _, err := conn.Exec(ctx, "CREATE ROLE scram_oracle PASSWORD '"+password+"'"); err != nil {
		t.Fatal(err)
	}
	if err := conn.QueryRow(ctx, "SELECT rolpassword FROM pg_authid WHERE rolname = 'scram_oracle'").Scan(&theirs); err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(theirs, ":")
	salt, _, _ := strings.Cut(rest, "$")
	raw, err := base64.StdEncoding.DecodeString(salt)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := scramFrom(password, raw)
	if err != nil {
		t.Fatal(err)
	}
	if ours != theirs {
		t.Errorf("verifier = %s, want %s", ours, theirs)
	}
}

func TestScramVerifierRefuses(t *testing.T) {
	t.Parallel()
	for _, password := range []string{"", "short", "tab\tinside", "پښتوپښتو", strings.Repeat("x", 257)} {
		if _, err := scramVerifier(password); err == nil {
			t.Errorf("%q was accepted", password)
		}
	}
}
