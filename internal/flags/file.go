package flags

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// maxFile is far more than a file of switches needs.
const maxFile = 1 << 20

// File is a JSON object from flag to value: {"some.flag": true, "other": 0.5}.
// It is read again when its time or size changes.
type File struct {
	path  string
	mtime time.Time
	size  int64
	last  map[string]string
}

// NewFile returns the file as a source. A file that is not there is an empty
// one: a deployment without switches needs none.
func NewFile(path string) *File { return &File{path: path} }

// Name is "file".
func (*File) Name() string { return "file" }

// Load reads the file, if it has changed.
func (f *File) Load(context.Context) (map[string]string, error) {
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) && f.last == nil {
		return nil, nil
	}
	if err != nil { // once it was there, its loss is an accident
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if f.last != nil && info.ModTime().Equal(f.mtime) && info.Size() == f.size {
		return f.last, nil
	}
	raw, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, err
	}
	values, err := decode(raw)
	if err != nil {
		return nil, err
	}
	f.mtime, f.size, f.last = info.ModTime(), info.Size(), values
	return values, nil
}

// decode reads a JSON object; strings lose their quotes, everything else keeps
// its JSON text, null is no value.
func decode(raw []byte) (map[string]string, error) {
	if len(raw) > maxFile {
		return nil, fmt.Errorf("more than %d bytes", maxFile)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil || object == nil {
		return nil, errors.New("not a JSON object")
	}
	values := make(map[string]string, len(object))
	for name, text := range object {
		var s string
		switch {
		case bytes.Equal(text, []byte("null")):
			continue
		case json.Unmarshal(text, &s) == nil:
			values[name] = s
		default:
			values[name] = string(text)
		}
	}
	return values, nil
}
