package cache

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// The encodings of a body, in the order of the server's preference when sizes
// are equal.
type encoding uint8

const (
	identity encoding = iota
	gzipped
	zstandard
	encodings
)

var (
	encodingName   = [encodings]string{"identity", "gzip", "zstd"}
	encodingSuffix = [encodings]string{"", "-g", "-z"}
)

// compressor compresses a body once, when it is filled.
type compressor struct {
	writers sync.Pool // of *gzip.Writer
	enc     *zstd.Encoder
	dec     *zstd.Decoder
	most    int // bytes of a body
}

func newCompressor(most int) (*compressor, error) {
	// One worker, a window no larger than bodies are: the coders keep their
	// buffers for good.
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("zstd encoder: %w", err)
	}
	// The limit keeps a small blob from unpacking to a large one.
	dec, err := zstd.NewReader(
		nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(most)), zstd.WithDecoderLowmem(true), //nolint:gosec // positive
	)
	if err != nil {
		return nil, fmt.Errorf("zstd decoder: %w", err)
	}
	return &compressor{enc: enc, dec: dec, most: most, writers: sync.Pool{New: func() any {
		w, _ := gzip.NewWriterLevel(nil, 6) // the level is a valid one
		return w
	}}}, nil
}

func (c *compressor) gzip(body []byte) []byte {
	w := c.writers.Get().(*gzip.Writer) // nothing else is put there
	defer c.writers.Put(w)
	var out bytes.Buffer
	out.Grow(len(body)/4 + 64)
	w.Reset(&out)
	// A buffer takes every write.
	_, _ = w.Write(body)
	_ = w.Close()
	return bytes.Clone(out.Bytes())
}

func (c *compressor) zstd(body []byte) []byte {
	return bytes.Clone(c.enc.EncodeAll(body, make([]byte, 0, len(body)/4+64)))
}

func (c *compressor) unzstd(packed []byte) ([]byte, error) {
	body, err := c.dec.DecodeAll(packed, nil)
	if err == nil && len(body) > c.most {
		err = fmt.Errorf("body is over %d bytes", c.most)
	}
	return body, err
}

func (c *compressor) close() {
	_ = c.enc.Close() // nothing was streamed
	c.dec.Close()
}
