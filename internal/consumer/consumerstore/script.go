package consumerstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts so
	"encoding/hex"
	"strings"

	"github.com/redis/rueidis"
)

// script is a Lua script of one key that can stand in a pipeline with others.
type script struct {
	lua *rueidis.Lua
	sha string
}

func newScript(source string) script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // Redis names scripts so
	return script{rueidis.NewLuaScript(source), hex.EncodeToString(sum[:])}
}

// call is one execution of a script.
type call struct {
	script
	key  string
	args []string
}

func (s script) call(key string, args ...string) call { return call{s, key, args} }

func (c call) exec(ctx context.Context, r rueidis.Client) rueidis.RedisResult {
	return c.lua.Exec(ctx, r, []string{c.key}, c.args)
}

// pipeline sends commands and calls of scripts in one go. A script that Redis
// has forgotten is sent again, with its source.
func (s *Store) pipeline(ctx context.Context, cmds rueidis.Commands, calls []call) []rueidis.RedisResult {
	r, plain := s.cfg.Sessions, len(cmds)
	for _, c := range calls {
		cmds = append(cmds, r.B().Evalsha().Sha1(c.sha).Numkeys(1).Key(c.key).Arg(c.args...).Build())
	}
	if len(cmds) == 0 {
		return nil
	}
	results := r.DoMulti(ctx, cmds...)
	for i, c := range calls {
		if err := results[plain+i].Error(); err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
			results[plain+i] = c.exec(ctx, r)
		}
	}
	return results
}
