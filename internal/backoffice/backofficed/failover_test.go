package backofficed

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"melmastoon.ghasi.io/bff/internal/desk"
	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// balancer is one address in front of instances: connections go to the one that is
// chosen when they are made.
type balancer struct {
	url    string
	target atomic.Pointer[string]
}

func newBalancer(t *testing.T) *balancer {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{url: "http://" + ln.Addr().String()}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return // closed
			}
			open.Go(func() { b.join(in) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		open.Wait()
	})
	return b
}

func (b *balancer) join(in net.Conn) {
	defer func() { _ = in.Close() }()
	out, err := net.Dial("tcp", *b.target.Load()) //nolint:noctx // ends with either side
	if err != nil {
		return
	}
	var way sync.WaitGroup
	for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
		way.Go(func() {
			_, _ = io.Copy(pair[0], pair[1]) // ends with either side
			_ = in.Close()
			_ = out.Close()
		})
	}
	way.Wait()
}

func (b *balancer) to(p *platform.Process) { b.target.Store(&p.Public) }

// The process that holds a device's stream is killed. The device resumes at the other
// one, is told what happened meanwhile, and no gap is named.
func TestKilledInstanceLosesNothing(t *testing.T) {
	t.Parallel()
	s := &staff{t: t, World: testkit.NewWorld(t, nil)}
	front := newBalancer(t)
	settings := map[string]string{"BFF_BACKOFFICE_LIMITS": "off", "BFF_BACKOFFICE_PUBLIC_URLS": front.url}
	one, two := s.Start("bff-backoffice", settings), s.Start("bff-backoffice", settings)
	front.to(one)
	d, err := desk.New(desk.Config{BackofficeURL: front.url, IAMURL: s.SimURL + "/iam", HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
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
	front.to(two)
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
