package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"melmastoon.ghasi.io/bff/internal/local/platform"
)

// lanPort is where phones find bff-consumer while it is free.
const lanPort = "8081"

// freeOn finds an address of bff-consumer for guests' browsers; all else of the
// services stays on loopback.
func freeOn(host, usual string) (string, *platform.Taken, error) {
	ln, taken, err := platform.ListenOn(host, "bff-consumer", usual)
	if err != nil {
		return "", nil, fmt.Errorf("--lan: %w", err)
	}
	return ln.Addr().String(), taken, ln.Close()
}

// lanAddress is the address at which phones on the same network find this machine: the
// given one, or the only private one. The machine's other addresses serve nothing, as
// one of them may face the internet.
func lanAddress(given netip.Addr) (netip.Addr, error) {
	if given.IsValid() {
		return given, nil
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return given, fmt.Errorf("--lan: %w", err)
	}
	return privateAddress(addrs)
}

func privateAddress(addrs []net.Addr) (found netip.Addr, err error) {
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		switch {
		case err != nil || !p.Addr().Is4() || !p.Addr().IsPrivate():
		case found.IsValid():
			return found, fmt.Errorf("--lan: this machine has several private addresses, %s and %s among them: choose one with --lan-address", found, p.Addr())
		default:
			found = p.Addr()
		}
	}
	if !found.IsValid() {
		return found, errors.New("--lan: this machine has no private address: say which one to use with --lan-address")
	}
	return found, nil
}
