package backofficed

import (
	"time"

	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff/internal/backoffice/backofficecache"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/flags"
	"melmastoon.ghasi.io/bff/internal/service"
)

// flagsEvery is how old flags are at most if the message that they have changed was lost
// (DATA_MODEL §3.2).
const flagsEvery = 30 * time.Second

// openFlags reads the platform's flags from a file and from a hash in the cache tier,
// which wins. The tier may evict the hash: what must stay is in the file.
func (c *Config) openFlags(p *service.Process, client rueidis.Client) (*identity.Flags, error) {
	sources := []flags.Source{flags.NewRedis(client, backofficecache.FlagsKey(p.Keys()))}
	if c.FlagsFile != "" {
		sources = append([]flags.Source{flags.NewFile(c.FlagsFile)}, sources...)
	}
	f, err := p.Flags(flagsEvery, sources...)
	if err != nil {
		return nil, err
	}
	return identity.NewFlags(f), nil
}
