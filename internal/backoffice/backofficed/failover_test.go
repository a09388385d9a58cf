package backofficed

import (
	"net/http"
	"strings"
	"testing"

	"melmastoon.ghasi.io/bff/internal/desk"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// The process that holds a device's stream is killed. The device resumes at the other
// one, is told what happened meanwhile, and no gap is named.
func TestKilledInstanceLosesNothing(t *testing.T) {
	t.Parallel()
	s := &staff{t: t, World: testkit.NewWorld(t, nil)}
	front := testkit.NewLine(t, "http://127.0.0.1:1") // until there is an instance
	settings := map[string]string{"BFF_BACKOFFICE_LIMITS": "off", "BFF_BACKOFFICE_PUBLIC_URLS": front.URL}
	one, two := s.Start("bff-backoffice", settings), s.Start("bff-backoffice", settings)
	front.Lead(one.Public)
	d, err := desk.New(desk.Config{BackofficeURL: front.URL, IAMURL: s.SimURL + "/iam", HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
	if err != nil {
		t.Fatal(err)
	}
	s.signIn(d, "parwana")
	var who who
	s.fetch(d, "/session", &who)
	property := who.PropertyScope[0]
	heard := s.listen(d)
	raise := func(severity string) {
		t.Helper()
		s.drill("/alerts", map[string]string{"propertyId": property, "severity": severity}, nil)
	}
	raise("info")
	s.await(heard, "alerts", `"alert.raised"`, `"info"`)

	one.Kill()
	front.Lead(two.Public)
	raise("warning")
	raise("critical")
	seen := map[string]bool{}
	for !seen["warning"] || !seen["critical"] {
		select {
		case e := <-heard:
			for _, severity := range []string{"warning", "critical"} {
				seen[severity] = seen[severity] || e.Name == "alerts" && strings.Contains(e.Data, `"severity":"`+severity+`"`)
			}
			if e.Name == "gap" {
				t.Errorf("a gap was named: %s", e.Data)
			}
		case <-testkit.Context(t).Done():
			t.Fatalf("after the kill only %v came", seen)
		}
	}
}
