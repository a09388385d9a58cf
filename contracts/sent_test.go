package contracts_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"

	"melmastoon.ghasi.io/bff/contracts"
)

// TestPublishedSchemasInAsyncAPI writes the sent part of each AsyncAPI document from the
// schemas of what the service publishes: their titles, what they say of themselves, their topics.
func TestPublishedSchemasInAsyncAPI(t *testing.T) {
	t.Parallel()
	for _, service := range []string{"consumer", "backoffice"} {
		files, err := fs.Glob(contracts.Events(), "bff-"+service+"/*/v*.json")
		if err != nil {
			t.Fatal(err)
		}
		var channels, operations, messages strings.Builder
		for _, file := range files {
			writeSent(t, file, &channels, &operations, &messages)
		}
		name := "asyncapi/" + service + ".yaml"
		have, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		want := sentPart(t, string(have), channels.String(), operations.String(), messages.String())
		switch {
		case want == string(have):
		case !*publish:
			t.Errorf("contracts/%s is stale: run go test ./contracts -run TestPublishedSchemas -publish", name)
		default:
			if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// sentPart puts the parts in the places of a document that are marked for them.
func sentPart(t *testing.T, document string, parts ...string) string {
	t.Helper()
	const begin, end = "# Sent events: written with -publish.\n", "# End of sent events.\n"
	var out strings.Builder
	for _, part := range parts {
		before, rest, ok := strings.Cut(document, begin)
		old, after, ended := strings.Cut(rest, end)
		if !ok || !ended {
			t.Fatalf("the document has no place for %d parts", len(parts))
		}
		out.WriteString(before + begin + part + old[strings.LastIndexByte(old, '\n')+1:] + end)
		document = after
	}
	return out.String() + document
}

// writeSent writes channel, operation and message of the event of a schema. A version
// after the first has its number in its names.
func writeSent(t *testing.T, file string, channels, operations, messages *strings.Builder) {
	t.Helper()
	src, err := fs.ReadFile(contracts.Events(), file)
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Title, Description string
		Properties         struct {
			Envelope struct {
				Properties struct{ Subject struct{ Const string } }
			}
		}
	}
	if err := json.Unmarshal(src, &schema); err != nil {
		t.Fatal(err)
	}
	words := strings.Split(path.Base(path.Dir(file)), "-")
	if version := strings.TrimSuffix(path.Base(file), ".json"); version != "v1" {
		words = append(words, version)
	}
	var operation string
	for _, w := range words {
		operation += strings.ToUpper(w[:1]) + w[1:]
	}
	name, topic := strings.ToLower(operation[:1])+operation[1:], schema.Properties.Envelope.Properties.Subject.Const
	fmt.Fprintf(channels, `  %[1]s:
    address: %[2]s
    title: %[3]q
    messages:
      %[1]s:
        $ref: '#/components/messages/%[1]s'
`, name, topic, schema.Title)
	fmt.Fprintf(operations, `  send%s:
    action: send
    description: %q
    channel:
      $ref: '#/channels/%[3]s'
    messages:
      - $ref: '#/channels/%[3]s/messages/%[3]s'
`, operation, schema.Title+".", name)
	fmt.Fprintf(messages, `    %s:
      name: %s
      title: %q
      summary: %q
      contentType: application/json
      payload:
        $ref: ../events/%s
`, name, topic, schema.Title, schema.Description, file)
}
