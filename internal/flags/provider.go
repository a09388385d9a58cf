package flags

import (
	"context"
	"encoding/json"

	"github.com/open-feature/go-sdk/openfeature"
	"github.com/open-feature/go-sdk/openfeature/isolated"
)

const providerName = "melmastoon-flags"

var (
	_ openfeature.FeatureProvider = (*Flags)(nil)
	_ openfeature.EventHandler    = (*Flags)(nil)
)

// OpenFeature returns a client whose answers come from f, on an API of its own:
// the SDK's global one would be shared by every service of a process. The
// returned function ends its goroutines.
func (f *Flags) OpenFeature(ctx context.Context) (*openfeature.Client, func(context.Context) error, error) {
	api := isolated.NewAPI()
	if err := api.SetProviderAndWait(ctx, f); err != nil {
		return nil, nil, err
	}
	return api.NewClient(), api.Shutdown, nil
}

// Metadata names the provider.
func (f *Flags) Metadata() openfeature.Metadata { return openfeature.Metadata{Name: providerName} }

// Hooks returns none.
func (f *Flags) Hooks() []openfeature.Hook { return nil }

// EventChannel reports changes to the SDK.
func (f *Flags) EventChannel() <-chan openfeature.Event { return f.events }

// BooleanEvaluation is Bool with the details OpenFeature wants.
func (f *Flags) BooleanEvaluation(_ context.Context, flag string, def bool, _ openfeature.FlattenedContext) openfeature.BoolResolutionDetail {
	return resolve(f, flag, def, func(v value) (bool, bool) { return v.boolean, v.is&isBool != 0 })
}

// StringEvaluation is String with details.
func (f *Flags) StringEvaluation(_ context.Context, flag, def string, _ openfeature.FlattenedContext) openfeature.StringResolutionDetail {
	return resolve(f, flag, def, func(v value) (string, bool) { return v.text, true })
}

// FloatEvaluation is Float with details.
func (f *Flags) FloatEvaluation(_ context.Context, flag string, def float64, _ openfeature.FlattenedContext) openfeature.FloatResolutionDetail {
	return resolve(f, flag, def, func(v value) (float64, bool) { return v.float, v.is&isFloat != 0 })
}

// IntEvaluation is Int with details.
func (f *Flags) IntEvaluation(_ context.Context, flag string, def int64, _ openfeature.FlattenedContext) openfeature.IntResolutionDetail {
	return resolve(f, flag, def, func(v value) (int64, bool) { return v.integer, v.is&isInt != 0 })
}

// ObjectEvaluation reads the text as JSON.
func (f *Flags) ObjectEvaluation(_ context.Context, flag string, def any, _ openfeature.FlattenedContext) openfeature.InterfaceResolutionDetail {
	return resolve(f, flag, def, func(v value) (any, bool) {
		var out any
		err := json.Unmarshal([]byte(v.text), &out)
		return out, err == nil
	})
}

func resolve[T any](f *Flags, flag string, def T, read func(value) (T, bool)) openfeature.GenericResolutionDetail[T] {
	d := openfeature.GenericResolutionDetail[T]{Value: def}
	v, ok := (*f.snapshot.Load())[flag]
	if !ok {
		d.Reason, d.ResolutionError = openfeature.DefaultReason, openfeature.NewFlagNotFoundResolutionError(flag)
		return d
	}
	got, ok := read(v)
	if !ok {
		d.Value = mistyped(f, flag, def)
		d.Reason, d.ResolutionError = openfeature.ErrorReason, openfeature.NewTypeMismatchResolutionError(flag)
		return d
	}
	d.Value, d.Reason = got, openfeature.StaticReason
	return d
}
