// Package secretmanager is the door to the cloud's secret store. Only
// composition roots import it: it brings the cloud's client along.
package secretmanager

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"

	api "cloud.google.com/go/secretmanager/apiv1"
	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/api/option"
)

// Source is one secret's newest version.
type Source struct {
	client *api.Client
	name   string
}

// Open returns the secret with the resource name projects/…/secrets/…/versions/….
func Open(ctx context.Context, name string, opts ...option.ClientOption) (*Source, error) {
	client, err := api.NewClient(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("open secret manager: %w", err)
	}
	return &Source{client: client, name: name}, nil
}

// Load returns the secret's bytes.
func (s *Source) Load(ctx context.Context) ([]byte, error) {
	res, err := s.client.AccessSecretVersion(ctx, &secretmanagerpb.AccessSecretVersionRequest{Name: s.name})
	if err != nil {
		return nil, fmt.Errorf("read secret: %w", err)
	}
	data := res.GetPayload().GetData()
	if sum := res.GetPayload().DataCrc32C; sum != nil && *sum != int64(crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))) {
		return nil, errors.New("read secret: damaged on the way")
	}
	return data, nil
}

// String names the secret.
func (s *Source) String() string { return s.name }

// Close ends the connection.
func (s *Source) Close() error { return s.client.Close() }
