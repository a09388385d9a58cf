// Command image makes what deploy/Containerfile makes, without an engine, a base or rights: `image -o bin/images bin/bff-consumer …` writes
// an OCI layout per program, DIR/NAME, ready to be pushed (`crane push DIR/NAME …`). The same programs and certificates give the same digest.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// most is what an image may weigh, compressed: a new instance waits for it.
const most = 25 << 20

func main() {
	log.SetFlags(0)
	log.SetPrefix("image: ")
	dir := flag.String("o", "bin/images", "directory of the layouts")
	authorities := flag.String("certificates", "/etc/ssl/certs/ca-certificates.crt", "certificates of public authorities")
	flag.Parse()
	for _, program := range flag.Args() {
		if err := build(program, *authorities, filepath.Join(*dir, filepath.Base(program)), os.Stdout); err != nil {
			log.Fatalf("%s: %v", program, err)
		}
	}
}

// build writes the image of a program and says its digest and size.
func build(program, authorities, dir string, say io.Writer) error {
	name := filepath.Base(program)
	version, revision, err := says(program)
	if err != nil {
		return err
	}
	layer, err := pack([]file{
		{"etc/ssl/certs/ca-certificates.crt", authorities, 0o444},
		{"licenses.txt", program + ".licenses.txt", 0o444},
		{name, program, 0o555},
	})
	if err != nil {
		return err
	}
	image, err := mutate.AppendLayers(mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1), layer)
	if err != nil {
		return err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", runtime.GOARCH, v1.Time{Time: time.Unix(0, 0).UTC()}
	config.History = nil
	config.Config = v1.Config{
		User: "65532:65532", Entrypoint: []string{"/" + name},
		Labels: map[string]string{"org.opencontainers.image.title": name, "org.opencontainers.image.version": version, "org.opencontainers.image.revision": revision},
	}
	if name != "melmastoon" {
		config.Config.Cmd = []string{"serve"}
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return err
	}
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	size, err := layer.Size()
	if err != nil {
		return err
	}
	if size > most {
		return fmt.Errorf("%d bytes compressed, at most %d", size, most)
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	l, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = l.AppendImage(image, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": version}))
	}
	fmt.Fprintf(say, "%s %s %s, %.1f MB\n", dir, version, digest, float64(size)/1e6)
	return err
}

var stamp = regexp.MustCompile(`^\S+ (\S+) \(commit (\S+), `)

// says is what a program says of its version and commit.
func says(program string) (version, revision string, err error) {
	path, err := filepath.Abs(program)
	if err != nil {
		return "", "", err
	}
	out, err := exec.Command(path, "--version").Output()
	m := stamp.FindStringSubmatch(string(out))
	if err != nil || m == nil {
		return "", "", fmt.Errorf("--version: %q, %w", out, err)
	}
	return m[1], m[2], nil
}

// file is one of an image.
type file struct {
	name, from string
	mode       int64
}

// pack makes a layer in which nothing depends on when, where or by which user it is made.
func pack(files []file) (v1.Layer, error) {
	var all bytes.Buffer
	w := tar.NewWriter(&all)
	made := map[string]bool{}
	for _, f := range files {
		content, err := os.ReadFile(f.from)
		if err != nil {
			return nil, err
		}
		for i, c := range f.name {
			if dir := f.name[:i]; c == '/' && !made[dir] {
				made[dir] = true
				if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o555}); err != nil {
					return nil, err
				}
			}
		}
		err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(content))})
		if err == nil {
			_, err = w.Write(content)
		}
		if err != nil {
			return nil, err
		}
	}
	err := w.Close()
	layer, failed := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(all.Bytes())), nil },
		tarball.WithCompressedCaching, tarball.WithCompressionLevel(9), tarball.WithMediaType(types.OCILayer))
	return layer, errors.Join(err, failed)
}
