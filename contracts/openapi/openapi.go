// Package openapi holds the descriptions of the HTTP surfaces, embedded: what
// front ends build against, what the tests hold the services to.
package openapi

import _ "embed"

//go:embed consumer.yaml
var consumer []byte

// Consumer is the OpenAPI 3.1 document of the anonymous service, in YAML.
func Consumer() []byte { return consumer }
