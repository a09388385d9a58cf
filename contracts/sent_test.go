package contracts_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
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
		var parts [3]strings.Builder
		for _, file := range files {
			writeSent(t, file, &parts[0], &parts[1], &parts[2])
		}
		name, n := "asyncapi/"+service+".yaml", 0
		have, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		want := sentPart.ReplaceAllFunc(have, func(part []byte) []byte {
			n++
			return sentPart.ReplaceAll(part, []byte("${1}"+strings.ReplaceAll(parts[n-1].String(), "$", "$$")+"${2}"))
		})
		if n != len(parts) {
			t.Fatalf("%s has %d marked parts, want channels, operations and messages", name, n)
		}
		if *publish {
			if err := os.WriteFile(name, want, 0o644); err != nil {
				t.Fatal(err)
			}
		} else if !bytes.Equal(have, want) {
			t.Errorf("contracts/%s is stale: run go test ./contracts -run TestPublishedSchemas -publish", name)
		}
	}
}

var sentPart = regexp.MustCompile(`(?s)(# Sent events: written with -publish\.\n).*?( *# End of sent events\.\n)`)

// writeSent writes channel, operation and message of the event of a schema. A version
// after the first has its number in its names.
func writeSent(t *testing.T, file string, channels, operations, messages *strings.Builder) {
	t.Helper()
	var schema struct {
		Title, Description string
		Properties         struct {
			Envelope struct {
				Properties struct{ Subject struct{ Const string } }
			}
		}
	}
	if src, err := fs.ReadFile(contracts.Events(), file); err != nil || json.Unmarshal(src, &schema) != nil {
		t.Fatalf("%s: %v", file, err)
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
