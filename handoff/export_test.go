package handoff

// Seal signs any payload, valid or not, as Mint would: tests need tokens that
// are rightly signed and still wrong.
func Seal(secret []byte, p Payload) string { return newSecret(secret).signer().seal(&p) }

// Encode writes the token of a payload with a given MAC.
func Encode(p Payload, mac []byte) string { return new(signer).encode(&p, mac) }
