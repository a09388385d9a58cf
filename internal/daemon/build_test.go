package daemon

import (
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestBuild must hold for a test binary, which has no version, and for one that was
// built with a version all the same.
func TestBuild(t *testing.T) {
	t.Parallel()
	b := ThisBuild()
	if b.Version == "" || b.Revision == "" || b.Go != runtime.Version() {
		t.Errorf("%+v", b)
	}
	stamped := Build{Version: "v1.2.3", Revision: "abc", Go: "go1.26"}
	if got, want := stamped.Line("tea"), "tea v1.2.3 (commit abc, go1.26)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(stamped.Figure("tea"))
	all, err := reg.Gather()
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	text := all[0].String()
	for _, want := range []string{`"tea_build_info"`, `"v1.2.3"`, `"abc"`, `"go1.26"`, "gauge:{value:1}"} {
		if !strings.Contains(strings.ReplaceAll(text, "  ", " "), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}
