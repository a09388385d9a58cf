package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

type logs struct {
	terminal
	Service string `arg:"" optional:"" enum:"bff-consumer,bff-backoffice,all" default:"all" help:"bff-consumer or bff-backoffice (default: both, by time)."`
	Follow  bool   `short:"f" help:"Go on with what is written from now on, until Ctrl-C."`
	Lines   int    `short:"n" default:"50" help:"How many of the last lines; 0 = all."`
}

// followEvery is how often a log is looked at.
const followEvery = 200 * time.Millisecond

// Run prints the end of the services' logs.
func (l logs) Run(ctx context.Context) error {
	w, err := l.find()
	if err != nil {
		return err
	}
	names := []string{"bff-consumer", "bff-backoffice"}
	if l.Service != "all" {
		names = []string{l.Service}
	}
	var (
		files []*os.File
		ends  []string
	)
	defer func() {
		for _, f := range files {
			_ = f.Close() // only read
		}
	}()
	for _, name := range names {
		f, err := os.Open(filepath.Join(w.Logs, name+".log")) //nolint:gosec // the platform's own log
		if err != nil {
			return err
		}
		files = append(files, f)
		var end strings.Builder
		if err := copyEnd(&end, f, l.Lines); err != nil {
			return err
		}
		ends = append(ends, end.String())
	}
	if _, err := io.WriteString(os.Stdout, byTime(ends)); err != nil {
		return err
	}
	if !l.Follow {
		return nil
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for _, f := range files {
			if _, err := io.Copy(os.Stdout, f); err != nil {
				return err
			}
		}
	}
}

// byTime puts the lines of several logs into the order of their times. A line without
// one, as of a panic, stays behind the line that it follows.
func byTime(logs []string) string {
	type line struct {
		at   time.Time
		text string
	}
	var all []line
	for _, log := range logs {
		var at struct{ Time time.Time }
		for text := range strings.Lines(log) {
			_ = json.Unmarshal([]byte(text), &at) // else it is of the time before
			all = append(all, line{at.Time, text})
		}
	}
	slices.SortStableFunc(all, func(a, b line) int { return a.at.Compare(b.at) })
	var out strings.Builder
	for _, l := range all {
		out.WriteString(l.text)
	}
	return out.String()
}

// copyEnd writes the last lines of a file and leaves it at its end.
func copyEnd(out io.Writer, f *os.File, lines int) error {
	if lines > 0 {
		if err := seekLines(f, lines); err != nil {
			return err
		}
	}
	_, err := io.Copy(out, f)
	return err
}

// seekLines goes to the begin of the last lines, reading backwards.
func seekLines(f *os.File, lines int) error {
	at, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	const block = 32 << 10
	buf := make([]byte, block)
	for first := true; at > 0; first = false {
		n := min(at, block)
		at -= n
		if _, err := f.ReadAt(buf[:n], at); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		chunk := buf[:n]
		if first {
			chunk = bytes.TrimSuffix(chunk, []byte("\n")) // it ends the last line and begins none
		}
		for i := bytes.LastIndexByte(chunk, '\n'); i >= 0; i = bytes.LastIndexByte(chunk[:i], '\n') {
			if lines--; lines == 0 {
				_, err := f.Seek(at+int64(i)+1, io.SeekStart)
				return err
			}
		}
	}
	_, err = f.Seek(0, io.SeekStart)
	return err
}
