package identity_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
)

type switched map[string]bool

func (s switched) Bools() map[string]bool { return s }

func TestFlags(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		platform, tenant map[string]bool
		want             map[string]bool
	}{
		"neither": {nil, nil, map[string]bool{"live_stream": true, "ai_inbox": true, "blackout_desk": false}},
		"the tenant's": {
			nil,
			map[string]bool{"ai_inbox": false, "beta": true, "blackout_desk": true},
			map[string]bool{"live_stream": true, "ai_inbox": false, "beta": true, "blackout_desk": true},
		},
		"the platform's before the tenant's": {
			map[string]bool{"live_stream": false, "ai_inbox": true, "beta": false},
			map[string]bool{"live_stream": true, "ai_inbox": false, "beta": true, "own": true},
			map[string]bool{"live_stream": false, "ai_inbox": true, "beta": false, "own": true, "blackout_desk": false},
		},
		"the platform's cannot say yes for a tenant": {
			map[string]bool{"blackout_desk": true}, nil, map[string]bool{"live_stream": true, "ai_inbox": true, "blackout_desk": false},
		},
		"the platform's takes away what a tenant wants": {
			map[string]bool{"blackout_desk": false},
			map[string]bool{"blackout_desk": true},
			map[string]bool{"live_stream": true, "ai_inbox": true, "blackout_desk": false},
		},
	} {
		f, m := identity.NewFlags(switched(c.platform)), &backoffice.Member{Flags: c.tenant}
		if diff := cmp.Diff(c.want, f.Of(m)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		for _, feature := range backoffice.Features() {
			if got := f.On(feature, m); got != c.want[string(feature)] {
				t.Errorf("%s: %s %v", name, feature, got)
			}
			if on, set := c.platform[string(feature)]; f.OffForAll(feature) != (set && !on) {
				t.Errorf("%s: %s off for all: %v", name, feature, f.OffForAll(feature))
			}
		}
	}
}
