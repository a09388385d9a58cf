package platform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are taken from below the range in which Linux and macOS pick the local
// ends of connections: between the moment that a port is found free and the
// moment that the service binds it, no connection can take it.
const (
	lowestPort  = 20000
	portsToPick = 12000
)

// What a browser is told the addresses of, and where it is while that is free: a
// development server's configuration can name them.
const (
	Index         = "the index of pages"
	IndexPort     = "8080"
	Simulated     = "simulated upstreams"
	SimulatedPort = "8090"
)

// Taken is a usual port that is not free.
type Taken struct {
	For     string // what would have listened there
	Port    string
	Holder  string // the program that has it; empty if that cannot be found out
	Instead string // the address that is used
}

func (t Taken) String() string {
	holder := "another program"
	if t.Holder != "" {
		holder += " (" + t.Holder + ")"
	}
	return fmt.Sprintf("port %s is taken by %s: %s is at %s", t.Port, holder, t.For, t.Instead)
}

// Listen listens on a loopback port: the usual one, or a free one if that is taken,
// which is said, or empty.
func Listen(what, usual string) (net.Listener, *Taken, error) {
	return ListenOn("127.0.0.1", what, usual)
}

// ListenOn is Listen on another address of this machine.
func ListenOn(host, what, usual string) (net.Listener, *Taken, error) {
	port := usual
	for range 100 {
		if port == "" {
			port = strconv.Itoa(lowestPort + rand.IntN(portsToPick)) //nolint:gosec // any port will do
		}
		ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort(host, port))
		switch {
		case err != nil:
			port = ""
			continue
		case usual == "" || port == usual:
			return ln, nil, nil
		}
		return ln, &Taken{For: what, Port: usual, Holder: portHolder(host, usual), Instead: ln.Addr().String()}, nil
	}
	return nil, nil, errors.New("no free port on " + host)
}

// Usual lists the ports that are used while they are free, with the program that has
// each now.
func Usual() []Taken {
	list := []Taken{{For: Index, Port: IndexPort}, {For: Simulated, Port: SimulatedPort}}
	for _, name := range []string{"bff-consumer", "bff-backoffice"} {
		for i, port := range preferred[name] {
			list = append(list, Taken{For: name + listeners[i], Port: port})
		}
	}
	for i := range list {
		ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", list[i].Port))
		if err != nil {
			list[i].Holder = cmp.Or(portHolder("127.0.0.1", list[i].Port), "a program that cannot be seen")
			continue
		}
		_ = ln.Close() // it was free
	}
	return list
}
