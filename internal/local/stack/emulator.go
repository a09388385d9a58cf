package stack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Emulator is Google's own Pub/Sub emulator. It needs Java and half a gigabyte of
// memory, and no registry of packages that a machine has without further ado
// holds it: it is used where it is found, and never installed.
type Emulator struct {
	Host string // host:port, without TLS and credentials; any project exists

	dir  *dir
	proc *process
}

// EmulatorConfig describes an emulator.
type EmulatorConfig struct {
	// Host names one that is already there: nothing is started.
	Host string
	// Logger receives progress; nil is silence.
	Logger *slog.Logger
}

// ErrNoEmulator says that this machine has no emulator, or no Java to run it.
var ErrNoEmulator = errors.New("no Pub/Sub emulator is installed here")

// StartEmulator starts an emulator, which runs until [Emulator.Close], or until
// this process ends.
func StartEmulator(ctx context.Context, cfg EmulatorConfig) (*Emulator, error) {
	if cfg.Host != "" {
		conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", cfg.Host)
		if err != nil {
			return nil, fmt.Errorf("start pubsub emulator: reach it: %w", err)
		}
		return &Emulator{Host: cfg.Host}, conn.Close()
	}
	java, jar := findEmulator()
	if java == "" || jar == "" {
		return nil, ErrNoEmulator
	}
	e := &Emulator{}
	if err := e.create(ctx, java, jar, orSilent(cfg.Logger)); err != nil {
		return nil, fmt.Errorf("start pubsub emulator: %w", errors.Join(err, e.Close()))
	}
	return e, nil
}

// findEmulator looks for Java and for the emulator's archive beside gcloud: its
// start script takes options from the environment, which servers do not get.
func findEmulator() (java, jar string) {
	java, err := exec.LookPath("java")
	if err != nil {
		return "", ""
	}
	places := []string{"/usr/lib/google-cloud-sdk", "/usr/local/share/google-cloud-sdk", "/opt/homebrew/share/google-cloud-sdk"}
	if gcloud, err := exec.LookPath("gcloud"); err == nil {
		if gcloud, err = filepath.EvalSymlinks(gcloud); err == nil {
			places = append([]string{filepath.Dir(filepath.Dir(gcloud))}, places...)
		}
	}
	for _, place := range places {
		found, _ := filepath.Glob(filepath.Join(place, "platform/pubsub-emulator/lib/cloud-pubsub-emulator-*.jar"))
		if len(found) > 0 {
			return java, found[len(found)-1]
		}
	}
	return java, ""
}

func (e *Emulator) create(ctx context.Context, java, jar string, log *slog.Logger) error {
	begin := time.Now()
	as, err := serverAccount("nobody")
	if err != nil {
		return err
	}
	sweep(ctx, as, log)
	if e.dir, err = tempDir(as); err != nil {
		return err
	}
	work, err := e.dir.sub("work", as)
	if err != nil {
		return err
	}
	ctx, cancel := startContext(ctx, "pubsub emulator")
	defer cancel()
	for attempt := 1; ; attempt++ {
		port, err := freePort(ctx)
		if err != nil {
			return err
		}
		e.Host = loopback(port)
		last := "--port=" + strconv.Itoa(port)
		e.proc, err = run(command{
			path: java, args: []string{"-Xmx512m", "-XX:TieredStopAtLevel=1", "-Djava.io.tmpdir=" + work, "-jar", jar, "--host=127.0.0.1", last},
			dir: work, logFile: e.dir.file("emulator.log"), as: as, onDeath: syscall.SIGTERM,
		})
		if err != nil {
			return err
		}
		err = e.proc.awaitReady(ctx, func() bool { return strings.Contains(tail(e.proc.logFile), "Server started, listening on") })
		exit, early := errors.AsType[*exitError](err)
		if taken := early && strings.Contains(exit.log, "Address already in use"); attempt < 10 && taken {
			continue
		}
		if err == nil {
			log.InfoContext(ctx, "pubsub emulator ready", "host", e.Host, "took", time.Since(begin))
			err = noteProcess(e.dir, e.proc, last)
		}
		return err
	}
}

// Close stops an emulator that was started here.
func (e *Emulator) Close() error {
	var err error
	if e.proc != nil {
		err = e.proc.end(context.Background(), syscall.SIGKILL) // it keeps nothing
	}
	if e.dir != nil {
		err = errors.Join(err, e.dir.close())
	}
	return err
}

// processNote holds the id of a server's process and the last of its arguments.
const processNote = "process.pid"

func noteProcess(d *dir, proc *process, last string) error {
	return os.WriteFile(d.file(processNote), fmt.Appendf(nil, "%d\n%s\n", proc.pid(), last), 0o600)
}

// stopOrphanProcess ends a server that a dead process left running: it is known by
// the last of its arguments, a path or a port of our own.
func stopOrphanProcess(ctx context.Context, note string) error {
	pid, lines, err := readPid(note)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || len(lines) < 2 || lines[1] == "" {
		return err
	}
	ours := func() bool { return strings.HasSuffix(commandLine(pid), " "+lines[1]) }
	return endStranger(ctx, pid, ours, syscall.SIGTERM, syscall.SIGKILL)
}
