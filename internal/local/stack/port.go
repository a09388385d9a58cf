package stack

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are taken from below the ranges from which Linux (32768 and up) and
// macOS (49152 and up) serve outgoing connections, so that no client
// socket lands on the port of a server that is down for a moment.
const (
	portLow  = 15000
	portHigh = 22700
	// busOffset is where a Redis Cluster node talks to its peers.
	busOffset = 10000
)

// freePort finds a loopback port without a listener, and likewise the
// ports at the given offsets from it. It may be taken a moment later: the
// caller that binds it has to be ready to ask for another.
func freePort(ctx context.Context, offsets ...int) (int, error) {
	for range 200 {
		port := portLow + rand.IntN(portHigh-portLow) //nolint:gosec // no secret
		free := canBind(ctx, port)
		for _, o := range offsets {
			free = free && canBind(ctx, port+o)
		}
		if free {
			return port, nil
		}
	}
	return 0, errors.New("no free loopback port found")
}

func canBind(ctx context.Context, port int) bool {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", loopback(port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
