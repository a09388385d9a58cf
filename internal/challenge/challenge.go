// Package challenge makes a caller pay with computing time: a signed proof of work that
// needs no third party. It knows opaque subjects and no guests.
//
// The wire format is that of ALTCHA version 1, so that its widget solves our
// challenges: find the number, at most maxnumber, whose SHA-256 together with the salt
// is the challenge. The signature is ours: it covers everything, the subject included,
// so that a solution is worth nothing to another session, after its time, or twice.
//
// The solver for browsers, and what to offer people who cannot use it, are in solver.
package challenge

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Algorithm is the only one we speak.
const Algorithm = "SHA-256"

// Reasons why a solution is refused. A store that cannot be reached is none of them.
var (
	ErrMalformed = errors.New("challenge: malformed")
	// ErrForged covers every field and the subject: which of them was wrong is
	// not told.
	ErrForged   = errors.New("challenge: forged, or another's")
	ErrExpired  = errors.New("challenge: expired")
	ErrUnsolved = errors.New("challenge: not solved")
	ErrSpent    = errors.New("challenge: spent before")
	// ErrEasy says that the work was done, and is less than the subject's score
	// asks for by now: it is no attempt to cheat.
	ErrEasy = errors.New("challenge: easier than the score demands")
)

// Burner remembers which challenges are spent, over all processes.
type Burner interface {
	// Burn marks an id for at least ttl. fresh is true for the first caller only,
	// however many come at once.
	Burn(ctx context.Context, id string, ttl time.Duration) (fresh bool, err error)
}

// Config says how hard and how long.
type Config struct {
	// Keys sign; at least 32 bytes each. The first one is in use, the others are
	// its predecessors, kept for as long as a challenge lives.
	Keys   [][]byte
	Burner Burner
	// TTL is how long a challenge may be solved. Default 10 minutes: a slow
	// telephone, and a person called away, should still make it.
	TTL time.Duration
	// Easy and Hard are the greatest numbers to be tried at score 0.5 and below, and
	// at score 1. Defaults 20,000 and 500,000: half a second to half a minute on a
	// cheap telephone.
	Easy, Hard int
}

func (c *Config) complete() error {
	var errs []error
	if len(c.Keys) == 0 {
		errs = append(errs, errors.New("keys: at least one"))
	}
	for i, key := range c.Keys {
		if len(key) < sha256.Size {
			errs = append(errs, fmt.Errorf("keys: number %d is shorter than %d bytes", i, sha256.Size))
		}
	}
	if c.Burner == nil {
		errs = append(errs, errors.New("burner: missing"))
	}
	if c.TTL == 0 {
		c.TTL = 10 * time.Minute
	}
	if c.TTL < time.Second {
		errs = append(errs, errors.New("ttl: at least a second"))
	}
	if c.Easy == 0 {
		c.Easy = 20_000
	}
	if c.Hard == 0 {
		c.Hard = 500_000
	}
	if c.Easy < 1 || c.Hard < c.Easy || c.Hard > maxNumber {
		errs = append(errs, fmt.Errorf("easy and hard: 1 ≤ easy ≤ hard ≤ %d", maxNumber))
	}
	return errors.Join(errs...)
}

// maxNumber is what a browser can count to in reasonable time.
const maxNumber = 50_000_000

// Challenge is what the caller is given.
type Challenge struct {
	Algorithm string `json:"algorithm"`
	Challenge string `json:"challenge"`
	MaxNumber int    `json:"maxnumber"`
	Salt      string `json:"salt"`
	Signature string `json:"signature"`
}

// Challenger issues challenges and checks their solutions.
type Challenger struct{ cfg Config }

// New checks the configuration.
func New(cfg Config) (*Challenger, error) {
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("challenge: %w", err)
	}
	cfg.Keys = slices.Clone(cfg.Keys)
	for i := range cfg.Keys {
		cfg.Keys[i] = slices.Clone(cfg.Keys[i])
	}
	return &Challenger{cfg: cfg}, nil
}

// Issue makes a challenge for a subject; the higher the score, the harder.
func (c *Challenger) Issue(subject string, score float64, now time.Time) Challenge {
	level := levelOf(score)
	hardest := c.difficulty(level)
	number := secret(hardest)
	// The salt ends in a mark that is no digit. Without it the last digits of the
	// expiry could be handed over to the number, with the same hash.
	salt := rand.Text() + "?expires=" + strconv.FormatInt(now.Add(c.cfg.TTL).Unix(), 10) + "&level=" + strconv.Itoa(level) + "&"
	hash := solution(salt, number)
	return Challenge{
		Algorithm: Algorithm, Challenge: hash, MaxNumber: hardest, Salt: salt,
		Signature: hex.EncodeToString(sign(c.cfg.Keys[0], subject, salt, hash)),
	}
}

// Scores are read in coarse levels, and a solution may be one level below the
// score at the time of its use: the score of an honest client moves a little while
// it solves.
const (
	maxLevel  = 5
	levelStep = 0.1
	tolerance = 1 // levels
)

// levelOf is the level of a score: 0 up to 0.5, maxLevel at 1.
func levelOf(score float64) int {
	if math.IsNaN(score) {
		return maxLevel
	}
	// Scores are sums of decimals, which in binary fall a little short of themselves.
	const epsilon = 1e-9
	return int((min(max(score, 0.5), 1)-0.5)/levelStep + epsilon)
}

// difficulty grows by the same factor for every level.
func (c *Challenger) difficulty(level int) int {
	share := float64(level) / maxLevel
	return int(math.Round(float64(c.cfg.Easy) * math.Pow(float64(c.cfg.Hard)/float64(c.cfg.Easy), share)))
}

// secret draws the number to be found.
func secret(hardest int) int {
	n, err := rand.Int(rand.Reader, big.NewInt(int64(hardest)+1))
	if err != nil {
		panic(err) // crypto/rand has promised never to fail
	}
	return int(n.Int64())
}

// Verify checks a solution: cheap tests first, the store last, so that nonsense costs us
// no call. The score is that of the subject now: a challenge that was asked for while the
// score was low does not pay for a high one. An error that is none of this package's
// means that the store could not say; the caller decides whom to trust then.
func (c *Challenger) Verify(ctx context.Context, subject, payload string, score float64, now time.Time) error {
	p, err := decode(payload)
	if err != nil {
		return err
	}
	salt, err := readSalt(p.Salt)
	if err != nil {
		return err
	}
	if !c.signed(subject, p) {
		return ErrForged
	}
	left := time.Unix(salt.expires, 0).Sub(now)
	if left <= 0 {
		return ErrExpired
	}
	if !equal(solution(p.Salt, p.Number), p.Challenge) {
		return ErrUnsolved
	}
	if salt.level+tolerance < levelOf(score) {
		return ErrEasy
	}
	fresh, err := c.cfg.Burner.Burn(ctx, salt.id, left+time.Second)
	if err != nil {
		return fmt.Errorf("burn challenge: %w", err)
	}
	if !fresh {
		return ErrSpent
	}
	return nil
}

// signed tries every key, and no less after a hit: the time says nothing.
func (c *Challenger) signed(subject string, p payload) bool {
	got, err := hex.DecodeString(p.Signature)
	if err != nil {
		return false
	}
	ok := false
	for _, key := range c.cfg.Keys {
		if hmac.Equal(got, sign(key, subject, p.Salt, p.Challenge)) {
			ok = true
		}
	}
	return ok
}

// sign covers what the caller could gain by changing. The lengths keep the fields
// apart. maxnumber is only advice to the solver: one that ignores it searches longer,
// and the level that it follows from is in the salt.
func sign(key []byte, subject, salt, hash string) []byte {
	mac := hmac.New(sha256.New, key)
	for _, field := range []string{"melmastoon challenge v1", subject, salt, hash} {
		mac.Write([]byte(strconv.Itoa(len(field)) + ":" + field))
	}
	return mac.Sum(nil)
}

// solution is the hash that a number leads to.
func solution(salt string, number int) string {
	sum := sha256.Sum256([]byte(salt + strconv.Itoa(number)))
	return hex.EncodeToString(sum[:])
}

func equal(a, b string) bool { return hmac.Equal([]byte(a), []byte(b)) }

// salt is what a salt of ours says: id?expires=unix&level=digit&
type salt struct {
	id      string
	expires int64
	level   int
}

// readSalt takes a salt apart. Only the form that Issue writes is accepted.
func readSalt(text string) (salt, error) {
	id, rest, _ := strings.Cut(text, "?expires=")
	expires, rest, _ := strings.Cut(rest, "&level=")
	level, tail, _ := strings.Cut(rest, "&")
	seconds, err := strconv.ParseInt(expires, 10, 64)
	if err != nil || seconds < 0 || len(id) != len(saltID) || tail != "" || len(level) != 1 || level[0] < '0' || level[0] > '0'+maxLevel {
		return salt{}, ErrMalformed
	}
	s := salt{id, seconds, int(level[0] - '0')}
	if s.id+"?expires="+strconv.FormatInt(s.expires, 10)+"&level="+level+"&" != text {
		return salt{}, ErrMalformed
	}
	return s, nil
}

// saltID shows the length of an id: 26 letters, as [rand.Text] makes them.
const saltID = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// Solve finds the number, as a browser would.
func (ch Challenge) Solve(ctx context.Context) (number int, err error) {
	for n := 0; n <= min(ch.MaxNumber, maxNumber); n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if solution(ch.Salt, n) == ch.Challenge {
			return n, nil
		}
	}
	return 0, ErrUnsolved
}
