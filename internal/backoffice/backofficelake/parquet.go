package backofficelake

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/parquet-go/parquet-go"

	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
)

// kind is how a column of a file is written.
type kind = audit.Kind

// kindHash is a SHA-256 as 32 bytes, beside the kinds of rows.
const kindHash kind = 100

// Column is a column of exported files.
type Column struct {
	Name     string
	Kind     kind
	Required bool
	// Unique: hardly a value comes twice, so that a dictionary would not pay.
	Unique bool
}

// node is of a type that every engine takes: ids and JSON are plain text. Spark refuses files with columns annotated as
// UUID, and what BigQuery's loader makes of those and of JSON is not in its list of types.
func (c Column) node() parquet.Node {
	var n parquet.Node
	switch c.Kind {
	case audit.AuditTime:
		n = parquet.Timestamp(parquet.Microsecond)
	case audit.AuditInt:
		n = parquet.Int(64)
	case kindHash:
		n = parquet.Leaf(parquet.FixedLenByteArrayType(32))
	default:
		n = parquet.String()
	}
	switch {
	case c.Unique, c.Kind == audit.AuditTime, c.Kind == audit.AuditInt, c.Kind == kindHash:
		n = parquet.Encoded(n, &parquet.Plain)
	default:
		n = parquet.Encoded(n, &parquet.RLEDictionary)
	}
	if !c.Required {
		n = parquet.Optional(n)
	}
	return parquet.Compressed(n, &parquet.Snappy)
}

const (
	// groupRows bounds what is buffered of a file.
	groupRows = 64 << 10
	// chunkRows are written and read together.
	chunkRows = 1 << 7
)

// file is a Parquet file in the making.
type file struct {
	w       *parquet.GenericWriter[any]
	columns []Column
	leaf    []int // of each column, its place in the file
	pending []parquet.Row
	rows    int64
}

func newFile(w io.Writer, name string, columns []Column) (*file, error) {
	group := parquet.Group{}
	options := []parquet.WriterOption{
		nil, parquet.CreatedBy("melmastoon bff-backoffice", "1", ""), parquet.DataPageStatistics(true), parquet.MaxRowsPerRowGroup(groupRows),
	}
	for _, c := range columns {
		group[c.Name] = c.node()
		if c.Kind == audit.AuditText || c.Kind == audit.AuditUUID { // least and greatest of words and random ids help no reader
			options = append(options, parquet.SkipPageBounds(c.Name), parquet.SkipPageStatistics(c.Name))
		}
	}
	s := parquet.NewSchema(name, group)
	options[0] = s
	f := &file{w: parquet.NewGenericWriter[any](w, options...), columns: columns}
	for _, c := range columns {
		leaf, ok := s.Lookup(c.Name)
		if !ok {
			return nil, fmt.Errorf("column %s is not in its own schema", c.Name)
		}
		f.leaf = append(f.leaf, leaf.ColumnIndex)
	}
	return f, nil
}

// add appends a row, whose values do not change any more.
func (f *file) add(values [][]byte) error {
	row := make(parquet.Row, len(values))
	for i, v := range values {
		c, at := &f.columns[i], f.leaf[i]
		switch {
		case v != nil && c.Required:
			row[at] = valueOf(c.Kind, v).Level(0, 0, at)
		case v != nil:
			row[at] = valueOf(c.Kind, v).Level(0, 1, at)
		case c.Required:
			return fmt.Errorf("column %s is null", c.Name)
		default:
			row[at] = parquet.NullValue().Level(0, 0, at)
		}
	}
	f.rows++
	if f.pending = append(f.pending, row); len(f.pending) < chunkRows {
		return nil
	}
	return f.write()
}

func valueOf(k kind, v []byte) parquet.Value {
	switch k {
	case audit.AuditTime, audit.AuditInt:
		return parquet.Int64Value(number(v))
	case audit.AuditUUID:
		return parquet.ByteArrayValue(appendUUID(make([]byte, 0, 36), v))
	case kindHash:
		return parquet.FixedLenByteArrayValue(v)
	default:
		return parquet.ByteArrayValue(v)
	}
}

// appendUUID appends 16 bytes as Postgres spells them.
func appendUUID(text, id []byte) []byte {
	for _, group := range [][]byte{id[:4], id[4:6], id[6:8], id[8:10], id[10:]} {
		if len(text) > 0 {
			text = append(text, '-')
		}
		text = hex.AppendEncode(text, group)
	}
	return text
}

func (f *file) write() error {
	_, err := f.w.WriteRows(f.pending)
	f.pending = f.pending[:0]
	return err
}

// flush ends the row group.
func (f *file) flush() error {
	if err := f.write(); err != nil {
		return err
	}
	return f.w.Flush()
}

func (f *file) close() error {
	if err := f.write(); err != nil {
		return err
	}
	return f.w.Close()
}

// readFile calls back with every row of a file, in its order. Values are as they were
// written, and may be kept.
func readFile(r io.ReaderAt, size int64, columns []Column, each func(row [][]byte) error) (err error) {
	defer func() { // a column of another type than it must have, or no id in one of ids
		if p := recover(); p != nil {
			err = fmt.Errorf("malformed: %v", p)
		}
	}()
	f, err := parquet.OpenFile(r, size)
	if err != nil {
		return err
	}
	leaf := make([]int, len(columns))
	for i, c := range columns {
		col, ok := f.Schema().Lookup(c.Name)
		if !ok {
			if c.Required {
				return fmt.Errorf("column %s is missing", c.Name)
			}
			leaf[i] = -1 // the file is older than the column
			continue
		}
		leaf[i] = col.ColumnIndex
	}
	reader := parquet.NewReader(f)
	defer func() { _ = reader.Close() }() // only read
	buf := make([]parquet.Row, chunkRows)
	for {
		n, err := reader.ReadRows(buf)
		for _, row := range buf[:n] {
			values := make([][]byte, len(columns))
			for i, c := range columns {
				if leaf[i] >= 0 {
					values[i] = bytesOf(c.Kind, row[leaf[i]])
				}
			}
			if err := each(values); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func bytesOf(k kind, v parquet.Value) []byte {
	switch {
	case v.IsNull():
		return nil
	case k == audit.AuditTime, k == audit.AuditInt:
		return binary.BigEndian.AppendUint64(nil, uint64(v.Int64())) //nolint:gosec // the bits
	}
	if k == audit.AuditUUID && len(v.ByteArray()) != 16 { // 0.1.0 wrote the 16 bytes
		id, err := hex.DecodeString(strings.ReplaceAll(string(v.ByteArray()), "-", ""))
		if err != nil || len(id) != 16 {
			panic("an id is malformed")
		}
		return id
	}
	return append([]byte{}, v.ByteArray()...)
}
