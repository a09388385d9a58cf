package backofficeguard

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/dpop"
)

// proofField is how the refusal of a proof names it.
const proofField = "DPoP"

// errProof tells the sender of a proof which check it failed: it concerns no other
// caller, and an app whose clock is wrong cannot help itself without.
func errProof(w http.ResponseWriter, e *dpop.Error, now time.Time) error {
	w.Header()["X-Server-Time"] = []string{bff.At(now).String()}
	out := &bff.Error{Code: bff.CodeDPoPInvalid, Fields: bff.FieldErrors{{Field: proofField, Code: string(e.Reason)}}, Err: e}
	switch e.Reason {
	case dpop.ReasonClockSkew:
		out.Detail = fmt.Sprintf("the clock of this device is off by %d seconds, ours says %s: sign the proof again with the nonce of DPoP-Nonce",
			int64(e.Ahead/time.Second), bff.At(now))
	case dpop.ReasonNonce:
		out.Detail = "the nonce is too old: sign the proof again with the nonce of DPoP-Nonce"
	case dpop.ReasonMissing:
		out.Detail = "send one DPoP header with a proof for this request (RFC 9449)"
	case dpop.ReasonURL:
		out.Detail = "the proof is for another URL: htu must be the public URL of this request, without query"
	default:
		out.Detail = "the proof is not valid for this request: " + string(e.Reason)
	}
	return out
}

// challenge adds to a refusal what RFC 9449 §7.1 and §9 want a client to be told.
func challenge(w http.ResponseWriter, err error) error {
	const algs = `algs="EdDSA ES256"`
	var value string
	switch bff.CodeOf(err) {
	case bff.CodeUnauthenticated:
		value = `DPoP ` + algs
	case bff.CodeTokenExpired, bff.CodeSessionRevoked, bff.CodeDeviceMismatch:
		value = `DPoP error="invalid_token", ` + algs
	case bff.CodeDPoPReplayed:
		value = `DPoP error="invalid_dpop_proof", ` + algs
	case bff.CodeDPoPInvalid:
		value = `DPoP error="invalid_dpop_proof", ` + algs
		if e := asProof(err); e != nil && e.WantsNonce() {
			value = `DPoP error="use_dpop_nonce", ` + algs
		}
	default:
		return err
	}
	w.Header()["Www-Authenticate"] = []string{value}
	return err
}

func asProof(err error) *dpop.Error {
	e, _ := errors.AsType[*dpop.Error](err)
	return e
}
