package web

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// clientIP returns the address of the client. X-Forwarded-For is read from the
// right and only through proxies we trust: what stands left of the first
// stranger could have been written by anyone. readable is false if a trusted proxy
// wrote a hop that is no address: then all its clients share the proxy's limits.
func clientIP(r *http.Request, trusted []netip.Prefix) (addr netip.Addr, readable bool) {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, true
	}
	addr = peer.Addr().Unmap().WithZone("")
	if !within(addr, trusted) {
		return addr, true
	}
	for _, hops := range slices.Backward(r.Header["X-Forwarded-For"]) {
		for more := true; more; {
			h := hops
			comma := strings.LastIndexByte(hops, ',')
			if more = comma >= 0; more {
				h, hops = hops[comma+1:], hops[:comma]
			}
			hop, ok := parseHop(strings.TrimSpace(h))
			if !ok {
				return addr, false
			}
			if addr = hop; !within(addr, trusted) {
				return addr, true
			}
		}
	}
	return addr, true
}

// parseHop reads an address as load balancers write it: alone, in brackets, or
// with a port behind it.
func parseHop(s string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(s)
	if err != nil {
		if inner, ok := strings.CutPrefix(s, "["); ok && strings.HasSuffix(inner, "]") {
			addr, err = netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		} else {
			var withPort netip.AddrPort
			withPort, err = netip.ParseAddrPort(s)
			addr = withPort.Addr()
		}
	}
	return addr.Unmap().WithZone(""), err == nil
}

func within(addr netip.Addr, prefixes []netip.Prefix) bool {
	for _, p := range prefixes {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
