package daemon

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/alecthomas/kong"
	"github.com/prometheus/client_golang/prometheus"
)

// Set by the linker: see "build" in the Makefile.
var version, revision string

// Build says which sources and compiler a program was made from.
type Build struct {
	Version  string // of the release, or the nearest one before and the commit
	Revision string // the commit
	Go       string
}

// ThisBuild is the running program's. What the linker was not told is taken from what
// the compiler has noted; "devel" and "unknown" stand for what neither knows.
func ThisBuild() Build {
	b := Build{Version: version, Revision: revision, Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = new(debug.BuildInfo)
	}
	if v := info.Main.Version; v != "(devel)" {
		b.Version = cmp.Or(b.Version, v)
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Revision = cmp.Or(b.Revision, s.Value)
		}
	}
	b.Version, b.Revision = cmp.Or(b.Version, "devel"), cmp.Or(b.Revision, "unknown")
	return b
}

// Line tells a program's build in one line.
func (b Build) Line(program string) string {
	return fmt.Sprintf("%s %s (commit %s, %s)", program, b.Version, b.Revision, b.Go)
}

// Figure is a metric that is always 1 and has the build in its labels, by which
// dashboards tell versions apart during a rollout.
func (b Build) Figure(namespace string) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info", Help: "Which build runs: always 1, told by its labels.",
		ConstLabels: prometheus.Labels{"version": b.Version, "revision": b.Revision, "goversion": b.Go},
	})
	g.Set(1)
	return g
}

// versionFlag prints the build before anything is asked of the settings.
type versionFlag bool

// BeforeReset implements kong's hook.
func (versionFlag) BeforeReset(app *kong.Kong) error {
	_, err := fmt.Fprintln(app.Stdout, ThisBuild().Line(app.Model.Name))
	app.Exit(0)
	return err
}

// asked are the flags that every program has.
type asked struct {
	Version versionFlag `help:"Say which build this is, and end."`
}
