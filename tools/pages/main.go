// Command pages builds the pages of web/ into internal/local/pages/dist: each folder with
// a page.tsx becomes one script, with what it loads later in pieces of their own, one
// style and the fonts that they name. Names have a hash of what is in them, scripts and
// styles are kept compressed, <page>.json says what belongs to a page, and
// <page>.messages.json has its texts in every locale. With -check
// nothing is written: what differs from a new build is named, and fails.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// manifest names the files of a page.
type manifest struct {
	Script string            `json:"script"`
	Style  string            `json:"style,omitempty"`
	Worker string            `json:"worker,omitempty"` // of its worker.ts
	Load   []string          `json:"load,omitempty"`   // what the script loads at once
	Fonts  map[string]string `json:"fonts,omitempty"`
}

func main() {
	root := flag.String("root", "../..", "the repository")
	check := flag.Bool("check", false, "compare with what is kept instead of writing")
	flag.Parse()
	if err := run(*root, *check); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(root string, check bool) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	entries, err := filepath.Glob(filepath.Join(root, "web", "*", "page.tsx"))
	if err != nil {
		return err
	}
	built := map[string][]byte{}
	for _, entry := range entries {
		page := filepath.Base(filepath.Dir(entry))
		files, err := build(root, page)
		if err != nil {
			return fmt.Errorf("%s: %w", page, err)
		}
		maps.Copy(built, files)
	}
	dist := filepath.Join(root, "internal", "local", "pages", "dist")
	if check {
		return compare(dist, built)
	}
	return write(dist, built)
}

// build returns the files of a page by their names in dist, and says how large they are.
func build(root, page string) (map[string][]byte, error) {
	web := filepath.Join(root, "web")
	entries := []api.EntryPoint{{InputPath: page + "/page.tsx", OutputPath: page}}
	if _, err := os.Stat(filepath.Join(web, page, "worker.ts")); err == nil {
		entries = append(entries, api.EntryPoint{InputPath: page + "/worker.ts", OutputPath: page + "-worker"})
	}
	result := api.Build(api.BuildOptions{
		AbsWorkingDir: web, Outdir: web, EntryPointsAdvanced: entries, // nothing is written
		Bundle: true, Splitting: true, Metafile: true, Format: api.FormatESModule, Target: api.ES2022, Platform: api.PlatformBrowser,
		MinifyWhitespace: true, MinifyIdentifiers: true, MinifySyntax: true, Charset: api.CharsetUTF8, LegalComments: api.LegalCommentsNone,
		EntryNames: "[name]-[hash]", ChunkNames: page + "-[name]-[hash]", AssetNames: "[name]-[hash]", PublicPath: "/assets",
		JSX: api.JSXAutomatic, JSXImportSource: "preact",
		Loader: map[string]api.Loader{".woff2": api.LoaderFile, ".svg": api.LoaderFile},
		Define: map[string]string{"process.env.NODE_ENV": `"production"`},
	})
	if len(result.Errors) > 0 {
		said := api.FormatMessages(result.Errors, api.FormatMessagesOptions{Kind: api.ErrorMessage})
		return nil, errors.New(strings.Join(said, "\n"))
	}
	of, err := describe(result.Metafile, page)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, f := range result.OutputFiles {
		name, content := filepath.Base(f.Path), f.Contents
		if filepath.Ext(name) != ".woff2" { // which is compressed
			name += ".gz"
			if content, err = compressed(content); err != nil {
				return nil, err
			}
		}
		files[name] = content
		fmt.Printf("%7d  %s\n", len(content), name)
	}
	if files[page+".json"], err = json.MarshalIndent(of, "", "  "); err != nil {
		return nil, err
	}
	texts, err := messages(root, page)
	if err != nil || texts == nil {
		return files, err
	}
	b, err := json.Marshal(texts)
	if err != nil {
		return nil, err
	}
	files[page+".messages.json.gz"], err = compressed(b)
	return files, err
}

// describe finds the parts of a page in what esbuild says of its build.
func describe(metafile, page string) (manifest, error) {
	var meta struct {
		Outputs map[string]struct {
			EntryPoint string
			CSSBundle  string `json:"cssBundle"`
			Imports    []struct{ Path, Kind string }
		}
	}
	if err := json.Unmarshal([]byte(metafile), &meta); err != nil {
		return manifest{}, err
	}
	of := manifest{Fonts: map[string]string{}}
	for name, out := range meta.Outputs {
		switch {
		case out.EntryPoint == page+"/page.tsx":
			of.Script, of.Style = name, out.CSSBundle
			for _, i := range out.Imports {
				if i.Kind == "import-statement" {
					of.Load = append(of.Load, i.Path)
				}
			}
		case out.EntryPoint == page+"/worker.ts":
			of.Worker = name
		case filepath.Ext(name) == ".woff2":
			of.Fonts[name[:strings.LastIndex(name, "-")]] = name
		}
	}
	return of, nil
}

func compressed(content []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

// plain is what a file holds: compressed bytes may differ from one Go to the next.
func plain(name string, content []byte) ([]byte, error) {
	if filepath.Ext(name) != ".gz" {
		return content, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

func compare(dist string, built map[string][]byte) error {
	kept, err := os.ReadDir(dist)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var differ []string
	for _, e := range kept {
		if _, ok := built[e.Name()]; !ok && e.Name() != keep {
			differ = append(differ, e.Name()+" belongs to no page any more")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(built)) {
		is, err := os.ReadFile(filepath.Join(dist, name))
		if errors.Is(err, fs.ErrNotExist) {
			differ = append(differ, name+" is missing")
			continue
		}
		if err != nil {
			return err
		}
		was, err := plain(name, is)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		now, err := plain(name, built[name])
		if err != nil {
			return err
		}
		if !bytes.Equal(was, now) {
			differ = append(differ, name+" is another")
		}
	}
	if differ != nil {
		return fmt.Errorf("the pages that are kept are not those of their sources; 'make pages' builds them:\n  %s", strings.Join(differ, "\n  "))
	}
	return nil
}

// keep has the folder exist, for its embedding, while there is no page.
const keep = "README"

func write(dist string, built map[string][]byte) error {
	if err := os.MkdirAll(dist, 0o755); err != nil { //nolint:gosec // sources
		return err
	}
	kept, err := os.ReadDir(dist)
	if err != nil {
		return err
	}
	for _, e := range kept {
		if _, ok := built[e.Name()]; !ok && e.Name() != keep {
			if err := os.Remove(filepath.Join(dist, e.Name())); err != nil {
				return err
			}
		}
	}
	for name, content := range built {
		if err := os.WriteFile(filepath.Join(dist, name), content, 0o644); err != nil { //nolint:gosec // sources
			return err
		}
	}
	return nil
}
