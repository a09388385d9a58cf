package sim

import (
	"os"
	"path/filepath"
	"testing"
)

// A sign-in outlives the simulator, one that has ended does not come back, and a file
// that was cut off is no reason not to start.
func TestSignInsAreKept(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "sign-ins.json")
	start := func() *Sim {
		t.Helper()
		s, err := New(Config{SignIns: file})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	jwk := []byte(`{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`)
	first := start()
	stays, err := first.SignIn(SignIn{Username: "parwana", DeviceID: "dev_1", JWK: jwk})
	if err != nil {
		t.Fatal(err)
	}
	ends, err := first.SignIn(SignIn{Username: "parwana", DeviceID: "dev_2", JWK: jwk})
	if err != nil {
		t.Fatal(err)
	}
	first.iam.end(Revocation{DeviceID: "dev_2"})

	second := start()
	if f := second.iam.families[stays.RefreshToken]; f == nil || f.revoked || f.deviceID != "dev_1" || f.current != stays.RefreshToken {
		t.Errorf("the sign-in of before: %+v", f)
	}
	if f := second.iam.families[ends.RefreshToken]; f != nil {
		t.Errorf("a sign-in that was revoked: %+v", f)
	}
	if err := os.WriteFile(file, []byte(`[{"tena`), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := len(start().iam.families); n != 0 {
		t.Errorf("%d sign-ins of a file that was cut off", n)
	}
}
