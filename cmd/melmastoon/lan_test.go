package main

import (
	"net"
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
