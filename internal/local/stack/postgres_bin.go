package stack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const postgresHelp = `no Postgres server programs (initdb, postgres) were found. Install them with
  Debian, Ubuntu:  sudo apt-get install -y --no-install-recommends postgresql
  Fedora:          sudo dnf install -y postgresql-server
  macOS:           brew install postgresql@16
or name a running server, as a superuser: MELMASTOON_UP_POSTGRES_URL for 'make run' and 'melmastoon up', MELMASTOON_TEST_POSTGRES_URL for the tests`

// postgresPrograms finds the directory of initdb and postgres, installing
// them where there are none and that needs no password. A version (of an
// existing cluster) must be met: no other can read its files.
func postgresPrograms(ctx context.Context, cfg PostgresConfig, version string, log *slog.Logger) (string, error) {
	if cfg.BinDir != "" {
		if !hasPostgres(cfg.BinDir) {
			return "", fmt.Errorf("%s does not hold initdb and postgres", cfg.BinDir)
		}
		return cfg.BinDir, nil
	}
	find := func() string { return firstPostgres(ctx, version) }
	if bin := find(); bin != "" {
		return bin, nil
	}
	if version != "" && firstPostgres(ctx, "") != "" {
		return "", fmt.Errorf("the data directory was made by Postgres %s, which is not installed", version)
	}
	if cfg.NoInstall {
		return "", errors.New(postgresHelp)
	}
	if err := install(ctx, "postgresql", log); err != nil {
		return "", fmt.Errorf("%s\n(%w)", postgresHelp, err)
	}
	if bin := find(); bin != "" {
		return bin, nil
	}
	return "", errors.New(postgresHelp)
}

func firstPostgres(ctx context.Context, version string) string {
	for _, bin := range postgresPlaces(ctx) {
		if hasPostgres(bin) && (version == "" || postgresVersion(ctx, bin) == version) {
			return bin
		}
	}
	return ""
}

// postgresPlaces are the directories to look in, best first.
func postgresPlaces(ctx context.Context) []string {
	var places []string
	if out, err := output(ctx, "pg_config", "--bindir"); err == nil {
		places = append(places, out)
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",
		"/usr/pgsql-*/bin",
		"/opt/homebrew/opt/postgresql*/bin",
		"/usr/local/opt/postgresql*/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin",
		"/usr/local/pgsql/bin",
	} {
		found, _ := filepath.Glob(pattern)
		slices.SortStableFunc(found, func(a, b string) int { return pathVersion(b) - pathVersion(a) })
		places = append(places, found...)
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		if target, err := filepath.EvalSymlinks(path); err == nil {
			path = target
		}
		places = append(places, filepath.Dir(path))
	}
	return places
}

// pathVersion is the last number in a path, as in /usr/lib/postgresql/15/bin.
func pathVersion(path string) int {
	digits := strings.FieldsFunc(path, func(r rune) bool { return r < '0' || r > '9' })
	if len(digits) == 0 {
		return 0
	}
	n, err := strconv.Atoi(digits[len(digits)-1])
	if err != nil {
		return 0
	}
	return n
}

func hasPostgres(bin string) bool {
	return isProgram(filepath.Join(bin, "initdb")) && isProgram(filepath.Join(bin, "postgres"))
}

// postgresVersion is the major version, as a cluster's PG_VERSION has it.
func postgresVersion(ctx context.Context, bin string) string {
	out, err := output(ctx, filepath.Join(bin, "postgres"), "--version") // postgres (PostgreSQL) 15.8 (Debian …)
	if err != nil {
		return ""
	}
	fields := strings.Fields(out)
	if len(fields) < 3 {
		return ""
	}
	if end := strings.IndexFunc(fields[2], func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		return fields[2][:end]
	}
	return fields[2]
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// output runs a program that answers at once.
func output(ctx context.Context, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, args...).Output() //nolint:gosec // programs named in this package
	return strings.TrimSpace(string(out)), err
}
