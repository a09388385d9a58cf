package postgres

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
)

const scramIterations = 4096

// scramVerifier returns what the server stores for a password (RFC 5803), so
// that only this travels in ALTER ROLE. Passwords are printable ASCII: what
// SASLprep does to anything else is not worth a library here.
func scramVerifier(password string) (string, error) {
	if len(password) < 8 || len(password) > 256 {
		return "", errors.New("want 8 to 256 characters")
	}
	for _, c := range []byte(password) {
		if c < 0x20 || c > 0x7e {
			return "", errors.New("want printable ASCII")
		}
	}
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // aborts the program instead of failing
	return scramFrom(password, salt)
}

func scramFrom(password string, salt []byte) (string, error) {
	salted, err := pbkdf2.Key(sha256.New, password, salt, scramIterations, sha256.Size)
	if err != nil {
		return "", err
	}
	client := sha256.Sum256(mac(salted, "Client Key"))
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s",
		scramIterations, b64(salt), b64(client[:]), b64(mac(salted, "Server Key"))), nil
}

func mac(key []byte, message string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte(message)) // never fails
	return h.Sum(nil)
}
