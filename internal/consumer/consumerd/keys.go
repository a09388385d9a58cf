package consumerd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/handoff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/secrets"
	"melmastoon.ghasi.io/bff/internal/secrets/secretmanager"
)

// How often the keys are looked at: a file is cheap to read, the cloud's store
// is paid for by the look.
const (
	keysFileEvery   = 2 * time.Second
	keysSecretEvery = time.Minute
	keysMinInterval = 200 * time.Millisecond
)

// keySource is where a keyring comes from: exactly one of its three places.
type keySource struct {
	name         string // as settings begin
	inline       daemon.Secret
	file, secret string
}

func (c Config) handoffKeys() keySource {
	return keySource{"handoff-keys", c.HandoffKeys, c.HandoffKeysFile, c.HandoffKeysSecret}
}

func (c Config) cardKeys() keySource {
	return keySource{"card-keys", c.CardKeys, c.CardKeysFile, c.CardKeysSecret}
}

// Keyrings reads the keyrings of the hand-off and of the cards as they are now.
func (c Config) Keyrings(ctx context.Context) (tokens, cards *handoff.Keyring, err error) {
	tokens, err1 := c.handoffKeys().read(ctx)
	cards, err2 := c.cardKeys().read(ctx)
	return tokens, cards, errors.Join(err1, err2)
}

// validate reports whether there is exactly one place.
func (k keySource) validate() error {
	given := 0
	for _, v := range []string{k.inline.Reveal(), k.file, k.secret} {
		if v != "" {
			given++
		}
	}
	if given != 1 {
		return fmt.Errorf("%[1]s, %[1]s-file or %[1]s-secret: exactly one is required", k.name)
	}
	return nil
}

// same reports whether two keyrings come from the same place.
func (k keySource) same(other keySource) bool {
	return k.inline == other.inline && k.file == other.file && k.secret == other.secret
}

// source is where the keyring is read from; it is closed when it is read no more.
func (k keySource) source(ctx context.Context) (s secrets.Source, closed func() error, err error) {
	switch {
	case k.file != "":
		return secrets.File(k.file), func() error { return nil }, nil
	case k.secret != "":
		s, err := secretmanager.Open(ctx, k.secret)
		if err != nil {
			return nil, nil, err
		}
		return s, s.Close, nil
	}
	return secrets.Static(k.name, []byte(k.inline.Reveal())), func() error { return nil }, nil
}

// read returns the keyring as it is now.
func (k keySource) read(ctx context.Context) (*handoff.Keyring, error) {
	source, closed, err := k.source(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.name, err)
	}
	defer func() { _ = closed() }() // only read
	secret, err := source.Load(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.name, err)
	}
	set, err := handoff.ParseKeySet(secret)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.name, err)
	}
	return handoff.NewKeyring(set), nil
}

// open returns the keyring and keeps it up to date: a new key needs no restart,
// and a broken file changes nothing. The watcher refreshes it for a token whose
// key is newer than the ring.
func (k keySource) open(ctx context.Context, d *daemon.Daemon, log *slog.Logger) (*handoff.Keyring, *secrets.Watcher, error) {
	source, closed, err := k.source(ctx)
	if err != nil {
		return nil, nil, err
	}
	every := time.Duration(0)
	switch {
	case k.file != "":
		every = keysFileEvery
	case k.secret != "":
		d.Add("secret manager of "+k.name, nil, func(context.Context) error { return closed() })
		every = keysSecretEvery
	}
	ring := new(handoff.Keyring)
	watcher, err := secrets.Watch(ctx, secrets.Config{
		Source: source, Every: every, MinInterval: keysMinInterval, Log: log, Now: time.Now,
		Apply: func(secret []byte) error {
			set, err := handoff.ParseKeySet(secret)
			if err != nil {
				return err
			}
			ring.Replace(set)
			return nil
		},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", k.name, err)
	}
	if every > 0 {
		d.AddLoop(k.name, watcher.Run)
	}
	return ring, watcher, nil
}

// keys changes a keyring file. The rules of a rotation are the key set's own.
type keys struct {
	List    keysList    `cmd:"" help:"Show the keys: id, state and since when; never a secret."`
	Add     keysAdd     `cmd:"" help:"Add a pending key with a fresh secret; into a new file, an active one."`
	Promote keysPromote `cmd:"" help:"Let a pending key sign from now on; the active one only verifies."`
	Retire  keysRetire  `cmd:"" help:"Drop the secret of a key whose last token has expired."`
	Revoke  keysRevoke  `cmd:"" help:"Drop the secret of a key that leaked, at once; its tokens are refused."`
}

type keyFile struct {
	File string `name:"file" type:"path" env:"BFF_CONSUMER_HANDOFF_KEYS_FILE" help:"The keyring file."`
}

// Validate accepts a file that is named.
func (f keyFile) Validate() error {
	if f.File == "" {
		return errors.New("file: is required, or --file")
	}
	return nil
}

func (f keyFile) read() (*handoff.KeySet, error) {
	b, err := secrets.File(f.File).Load(context.Background())
	if err != nil {
		return nil, err
	}
	return handoff.ParseKeySet(b)
}

// change replaces the file whole, so that a reader sees the old ring or the new one,
// and says what it did.
func (f keyFile) change(done string, edit func(*handoff.KeySet) (*handoff.KeySet, error)) error {
	set, err := f.read()
	if err != nil {
		return err
	}
	if set, err = edit(set); err != nil {
		return err
	}
	if err := f.write(set); err != nil {
		return err
	}
	_, err = fmt.Fprintln(os.Stdout, done)
	return err
}

func (f keyFile) write(set *handoff.KeySet) (err error) {
	b, err := set.EncodeFile()
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(f.File), ".keys-*") // mode 0600, as a secret wants it
	if err != nil {
		return fmt.Errorf("write keyring: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name()) // half a keyring
		}
	}()
	_, err = tmp.Write(b)
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return fmt.Errorf("write keyring: %w", err)
	}
	if info, err := os.Stat(f.File); err == nil { // the file keeps its permissions
		if err := os.Chmod(tmp.Name(), info.Mode().Perm()); err != nil {
			return fmt.Errorf("write keyring: %w", err)
		}
	}
	if err := os.Rename(tmp.Name(), f.File); err != nil {
		return fmt.Errorf("write keyring: %w", err)
	}
	return nil
}

// keysList reads the ring wherever it is kept: only a file can be changed.
type keysList struct {
	File   string        `name:"file" type:"path" env:"BFF_CONSUMER_HANDOFF_KEYS_FILE" help:"The keyring file."`
	Inline daemon.Secret `name:"handoff-keys" env:"BFF_CONSUMER_HANDOFF_KEYS" help:"Keyring of the hand-off, as JSON."`
	Secret string        `name:"handoff-keys-secret" env:"BFF_CONSUMER_HANDOFF_KEYS_SECRET" help:"Secret Manager version with the keyring."`
}

func (c keysList) source() keySource {
	if c.File != "" {
		return keySource{name: "handoff-keys", file: c.File}
	}
	return keySource{"handoff-keys", c.Inline, "", c.Secret}
}

// Validate accepts one place.
func (c keysList) Validate() error {
	if err := c.source().validate(); err != nil {
		return fmt.Errorf("%w, or --file", err)
	}
	return nil
}

// Run shows the keys.
func (c keysList) Run(ctx context.Context) error {
	ring, err := c.source().read(ctx)
	if err != nil {
		return err
	}
	return showKeys(os.Stdout, ring.KeySet())
}

func showKeys(w io.Writer, set *handoff.KeySet) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "ID\tSTATE\tACTIVE SINCE") // Flush reports
	for _, k := range set.Keys() {
		since := "-"
		if !k.ActivatedAt().IsZero() {
			since = bff.At(k.ActivatedAt()).String()
		}
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\n", k.ID(), k.State(), since)
	}
	return t.Flush()
}

// keySecret is as long as the MAC.
const keySecret = 32

type keysAdd struct {
	keyFile
	ID string `arg:"" help:"Id of the new key, such as hmac-2026-10."`
}

// Run adds a key.
func (c keysAdd) Run(context.Context) error {
	secret := make([]byte, keySecret)
	_, _ = rand.Read(secret) // never fails
	if _, err := os.Stat(c.File); errors.Is(err, fs.ErrNotExist) {
		set, err := handoff.NewKeySet(c.ID, secret, time.Now())
		if err != nil {
			return err
		}
		if err := c.write(set); err != nil {
			return err
		}
		_, err = fmt.Fprintf(os.Stdout, "%s is new, and %s is its active key\n", c.File, c.ID)
		return err
	}
	return c.change(c.ID+" is added and pending: promote it when every instance has read the file",
		func(s *handoff.KeySet) (*handoff.KeySet, error) { return s.Add(c.ID, secret) })
}

type keysPromote struct {
	keyFile
	ID string `arg:"" help:"Id of the pending key."`
}

// Run promotes a key.
func (c keysPromote) Run(context.Context) error {
	return c.change(c.ID+" signs from now on; the key before it only verifies, until it is retired",
		func(s *handoff.KeySet) (*handoff.KeySet, error) { return s.Promote(c.ID, time.Now()) })
}

type keysRetire struct {
	keyFile
	ID   string `arg:"" help:"Id of the key in grace."`
	Card bool   `name:"card" help:"The file is the keyring of the card, whose keys stay for thirty days after their successor's promotion."`
}

// Run retires a key.
func (c keysRetire) Run(context.Context) error {
	life := handoff.Lifetime
	if c.Card {
		life = consumer.CardLifetime
	}
	return c.change(c.ID+" is retired and its secret dropped: nothing that it signed is still valid",
		func(s *handoff.KeySet) (*handoff.KeySet, error) { return s.RetireAfter(c.ID, life, time.Now()) })
}

type keysRevoke struct {
	keyFile
	ID string `arg:"" help:"Id of the key that leaked."`
}

// Run revokes a key.
func (c keysRevoke) Run(context.Context) error {
	return c.change(c.ID+" is revoked and its secret dropped: what it signed is refused once every instance has read the file",
		func(s *handoff.KeySet) (*handoff.KeySet, error) { return s.Revoke(c.ID) })
}
