// Melmastoon runs everything on one machine: Postgres, Redis, Pub/Sub, the
// simulated upstreams and both services — for a newcomer, a demo or a test.
package main

import (
	"fmt"
	"os"
	"slices"

	"melmastoon.ghasi.io/bff/internal/backoffice/backofficed"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerd"
	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/probe"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	// The services run as processes of their own, from this same binary, so that
	// they can be killed, restarted and multiplied as in production.
	if len(args) > 0 {
		switch args[0] {
		case "bff-consumer":
			return consumerd.Main(args[1:])
		case "bff-backoffice":
			return backofficed.Main(args[1:])
		}
	}
	var command []string
	if i := slices.Index(args, "--"); i >= 0 {
		args, command = args[:i], args[i+1:]
		if len(command) == 0 {
			fmt.Fprintln(os.Stderr, "melmastoon: after -- a command is expected")
			return 2
		}
	}
	cli := commands{Up: up{command: command}}
	return daemon.Main(&cli, "melmastoon", "The whole platform edge on one machine.", args)
}

type commands struct {
	Up      up         `cmd:"" help:"Start everything; with '-- CMD ARGS…' run CMD against throw-away data and exit with its status."`
	Desk    desk       `cmd:"" help:"Call the running staff service as an operator at a hotel's computer."`
	Env     envCommand `cmd:"" help:"Print the running platform's settings for a shell: eval \"$(melmastoon env)\"."`
	Status  status     `cmd:"" help:"Say what runs, where, since when, and whether it is ready."`
	Tail    tail       `cmd:"" help:"Show the events that the services publish and receive, as they come."`
	Trigger trigger    `cmd:"" help:"Have the platform report something, such as tenant.suspended; 'trigger --list' lists what."`
	Fault   fault      `cmd:"" help:"Make upstreams slow, wrong or silent."`
	Why     why        `cmd:"" help:"Tell one request as a story: who asked, what the cache had, which upstreams were called, what left and what is missing."`
	Flag    flag       `cmd:"" help:"Switch a flag of a running service, such as the rung of the brownout ladder."`
	Logs    logs       `cmd:"" help:"Show what the services have logged."`
	Open    open       `cmd:"" help:"Print an address of the running platform, and open it where there is a browser."`
	Doctor  doctor     `cmd:"" help:"Say whether this machine has what 'up' and the tests need; 'bff-consumer doctor' and 'bff-backoffice doctor' examine a deployment instead."`
	Probe   probing    `cmd:"" passthrough:"" help:"Attack a deployment's guard, tenants, hand-offs and second factors: 'probe bff-consumer' or 'probe bff-backoffice', with the settings of its 'serve'."`
}

type probing struct {
	Args []string `arg:"" optional:"" help:"The service, and flags; its settings are in the environment."`
}

// Run attacks a tenant of its own and leaves nothing behind.
func (p probing) Run() error {
	if status := probe.Main(p.Args); status != 0 {
		return &daemon.ExitError{Status: status}
	}
	return nil
}
