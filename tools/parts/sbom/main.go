// Command sbom says what a program is made of: `sbom bin/bff-consumer …` writes beside each program its modules and their licences as
// CycloneDX (.cdx.json), and the texts that its copies must carry (.licenses.txt). The modules are those that the program itself names, and
// the licences those of the packages that are linked. A licence that is unknown, or not one that asks for nothing but its text, fails.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/licensecheck"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("sbom: ")
	for _, program := range os.Args[1:] {
		if err := describe(program, os.Stdout); err != nil {
			log.Fatalf("%s: %v", program, err)
		}
	}
}

// describe writes both files of a program.
func describe(program string, say io.Writer) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	linked, err := packages(info.Path, info.Settings)
	if err != nil {
		return err
	}
	if strings.Contains(info.GoVersion, "X:") {
		return fmt.Errorf("built with experiments: %s", info.GoVersion)
	}
	modules := []debug.Module{{Path: "std", Version: info.GoVersion}}
	for _, d := range info.Deps {
		if d.Replace != nil {
			return fmt.Errorf("%s is replaced by %s: name what is linked", d.Path, d.Replace.Path)
		}
		modules = append(modules, *d)
	}
	if err := same(modules, linked); err != nil {
		return err
	}
	says, err := version(program)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &cdx.Component{
		Type: cdx.ComponentTypeApplication, Name: filepath.Base(program), Version: says, PackageURL: "pkg:golang/" + info.Path, BOMRef: info.Path,
		Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
	}}
	var texts bytes.Buffer
	var components []cdx.Component
	var refs []string
	kinds := map[string]int{}
	for _, m := range modules {
		found, err := licences(linked[m.Path])
		if err != nil {
			return fmt.Errorf("%s %s: %w", m.Path, m.Version, err)
		}
		c := cdx.Component{
			Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: "pkg:golang/" + m.Path + "@" + m.Version,
			BOMRef: "pkg:golang/" + m.Path + "@" + m.Version, Licenses: &cdx.Licenses{},
		}
		if m.Sum != "" { // Go's own hash: over the names and hashes of all files
			c.Properties = &[]cdx.Property{{Name: "go:sum", Value: m.Sum}}
		}
		ids := map[string]bool{}
		for _, l := range found {
			for _, id := range l.ids {
				ids[id] = true
			}
			fmt.Fprintf(&texts, "==== %s %s: %s\n\n%s\n\n", m.Path, m.Version, l.name, bytes.TrimSpace(l.text))
		}
		for _, id := range slices.Sorted(maps.Keys(ids)) {
			*c.Licenses = append(*c.Licenses, cdx.LicenseChoice{License: &cdx.License{ID: id}})
			kinds[id]++
		}
		components, refs = append(components, c), append(refs, c.BOMRef)
	}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: info.Path, Dependencies: &refs}}
	var out bytes.Buffer
	if err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	fmt.Fprintf(say, "%s: %d modules, sha256:%x, licences %v\n", program, len(components), sum, kinds)
	return errors.Join(os.WriteFile(program+".cdx.json", out.Bytes(), 0o644), os.WriteFile(program+".licenses.txt", texts.Bytes(), 0o644))
}

// version is what the program says of itself: -trimpath keeps the linker's stamp out of the build information.
func version(program string) (string, error) {
	path, err := filepath.Abs(program)
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(context.Background(), path, "--version").Output()
	words := strings.Fields(string(out)) // bff-consumer v1.2.3 (commit …, go…)
	if err != nil || len(words) < 2 {
		return "", fmt.Errorf("--version: %q, %w", out, err)
	}
	return words[1], nil
}

// module is where a linked module and those of its packages are that a program has.
type module struct {
	root string
	dirs map[string]bool
}

// packages lists the packages of a program by module, as the build with its settings chooses them.
func packages(path string, settings []debug.BuildSetting) (map[string]*module, error) {
	cmd := exec.CommandContext(context.Background(), "go", "list", "-deps", "-json=Dir,Root,Standard,Module", path)
	cmd.Env, cmd.Stderr = os.Environ(), os.Stderr
	for _, s := range settings {
		if strings.HasPrefix(s.Key, "GO") || s.Key == "CGO_ENABLED" {
			cmd.Env = append(cmd.Env, s.Key+"="+s.Value)
		}
	}
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", path, err)
	}
	all := map[string]*module{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Dir, Root string
			Standard  bool
			Module    struct {
				Path, Version, Dir string
				Main               bool
			}
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		path, root := p.Module.Path, p.Module.Dir
		switch {
		case p.Standard:
			path, root = "std", p.Root
		case p.Module.Main:
			continue
		}
		if all[path] == nil {
			all[path] = &module{root, map[string]bool{}}
		}
		all[path].dirs[p.Dir] = true
	}
}

// same reports a module that the program names and the sources do not, or the other way round.
func same(named []debug.Module, linked map[string]*module) error {
	var names []string
	for _, m := range named {
		names = append(names, m.Path)
	}
	slices.Sort(names)
	if found := slices.Sorted(maps.Keys(linked)); !slices.Equal(names, found) {
		return fmt.Errorf("built from other sources: it names %v, these have %v", names, found)
	}
	return nil
}

type licence struct {
	name string // of its file, within the module
	ids  []string
	text []byte
}

// permissive licences ask for their text, and for nothing of the program that is linked with them.
var permissive = map[string]bool{
	"Apache-2.0": true, "MIT": true, "BSD-2-Clause": true, "BSD-3-Clause": true, "ISC": true, "0BSD": true, "Unlicense": true, "CC0-1.0": true, "Zlib": true,
}

var (
	licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)([._-].*)?$`)
	noticeFile  = regexp.MustCompile(`(?i)^notice([._-](md|txt))?$`)
)

// boring is of the object files that GOEXPERIMENT=boringcrypto links, and nothing else does.
const boring = "src/crypto/internal/boring/LICENSE"

// covered is the percentage of a licence's file that must be known words of a licence: the rest are names and years.
const covered = 75

// licences reads those of a module's linked packages: in their directories, and in all above them up to the module's own.
func licences(m *module) ([]licence, error) {
	dirs := map[string]bool{m.root: true}
	for dir := range m.dirs {
		for ; dir != m.root && len(dir) > len(m.root); dir = filepath.Dir(dir) {
			dirs[dir] = true
		}
	}
	var all []licence
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			isLicence := licenceFile.MatchString(e.Name())
			if e.IsDir() || filepath.Ext(e.Name()) == ".go" || !isLicence && !noticeFile.MatchString(e.Name()) {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				return nil, err
			}
			name, err := filepath.Rel(m.root, filepath.Join(dir, e.Name()))
			if err != nil {
				return nil, err
			}
			if name == boring {
				continue
			}
			l := licence{name: name, text: text}
			if isLicence {
				if l.ids, err = identify(text); err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
			}
			all = append(all, l)
		}
	}
	if !slices.ContainsFunc(all, func(l licence) bool { return len(l.ids) > 0 }) {
		return nil, errors.New("has no licence")
	}
	return all, nil
}

// identify names the licences in a file, all of which must be permissive.
func identify(text []byte) ([]string, error) {
	found := licensecheck.Scan(text)
	ids := map[string]bool{}
	for _, m := range found.Match {
		if m.IsURL {
			continue
		}
		if !permissive[m.ID] {
			return nil, fmt.Errorf("licence %s may not be linked", m.ID)
		}
		ids[m.ID] = true
	}
	if len(ids) == 0 || found.Percent < covered {
		return nil, fmt.Errorf("unknown licence: %.0f %% of it are known", found.Percent)
	}
	return slices.Sorted(maps.Keys(ids)), nil
}
