package consumerevents

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"melmastoon.ghasi.io/bff/contracts"
	"melmastoon.ghasi.io/bff/internal/outbox"
	"melmastoon.ghasi.io/bff/internal/pubsub"
)

// ErrSchema is wrapped by every refusal of an event that is not as its schema
// says.
var ErrSchema = errors.New("event does not follow its schema")

// Schemas checks events before others see them. It is stricter than the
// published schemas: readers must bear members that they do not know, but what
// we write ourselves we must have declared.
type Schemas struct{ byURI map[string]*jsonschema.Schema }

// NewSchemas compiles the embedded schemas.
func NewSchemas() (*Schemas, error) {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	var uris []string
	files := contracts.Events()
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		closeObjects(doc)
		uris = append(uris, contracts.SchemaBase+path)
		return c.AddResource(contracts.SchemaBase+path, doc)
	})
	if err != nil {
		return nil, fmt.Errorf("event schemas: %w", err)
	}
	s := &Schemas{byURI: make(map[string]*jsonschema.Schema, len(uris))}
	for _, uri := range uris {
		if s.byURI[uri], err = c.Compile(uri); err != nil {
			return nil, fmt.Errorf("event schemas: %w", err)
		}
	}
	return s, nil
}

// closeObjects forbids undeclared members wherever members are declared. A
// schema that only narrows another one has a reference, or no type, and stays open.
func closeObjects(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, declared := v["properties"]; declared && v["type"] == "object" && v["additionalProperties"] == nil && v["$ref"] == nil {
			v["additionalProperties"] = false
		}
		for _, child := range v {
			closeObjects(child)
		}
	case []any:
		for _, child := range v {
			closeObjects(child)
		}
	}
}

// Check holds an encoded event to the schema that its envelope names.
func (s *Schemas) Check(data []byte) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("%w: not JSON", ErrSchema)
	}
	event, _ := doc.(map[string]any)
	envelope, _ := event["envelope"].(map[string]any)
	uri, _ := envelope["schemaUri"].(string)
	schema, ok := s.byURI[uri]
	if !ok {
		return fmt.Errorf("%w: there is no schema %q", ErrSchema, uri)
	}
	if err := schema.Validate(doc); err != nil {
		return fmt.Errorf("%w: %w", ErrSchema, err)
	}
	return nil
}

// Checked wraps a publisher with the embedded schemas.
func Checked(next outbox.Publisher) (outbox.Publisher, error) {
	s, err := NewSchemas()
	if err != nil {
		return nil, err
	}
	return s.Checked(next), nil
}

// Checked is a publisher that lets only events pass that follow their schemas.
// It is for development: there a refusal is seen at once, in production it
// would keep an event from those who could live with it. Of each topic the
// first are all checked and then a share, lest a load test measure the checks.
func (s *Schemas) Checked(next outbox.Publisher) outbox.Publisher {
	return &checked{schemas: s, next: next, seen: map[string]int{}}
}

const (
	checkedFirst = 100
	checkedShare = 32
)

type checked struct {
	schemas *Schemas
	next    outbox.Publisher
	mu      sync.Mutex
	seen    map[string]int // by topic
}

// check looks at a message, if it is among those to be looked at.
func (c *checked) check(m *pubsub.Message) error {
	c.mu.Lock()
	c.seen[m.Topic]++
	n := c.seen[m.Topic]
	c.mu.Unlock()
	if n > checkedFirst && n%checkedShare != 0 {
		return nil
	}
	return c.schemas.Check(m.Data)
}

// Publish answers for each message, as the wrapped publisher does. What stands
// behind a refused one of the same topic and key is held back with it.
func (c *checked) Publish(ctx context.Context, messages []pubsub.Message) []error {
	type lane struct{ topic, key string }
	errs := make([]error, len(messages))
	held := map[lane]bool{}
	var pass []pubsub.Message
	var at []int
	for i, m := range messages {
		l := lane{m.Topic, m.Key}
		if m.Key != "" && held[l] {
			errs[i] = pubsub.ErrHeld
			continue
		}
		if errs[i] = c.check(&m); errs[i] != nil {
			held[l] = true
			continue
		}
		pass, at = append(pass, m), append(at, i)
	}
	if len(pass) > 0 {
		for i, err := range c.next.Publish(ctx, pass) {
			errs[at[i]] = err
		}
	}
	return errs
}
