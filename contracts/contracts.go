// Package contracts holds what others build against, embedded: the schemas of
// the events and the description of their channels. Package bff embeds the
// error registry, and package handoff checks itself against the vectors.
package contracts

import (
	"embed"
	"io/fs"
)

//go:embed events/bff-consumer events/common events/envelope
var events embed.FS

//go:embed asyncapi/consumer.yaml
var consumerAsyncAPI []byte

// SchemaBase is where the schemas are published: the path below it is the path
// of the file in Events.
const SchemaBase = "https://schemas.melmastoon.ghasi.io/"

// Events holds the JSON Schemas (2020-12) of the published events, one file per
// version such as bff-consumer/search-executed/v1.json.
func Events() fs.FS {
	sub, err := fs.Sub(events, "events")
	if err != nil {
		panic(err) // only a malformed constant path gets here
	}
	return sub
}

// ConsumerAsyncAPI is the AsyncAPI 3 document of the anonymous service.
func ConsumerAsyncAPI() []byte { return consumerAsyncAPI }
