package archtest

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

// A pause in a test is too short on a busy machine and too long on any other: tests wait for events (testkit.Until), repeat what failed within a budget
// (testkit.Retry), or let the clock of a bubble pass (testing/synctest). pause.For, which ends with its caller, is for what takes its time: upstreams, guests.
func TestTestsDoNotPause(t *testing.T) {
	t.Parallel()
	pauses := regexp.MustCompile(`(?m)time\.Sleep\(|(?:^|[{;])\s*<-time\.After\(|^\s*case <-time\.After\(.*:(?: //.*)?\n\s*(?:case |default:|\})`)
	goFiles(t, func(name string, b []byte) {
		if !strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "internal/archtest/") || bytes.Contains(b, []byte(`"testing/synctest"`)) {
			return
		}
		for _, at := range pauses.FindAllIndex(b, -1) {
			t.Errorf("%s:%d: %s", name, 1+bytes.Count(b[:at[0]], []byte("\n")), bytes.TrimSpace(b[at[0]:at[1]]))
		}
	})
}
