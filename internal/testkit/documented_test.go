package testkit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCommandLines: a line of a shell holds the commands that people would run.
func TestCommandLines(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][][]string{
		"BFF_CONSUMER_MIGRATE_URL=… BFF_X=y bff-consumer migrate": {{"migrate"}},
		"bff-consumer keys add --file …":                          {{"keys", "add", "--file", "x"}},
		`bin/bff-consumer --world dlq list | head # look`:         {{"dlq", "list"}},
		"bff-consumer dlq replay <id>…":                           {{"dlq", "replay", "evt_01ARZ3NDEKTSV4RRFFQ69G5FAV"}},
		"bff-consumer events tail [--subject wishlist] [--json]":  {{"events", "tail", "--subject", "wishlist", "--json"}},
		`bff-consumer x 'a b' "c" && bff-consumer y; other z`:     {{"x", "a b", "c"}, {"y"}},
		"bff-consumer-migrate":                                    nil,
		"bff-consumer --help":                                     nil,
	} {
		if diff := cmp.Diff(want, commandLines(line, "bff-consumer")); diff != "" {
			t.Errorf("%s\n%s", line, diff)
		}
	}
}
