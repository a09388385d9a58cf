// Package contracts holds what others build against, embedded: the HTTP surface
// (OpenAPI), the channels (AsyncAPI) and the schemas of the events. Package bff
// embeds the error registry, and package handoff checks itself against the
// vectors.
package contracts

import (
	"embed"
	"io/fs"
)

//go:embed openapi/*.yaml asyncapi/*.yaml
var documents embed.FS

// events/* without published.txt, which only the tests need.
//
//go:embed events/*/*
var events embed.FS

// SchemaBase is where the schemas are published: the path below it is the path
// of the file in Events.
const SchemaBase = "https://schemas.melmastoon.ghasi.io/"

// OpenAPI is the OpenAPI 3.1 document of a service such as "consumer", in YAML.
// A service without a document is a mistake in the caller's code: it panics.
func OpenAPI(service string) []byte { return document("openapi", service) }

// AsyncAPI is the AsyncAPI 3 document of a service, like OpenAPI.
func AsyncAPI(service string) []byte { return document("asyncapi", service) }

func document(kind, service string) []byte {
	b, err := documents.ReadFile(kind + "/" + service + ".yaml")
	if err != nil {
		panic("contracts: " + err.Error())
	}
	return b
}

// Events holds the JSON Schemas (2020-12) of the published events, one file per
// version such as bff-consumer/search-executed/v1.json.
func Events() fs.FS {
	sub, err := fs.Sub(events, "events")
	if err != nil {
		panic(err) // only a malformed constant path gets here
	}
	return sub
}
