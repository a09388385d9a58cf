package platform

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"melmastoon.ghasi.io/bff/internal/local/stack"
)

// Service names one of the two services and where an instance of it listens.
type Service struct {
	Name     string // bff-consumer or bff-backoffice
	Public   string // host:port
	Internal string
	Admin    string
	Taken    []Taken // usual ports that were not free
}

// prefixes of the settings of each service.
var prefixes = map[string]string{"bff-consumer": "CONSUMER", "bff-backoffice": "BACKOFFICE"}

// preferred ports, used while they are free: public, internal, admin.
var preferred = map[string][3]string{
	"bff-consumer":   {"8081", "8181", "9081"},
	"bff-backoffice": {"8083", "8183", "9083"},
}

// listeners, as they are told apart beside the service's name.
var listeners = [3]string{"", " for other services", "'s health and metrics"}

// NewService picks free addresses for an instance; the well-known ports if
// they are wanted and free.
func NewService(name string, wellKnown bool) (Service, error) {
	return Service{Name: name}.Place(wellKnown)
}

// Place gives the instance the addresses that it does not have yet. Given ones must
// be free; one without a port, such as 127.0.0.1:0, gets one.
func (s Service) Place(wellKnown bool) (Service, error) {
	for i, addr := range []*string{&s.Public, &s.Internal, &s.Admin} {
		ln, taken, err := place(s.Name+listeners[i], *addr, wellKnown, preferred[s.Name][i])
		if err != nil {
			return s, err
		}
		defer func() { _ = ln.Close() }() // held until all are found, lest one be found twice
		if *addr == "" || strings.HasSuffix(*addr, ":0") {
			*addr = ln.Addr().String()
		}
		if taken != nil {
			s.Taken = append(s.Taken, *taken)
		}
	}
	return s, nil
}

func place(what, given string, wellKnown bool, usual string) (net.Listener, *Taken, error) {
	switch {
	case given == "" && wellKnown:
		return Listen(what, usual)
	case given == "":
		return Listen(what, "")
	}
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", given)
	if host, port, bad := net.SplitHostPort(given); err != nil && bad == nil {
		if holder := portHolder(host, port); holder != "" {
			err = fmt.Errorf("%w: another program has it (%s)", err, holder)
		}
	}
	return ln, nil, err
}

// Listen is the environment that makes an instance listen there.
func (s Service) Listen() map[string]string {
	p := "BFF_" + prefixes[s.Name]
	return map[string]string{p + "_LISTEN": s.Public, p + "_INTERNAL_LISTEN": s.Internal, p + "_ADMIN_LISTEN": s.Admin}
}

// Prefix is the service in the names of variables.
func (s Service) Prefix() string { return prefixes[s.Name] }

// URLs is the environment that tells others where the instance is.
func (s Service) URLs() map[string]string {
	p := "MELMASTOON_" + prefixes[s.Name]
	return map[string]string{
		p + "_URL": "http://" + local(s.Public), p + "_INTERNAL_URL": "http://" + local(s.Internal), p + "_ADMIN_URL": "http://" + local(s.Admin),
	}
}

// local is how this machine reaches a listener; :8081 listens on all addresses.
func local(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// Process is a running instance.
type Process struct {
	Service
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Start runs an instance: command is a service's binary, or this binary with
// the service's name, and always the sub-command serve. The process ends with
// the caller, even a killed one.
func (s Service) Start(command []string, env []string, log io.Writer) (*Process, error) {
	cmd := exec.Command(command[0], command[1:]...) //nolint:noctx,gosec // our own binary; Stop and Kill end it
	cmd.Env = append(os.Environ(), env...)
	cmd.Env = append(cmd.Env, Pairs(s.Listen())...)
	cmd.Stdout, cmd.Stderr = log, log
	p := &Process{Service: s, cmd: cmd, done: make(chan struct{})}
	err := stack.StartChild(cmd, func(err error) {
		p.err = err
		close(p.done)
	})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	return p, nil
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how the process ended; valid after Done.
func (p *Process) Err() error { return p.err }

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the process as a crash would, and waits until it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // gone already is as good
	<-p.done
}

// Signal asks the process for something.
func (p *Process) Signal(sig syscall.Signal) error { return p.cmd.Process.Signal(sig) }

// Stop asks the process to drain; after the timeout it is killed.
func (p *Process) Stop(timeout time.Duration) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // gone already is as good
	select {
	case <-p.done:
		return p.err
	case <-time.After(timeout):
		p.Kill()
		return fmt.Errorf("%s did not stop within %s", p.Name, timeout)
	}
}

// readyPoll is how often readiness is asked for.
const readyPoll = 20 * time.Millisecond

// AwaitReady returns when the instance answers that it is ready.
func (p *Process) AwaitReady(ctx context.Context) error {
	client := &http.Client{Timeout: 2 * time.Second}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+local(p.Admin)+"/ready", nil)
		if err != nil {
			return err
		}
		if res, err := client.Do(req); err == nil {
			_ = res.Body.Close() // only the status counts
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s did not become ready: %w", p.Name, ctx.Err())
		case <-p.done:
			return fmt.Errorf("%s ended before it was ready: %w", p.Name, p.err)
		case <-time.After(readyPoll):
		}
	}
}
