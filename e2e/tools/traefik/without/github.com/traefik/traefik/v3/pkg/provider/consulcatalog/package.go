package consulcatalog

import (
	"errors"

	"github.com/traefik/traefik/v3/pkg/config/dynamic"
	"github.com/traefik/traefik/v3/pkg/safe"
)

// Provider refuses to start: this build leaves the Consul catalog out.
type Provider struct{}

// Init fails.
func (*Provider) Init() error { return errors.New("this build leaves the Consul catalog out") }

// Provide is never reached.
func (*Provider) Provide(chan<- dynamic.Message, *safe.Pool) error { return nil }

// ProviderBuilder builds no provider.
type ProviderBuilder struct{}

// BuildProviders gives none.
func (*ProviderBuilder) BuildProviders() []*Provider { return nil }
