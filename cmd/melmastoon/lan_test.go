package main

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestPrivateAddress(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		addrs []string
		want  string // the address, or a part of the error
	}{
		"one":          {[]string{"127.0.0.1/8", "::1/128", "fd00::2/64", "203.0.113.9/24", "192.168.1.5/24"}, "192.168.1.5"},
		"several":      {[]string{"192.168.1.5/24", "172.17.0.1/16"}, "192.168.1.5 and 172.17.0.1"},
		"public alone": {[]string{"127.0.0.1/8", "203.0.113.9/24"}, "--lan-address"},
	} {
		var addrs []net.Addr
		for _, text := range tc.addrs {
			ip, network, err := net.ParseCIDR(text)
			if err != nil {
				t.Fatal(err)
			}
			addrs = append(addrs, &net.IPNet{IP: ip, Mask: network.Mask})
		}
		got, err := privateAddress(addrs)
		if text := got.String(); err == nil && text != tc.want || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
}

// A taken port is told, with the program that has it.
func TestFreeOn(t *testing.T) {
	t.Parallel()
	held, err := net.Listen("tcp", "127.0.0.2:0") //nolint:noctx // closed below
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	_, port, err := net.SplitHostPort(held.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	at, taken, err := freeOn("127.0.0.2", port)
	if err != nil || at == held.Addr().String() || taken == nil || !strings.Contains(taken.Holder, strconv.Itoa(os.Getpid())) {
		t.Errorf("at %s, taken %+v, %v", at, taken, err)
	}
}
