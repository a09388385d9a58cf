// What holds deployments to parts that are not ours: see "Parts" in docs/operations.md. Apart from tools/go.mod, so that neither
// chooses versions for the other.
module melmastoon.ghasi.io/bff/tools/parts

go 1.26.0

require (
	github.com/CycloneDX/cyclonedx-go v0.12.0
	github.com/google/licensecheck v0.3.1
)

require (
	github.com/google/go-containerregistry v0.22.1
	github.com/klauspost/compress v1.19.2 // indirect
	github.com/opencontainers/go-digest v1.0.0 // indirect
	github.com/opencontainers/image-spec v1.1.1 // indirect
	golang.org/x/sync v0.22.0 // indirect
)
