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
		"neither": {nil, nil, map[string]bool{"live_stream": true, "ai_inbox": true}},
		"the tenant's": {
			nil,
			map[string]bool{"ai_inbox": false, "beta": true},
			map[string]bool{"live_stream": true, "ai_inbox": false, "beta": true},
		},
		"the platform's before the tenant's": {
			map[string]bool{"live_stream": false, "ai_inbox": true, "beta": false},
			map[string]bool{"live_stream": true, "ai_inbox": false, "beta": true, "own": true},
			map[string]bool{"live_stream": false, "ai_inbox": true, "beta": false, "own": true},
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
			if got, off := f.OffForAll(feature), c.platform; got != (off != nil && !off[string(feature)]) {
				t.Errorf("%s: %s off for all: %v", name, feature, got)
			}
		}
	}
}
