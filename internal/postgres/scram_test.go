package postgres

import (
	"strings"
	"testing"
)

func TestScramVerifierRefuses(t *testing.T) {
	t.Parallel()
	for _, password := range []string{"", "short", "tab\tinside", "پښتوپښتو", strings.Repeat("x", 257)} {
		if _, err := scramVerifier(password); err == nil {
			t.Errorf("%q was accepted", password)
		}
	}
}
