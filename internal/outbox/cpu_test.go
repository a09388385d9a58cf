package outbox_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// serverCPU is the processor time, in clock ticks, that the test's Postgres
// server has used with all its backends, past and present. On a shared machine
// it says more than the wall clock. It is 0 where there is no /proc.
func (fx *fixture) serverCPU(b *testing.B) int {
	b.Helper()
	var file string
	if err := fx.super.QueryRow(b.Context(), "SELECT pg_read_file('postmaster.pid')").Scan(&file); err != nil {
		b.Fatal(err)
	}
	postmaster, _, _ := strings.Cut(file, "\n")
	total := 0
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // ended since
		}
		pid := filepath.Base(filepath.Dir(path))
		_, rest, _ := strings.Cut(string(raw), ") ") // the name may hold anything
		f := strings.Fields(rest)
		if len(f) < 15 || (pid != postmaster && f[1] != postmaster) {
			continue
		}
		times := f[11:13] // utime, stime
		if pid == postmaster {
			times = f[11:15] // and those of backends that have ended
		}
		for _, t := range times {
			n, _ := strconv.Atoi(t)
			total += n
		}
	}
	return total
}
