package challenge

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
)

// maxPayload bounds what is decoded; a payload of ours has about 400 characters.
const maxPayload = 1024

// payload is a solution on the wire: base64 of a JSON object.
type payload struct {
	Algorithm string  `json:"algorithm"`
	Challenge string  `json:"challenge"`
	Number    int     `json:"number"`
	Salt      string  `json:"salt"`
	Signature string  `json:"signature"`
	Took      float64 `json:"took,omitzero"` // as the widget reports it; not used
}

// Encode is the payload that a solver sends; for tests and for clients in Go.
func (ch Challenge) Encode(number int) (string, error) {
	raw, err := json.Marshal(payload{
		Algorithm: ch.Algorithm, Challenge: ch.Challenge, Number: number, Salt: ch.Salt, Signature: ch.Signature,
	})
	return base64.StdEncoding.EncodeToString(raw), err
}

// decode is strict: one object, no unknown fields, nothing after it.
func decode(text string) (payload, error) {
	var p payload
	if len(text) == 0 || len(text) > maxPayload {
		return p, ErrMalformed
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || bytes.ContainsAny(raw, "\r\n") {
		return p, ErrMalformed
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if dec.Decode(&p) != nil {
		return p, ErrMalformed
	}
	if _, err := dec.Token(); err != io.EOF {
		return p, ErrMalformed
	}
	if p.Algorithm != Algorithm || p.Number < 0 || p.Number > maxNumber ||
		len(p.Challenge) != 64 || len(p.Signature) != 64 {
		return p, ErrMalformed
	}
	return p, nil
}
